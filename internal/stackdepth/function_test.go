package stackdepth

import (
	"slices"
	"testing"
)

// TestLoadOfPC distinguishes the ways to load PC on Arm: a veneer, a switch, a call instead of a return, a return.
func TestLoadOfPC(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     []byte
		tails    []uint64
		indirect bool
		table    bool
	}{
		{"LDR PC, [PC, #16]", []byte{0xdf, 0xf8, 0x10, 0xf0}, []uint64{0x1014 * 3}, false, false},
		{"LDR PC, [PC], of an unknown value", []byte{0xdf, 0xf8, 0x00, 0xf0}, nil, true, false},
		{"LDR PC, [R3, R0, LSL #2]", []byte{0x53, 0xf8, 0x20, 0xf0}, nil, false, true},
		{"LDR PC, [R3, #4]", []byte{0xd3, 0xf8, 0x04, 0xf0}, nil, true, false},
		{"LDR PC, [SP], #4", []byte{0x5d, 0xf8, 0x04, 0xfb}, nil, false, false},
	} {
		f := &function{addr: 0x1000, size: 4, narrow: true}
		f.fixpoint(func(f *function) { decodeThumb(f, c.code, blindView{}) })
		if !slices.Equal(f.tails, c.tails) || f.indirect != c.indirect || f.flow.table != c.table {
			t.Errorf("%s: to %#x, indirect %v, table %v", c.name, f.tails, f.indirect, f.flow.table)
		}
	}
}

// FuzzStackCode decodes arbitrary code: the decoders end, and no frame is negative.
func FuzzStackCode(f *testing.F) {
	// push, sub sp, bx, b, tbb
	f.Add([]byte{0x2d, 0xe9, 0xf0, 0x4f, 0x89, 0xb0, 0x00, 0x47, 0xfe, 0xe7, 0xdf, 0xe8, 0x00, 0xf0})
	f.Add([]byte{0x41, 0x11, 0x06, 0xc6, 0x13, 0x01, 0x01, 0xe0, 0x97, 0x00, 0x00, 0x00, 0xe7, 0x80, 0x40, 0x01})
	f.Fuzz(func(t *testing.T, code []byte) {
		for machine, decode := range decoders {
			for _, size := range []int{4, 8} {
				g := &function{addr: 0x1000, size: uint64(len(code)), narrow: size == 4}
				g.fixpoint(func(g *function) { decode(g, code, blindView{}) })
				if g.frame < 0 {
					t.Errorf("%v: a frame of %d bytes", machine, g.frame)
				}
			}
		}
	})
}

// A blindView has code only, no data.
type blindView struct{}

func (blindView) isData(uint64) bool { return false }

func (blindView) constant(a uint64, n int) (uint64, bool) {
	return a * 3, a%5 != 0 && (n == 4 || n == 8)
}

func (blindView) entryPoint(p uint64) (uint64, bool) { return p &^ 1, p%7 == 0 }
