package tvmrpc

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/ndarray"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	testkit.Must(t, err)
	return b
}

var (
	i8      = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	example = DLTensor{Data: 0x558b2bb0ec20, Device: CPU, DType: i8, Shape: []int64{2}}
)

const exampleHex = "20 ec b0 2b 8b 55 00 00  01 00 00 00 00 00 00 00  01 00 00 00  00 08 01 00  " +
	"02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00"

// examples are all packets of rpc.md §3, §6 and §10, and of wire.md §2.5.
var examples = map[string]struct {
	hex    string
	packet Packet
}{
	"void return": {
		"0c 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  04 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Null()}},
	},
	"look up SystemLib": {
		"25 00 00 00 00 00 00 00  09 00 00 00  01 00 00 00  0b 00 00 00  11 00 00 00 00 00 00 00  " +
			"72 75 6e 74 69 6d 65 2e 53 79 73 74 65 6d 4c 69 62",
		Packet{Code: CodeGetGlobalFunc, Args: []Value{Text("runtime.SystemLib")}},
	},
	"its handle": {
		"14 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  03 00 00 00  00 80 02 80 00 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Opaque(0x80028000)}},
	},
	"call SystemLib": {
		"10 00 00 00 00 00 00 00  03 00 00 00  00 80 02 80 00 00 00 00  00 00 00 00",
		Packet{Code: CodeCallFunc, Handle: 0x80028000},
	},
	"module result": {
		"20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 03 00 00 00  09 00 00 00 00 00 00 00  " +
			"00 80 00 00 00 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Int(9), Opaque(0x8000)}},
	},
	"ModuleGetFunction": {
		"37 00 00 00 00 00 00 00  03 00 00 00  01 80 02 80 00 00 00 00  03 00 00 00  " +
			"09 00 00 00 0b 00 00 00 00 00 00 00  00 80 00 00 00 00 00 00  " +
			"03 00 00 00 00 00 00 00 61 64 64  01 00 00 00 00 00 00 00",
		Packet{Code: CodeCallFunc, Handle: 0x80028001, Args: []Value{{Type: TypeModule, Word: 0x8000}, Text("add"), Int(1)}},
	},
	"function result": {
		"20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 03 00 00 00  0a 00 00 00 00 00 00 00  " +
			"00 80 00 80 00 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Int(10), Opaque(0x80008000)}},
	},
	"null result": {
		"18 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 04 00 00 00  04 00 00 00 00 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Int(4), Null()}},
	},
	"AllocDataWithScope": {
		"38 00 00 00 00 00 00 00  11 00 00 00  02 00 00 00  07 00 00 00 04 00 00 00  00 00 00 00 00 00 00 00  " +
			"01 00 00 00 00 00 00 00  01 00 00 00  00 08 01 00  02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00",
		Packet{
			Code: CodeAllocDataWithScope,
			Args: []Value{TensorOf(&DLTensor{Device: CPU, DType: i8, Shape: []int64{2}}), Null()},
		},
	},
	"its address": {
		"14 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  03 00 00 00  20 ec b0 2b 8b 55 00 00",
		Packet{Code: CodeReturn, Args: []Value{Opaque(0x558b2bb0ec20)}},
	},
	"CopyToRemote": {
		"36 00 00 00 00 00 00 00  07 00 00 00 " + exampleHex + " 02 00 00 00 00 00 00 00  02 ff",
		Packet{Code: CodeCopyToRemote, Tensor: example, Size: 2, Data: []byte{2, 0xff}},
	},
	"CopyFromRemote": {
		"34 00 00 00 00 00 00 00  06 00 00 00 " + exampleHex + " 02 00 00 00 00 00 00 00",
		Packet{Code: CodeCopyFromRemote, Tensor: example, Size: 2},
	},
	"CopyAck": {
		"06 00 00 00 00 00 00 00  08 00 00 00  06 03",
		Packet{Code: CodeCopyAck, Data: []byte{6, 3}},
	},
	"packet size result": {
		"20 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  " +
			"f5 07 00 00 00 00 00 00",
		Packet{Code: CodeReturn, Args: []Value{Int(0), Int(2037)}},
	},
	"time evaluator result": {
		"30 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  00 00 00 00 0c 00 00 00  0c 00 00 00 00 00 00 00  " +
			"10 00 00 00 00 00 00 00  00 00 00 00 00 00 f0 3f  00 00 00 00 00 00 00 40",
		Packet{Code: CodeReturn, Args: []Value{Int(12), Raw([]byte{6: 0xf0, 7: 0x3f, 15: 0x40})}},
	},
	"Exception": {
		"18 00 00 00 00 00 00 00  05 00 00 00  01 00 00 00  0b 00 00 00  04 00 00 00 00 00 00 00  62 6f 6f 6d",
		Packet{Code: CodeException, Args: []Value{Text("boom")}},
	},
	"FreeHandle": {
		"20 00 00 00 00 00 00 00  0a 00 00 00  02 00 00 00  03 00 00 00 00 00 00 00  00 80 00 80 00 00 00 00  " +
			"0a 00 00 00 00 00 00 00",
		Packet{Code: CodeFreeHandle, Args: []Value{Opaque(0x80008000), Int(10)}},
	},
	"StreamSync": {
		"20 00 00 00 00 00 00 00  0f 00 00 00  02 00 00 00  06 00 00 00 03 00 00 00  01 00 00 00 00 00 00 00  " +
			"00 00 00 00 00 00 00 00",
		Packet{Code: CodeStreamSync, Args: []Value{OnDevice(CPU), Opaque(0)}},
	},
	"AllocData": {
		"38 00 00 00 00 00 00 00  0d 00 00 00  04 00 00 00  06 00 00 00 00 00 00 00 00 00 00 00 05 00 00 00  " +
			"01 00 00 00 00 00 00 00  10 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  00 08 01 00 00 00 00 00",
		Packet{Code: CodeAllocData, Args: []Value{OnDevice(CPU), Int(16), Int(64), DType(i8)}},
	},
	"Shutdown": {
		"04 00 00 00 00 00 00 00  01 00 00 00",
		Packet{Code: CodeShutdown},
	},
	"InitServer": {
		"15 00 00 00 00 00 00 00  02 00 00 00  05 00 00 00 00 00 00 00  30 2e 38 2e 30  00 00 00 00",
		Packet{Code: CodeInitServer, Version: []byte("0.8.0")},
	},
	"nothing": {"00 00 00 00 00 00 00 00", Packet{}},
}

