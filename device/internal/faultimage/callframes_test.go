package faultimage

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// rowText is a row as text: register and offset of the frame's address, then the rules.
func rowText(row frameRow) string {
	text := fmt.Sprintf("r%d%+d", row.register, row.offset)
	if row.computed {
		text = "computed"
	}
	for _, r := range slices.Sorted(maps.Keys(row.rules)) {
		switch rule := row.rules[r]; rule.kind {
		case ruleUnknown:
			text += fmt.Sprintf(" r%d=?", r)
		case ruleAtCFA:
			text += fmt.Sprintf(" r%d=[%+d]", r, rule.n)
		case ruleCFA:
			text += fmt.Sprintf(" r%d=%+d", r, rule.n)
		case ruleRegister:
			text += fmt.Sprintf(" r%d=r%d", r, rule.other)
		}
	}
	return text
}

// TestFrameInstructions runs each call frame instruction, for a function at 0x1000 whose first rule saves r5 at the
// frame's address less 12. Its numbers show a wrong size, sign or alignment (2 for code, -4 for data). The last
// instruction of most programs defines the number that follows, so that a wrong length is detected.
func TestFrameInstructions(t *testing.T) {
	const last = " 0e 30" // the frame's address is r13+48
	for _, c := range []struct {
		name, program string
		pc            uint64
		want          string // "": damaged
	}{
		{"nothing", "", 0x1000, "r13+16 r5=[-12]"},
		{"nop", "00" + last, 0x1000, "r13+48 r5=[-12]"},
		{"advance_loc", "43" + last, 0x1005, "r13+16 r5=[-12]"},
		{"advance_loc", "43" + last, 0x1006, "r13+48 r5=[-12]"},
		{"set_loc", "01 1010" + last, 0x100f, "r13+16 r5=[-12]"},
		{"set_loc", "01 1010" + last, 0x1010, "r13+48 r5=[-12]"},
		{"advance_loc1", "02 81" + last, 0x1101, "r13+16 r5=[-12]"},
		{"advance_loc1", "02 81" + last, 0x1102, "r13+48 r5=[-12]"},
		{"advance_loc2", "03 0181" + last, 0x11201, "r13+16 r5=[-12]"},
		{"advance_loc2", "03 0181" + last, 0x11202, "r13+48 r5=[-12]"},
		{"advance_loc4", "04 01000001" + last, 0x2001001, "r13+16 r5=[-12]"},
		{"advance_loc4", "04 01000001" + last, 0x2001002, "r13+48 r5=[-12]"},
		{"offset", "bf 8101" + last, 0x1000, "r13+48 r5=[-12] r63=[-516]"},
		{"offset_extended", "05 8101 02" + last, 0x1000, "r13+48 r5=[-12] r129=[-8]"},
		{"restore", "85 01 c5" + last, 0x1000, "r13+48 r5=[-12]"},
		{"restore what has no rule", "84 01 c4" + last, 0x1000, "r13+48 r5=[-12]"},
		{"restore_extended", "85 01 06 05" + last, 0x1000, "r13+48 r5=[-12]"},
		{"undefined", "07 05" + last, 0x1000, "r13+48 r5=?"},
		{"same_value", "08 05" + last, 0x1000, "r13+48"},
		{"register", "09 05 07" + last, 0x1000, "r13+48 r5=r7"},
		{"remember and restore", "0a 0e 20 84 01 0b", 0x1000, "r13+16 r5=[-12]"},
		{"what was remembered keeps", "0a 0a 84 01 0b 84 02 0b", 0x1000, "r13+16 r5=[-12]"},
		{"restore_state of nothing", "0b", 0x1000, ""},
		{"def_cfa", "0c 07 8101", 0x1000, "r7+129 r5=[-12]"},
		{"def_cfa_register", "0d 07", 0x1000, "r7+16 r5=[-12]"},
		{"def_cfa_offset", "0e 8101", 0x1000, "r13+129 r5=[-12]"},
		{"def_cfa_expression", "0f 02 0c07" + last, 0x1000, "computed r5=[-12]"},
		{"def_cfa after an expression", "0f 02 0c07 0c 07 01", 0x1000, "r7+1 r5=[-12]"},
		{"expression", "10 05 02 0c07" + last, 0x1000, "r13+48 r5=?"},
		{"offset_extended_sf", "11 05 7e" + last, 0x1000, "r13+48 r5=[+8]"},
		{"def_cfa_sf", "0f 00 12 07 7e", 0x1000, "r7+8 r5=[-12]"},
		{"def_cfa_offset_sf", "13 7e", 0x1000, "r13+8 r5=[-12]"},
		{"val_offset", "14 05 7e" + last, 0x1000, "r13+48 r5=-504"},
		{"val_offset_sf", "15 05 7e" + last, 0x1000, "r13+48 r5=+8"},
		{"val_expression", "16 05 02 0c07" + last, 0x1000, "r13+48 r5=?"},
		{"window_save", "2d" + last, 0x1000, "r13+48 r5=[-12]"},
		{"args_size", "2e 8101" + last, 0x1000, "r13+48 r5=[-12]"},
		{"no instruction", "17", 0x1000, ""},
		{"a number that is cut off", "0e 81", 0x1000, ""},
		{"remembered 65 times", strings.Repeat("0a", 65), 0x1000, "r13+16 r5=[-12]"},
		{"remembered 66 times", strings.Repeat("0a", 66), 0x1000, ""},
	} {
		calls := callFrames{order: binary.LittleEndian, word: 4}
		f := frameFDE{
			low: 0x1000, high: 0x10000000, program: unhexed(t, c.program),
			cie: &frameCIE{codeAlign: 2, dataAlign: -4, returns: 14, pointers: 0x02, program: unhexed(t, "0c 0d 10 85 03")},
		}
		row, err := calls.row(f, c.pc)
		if (err != nil) != (c.want == "") || err == nil && rowText(row) != c.want {
			t.Errorf("%s, %s at %#x: %s, %v; want %s", c.name, c.program, c.pc, rowText(row), err, c.want)
		}
	}
}

