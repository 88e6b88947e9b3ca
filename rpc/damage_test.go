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
	return valueOf[int](t)(s.Damages(testkit.Context(t)))
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

// The damage of weak passes the frame's checksum.
func TestWeakDamagePassesCRC16(t *testing.T) {
	var f framing.Framer
	wire := f.Append(nil, calm(8000))
	weak(wire, 1000)
	var u framing.Unframer
	if n, ev := u.Next(wire); ev != framing.Frame || n != len(wire) {
		t.Errorf("%v after %d of %d bytes", ev, n, len(wire))
	}
}

// wholeFrames passes whole frames to change, in whatever pieces they are written.
func wholeFrames(d transporttest.Direction, change func([]byte)) func(transporttest.Direction, []byte) []byte {
	var u framing.Unframer
	var pending []byte
	return func(way transporttest.Direction, p []byte) []byte {
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
}

// Without damage a copy over a lossy link takes one more request, over a pipe none.
func TestOnlyLongLossyCopiesAreVerified(t *testing.T) {
	ctx := testkit.Context(t)
	count := func(wrap func(transport.Link) transport.Link, n int) int {
		d := device()
		s := open(t, d, wrap)
		tensor := filled(t, s, random(n))
		must(t, tensor.Write(ctx, random(n)))
		content(t, tensor)
		must(t, s.Close(ctx))
		return calls(d)
	}
	same := func(l transport.Link) transport.Link { return l }
	if got := count(nil, 8000); got != 0 {
		t.Errorf("%d confirmations on a pipe", got)
	}
	if got := count(same, 1000); got != 0 {
		t.Errorf("%d confirmations of short copies", got)
	}
	if got := count(same, 8000); got != 3 {
		t.Errorf("%d confirmations of three long copies", got)
	}
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

// damageOne flips a bit in the nth long frame to the device.
func damageOne(which int) func(transport.Link) transport.Link {
	seen := 0
	return func(l transport.Link) transport.Link {
		return transporttest.Tamper(l, wholeFrames(transporttest.ToDevice, func(p []byte) {
			if len(p) > 3000 {
				if seen++; seen == which {
					p[2500] ^= 4
				}
			}
		}))
	}
}

// After a damaged copy the content of every tensor is unknown until it is written again, and no function can be
// called.
func TestDamagedCopyBlocksCalls(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Damage = "boardsmith: damaged copy at 0x1234"
	s := open(t, d, damageOne(2))
	f := operator(t, s, "negate")
	a, b := filled(t, s, calm(3000)), filled(t, s, calm(3000)) // the second write is damaged, and repeated
	if damages(t, s) != 1 {
		t.Fatalf("%d damages", damages(t, s))
	}
	if _, err := a.Array(ctx); !errors.Is(err, rpc.ErrDamagedCopy) || failure.Of(err) != failure.Transport {
		t.Errorf("reading the other tensor: %v", err)
	}
	if got, err := b.Array(ctx); err != nil || !bytes.Equal(got.Data, calm(3000)) {
		t.Errorf("reading the one that was written again: %v", err)
	}
	if _, err := f.Call(ctx, b, b); !errors.Is(err, rpc.ErrDamagedCopy) {
		t.Errorf("a call before the damage was acknowledged: %v", err)
	}
	must(t, s.AcknowledgeDamage(ctx))
	if _, err := f.Call(ctx, a, b); !errors.Is(err, rpc.ErrDamagedCopy) {
		t.Errorf("a call with the other tensor: %v", err)
	}
	must(t, a.Discard(ctx))
	if _, err := f.Call(ctx, b, a); err != nil {
		t.Errorf("a call that overwrites the other tensor: %v", err)
	}
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
	s := open(t, d, func(l transport.Link) transport.Link {
		return transporttest.Tamper(l, wholeFrames(transporttest.ToDevice, func(p []byte) {
			if count++; count%3 == 0 && len(p) > 30 {
				p[20] ^= 4
			}
		}))
	})
	f := global(t, s, "echo")
	for i := range 20 {
		if got, err := f.Call(ctx, i); err != nil || got != int64(i) {
			t.Fatalf("call %d: %v, %v", i, got, err)
		}
	}
}
