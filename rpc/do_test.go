package rpc_test

import (
	"errors"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// ask sends a request as a server of clients does.
func ask(t *testing.T, s *rpc.Session, p *tvmrpc.Packet) *tvmrpc.Packet {
	t.Helper()
	return value(s.Do(testkit.Context(t), p))(t)
}

// allocated asks for a tensor of so many bytes, and returns it as an argument.
func allocated(t *testing.T, s *rpc.Session, n int64) tvmrpc.DLTensor {
	t.Helper()
	ref := tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: i8, Shape: []int64{n}}
	ref.Data = ask(t, s, &tvmrpc.Packet{
		Code: tvmrpc.CodeAllocDataWithScope, Args: []tvmrpc.Value{tvmrpc.TensorOf(&ref), tvmrpc.Null()},
	}).Args[0].Word
	return ref
}

// TestRenewFreesAllOfLostClient: what a client has on a device when it vanishes is freed, and was lost for this side,
// too.
func TestRenewFreesAllOfLostClient(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := open(t, d)
	own := empty(t, s, 1)
	for range 2 {
		allocated(t, s, 2)
		f := ask(t, s, &tvmrpc.Packet{Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text("fail")}}).Args[0].Word
		if got := ask(t, s, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: f}); got.Code != tvmrpc.CodeException ||
			string(got.Args[0].Data) != "boom" {
			t.Errorf("%+v", got)
		}
		must(t, s.Renew(ctx))
		wantEqual(t, d.Live(), 0)
	}
	wantIs(t, own.Read(ctx, make([]byte, 1)), rpc.ErrStale, "a tensor of the session before")
	if err := errors.Join(own.Free(ctx), s.Close(ctx)); err != nil || len(d.Freed) > 0 {
		t.Errorf("%v, freed %v", err, d.Freed)
	}
}

// TestDoSplitsCopies copies any length to devices that accept only short messages.
func TestDoSplitsCopies(t *testing.T) {
	for _, d := range []*rpctest.Device{{Streams: true}, {Packet: 128}} {
		s := open(t, d)
		ref := allocated(t, s, 5000)
		ref.ByteOffset = 4
		wantEqual(t, ask(t, s, &tvmrpc.Packet{
			Code: tvmrpc.CodeCopyToRemote, Tensor: ref, Size: 4990, Data: random(4990),
		}).Code, tvmrpc.CodeReturn)
		back := &tvmrpc.Packet{Code: tvmrpc.CodeCopyFromRemote, Tensor: ref, Size: 4990}
		wantEqual(t, ask(t, s, back).Data, random(4990))
		back.Size = 1 << 40
		wantEqual(t, ask(t, s, back).Code, tvmrpc.CodeException)
	}
}

// TestDoRejectsUnsafeRequests: requests that would stop the device or hang a reference firmware are not sent.
func TestDoRejectsUnsafeRequests(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	s := open(t, d)
	for _, code := range []tvmrpc.Code{
		tvmrpc.CodeNone, tvmrpc.CodeShutdown, tvmrpc.CodeReturn,
		tvmrpc.CodeException, tvmrpc.CodeCopyAck,
	} {
		wantError(t, last(s.Do(ctx, &tvmrpc.Packet{Code: code})), failure.Config)
	}
	for _, p := range []*tvmrpc.Packet{
		{Code: tvmrpc.CodeGetGlobalFunc},
		{Code: 99},
		{Code: tvmrpc.CodeFreeHandle, Args: []tvmrpc.Value{tvmrpc.Opaque(1), tvmrpc.Int(8)}},
	} {
		wantEqual(t, ask(t, s, p).Code, tvmrpc.CodeException, p.Code)
	}
	if err := s.Close(ctx); err != nil || len(d.Requests) > 0 {
		t.Errorf("%v; the device got %v", err, d.Requests)
	}
}

// TestDoAfterReset: a fault names the function that the client called.
func TestDoAfterReset(t *testing.T) {
	ctx := testkit.Context(t)
	d := faulty(busFault())
	d.Globals["crash"] = d.Module["bad"]
	s := open(t, d)
	var lookup *tvmrpc.Packet
	for range 2 { // the first handle is that of boardsmith.fault after the reset
		lookup = ask(t, s, &tvmrpc.Packet{Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text("crash")}})
	}
	faultOf(t, last(s.Do(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: lookup.Args[0].Word})), "crash")
	must(t, s.Close(ctx))
}
