package rpc_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

func damages(t *testing.T, s *rpc.Session) int {
	t.Helper()
	return value(s.Damages(testkit.Context(t)))(t)
}

// weak flips two bits 32,767 apart, which leaves a frame's CRC unchanged. The bytes must not become or cease to be
// 0xff.
func weak(p []byte, at int) {
	p[at] ^= 0x80
	p[at+4095] ^= 0x01
}

// calm returns a payload without bytes near 0xff, so that flips neither make nor break an escape.
func calm(n int) []byte {
	p := random(n)
	for i := range p {
		p[i] &= 0x3e
	}
	return p
}

// wholeFrames returns a function that makes a link pass whole frames to change, in whatever pieces they are written.
func wholeFrames(d transporttest.Direction, change func([]byte)) func(transport.Link) transport.Link {
	var u framing.Unframer
	var pending []byte
	pass := func(way transporttest.Direction, p []byte) []byte {
		if way != d {
			return p
		}
		var out []byte
		for len(p) > 0 {
			n, ev := u.Next(p)
			pending = append(pending, p[:n]...)
			if p = p[n:]; ev == framing.Frame {
				change(pending)
				out, pending = append(out, pending...), nil
			}
		}
		return out
	}
	return func(l transport.Link) transport.Link { return transporttest.Tamper(l, pass) }
}

// Without damage a copy over a lossy link takes one more request, over a pipe none.
func TestOnlyLongLossyCopiesAreVerified(t *testing.T) {
	ctx := testkit.Context(t)
	count := func(n int, wrap ...func(transport.Link) transport.Link) int {
		d := device()
		s := open(t, d, wrap...)
		tensor := filled(t, s, random(n))
		must(t, tensor.Write(ctx, random(n)))
		content(t, tensor)
		must(t, s.Close(ctx))
		return calls(d)
	}
	same := func(l transport.Link) transport.Link { return l }
	wantEqual(t, count(8000), 0)
	wantEqual(t, count(1000, same), 0)
	wantEqual(t, count(8000, same), 3)
}

// calls returns how many functions of a device were called.
func calls(d *rpctest.Device) (n int) {
	for _, c := range d.Requests {
		if c == tvmrpc.CodeCallFunc {
			n++
		}
	}
	return n
}

// After a damaged copy the content of every tensor is unknown until it is written again, and no function can be
// called.
func TestDamagedCopyBlocksCalls(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Damage = "boardsmith: damaged copy at 0x1234"
	long := 0
	s := open(t, d, wholeFrames(transporttest.ToDevice, func(p []byte) {
		if len(p) > 3000 {
			if long++; long == 2 {
				p[2500] ^= 4
			}
		}
	}))
	f := operator(t, s, "negate")
	a, b := filled(t, s, calm(3000)), filled(t, s, calm(3000)) // the second write is damaged, and repeated
	wantEqual(t, damages(t, s), 1)
	if _, err := a.Array(ctx); !errors.Is(err, rpc.ErrDamagedCopy) || failure.Of(err) != failure.Transport {
		t.Errorf("reading the other tensor: %v", err)
	}
	if got, err := b.Array(ctx); err != nil || !bytes.Equal(got.Data, calm(3000)) {
		t.Errorf("reading the one that was written again: %v", err)
	}
	wantIs(t, last(f.Call(ctx, b, b)), rpc.ErrDamagedCopy, "a call before the damage was acknowledged")
	must(t, s.AcknowledgeDamage(ctx))
	wantIs(t, last(f.Call(ctx, a, b)), rpc.ErrDamagedCopy, "a call with the other tensor")
	must(t, a.Discard(ctx))
	must(t, last(f.Call(ctx, b, a)))
	if got, err := a.Array(ctx); err != nil || got.Data[1] != -calm(3000)[1] {
		t.Errorf("its result: %v", err)
	}
}

// A request that the device rejects as damaged is sent again; after a damaged answer, only if repeating the request
// is harmless.
func TestDamagedRequestIsRepeated(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Damage = "boardsmith: damaged request"
	count := 0
	s := open(t, d, wholeFrames(transporttest.ToDevice, func(p []byte) {
		if count++; count%3 == 0 && len(p) > 30 {
			p[20] ^= 4
		}
	}))
	f := global(t, s, "echo")
	for i := range 20 {
		wantResult(t, int64(i), i)(f.Call(ctx, i))
	}
}

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
				wantResult(t, int64(i), i)(f.Call(ctx, i))
			}
			tensor := empty(t, s, 100)
			for seed := range byte(10) {
				want := bytes.Repeat([]byte{seed}, 100)
				must(t, tensor.Write(ctx, want))
				wantEqual(t, content(t, tensor), want, seed)
			}
			must(t, s.Close(ctx))
			if n := calls(d); n > 32 { // 30, and two that ask for the device's properties
				t.Errorf("%d calls for 30", n)
			}
		})
	}
}