// TestFrameNumbers reads numbers of each form, with what follows them.
func TestFrameNumbers(t *testing.T) {
	const at = 0x2000
	sleb := func(r *frameReader) uint64 { return uint64(r.sleb()) }
	text := func(r *frameReader) uint64 { return uint64(len(r.text())) }
	for _, c := range []struct {
		read func(r *frameReader) uint64
		text string
		want uint64
		left int // -1: refused
	}{
		{(*frameReader).uleb, "e5 8e 26 55", 624485, 1},
		{sleb, "c0 bb 78 55", ^uint64(123456) + 1, 1},
		{sleb, "3f 55", 63, 1},
		{(*frameReader).uleb, "ff ff ff ff ff ff ff ff ff 01", ^uint64(0), 0},
		{sleb, "80 80 80 80 80 80 80 80 80 7f", 1 << 63, 0},
		{(*frameReader).uleb, "80 80 80 80 80 80 80 80 80 80 00", 0, -1},
		{(*frameReader).uleb, "80", 0, -1},
		{pointerIn(0x00, at), "01 02 03 84 55", 0x84030201, 1},
		{pointerIn(0x01, at), "e5 8e 26 55", 624485, 1},
		{pointerIn(0x02, at), "01 82 55", 0x8201, 1},
		{pointerIn(0x03, at), "01 02 03 84 55", 0x84030201, 1},
		{pointerIn(0x04, at), "01 02 03 04 05 06 07 88 55", 0x8807060504030201, 1},
		{pointerIn(0x09, at), "7e 55", ^uint64(1), 1},
		{pointerIn(0x0a, at), "fe ff 55", ^uint64(1), 1},
		{pointerIn(0x0b, at), "fe ff ff ff 55", ^uint64(1), 1},
		{pointerIn(0x0c, at), "fe ff ff ff ff ff ff ff 55", ^uint64(1), 1},
		{pointerIn(0x1b, at), "fe ff ff ff 55", at - 2, 1},
		{pointerIn(0x05, at), "01 02 03 04 05 06 07 08", 0, -1},
		{pointerIn(0x2b, at), "01 02 03 04", 0, -1},
		{text, "41 42 00 55", 2, 1},
		{text, "41 42", 0, -1},
	} {
		r := frameReader{order: binary.LittleEndian, word: 4, b: unhexed(t, c.text)}
		got := c.read(&r)
		if r.bad != (c.left < 0) || !r.bad && (got != c.want || len(r.b) != c.left) {
			t.Errorf("%s: %#x, %d bytes are left, bad %v", c.text, got, len(r.b), r.bad)
		}
	}
}

func pointerIn(encoding byte, at uint64) func(r *frameReader) uint64 {
	return func(r *frameReader) uint64 { return r.pointer(encoding, at) }
}

// lsdaFrames is .eh_frame of one function at 0x1100 whose description has a pointer of its own, to a table of
// exceptions: its bytes would be instructions that move the frame's address.
const lsdaFrames = "1c000000 00000000 01 7a504c5200 01 78 10 07 9b 0e700e70 1b 1b 0c0708 9001 0000" +
	"14000000 24000000 d8f0ffff 20000000 04 0e700e70 41 0e10"

func TestFrameAugmentation(t *testing.T) {
	c := framesOf(t, 8, lsdaFrames, true, 0x2000)
	for pc, want := range map[uint64]string{0x1100: "r7+8 r16=[-8]", 0x1101: "r7+16 r16=[-8]"} {
		f, ok := c.find(pc)
		row, err := c.row(f, pc)
		if got := rowText(row); !ok || err != nil || got != want {
			t.Errorf("%#x: %s, %v, %v", pc, got, ok, err)
		}
	}
}
