// Package cachekey makes keys of results: hashes of everything that could change them.
//
// Package cache stores results under them.
package cachekey

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// A Key names an entry.
type Key [sha256.Size]byte

// A Builder hashes everything that determines a result, line by line.
type Builder struct{ h hash.Hash }

// New begins with the step and its version, as in "runtime v1". Raise the version when the step's result changes.
func New(step string) *Builder {
	b := &Builder{sha256.New()}
	fmt.Fprintf(b.h, "%q\n", step)
	return b
}

// Add adds one fact. It quotes values, so that ["a b"] differs from ["a" "b"].
func (b *Builder) Add(name string, values ...string) *Builder {
	fmt.Fprintf(b.h, "%s %q\n", name, values)
	return b
}

// Key returns the hash of all facts so far.
func (b *Builder) Key() Key { return Key(b.h.Sum(nil)) }

// Digest returns the SHA-256 of data, in hexadecimal.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
