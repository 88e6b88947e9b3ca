package framing

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
)

var wantEqual = testkit.WantEqual

// wire decodes hex with spaces.
func wire(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	testkit.Must(t, err)
	return b
}

// slowCRC is the definition, bit by bit.
func slowCRC(p []byte) uint16 {
	c := uint16(0xffff)
	for _, b := range p {
		c ^= uint16(b) << 8
		for range 8 {
			top := c & 0x8000
			c <<= 1
			if top != 0 {
				c ^= 0x1021
			}
		}
	}
	return c
}

func TestCRC(t *testing.T) {
	wantEqual(t, crcUpdate(0xffff, []byte("123456789")), 0x29b1, "check value")
	p := randomPayload(100)
	for n := range p {
		if got, want := crcUpdate(crcUpdate(0xffff, p[:n/3]), p[n/3:n]), slowCRC(p[:n]); got != want {
			t.Errorf("%d bytes: %04x, want %04x", n, got, want)
		}
	}
}

// frameExamples are those of wire.md §1.7 and §2.5.
var frameExamples = []struct{ payload, wire string }{
	{"00 00 02", "ff fd 03 00 00 00 00 00 02 66 77"},
	{"01 02 03 04", "ff fd 04 00 00 00 01 02 03 04 09 c4"},
	{"11 22 10 ff 00 fe fd", "ff fd 07 00 00 00 11 22 10 ff ff 00 fe fd 0b f3"},
	{"11 22 10 56", "ff fd 04 00 00 00 11 22 10 56 ff ff 75"},
	{"", "ff fd 00 00 00 00 83 44"},
	{"42 00 00 01", "ff fd 04 00 00 00 42 00 00 01 df 5a"},
	{"42 83 01 01", "ff fd 04 00 00 00 42 83 01 01 e4 0b"},
	{"01 61 01 01", "ff fd 04 00 00 00 01 61 01 01 f5 30"},
	{"00 00 03 68 69", "ff fd 05 00 00 00 00 00 03 68 69 1a 8f"},
	{
		"42 83 10 0c 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 04 00 00 00",
		"ff fd 17 00 00 00 42 83 10 0c 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 04 00 00 00 26 07",
	},
}

func TestFrameExamples(t *testing.T) {
	for _, c := range frameExamples {
		payload, want := wire(t, c.payload), wire(t, c.wire)
		var f Framer
		wantEqual(t, f.Append(nil, payload), append([]byte{nop}, want...), c.payload)
		if got := f.Append([]byte("before"), payload[:len(payload)/2], payload[len(payload)/2:]); !bytes.Equal(got[6:],
			want) {
			t.Errorf("frame of %q: % x, want %s", c.payload, got[6:], c.wire)
		}
		var u Unframer
		if n, ev := u.Next(want); n != len(want) || ev != Frame || !bytes.Equal(u.Payload(), payload) {
			t.Errorf("unframe %q: %v after %d of %d bytes, payload % x", c.wire, ev, n, len(want), u.Payload())
		}
	}
}

func TestFrameEscapedLength(t *testing.T) {
	f := Framer{running: true}
	got := f.Append(nil, make([]byte, 255))
	if want := wire(t, "ff fd ff ff 00 00 00 00"); !bytes.HasPrefix(got, want) {
		t.Errorf("frame of 255 bytes begins % x, want % x", got[:8], want)
	}
}

// events decodes the input at once or byte by byte, and returns the events, each with its payload.
func events(u *Unframer, in []byte, step int) (out []string) {
	for len(in) > 0 {
		piece := in[:min(step, len(in))]
		in = in[len(piece):]
		for len(piece) > 0 {
			n, ev := u.Next(piece)
			piece = piece[n:]
			if ev != NeedMore {
				out = append(out, ev.String()+" "+hex.EncodeToString(u.Payload()))
			}
		}
	}
	return out
}

func TestUnframerFindsEachWholeFrame(t *testing.T) {
	const good = "ff fd 04 00 00 00 01 02 03 04 09 c4"
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"garbage before":        {"01 fe ff 00 fd ff " + good, []string{"frame 01020304"}},
		"reset nop":             {"fe " + good, []string{"frame 01020304"}},
		"nop after open escape": {"ff fe " + good, []string{"frame 01020304"}},
		"double escape before":  {"ff " + good, []string{"frame 01020304"}},
		"two frames":            {good + good, []string{"frame 01020304", "frame 01020304"}},
		"wrong checksum": {
			"ff fd 04 00 00 00 01 02 03 05 09 c4" + good,
			[]string{"wrong checksum 01020305", "frame 01020304"},
		},
		"cut in length": {"ff fd 04 00 " + good, []string{"cut short by another frame ", "frame 01020304"}},
		"cut in payload": {
			"ff fd 04 00 00 00 01 02 " + good,
			[]string{"cut short by another frame 0102", "frame 01020304"},
		},
		"cut in checksum": {
			"ff fd 04 00 00 00 01 02 03 04 09 " + good,
			[]string{"cut short by another frame 01020304", "frame 01020304"},
		},
		"cut by reset nop": {
			"ff fd 04 00 00 00 01 fe " + good,
			[]string{"cut short by another frame 01fe", "frame 01020304"},
		},
		"cut after open escape": {
			"ff fd 04 00 00 00 01 ff fe " + good,
			[]string{"cut short by another frame 01", "frame 01020304"},
		},
		"impossible escape": {
			"ff fd 04 00 00 00 01 ff 00 02 03 04" + good,
			[]string{"impossible escape 01", "frame 01020304"},
		},
		"length beyond limit": {"ff fd 01 10 00 00 01" + good, []string{"length beyond the limit ", "frame 01020304"}},
		"length far beyond": {
			"ff fd ff ff ff ff ff ff ff ff 01" + good,
			[]string{"length beyond the limit ", "frame 01020304"},
		},
		"the old payload is gone": {good + "ff fd 03 00 " + good, []string{
			"frame 01020304", "cut short by another frame ", "frame 01020304",
		}},
	} {
		for _, step := range []int{1, 2, 3, 1000} {
			got := events(&Unframer{Limit: 4096}, wire(t, c.in), step)
			wantEqual(t, strings.Join(got, "; "), strings.Join(c.want, "; "), name, step)
		}
	}
}

