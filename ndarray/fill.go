// This file makes arrays of numbers that follow from a seed, as devices do (boardsmith.md, "Tensors from a seed").

package ndarray

import (
	"encoding/binary"
	"fmt"
)

// mantissa returns the number of bits behind a float's leading one and the exponent of numbers from 0.5 to 1; 0 for
// other types.
func (d DType) mantissa() (bits, half int) {
	switch {
	case d.Code == BFloat && d.Bits == 16:
		return 7, 126
	case d.Code != Float:
		return 0, 0
	case d.Bits == 16:
		return 10, 14
	case d.Bits == 32:
		return 23, 126
	case d.Bits == 64:
		return 52, 1022
	}
	return 0, 0
}

// Fill returns an array of integers that use all values of their type, of bools, or of floats in [0, 1). The same seed
// gives the same bytes everywhere: a device computes them too, with rpc.Tensor.Fill. It is an error for other types.
func Fill(d DType, shape []int64, seed uint64) (*Array, error) {
	a, err := New(d, shape...)
	if err != nil {
		return nil, err
	}

	mantissa, half := d.mantissa()
	integer := d.Code <= UInt && (d.Bits == 1 || d.Bits > 0 && d.Bits <= 64 && d.Bits%8 == 0)
	if mantissa == 0 && !integer {
		return nil, fmt.Errorf("no numbers of type %v follow from a seed", d)
	}

	// An integer's bytes are those of whole random words; a float has a word of its own.
	step := 8
	if mantissa != 0 {
		step = int(d.Bits) / 8
	}

	var word [8]byte
	for at := 0; at < len(a.Data); at += step {
		random := splitmix(&seed)
		if mantissa != 0 {
			random = unit(random, mantissa, half)
		}
		binary.LittleEndian.PutUint64(word[:], random)
		copy(a.Data[at:min(at+step, len(a.Data))], word[:])
	}

	if d.Bits == 1 {
		for i := range a.Data {
			a.Data[i] &= 1
		}
	}
	return a, nil
}

// splitmix is splitmix64.
func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit returns the bits of the float random / 2^64, cut off after the mantissa's length from the top.
func unit(random uint64, mantissa, half int) uint64 {
	bits := random >> (63 - mantissa)
	if bits == 0 {
		return 0
	}

	exponent := uint64(half)
	// A number below 0.5 has a smaller exponent, and zeros behind its bits.
	for ; bits>>mantissa == 0; exponent-- {
		bits <<= 1
	}
	return exponent<<mantissa | bits&(1<<mantissa-1)
}
