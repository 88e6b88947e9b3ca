// This file writes blobs of parameters.

package mlftest

import (
	"encoding/binary"
	"fmt"

	"github.com/boardsmith/boardsmith/ndarray"
)

// Words of a blob of parameters (crt_abi.md §11).
const (
	paramsMagic uint64 = 0xF7E58D4F05049CB7
	arrayMagic  uint64 = 0xDD5E40F096B4A13F
	cpu         uint64 = 1 // DLDevice {1, 0} as one little-endian word
)

// EncodeParams writes a blob of named arrays, in their order, which paramblob.Parse reads.
func EncodeParams(params []ndarray.Named) ([]byte, error) {
	le := binary.LittleEndian
	out := le.AppendUint64(nil, paramsMagic)
	out = le.AppendUint64(out, 0)
	out = le.AppendUint64(out, uint64(len(params)))
	for _, p := range params {
		out = le.AppendUint64(out, uint64(len(p.Name)))
		out = append(out, p.Name...)
	}
	out = le.AppendUint64(out, uint64(len(params)))
	for _, p := range params {
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		out = le.AppendUint64(out, arrayMagic)
		out = le.AppendUint64(out, 0)
		out = le.AppendUint64(out, cpu)
		out = le.AppendUint32(out, uint32(len(p.Shape)))
		out = append(out, p.DType.Code, p.DType.Bits)
		out = le.AppendUint16(out, p.DType.Lanes)
		for _, v := range p.Shape {
			out = le.AppendUint64(out, uint64(v))
		}
		out = le.AppendUint64(out, uint64(len(p.Data)))
		out = append(out, p.Data...)
	}
	return out, nil
}