// A nop inside length or payload counts for the checksum, one inside the checksum does not.
func TestUnframerNops(t *testing.T) {
	body := wire(t, "ff fd 04 ff fe 00 00 00 01 02 ff fe ff ff 04")
	crc := slowCRC(body)
	in := append(body, byte(crc), Escape, nop, byte(crc>>8))
	for _, step := range []int{1, 1000} {
		if got := events(&Unframer{}, in, step); len(got) != 1 || got[0] != "frame 0102ff04" {
			t.Errorf("%d at a time: %q", step, got)
		}
	}
}

func TestUnframerNeeded(t *testing.T) {
	var u Unframer
	in := wire(t, "ff fd 04 00 00 00 01 02 03 04 09 c4")
	want := []int{1, 1, 4, 3, 2, 1, 4, 3, 2, 1, 2, 1, 1}
	for i, b := range in {
		wantEqual(t, u.needed(), want[i], i)
		u.Next([]byte{b})
	}
}

func TestFrameRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var f Framer
	var u Unframer
	for range 2000 {
		p := make([]byte, r.IntN(600))
		for i := range p {
			p[i] = byte(0xff - r.IntN(4)*r.IntN(64)) // many bytes to escape
		}
		in := f.Append(nil, p)
		for len(in) > 0 {
			n, ev := u.Next(in[:1+r.IntN(len(in))])
			if in = in[n:]; ev != NeedMore && (ev != Frame || len(in) > 0 || !bytes.Equal(u.Payload(), p)) {
				t.Fatalf("%v with %d bytes left: got % x, want % x", ev, len(in), u.Payload(), p)
			}
		}
	}
}

// A frame that only announces much costs nothing.
func TestUnframerAllocatesArrivedBytes(t *testing.T) {
	var u Unframer
	u.Next(wire(t, "ff fd 00 00 00 01 01 02 03")) // 16 MiB announced
	if cap(u.buf) > 1024 {
		t.Errorf("%d bytes kept for 3", cap(u.buf))
	}
}

func TestFramingAllocatesNothing(t *testing.T) {
	p, q := randomPayload(4096), []byte{1, 2, 3}
	var f Framer
	out := f.Append(make([]byte, 0, 16<<10), q, p)
	var u Unframer
	u.Next(out)
	wantEqual(t, testing.AllocsPerRun(100, func() {
		out = f.Append(out[:0], q, p)
		if _, ev := u.Next(out); ev != Frame {
			t.Fatal(ev)
		}
	}), 0)
}

// FuzzUnframer checks that any bytes decode the same in pieces of any size, that a frame sent after them is found,
// and that what decodes encodes to a frame that decodes to the same.
func FuzzUnframer(f *testing.F) {
	corpus.Add(f)
	for _, c := range frameExamples {
		f.Add(wire(f, c.wire), uint8(1))
	}
	f.Add(wire(f, "fe ff fd 04 ff fe 00 00 00 01 ff fd 04 00 00 00 01 02 03 04 09 c4"), uint8(3))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		const limit = 1 << 10
		whole := events(&Unframer{Limit: limit}, in, len(in)+1)
		u := Unframer{Limit: limit}
		if pieces := events(&u, in, int(step)+1); strings.Join(whole, ";") != strings.Join(pieces, ";") {
			t.Fatalf("in pieces of %d: %q, at once: %q", step+1, pieces, whole)
		}
		if cap(u.buf) > 4*limit {
			t.Fatalf("%d bytes kept", cap(u.buf))
		}
		var framer Framer
		for _, ev := range whole {
			payload, ok := strings.CutPrefix(ev, "frame ")
			if !ok {
				continue
			}
			decoded := events(&Unframer{Limit: limit}, framer.Append(nil, wire(t, payload)), int(step)+1)
			if len(decoded) != 1 || decoded[0] != ev {
				t.Fatalf("%q was encoded and decoded to %q", ev, decoded)
			}
		}
		framer.Reset()
		after := events(&u, framer.Append(nil, []byte("after")), int(step)+1)
		if len(after) == 0 || after[len(after)-1] != "frame "+hex.EncodeToString([]byte("after")) {
			t.Fatalf("a good frame after it gives %q", after)
		}
	})
}
