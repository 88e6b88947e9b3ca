// This file makes keys: a key is the hash of a sentence about everything that could change the result.

package cache

import (
	"crypto/sha256"
	"fmt"
	"hash"
)

// A Key names an entry.
type Key [sha256.Size]byte

// A Sentence says what makes a result, line by line; its hash is the key.
type Sentence struct{ h hash.Hash }

// NewSentence begins with the step and its version, as in "runtime v1": a step that begins to work differently
// counts its version up.
func NewSentence(step string) *Sentence {
	s := &Sentence{sha256.New()}
	fmt.Fprintf(s.h, "%q\n", step)
	return s
}

// Say adds one fact. Values are quoted, so that ["a b"] is not ["a" "b"].
func (s *Sentence) Say(what string, values ...string) *Sentence {
	fmt.Fprintf(s.h, "%s %q\n", what, values)
	return s
}

// Key is the hash of all that was said so far.
func (s *Sentence) Key() Key { return Key(s.h.Sum(nil)) }
