package rpc_test

import (
	"bytes"
	"testing"

	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/transport"
)

// answers replaces each whole frame of a session from the device by the frames that change returns for its payload.
func answers(change func(payload []byte) [][]byte) func(transport.Link) transport.Link {
	var u framing.Unframer
	return func(l transport.Link) transport.Link {
		return transporttest.Tamper(l, func(way transporttest.Direction, p []byte) []byte {
			if way != transporttest.ToHost {
				return p
			}
			var out []byte
			for len(p) > 0 {
				n, ev := u.Next(p)
				p = p[n:]
				if ev != framing.Frame {
					continue
				}
				for _, payload := range change(bytes.Clone(u.Payload())) {
					var f framing.Framer
					f.Append(nil, nil) // a nop precedes the first frame only
					out = f.Append(out, payload)
				}
			}
			return out
		})
	}
}

const normal = 0x10 // the type of a session's messages, their third byte

// damaged returns the device's report of a damaged request, in the session of an answer.
func damaged(answer []byte) []byte {
	return tvmrpc.Exception("boardsmith: damaged request").Append(bytes.Clone(answer[:3]))
}

// Answers that no request waits for: reports of damage before and after the answer, and answers that arrive twice. No
// call returns another call's result, and none is carried out twice.
func TestStrayAnswersShiftNoReply(t *testing.T) {
	for name, change := range map[string]func(p []byte) [][]byte{
		"two late reports":  func(p []byte) [][]byte { return [][]byte{damaged(p), damaged(p), p} },
		"report behind":     func(p []byte) [][]byte { return [][]byte{p, damaged(p)} },
		"duplicated answer": func(p []byte) [][]byte { return [][]byte{p, p} },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			d := device()
			count := 0
			s := open(t, d, answers(func(p []byte) [][]byte {
				if p[2] != normal {
					return [][]byte{p}
				}
				if count++; count%3 != 0 {
					return [][]byte{p}
				}
				return change(p)
			}))
			f := global(t, s, "echo")
			for i := range 30 {
				if got, err := f.Call(ctx, i); err != nil || got != int64(i) {
					t.Fatalf("call %d: %v, %v", i, got, err)
				}
			}
			tensor := empty(t, s, 100)
			for seed := range byte(10) {
				want := bytes.Repeat([]byte{seed}, 100)
				must(t, tensor.Write(ctx, want))
				if got := content(t, tensor); !bytes.Equal(got, want) {
					t.Fatalf("read %d for %d", got[0], seed)
				}
			}
			must(t, s.Close(ctx))
			if n := calls(d); n > 32 { // 30, and two that ask for the device's properties
				t.Errorf("%d calls for 30", n)
			}
		})
	}
}
