// This file converts configurations to flags, JSON and IDs.

package space

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// A Config is one configuration of a Space: a value for each knob. It satisfies the constraints. Two are equal (==) if
// their spaces and values are. Only a Proposer returns usable ones.
type Config struct {
	space *Space
	index string // of each knob's value, as the letter firstLetter + index
}

// firstLetter is that from which on each number is a valid letter of a string.
const firstLetter = 0xe000

// config returns the configuration of indices, unchecked.
func (s *Space) config(index []int) Config {
	var letters []rune
	for _, i := range index {
		letters = append(letters, rune(firstLetter+i))
	}

	return Config{s, string(letters)}
}

// Indices returns the index of each knob's value.
func (c Config) Indices() []int {
	var index []int

	for _, letter := range c.index {
		index = append(index, int(letter)-firstLetter)
	}
	return index
}

// Config returns the configuration that Config.MarshalJSON wrote; ok is false if the space does not have it.
func (s *Space) Config(text []byte) (c Config, ok bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal(text, &values) != nil || len(values) != len(s.knobs) {
		return c, false
	}

	var index []int
	for _, k := range s.knobs {
		i := 0
		for ; i < k.count; i++ {
			if value, err := json.Marshal(k.value(i)); err == nil && bytes.Equal(value, values[k.name]) {
				break
			}
		}
		if i == k.count {
			return c, false
		}
		index = append(index, i)
	}

	return s.config(index), s.violated(index) < 0
}

// values yields each knob with its value.
func (c Config) values(yield func(knob, any) bool) {
	for k, i := range c.Indices() {
		if knob := c.space.knobs[k]; !yield(knob, knob.value(i)) {
			return
		}
	}
}

// Flags returns the compiler flags of all knobs, in their order.
func (c Config) Flags() []string {
	var flags []string
	for k, v := range c.values {
		flags = append(flags, k.flags(v)...)
	}
	return flags
}

// ID returns 16 hexadecimal digits of a hash of the kernel's files, its entry, its arguments with their content, and
// each knob's name and flags. It is the same on every computer, and stays the same if knobs get more values or
// constraints change. It does not cover the compiler or the board.
func (c Config) ID() string {
	all := fmt.Appendf(nil, "config v2\nspace %x\n", c.space.digest)

	for k, v := range c.values {
		all = fmt.Appendf(all, "knob %q %q\n", k.name, k.flags(v))
	}
	return fmt.Sprintf("%x", sha256.Sum256(all))[:16]
}

// String returns the values for people: TILE=4 opt="-O3 -funroll-loops".
func (c Config) String() string {
	var words []string
	for k, v := range c.values {
		if flags, ok := v.([]string); ok {
			v = fmt.Sprintf("%q", strings.Join(flags, " "))
		}

		words = append(words, fmt.Sprint(k.name, "=", v))
	}
	return strings.Join(words, " ")
}

// MarshalJSON returns an object with the value of each knob, in the order of the space file: a number, a text, or a
// list of flags.
func (c Config) MarshalJSON() ([]byte, error) {
	var fields []string

	for k, v := range c.values {
		value, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		fields = append(fields, fmt.Sprintf("%q:%s", k.name, value))
	}

	return []byte("{" + strings.Join(fields, ",") + "}"), nil
}
