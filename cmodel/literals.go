// This file holds C literals: types of elements, numbers, texts and comments.

package cmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/ndarray"
)

// A cType is a type of elements in C.
type cType struct {
	name string
	size int // bytes
}

var bytesC = cType{"uint8_t", 1}

// elementOf returns the type of a tensor's elements: bytes for those that C does not have.
func elementOf(d ndarray.DType) cType {
	if d.Lanes > 1 {
		return bytesC
	}
	switch {
	case d.Code == ndarray.Float && d.Bits == 32:
		return cType{"float", 4}
	case d.Code == ndarray.Float && d.Bits == 64:
		return cType{"double", 8}
	case d.Bits != 8 && d.Bits != 16 && d.Bits != 32 && d.Bits != 64: // a boolean, or packed bits
		return bytesC
	case d.Code == ndarray.Int:
		return cType{fmt.Sprintf("int%d_t", d.Bits), int(d.Bits) / 8}
	}
	return cType{fmt.Sprintf("uint%d_t", d.Bits), int(d.Bits) / 8}
}

// wordOf returns the type of the elements of an array's table: floats if all are finite, else words of their bits.
func wordOf(a *ndarray.Array) cType {
	if c := elementOf(a.DType); (c.name == "float" || c.name == "double") && allFinite(a) {
		return c
	}
	switch size := a.DType.Size(); size {
	case 2, 4, 8:
		return cType{fmt.Sprintf("uint%d_t", 8*size), size}
	}
	return bytesC
}

func allFinite(a *ndarray.Array) bool {
	for i := range a.Len() {
		if v := a.Float(i); math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Count returns the elements of a tensor's array in C, at least 1.
func (t tensor) Count() int64 { return max(1, t.Bytes/int64(elementOf(t.DType).size)) }

// elements returns the number of elements of dataC, at least 1.
func elements(a *ndarray.Array) int { return max(1, len(a.Data)/wordOf(a).size) }

// dataType returns the name of an array's wordOf.
func dataType(a *ndarray.Array) string { return wordOf(a).name }

// dataC returns the elements of an array as an initialiser. Floats are exact.
func dataC(a *ndarray.Array) string {
	if len(a.Data) == 0 {
		return "0"
	}

	word := wordOf(a)
	var b strings.Builder
	for i := 0; i*word.size < len(a.Data); i++ {
		switch {
		case i > 0 && i%12 == 0:
			b.WriteString(",\n    ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(word.literal(a.Data[i*word.size:]))
	}
	return b.String()
}

// literal returns the first element of data.
func (c cType) literal(data []byte) string {
	switch c.name {
	case "float":
		v := math.Float32frombits(binary.LittleEndian.Uint32(data))
		return strconv.FormatFloat(float64(v), 'x', -1, 32) + "F"
	case "double":
		v := math.Float64frombits(binary.LittleEndian.Uint64(data))
		return strconv.FormatFloat(v, 'x', -1, 64)
	}

	var n uint64
	for i := c.size - 1; i >= 0; i-- {
		n = n<<8 | uint64(data[i])
	}
	return fmt.Sprintf("%#xU", n)
}

// dtypeC returns the initialiser of a DLDataType.
func dtypeC(d ndarray.DType) string { return fmt.Sprintf("{%dU, %dU, %dU}", d.Code, d.Bits, d.Lanes) }

func list(v []int64) string {
	var parts []string
	for _, n := range v {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ")
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')

	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\' || c == '?': // ? prevents trigraphs
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}

	b.WriteByte('"')
	return b.String()
}

// comment makes a name harmless in a comment of one line.
func comment(s string) string {
	// Without line ends, nor a backslash at the end, which would continue the comment.
	s = strings.Trim(strconv.QuoteToASCII(s), `"`)
	return strings.TrimRight(strings.ReplaceAll(s, "*/", "* /"), `\`)
}
