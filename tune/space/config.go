// This file converts configurations to flags, JSON and IDs.

package space

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A Config is one configuration of a Space: a value for each knob. It satisfies the constraints. Two are equal (==) if
// their spaces and values are. Only a Space and a Proposer return usable ones.
type Config struct {
	space *Space
	index string // of each knob's value, four bytes each, big-endian
}

// makeConfig returns the configuration of indices, unchecked.
func (s *Space) makeConfig(index []int) Config {
	b := make([]byte, 0, 4*len(index))
	for _, i := range index {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return Config{s, string(b)}
}

// Config returns the configuration with these values, each given by its index in its knob. It returns an error of class
// config if an index is missing or out of range, or if a constraint is violated.
func (s *Space) Config(index ...int) (Config, error) {
	if len(index) != len(s.knobs) {
		return Config{}, failure.Errorf(failure.Config, "%d values for %d knobs", len(index), len(s.knobs))
	}
	for k, i := range index {
		if n := s.knobs[k].count(); i < 0 || i >= n {
			return Config{}, failure.Errorf(failure.Config, "knob %s has no value %d: it has %d", s.knobs[k].name, i, n)
		}
	}
	if c := s.violated(index); c >= 0 {
		return Config{}, failure.Errorf(failure.Config, "it violates the constraint %q", s.constraints[c].text)
	}
	return s.makeConfig(index), nil
}

func (s *Space) names() []string {
	var names []string
	for _, k := range s.knobs {
		names = append(names, k.name)
	}
	return names
}

// Indices returns the index of each knob's value.
func (c Config) Indices() []int {
	index := make([]int, len(c.index)/4)
	for k := range index {
		index[k] = int(binary.BigEndian.Uint32([]byte(c.index[4*k:])))
	}
	return index
}

// Flags returns the compiler flags of all knobs, in their order.
func (c Config) Flags() []string {
	var flags []string
	for k, i := range c.Indices() {
		flags = append(flags, c.space.knobs[k].compilerFlags(i)...)
	}
	return flags
}

// ID returns 16 hexadecimal digits of a hash of the kernel's files, its entry, its arguments with the content of their
// files, and each knob's name and flags. It is the same on every computer, and stays the same if knobs get more values
// or constraints change. It does not cover the compiler or the board.
func (c Config) ID() string {
	h := sha256.New()
	fmt.Fprintf(h, "config v1\nspace %x\n", c.space.digest)
	for k, i := range c.Indices() {
		fmt.Fprintf(h, "knob %q %q\n", c.space.knobs[k].name, c.space.knobs[k].compilerFlags(i))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// String returns the values for people: TILE=4 opt="-O3 -funroll-loops".
func (c Config) String() string {
	var words []string
	for k, i := range c.Indices() {
		knob := &c.space.knobs[k]
		value := fmt.Sprint(knob.value(i))
		if flags, ok := knob.value(i).([]string); ok {
			value = fmt.Sprintf("%q", strings.Join(flags, " "))
		}
		words = append(words, knob.name+"="+value)
	}
	return strings.Join(words, " ")
}

// MarshalJSON returns an object with the value of each knob, in the order of the space file: a number, a text, or a
// list of flags.
func (c Config) MarshalJSON() ([]byte, error) {
	if c.space == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	for k, i := range c.Indices() {
		name, err := json.Marshal(c.space.knobs[k].name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(c.space.knobs[k].value(i))
		if err != nil {
			return nil, err
		}
		b.Write(slices.Concat([]byte(","), name, []byte(":"), value))
	}
	b.WriteByte('}')
	b.Bytes()[0] = '{' // in place of the first comma
	return b.Bytes(), nil
}
