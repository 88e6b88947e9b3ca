// Package paramblob reads the blob of a model's parameters (crt_abi.md §11).
package paramblob

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/ndarray"
)

const (
	paramsMagic uint64 = 0xF7E58D4F05049CB7
	arrayMagic  uint64 = 0xDD5E40F096B4A13F
	cpu         uint64 = 1 // DLDevice {1, 0} as one little-endian word
	maxRank            = 64
)

// A blob is a reader of a parameter blob. After the first error every read returns zero.
type blob struct {
	left []byte
	err  error
}

var errShort = errors.New("parameters are truncated")

func (b *blob) take(n uint64) []byte {
	if b.err != nil || n > uint64(len(b.left)) {
		if b.err == nil {
			b.err = errShort
		}
		return nil
	}
	p := b.left[:n:n]
	b.left = b.left[n:]
	return p
}

func (b *blob) u64() uint64 {
	if p := b.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (b *blob) u32() uint32 {
	if p := b.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (b *blob) want(field string, got, want uint64) {
	if b.err == nil && got != want {
		b.err = fmt.Errorf("%s is %#x, not %#x", field, got, want)
	}
}

// ParseParams parses a blob of named arrays. The arrays' data lie in the blob, which must not be changed.
func Parse(data []byte) ([]ndarray.Named, error) {
	b := &blob{left: data}
	b.want("magic number of the parameters", b.u64(), paramsMagic)
	b.want("reserved word", b.u64(), 0)
	var params []ndarray.Named
	seen := map[string]bool{}
	for n := b.u64(); n > 0 && b.err == nil; n-- {
		name := string(b.take(b.u64()))
		if b.err == nil && seen[name] {
			b.err = fmt.Errorf("two parameters are called %q", name)
		}
		seen[name] = true
		params = append(params, ndarray.Named{Name: name})
	}
	b.want("number of arrays", b.u64(), uint64(len(params)))
	for i := range params {
		a := b.array()
		if b.err != nil {
			return nil, fmt.Errorf("parameter %q: %w", params[i].Name, b.err)
		}
		params[i].Array = a
	}
	if b.err == nil && len(b.left) > 0 {
		b.err = fmt.Errorf("%d bytes follow the last parameter", len(b.left))
	}
	return params, b.err
}

// array reads one serialised array; it returns nil after an error.
func (b *blob) array() *ndarray.Array {
	b.want("magic number of the array", b.u64(), arrayMagic)
	b.want("reserved word", b.u64(), 0)
	b.want("device", b.u64(), cpu)
	rank := b.u32()
	head := b.take(4)
	if b.err != nil {
		return nil
	}
	if rank > maxRank {
		b.err = fmt.Errorf("it has %d dimensions", rank)
		return nil
	}
	d := ndarray.DType{Code: head[0], Bits: head[1], Lanes: binary.LittleEndian.Uint16(head[2:])}
	if d.Lanes != 1 {
		b.err = fmt.Errorf("unsupported parameter type %v: vector elements", d)
		return nil
	}
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = int64(b.u64())
	}
	n, err := ndarray.Bytes(d, shape)
	if b.err == nil {
		b.err = err
	}
	b.want("length of the data", b.u64(), uint64(n))
	raw := b.take(uint64(n))
	if b.err != nil {
		return nil
	}
	return &ndarray.Array{DType: d, Shape: shape, Data: raw}
}
