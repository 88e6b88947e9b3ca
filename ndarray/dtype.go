// This file holds the types of elements.

package ndarray

import (
	"fmt"
	"strconv"
	"strings"
)

// The type codes of DLDataType (crt_abi.md §1).
const (
	Int         uint8 = 0
	UInt        uint8 = 1
	Float       uint8 = 2
	Handle      uint8 = 3
	BFloat      uint8 = 4
	complexCode uint8 = 5
)

// A DType is a DLDataType: the type of one element. A boolean is an unsigned integer of one bit, stored in a byte.
type DType struct {
	Code, Bits uint8
	Lanes      uint16
}

// codeNames lists the printed names of the codes, longest prefix first, so that "uint" and "bfloat" win over
// "int" and "float" when a text is parsed from its start.
var codeNames = []struct {
	name string
	code uint8
}{
	{"bfloat", BFloat}, {"complex", complexCode}, {"float", Float}, {"uint", UInt}, {"int", Int},
}

// ParseDType parses a type as TVM prints it: "int8", "float32", "uint8x4", "bool", "bfloat16", "handle". An integer
// or float without a number of bits has 32.
func ParseDType(s string) (DType, error) {
	switch s {
	case "bool":
		return DType{UInt, 1, 1}, nil
	case "handle":
		return DType{Handle, 64, 1}, nil
	}
	for _, c := range codeNames {
		if rest, ok := strings.CutPrefix(s, c.name); ok {
			return parseBits(s, c.code, rest)
		}
	}
	return DType{}, fmt.Errorf("unknown data type %q", s)
}

func parseBits(s string, code uint8, rest string) (DType, error) {
	d := DType{code, 32, 1}
	bits, lanes, wide := strings.Cut(rest, "x")

	if bits != "" {
		n, err := strconv.ParseUint(bits, 10, 8)
		if err != nil || n == 0 {
			return DType{}, fmt.Errorf("unknown data type %q: invalid number of bits", s)
		}
		d.Bits = uint8(n)
	}
	if wide {
		n, err := strconv.ParseUint(lanes, 10, 16)
		if err != nil || n == 0 {
			return DType{}, fmt.Errorf("unknown data type %q: invalid number of lanes", s)
		}
		d.Lanes = uint16(n)
	}
	return d, nil
}

// String returns the type's name as ParseDType accepts it.
func (d DType) String() string {
	name := fmt.Sprintf("type%d_", d.Code)
	for _, c := range codeNames {
		if c.code == d.Code {
			name = c.name
		}
	}

	switch {
	case d == DType{UInt, 1, 1}:
		return "bool"
	case d.Code == Handle && d.Lanes == 1:
		return "handle"
	case d.Lanes > 1:
		return fmt.Sprintf("%s%dx%d", name, d.Bits, d.Lanes)
	}
	return fmt.Sprintf("%s%d", name, d.Bits)
}

// Size returns the bytes of one element with all its lanes, rounded up.
func (d DType) Size() int { return (int(d.Bits)*int(d.Lanes) + 7) / 8 }

// Range returns the smallest and the largest value of an integer of 8 to 32 bits; zeros for any other type.
func (d DType) Range() (low, high int64) {
	switch {
	case d.Lanes != 1 || d.Bits < 8 || d.Bits > 32:
		return 0, 0
	case d.Code == Int:
		return -1 << (d.Bits - 1), 1<<(d.Bits-1) - 1
	case d.Code == UInt:
		return 0, 1<<d.Bits - 1
	}
	return 0, 0
}