func TestPacketsOfSpecification(t *testing.T) {
	for name, e := range examples {
		want := unhex(t, e.hex)
		if got := e.packet.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("%s encodes to\n% x, want\n% x", name, got, want)
		}
		var p Packet
		testkit.Must(t, p.Parse(want))
		if len(p.Args) == 0 {
			p.Args = nil
		}
		if !reflect.DeepEqual(p, e.packet) {
			t.Errorf("%s decodes to\n%+v, want\n%+v", name, p, e.packet)
		}
		testkit.Must(t, p.CheckArgs())
	}
}

func TestArgsSizeMatchesEncoding(t *testing.T) {
	for name, e := range examples {
		if got, want := ArgsSize(e.packet.Args), len(appendArgs(nil, e.packet.Args)); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestInvalidPacketIsProtocolError(t *testing.T) {
	for name, s := range map[string]string{
		"empty":               "",
		"short length":        "04 00 00 00",
		"length too small":    "03 00 00 00 00 00 00 00  01 00 00 00",
		"length too great":    "05 00 00 00 00 00 00 00  01 00 00 00",
		"length enormous":     "ff ff ff ff ff ff ff ff  01 00 00 00",
		"short code":          "02 00 00 00 00 00 00 00  01 00",
		"code 0":              "04 00 00 00 00 00 00 00  00 00 00 00",
		"shutdown with more":  "05 00 00 00 00 00 00 00  01 00 00 00  00",
		"negative count":      "08 00 00 00 00 00 00 00  04 00 00 00  ff ff ff ff",
		"count without types": "0c 00 00 00 00 00 00 00  04 00 00 00  02 00 00 00  04 00 00 00",
		"type without value":  "0c 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  00 00 00 00",
		"object":              "14 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  08 00 00 00  00 00 00 00 00 00 00 00",
		"text beyond the end": "14 00 00 00 00 00 00 00  05 00 00 00  01 00 00 00  0b 00 00 00  01 00 00 00 00 00 00 00",
		"text of 2^64-1":      "14 00 00 00 00 00 00 00  05 00 00 00  01 00 00 00  0b 00 00 00  ff ff ff ff ff ff ff ff",
		"rank beyond the end": "34 00 00 00 00 00 00 00  06 00 00 00  00 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  " +
			"ff ff ff 7f  00 08 01 00  02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00",
		"copy with less data":    "35 00 00 00 00 00 00 00  07 00 00 00 " + exampleHex + " 02 00 00 00 00 00 00 00  02",
		"copy with more data":    "37 00 00 00 00 00 00 00  07 00 00 00 " + exampleHex + " 02 00 00 00 00 00 00 00  02 03 04",
		"copy of 2^64-1":         "36 00 00 00 00 00 00 00  07 00 00 00 " + exampleHex + " ff ff ff ff ff ff ff ff  02 03",
		"return with more":       "0d 00 00 00 00 00 00 00  04 00 00 00  01 00 00 00  04 00 00 00 00",
		"handle without the end": "08 00 00 00 00 00 00 00  03 00 00 00  00 80 02 80",
	} {
		var p Packet
		if err := p.Parse(unhex(t, s)); failure.Of(err) != failure.Transport {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A packet with large counts does not allocate memory for them.
func TestPacketHasLimitedValues(t *testing.T) {
	p := Packet{Code: CodeReturn, Args: make([]Value, maxValues+1)}
	for i := range p.Args {
		p.Args[i] = Null()
	}
	var q Packet
	if err := q.Parse(p.Append(nil)); err == nil {
		t.Errorf("%d values accepted", len(q.Args))
	}
	p.Args = p.Args[1:]
	if err := q.Parse(p.Append(nil)); err != nil {
		t.Error(err)
	}
}

func TestCheckArgs(t *testing.T) {
	for name, c := range map[string]struct {
		packet Packet
		good   bool
	}{
		"scope given":      {Packet{Code: CodeAllocDataWithScope, Args: []Value{TensorOf(&example), Text("global")}}, true},
		"scope a number":   {Packet{Code: CodeAllocDataWithScope, Args: []Value{TensorOf(&example), Int(1)}}, false},
		"name a number":    {Packet{Code: CodeGetGlobalFunc, Args: []Value{Int(1)}}, false},
		"no name":          {Packet{Code: CodeGetGlobalFunc}, false},
		"two names":        {Packet{Code: CodeGetGlobalFunc, Args: []Value{Text("a"), Text("b")}}, false},
		"null stream":      {Packet{Code: CodeStreamSync, Args: []Value{OnDevice(CPU), Null()}}, false},
		"unknown syscall":  {Packet{Code: 21, Args: []Value{OnDevice(CPU)}}, false},
		"call of anything": {Packet{Code: CodeCallFunc, Args: []Value{OnDevice(CPU)}}, true},
	} {
		if err := c.packet.CheckArgs(); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPacket checks that a valid packet encodes to the same bytes, whatever packet was parsed into p before.
func FuzzPacket(f *testing.F) {
	corpus.Add(f)
	for _, e := range examples {
		f.Add(unhex(f, e.hex))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		p := Packet{Code: CodeCopyToRemote, Data: []byte{1}, Size: 7, Args: []Value{Text("old")}}
		err := p.Parse(msg)
		if err != nil {
			if failure.Of(err) != failure.Transport {
				t.Fatalf("error without a class: %v", err)
			}
			return
		}
		if encoded := p.Append(nil); !bytes.Equal(encoded, msg) {
			t.Fatalf("% x\nparses to %+v\nand encodes to % x", msg, p, encoded)
		}
		_ = p.CheckArgs()
	})
}
