// This file encodes and decodes base 85, in which the protocol sends bytes.

package projectapi

import (
	"encoding/binary"
	"errors"
	"math"
)

// Base 85 with the alphabet of RFC 1924, as Python's base64.b85encode writes it: project_api.md §4.
const alphabet85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// digit85 has the value of each digit, and 85 for other bytes.
var digit85 = func() (d [256]uint8) {
	for i := range d {
		d[i] = 85
	}
	for i := range len(alphabet85) {
		d[alphabet85[i]] = uint8(i)
	}
	return d
}()

// appendBase85 appends data's text: five digits for four bytes, n+1 for n bytes at the end.
func appendBase85(dst, data []byte) []byte {
	for len(data) > 0 {
		var word [4]byte
		n := copy(word[:], data)
		data = data[n:]

		var digits [5]byte
		value := binary.BigEndian.Uint32(word[:])
		for i := len(digits) - 1; i >= 0; i-- {
			digits[i] = alphabet85[value%85]
			value /= 85
		}
		dst = append(dst, digits[:n+1]...)
	}
	return dst
}

var errBase85 = errors.New("invalid base-85 text")

// decodeBase85 is the inverse of appendBase85.
func decodeBase85(text string) ([]byte, error) {
	data := make([]byte, 0, len(text)/5*4+4)
	for len(text) > 0 {
		n := min(5, len(text))
		var value uint64
		for i := range 5 {
			// A short end is filled with the largest digit, as in Python.
			digit := uint8(84)
			if i < n {
				digit = digit85[text[i]]
			}
			if digit >= 85 {
				return nil, errBase85
			}
			value = value*85 + uint64(digit)
		}

		if value > math.MaxUint32 || n == 1 {
			return nil, errBase85
		}

		var word [4]byte
		binary.BigEndian.PutUint32(word[:], uint32(value))
		data = append(data, word[:n-1]...)
		text = text[n:]
	}
	return data, nil
}
