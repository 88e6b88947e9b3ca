package serve

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	last      = testkit.Last
	wantError = testkit.WantError
)

// capture decodes bytes as docs/formats/rpc_tcp.md writes them: hexadecimal, 00*7 for seven zeros, texts in quotes.
func capture(text string) []byte {
	text = regexp.MustCompile(`"[^"]*"`).ReplaceAllStringFunc(text, func(s string) string {
		return hex.EncodeToString([]byte(s[1 : len(s)-1]))
	})
	text = regexp.MustCompile(`([0-9a-f]{2})\*(\d+)`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[3:])
		return strings.Repeat(s[:2], n)
	})
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(text + ": " + err.Error())
	}
	return b
}

const strcat = 0x5627aaafe380

// TestCaptures checks packets that were captured between unmodified TVM 0.27 and its server, besides those that the
// other tests' client writes by hand.
func TestCaptures(t *testing.T) {
	u8 := &tvmrpc.DLTensor{
		Device: tvmrpc.CPU, DType: ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1},
		Shape: []int64{2},
	}
	for name, c := range map[string]struct {
		bytes string
		want  *tvmrpc.Packet
	}{
		"call": {
			"2a 00*7 03 00 00 00 80 e3 af aa 27 56 00 00 02 00 00 00  08 00 00 00 02 00*7 61 62  01 00 00 00 03 00*7",
			&tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: strcat, Args: []tvmrpc.Value{tvmrpc.Text("ab"), tvmrpc.Int(3)}},
		},
		"text": {
			"24 00*7 04 00 00 00 02 00 00 00  01 00 00 00 0b 00*7  08 00 00 00 04 00*7 61 62 3a 33",
			resultReply(tvmrpc.TypeStr, tvmrpc.Text("ab:3")),
		},
		"module": {
			"20 00*7 04 00 00 00 02 00 00 00  01 00 00 00 49 00*7  04 00 00 00 28 f2 00 c8 de 7f 00 00",
			resultReply(tvmrpc.TypeModule, tvmrpc.Opaque(0x7fdec800f228)),
		},
		"AllocDataWithScope": {
			"38 00*7 11 00 00 00 02 00 00 00  07 00 00 00 00*8 01 00*7 01 00 00 00 01 08 01 00 02 00*7 00*8  00 00 00 00",
			&tvmrpc.Packet{Code: tvmrpc.CodeAllocDataWithScope, Args: []tvmrpc.Value{tvmrpc.TensorOf(u8), tvmrpc.Null()}},
		},
		"GetAttr": {
			"20 00*7 0c 00 00 00 02 00 00 00  06 00 00 00 01 00*7  01 00 00 00 05 00*7",
			&tvmrpc.Packet{Code: tvmrpc.CodeGetAttr, Args: []tvmrpc.Value{tvmrpc.OnDevice(tvmrpc.CPU), tvmrpc.Int(5)}},
		},
		"Exception": {"18 00*7 05 00 00 00 01 00 00 00  08 00 00 00 04 00*7 62 6f 6f 6d", tvmrpc.Exception("boom")},
	} {
		t.Run(name, func(t *testing.T) {
			b := capture(c.bytes)
			if c.want.Code == tvmrpc.CodeReturn || c.want.Code == tvmrpc.CodeException {
				wantEqual(t, newEra.encode(c.want), b, "encoded")
				return
			}
			got, err := newEra.decode(b)
			if err != nil || !reflect.DeepEqual(got.Args, c.want.Args) ||
				got.Code != c.want.Code || got.Handle != c.want.Handle {
				t.Errorf("decoded %+v, %v; want %+v", got, err, c.want)
			}
			if e := detect(b); e == oldEra || e == unknownEra && c.want.Code != tvmrpc.CodeCallFunc {
				t.Errorf("detected era %d", e)
			}
		})
	}
}

// TestOldEra checks packets of TVM 0.14 (docs/formats/rpc.md §10), and the bool of 0.18.
func TestOldEra(t *testing.T) {
	get := capture(`25 00*7 09 00 00 00 01 00 00 00 0b 00 00 00 11 00*7 "runtime.SystemLib"`)
	wantEqual(t, detect(get), oldEra)
	alloc := capture("38 00*7 11 00 00 00 02 00 00 00 07 00 00 00 04 00 00 00 " +
		"00*8 01 00*7 01 00 00 00 00 08 01 00 02 00*7 00*8")
	wantEqual(t, detect(alloc), oldEra)
	attribute := capture("20 00*7 0c 00 00 00 02 00 00 00 06 00 00 00 00 00 00 00 01 00*7 05 00*7")
	sync := capture("20 00*7 0f 00 00 00 02 00 00 00 06 00 00 00 03 00 00 00 01 00*7 00*8")
	for _, msg := range [][]byte{attribute, sync} {
		wantEqual(t, detect(msg), oldEra, msg)
	}
	for _, msg := range [][]byte{get, alloc, attribute, sync} {
		p, err := oldEra.decode(msg)
		if err != nil || !bytes.Equal(oldEra.encode(p), msg) {
			t.Errorf("% x: %+v, %v", msg, p, err)
		}
	}
	wantError(t, last(oldEra.decode(capture("18 00*7 03 00 00 00 00*8 01 00 00 00 0f 00 00 00 01 00*7"))), "")
	b, err := oldEra.decode(capture("1c 00*7 03 00 00 00 00*8 01 00 00 00 0f 00 00 00 01 00*7"))
	if err != nil || !reflect.DeepEqual(b.Args, []tvmrpc.Value{tvmrpc.Int(1)}) {
		t.Errorf("bool: %+v, %v", b, err)
	}
}

func TestHello(t *testing.T) {
	for text, want := range map[string]hello{
		"":                                {},
		"client:":                         {key: "client:"},
		"client:bd:0.5 -timeout=20":       {"client:bd:0.5", 20e9},
		"client:bd -x=1 -timeout=0.5 y":   {"client:bd", 5e8},
		"client:bd -timeout=nan":          {key: "client:bd"},
		"client:bd -timeout=1e300":        {key: "client:bd"},
		"client:bd -timeout=-1":           {key: "client:bd"},
		"  client:a   -timeout=3600.25  ": {"client:a", 3600.25e9},
	} {
		wantEqual(t, parseHello(text), want, text)
	}
}

// FuzzPacket decodes packets of clients in both eras. What is accepted has the same values in the other era.
func FuzzPacket(f *testing.F) {
	corpus.Add(f)
	f.Add(capture("15 00*7 02 00 00 00 05 00*7 30 2e 38 2e 30 00 00 00 00"))
	f.Add(capture("2a 00*7 03 00 00 00 00*8 02 00 00 00  08 00 00 00 02 00*7 61 62  01 00 00 00 03 00*7"))
	f.Add(capture("38 00*7 11 00 00 00 02 00 00 00  07 00 00 00 00*8 01 00*7 01 00 00 00 01 08 01 00 " +
		"02 00*7 00*8  00 00 00 00"))
	f.Add(le.AppendUint64(nil, math.MaxUint64))
	f.Fuzz(func(t *testing.T, msg []byte) {
		detect(msg)
		for _, e := range []era{oldEra, newEra} {
			p, err := e.decode(msg)
			if err != nil {
				continue
			}
			again, err := e.decode(e.encode(p))
			if p.Code == tvmrpc.CodeReturn { // its first value changes
				continue
			}
			if err != nil || !bytes.Equal(again.Append(nil), p.Append(nil)) {
				t.Errorf("era %d: % x\n%+v\n%+v, %v", e, msg, p, again, err)
			}
		}
	})
}
