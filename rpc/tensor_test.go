package rpc_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// The device's own memory can be read and passed to functions, and is never freed.
func TestDeviceMemoryIsNeverFreed(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	at := d.Allocate(4)
	s := open(t, d)
	tensor := value(s.TensorAt(ctx, rpc.Handle(at), f32, nil))(t)
	must(t, tensor.Write(ctx, []byte{1, 2, 3, 4}))
	wantEqual(t, content(t, tensor), []byte{1, 2, 3, 4})
	if err := errors.Join(tensor.Free(ctx), s.Close(ctx)); err != nil || d.Live() != 1 || len(d.Freed) > 0 {
		t.Errorf("%v, %d allocations left, freed %v", err, d.Live(), d.Freed)
	}
}

func TestViewSharesMemory(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device())
	pool := value(s.Alloc(ctx, 64, 16))(t)
	view := value(pool.View(0, f32, []int64{2, 2}))(t)
	must(t, view.Write(ctx, random(16)))
	got := make([]byte, 64)
	if err := pool.Read(ctx, got); err != nil || !bytes.Equal(got[:16], random(16)) {
		t.Errorf("% x, %v", got, err)
	}
	wantError(t, last(pool.View(0, f32, []int64{17})), failure.Config)
	must(t, view.Free(ctx))
	wantError(t, pool.Read(ctx, got), "")
}

// Copies of any length arrive: in one message if the device streams, else in as many as its packet size requires. Their
// CRC-32 is the device's if it streams; else they are read.
func TestCopiesOfAnyLengthArrive(t *testing.T) {
	for name, d := range map[string]*rpctest.Device{
		"streams":         {Streams: true},
		"packets of 2048": {Packet: 2048},
		"packets of 8192": {Packet: 8192}, // longer than the limit reported to TVM's host
		"packets of 128":  {Packet: 128},
		"without limit":   {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			s := open(t, d)
			for _, n := range []int{0, 1, 69, 70, 1985, 1986, 4096, 100000} {
				tensor := filled(t, s, random(n))
				wantEqual(t, content(t, tensor), random(n), n)
				wantResult(t, crc32.ChecksumIEEE(random(n)), n)(tensor.CRC32(ctx))
				must(t, tensor.Free(ctx))
			}
			if d.Packet > 0 && d.Longest != d.Packet {
				t.Errorf("longest message %d, packets are %d", d.Longest, d.Packet)
			}
		})
	}
}

// Writing 4096 bytes to a device that streams takes one round trip, after one for its abilities.
func TestStreamedCopyTakesOneRoundTrip(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := open(t, d)
	must(t, filled(t, s, random(4096)).Write(ctx, random(4096)))
	want := []tvmrpc.Code{
		tvmrpc.CodeAllocDataWithScope, tvmrpc.CodeGetGlobalFunc, tvmrpc.CodeCopyToRemote,
		tvmrpc.CodeCopyToRemote,
	}
	must(t, s.Close(ctx))
	wantEqual(t, d.Requests[:4], want)
}

// boundedLink is a link that takes one packet at a time.
type boundedLink struct{ transport.Link }

func (boundedLink) Bounded() bool { return true }

// Over a link that takes one packet at a time, no message of a copy is longer, also if the device streams.
func TestBoundedLinkLimitsMessages(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Packet, d.Streams = 256, true
	s := open(t, d, func(l transport.Link) transport.Link { return boundedLink{l} })
	wantEqual(t, content(t, filled(t, s, random(4096))), random(4096))
	must(t, s.Close(ctx))
	if d.Longest > d.Packet || d.Longest < d.Packet/2 {
		t.Errorf("longest message %d, packets are %d", d.Longest, d.Packet)
	}
}

// One tensor is written, read and viewed from several goroutines, under the race detector.
func TestTensorIsSafeForGoroutines(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, device())
	tensor := empty(t, s, 8)
	var all sync.WaitGroup
	for _, do := range []func() error{
		func() error { return tensor.Write(ctx, make([]byte, 8)) },
		func() error { return tensor.Read(ctx, make([]byte, 8)) },
		func() error { return tensor.Discard(ctx) },
		func() error {
			v, err := tensor.View(0, f32, []int64{2})
			if err == nil {
				err = v.Read(ctx, make([]byte, 8))
			}
			return err
		},
	} {
		all.Go(func() {
			for range 20 {
				if err := do(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
