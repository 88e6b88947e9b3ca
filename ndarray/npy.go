// This file reads and writes .npy, NumPy's file of one array.

package ndarray

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/sbinet/npyio/npy"
)

const (
	npyMagic      = "\x93NUMPY"
	maxHeader     = 64 << 10 // no plain array needs a longer header
	npyAlignment  = 64       // data starts at a multiple of this, as NumPy's own files do
	npyHeaderV1   = 10       // magic, version 1.0, u16 length
	maxHeaderRank = 64       // more dimensions than NumPy itself allows
)

// npyTypes maps NumPy's type codes, without the byte order's sign, to types.
var npyTypes = []struct {
	code  string
	dtype DType
}{
	{"b1", DType{UInt, 1, 1}},
	{"i1", DType{Int, 8, 1}},
	{"i2", DType{Int, 16, 1}},
	{"i4", DType{Int, 32, 1}},
	{"i8", DType{Int, 64, 1}},
	{"u1", DType{UInt, 8, 1}},
	{"u2", DType{UInt, 16, 1}},
	{"u4", DType{UInt, 32, 1}},
	{"u8", DType{UInt, 64, 1}},
	{"f2", DType{Float, 16, 1}},
	{"f4", DType{Float, 32, 1}},
	{"f8", DType{Float, 64, 1}},
	{"c8", DType{complexCode, 64, 1}},
	{"c16", DType{complexCode, 128, 1}},
}

// readNPY reads one array. It converts Fortran order and big-endian numbers. It returns an error for a type that
// DType cannot express (text, objects, dates, records), a header with a wrong length, and data beyond MaxBytes. It
// does not read bytes after the array.
func readNPY(r io.Reader) (*Array, error) {
	h, err := readHeader(r)
	if err != nil {
		return nil, err
	}

	dtype, big, err := parseDescr(h.Descr.Type)
	if err != nil {
		return nil, err
	}

	shape := make([]int64, len(h.Descr.Shape))
	for i, v := range h.Descr.Shape {
		shape[i] = int64(v)
	}

	n, err := Bytes(dtype, shape)
	if err != nil {
		return nil, err
	}

	// The buffer grows with the data received: a large length in the header allocates nothing.
	var buf bytes.Buffer
	if got, err := io.CopyN(&buf, r, int64(n)); err != nil {
		return nil, fmt.Errorf("array of %d bytes ends after %d: %w", n, got, err)
	}

	a := &Array{DType: dtype, Shape: shape, Data: buf.Bytes()}
	if big {
		swapBytes(a)
	}
	if h.Descr.Fortran {
		a.Data = fromFortran(a)
	}
	return a, nil
}

// readHeader wraps npyio's header reader, which trusts the header's length (up to 4 GiB), panics on a truncated or
// reordered header, and accepts any text as a type.
func readHeader(r io.Reader) (h npy.Header, err error) {
	pre := make([]byte, npyHeaderV1)
	if _, err := io.ReadFull(r, pre); err != nil {
		return h, fmt.Errorf("not a .npy array: %w", err)
	}
	if string(pre[:6]) != npyMagic {
		return h, fmt.Errorf("not a .npy array: it starts with % x", pre[:6])
	}

	// Version 1 has a length of 16 bits, later ones have 32.
	length := int64(binary.LittleEndian.Uint16(pre[8:]))
	switch {
	case pre[6] == 2 || pre[6] == 3: // 3 differs from 2 only in records' field names
		high := make([]byte, 2)
		if _, err := io.ReadFull(r, high); err != nil {
			return h, fmt.Errorf(".npy header: %w", err)
		}
		pre = append(pre, high...)
		pre[6] = 2
		length = int64(binary.LittleEndian.Uint32(pre[8:]))
	case pre[6] != 1:
		return h, fmt.Errorf("unsupported .npy format version %d", pre[6])
	}

	if length > maxHeader {
		return h, fmt.Errorf(".npy header of %d bytes is longer than %d", length, maxHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, fmt.Errorf(".npy header: %w", err)
	}

	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf(".npy header %q cannot be parsed", text)
		}
	}()

	rd, err := npy.NewReader(io.MultiReader(bytes.NewReader(pre), bytes.NewReader(text)))
	if err != nil {
		return h, fmt.Errorf(".npy header %q: %w", text, err)
	}
	if len(rd.Header.Descr.Shape) > maxHeaderRank {
		return h, fmt.Errorf(".npy header: an array of %d dimensions", len(rd.Header.Descr.Shape))
	}
	return rd.Header, nil
}

// parseDescr parses NumPy's type code, such as "<f4" or "|i1", and reports whether the numbers are big-endian.
func parseDescr(s string) (d DType, big bool, err error) {
	code := s
	if code != "" && bytes.IndexByte([]byte("<>|="), code[0]) >= 0 {
		code = code[1:]
	}
	for _, t := range npyTypes {
		if t.code == code {
			return t.dtype, s[0] == '>', nil
		}
	}
	return d, false, fmt.Errorf("unsupported NumPy type %q: not a plain number", s)
}

// swapBytes converts big-endian numbers to little-endian, in place.
func swapBytes(a *Array) {
	width := a.DType.Size()
	if a.DType.Code == complexCode {
		width /= 2 // each of the two numbers is swapped by itself
	}

	for at := 0; at+width <= len(a.Data); at += width {
		slices.Reverse(a.Data[at : at+width])
	}
}

// fromFortran reorders data from column-major (Fortran) to row-major.
func fromFortran(a *Array) []byte {
	if len(a.Shape) < 2 {
		return a.Data
	}

	size := a.DType.Size()
	out := make([]byte, len(a.Data))
	strides := make([]int, len(a.Shape)) // stride of each dimension in out, in elements
	step := 1
	for i := len(a.Shape) - 1; i >= 0; i-- {
		strides[i] = step
		step *= int(a.Shape[i])
	}

	index := make([]int64, len(a.Shape))
	to := 0
	for from := 0; from < len(a.Data); from += size {
		copy(out[to*size:], a.Data[from:from+size])
		// In Fortran's order the first index changes first.
		for d := range index {
			index[d]++
			to += strides[d]
			if index[d] < a.Shape[d] {
				break
			}
			to -= strides[d] * int(a.Shape[d])
			index[d] = 0
		}
	}
	return out
}

// writeNPY writes one array as .npy version 1.0, byte for byte what NumPy writes. It does not use npyio's writer,
// which derives the shape from a Go type and so loses the rank of flat data, empty dimensions and half floats.
func writeNPY(w io.Writer, a *Array) error {
	if err := a.Check(); err != nil {
		return err
	}
	descr, err := descrOf(a.DType)
	if err != nil {
		return err
	}

	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, ShapeString(a.Shape))
	// 1 is for the end of the line.
	pad := npyAlignment - (npyHeaderV1+len(text)+1)%npyAlignment
	text += string(bytes.Repeat([]byte{' '}, pad)) + "\n"
	if len(text) > 0xffff {
		return fmt.Errorf("shape of %d dimensions does not fit a .npy header", len(a.Shape))
	}

	head := binary.LittleEndian.AppendUint16([]byte(npyMagic+"\x01\x00"), uint16(len(text)))
	if _, err := w.Write(append(head, text...)); err != nil {
		return err
	}
	_, err = w.Write(a.Data)
	return err
}

func descrOf(d DType) (string, error) {
	for _, t := range npyTypes {
		if t.dtype == d && d.Size() == 1 {
			return "|" + t.code, nil
		}
		if t.dtype == d {
			return "<" + t.code, nil
		}
	}
	return "", fmt.Errorf("NumPy does not support data type %v", d)
}
