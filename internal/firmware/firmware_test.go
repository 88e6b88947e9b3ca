package firmware

import (
	"testing"
)

// The parts are what the loads put into their ranges, with what the linker leaves out to align; nothing else may
// be missing.
func TestPartsOf(t *testing.T) {
	t.Parallel()
	ranges := []Range{{0x100, 0x104}, {0x200, 0x20a}}
	seg := func(addr uint64, s string) Segment { return Segment{Addr: addr, Data: []byte(s)} }
	for _, c := range []struct {
		name     string
		loads    []Segment
		resident string // "": refused
		model    string
	}{
		{"as linked", []Segment{seg(0x100, "abcd"), seg(0x200, "012345"), seg(0x206, "6789")}, "abcd", "0123456789"},
		{"a hole", []Segment{seg(0x100, "abcd"), seg(0x200, "012345"), seg(0x208, "89")}, "abcd", "012345--89"},
		{"more than the image", []Segment{seg(0xff, "_abcd_"), seg(0x1ff, "_0123456789_")}, "abcd", "0123456789"},
		{"nothing at the end", []Segment{seg(0x100, "abcd"), seg(0x200, "012345678")}, "", ""},
		{"nothing of the model", []Segment{seg(0x100, "abcd")}, "", ""},
		{"nothing", nil, "", ""},
	} {
		parts, err := PartsOf(ranges, c.loads, "f", '-')
		if (err != nil) != (c.resident == "") || err == nil &&
			(string(parts[0]) != c.resident || string(parts[1]) != c.model) {
			t.Errorf("%s: %q, %v", c.name, parts, err)
		}
	}
}

// The linker leaves out as many bytes as the longest hole, and not one more.
func TestLongestHole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hole uint64
		good bool
	}{{maxHole, true}, {maxHole + 1, false}} {
		end := 0x101 + c.hole
		loads := []Segment{{Addr: 0x100, Data: []byte("a")}, {Addr: end, Data: []byte("b")}}
		if _, err := PartsOf([]Range{{0x100, end + 1}}, loads, "f", 0); (err == nil) != c.good {
			t.Errorf("%d bytes: %v", c.hole, err)
		}
	}
}

// The CRC is the firmware's: IEEE, over the nonce and both parts.
func TestPartsCRC(t *testing.T) {
	t.Parallel()
	parts := Parts{[]byte("34"), []byte("56789")}
	if got := parts.CRC([]byte("12")); got != 0xcbf43926 {
		t.Errorf("%#x", got)
	}
}
