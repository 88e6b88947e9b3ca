// This file makes keys: hashes of everything that could change a result.

package cache

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// A Key names an entry.
type Key [sha256.Size]byte

// A KeyBuilder hashes everything that determines a result, line by line.
type KeyBuilder struct{ h hash.Hash }

// NewKey begins with the step and its version, as in "runtime v1". Raise the version when the step's result changes.
func NewKey(step string) *KeyBuilder {
	b := &KeyBuilder{sha256.New()}
	fmt.Fprintf(b.h, "%q\n", step)
	return b
}

// Add adds one fact. It quotes values, so that ["a b"] differs from ["a" "b"].
func (b *KeyBuilder) Add(name string, values ...string) *KeyBuilder {
	fmt.Fprintf(b.h, "%s %q\n", name, values)
	return b
}

// Key returns the hash of all facts so far.
func (b *KeyBuilder) Key() Key { return Key(b.h.Sum(nil)) }
