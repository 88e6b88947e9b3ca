// This file makes keys: a key is the hash of a sentence about everything that could change the result.

package cache

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// A Key names an entry.
type Key [sha256.Size]byte

// A Sentence lists everything that determines a result, line by line. Its hash is the key.
type Sentence struct{ h hash.Hash }

// NewSentence starts a sentence with the step and its version, as in "runtime v1". Raise the version when the
// step's result changes.
func NewSentence(step string) *Sentence {
	s := &Sentence{sha256.New()}
	fmt.Fprintf(s.h, "%q\n", step)
	return s
}

// Say adds one fact. It quotes values, so that ["a b"] differs from ["a" "b"].
func (s *Sentence) Say(what string, values ...string) *Sentence {
	fmt.Fprintf(s.h, "%s %q\n", what, values)
	return s
}

// Key returns the hash of all facts so far.
func (s *Sentence) Key() Key { return Key(s.h.Sum(nil)) }
