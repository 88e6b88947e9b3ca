package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// busFault is a record of a Cortex-M.
func busFault() *fault.Record {
	return &fault.Record{
		Reason: fault.ReasonHardware, WordBytes: 4, Arch: fault.ArchCortexM, PCValid: true, Code: 3, PC: 0x1234,
		More: []uint64{0x8200, 0x40000000, 0, 0xe0000000},
	}
}

// faulty returns a device whose function "bad" resets it and leaves record, with the function's handle if it has
// none.
func faulty(record *fault.Record) *rpctest.Device {
	d := device()
	d.Globals["boardsmith.fault"] = rpctest.Fault
	d.Module["bad"] = func(d *rpctest.Device, _ []tvmrpc.Value) ([]tvmrpc.Value, error) {
		if record == nil {
			d.Reset(nil)
			return nil, nil
		}
		r := *record
		if r.Function == 0 {
			r.Function = d.Running()
		}
		d.Reset(rpctest.AppendRecord(nil, &r))
		return rpctest.Nothing(), nil
	}
	return d
}

func TestSessionContinuesAfterFault(t *testing.T) {
	ctx := testkit.Context(t)
	d := faulty(busFault())
	s := opened(t, d, rpc.Options{
		Explain: func(r *fault.Record, called string) fault.Explanation {
			if called != "bad" {
				t.Errorf("function %q was reported as called", called)
			}
			return fault.Explanation{Frames: []fault.Frame{{PC: r.PC, Function: "bad", File: "model/bad.c", Line: 3}}}
		},
	})
	lib, bad, old := library(t, s), operator(t, s, "bad"), empty(t, s, 4)
	_, err := bad.Call(ctx)
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || faultErr.Function != "bad" || faultErr.Prior || faultErr.Record.PC != 0x1234 {
		t.Fatalf("got %v", err)
	}
	wantError(t, err, failure.Fault, "calling bad: fault in bad: hard fault (", "), in bad at model/bad.c:3")
	if !errors.Is(err, transport.ErrTerminated) {
		t.Errorf("%#v", err)
	}

	// Using what existed before the reset is ErrStale; freeing it is no error.
	uses := map[string]func() error{
		"function": func() error { _, err := bad.Call(ctx); return err },
		"module":   func() error { _, err := lib.Function(ctx, "negate"); return err },
		"timing":   func() error { _, err := lib.Time(ctx, "negate", rpc.TimeOptions{}); return err },
		"write":    func() error { return old.Write(ctx, make([]byte, 4)) },
		"read":     func() error { return old.Read(ctx, make([]byte, 4)) },
	}
	for name, use := range uses {
		if err := use(); !errors.Is(err, rpc.ErrStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, free := range []func(context.Context) error{old.Free, lib.Free, old.Free} {
		if err := free(ctx); err != nil {
			t.Error(err)
		}
	}
	if len(d.Freed) > 0 { // these handles now belong to other objects
		t.Errorf("freed %v, which the reset has freed", d.Freed)
	}

	// What is looked up now works.
	must(t, shortTrip(ctx, s, 7))
	if prior, err := s.PriorFault(ctx); prior != nil || err != nil {
		t.Errorf("the fault was reported already, but there is a prior one: %v, %v", prior, err)
	}
}

// isReset reports whether an error is that of a reset without a record.
func isReset(err error, detail string) bool {
	return err != nil && strings.Contains(err.Error(), "fault record") && strings.Contains(err.Error(), detail)
}

// TestResetWithoutRecord covers devices without a readable record.
func TestResetWithoutRecord(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*rpctest.Device)
		want   string
	}{
		{"no record", func(*rpctest.Device) {}, "it has no fault record"},
		{"damaged record", func(d *rpctest.Device) {
			d.Module["bad"] = func(d *rpctest.Device, _ []tvmrpc.Value) ([]tvmrpc.Value, error) {
				d.Reset([]byte("BFLT"))
				return nil, nil
			}
		}, "fault record of 4 bytes"},
		{"none is kept", func(d *rpctest.Device) { delete(d.Globals, "boardsmith.fault") }, "it has no fault record"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testkit.Context(t)
			d := faulty(nil)
			c.change(d)
			s := opened(t, d, rpc.Options{})
			_, err := operator(t, s, "bad").Call(ctx)
			wantError(t, err, failure.Fault, "fault record", c.want)
			if _, err := s.SystemLib(ctx); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestFaultingDeviceEndsEachRequest: a device faults at every request; each request returns.
func TestFaultingDeviceEndsEachRequest(t *testing.T) {
	d := device()
	loop := func(d *rpctest.Device, _ []tvmrpc.Value) ([]tvmrpc.Value, error) {
		d.Reset(nil)
		return rpctest.Nothing(), nil
	}
	d.Globals["boardsmith.fault"], d.Globals["echo"] = loop, loop
	s := opened(t, d, rpc.Options{})
	ctx := testkit.Context(t)
	if _, err := global(t, s, "echo").Call(ctx); !isReset(err, "could not be read") {
		t.Errorf("got %v", err)
	}
	if _, err := s.Function(ctx, "echo"); !isReset(err, "") {
		t.Errorf("got %v", err)
	}
}

// A mute transport's device does not respond after its reset.
type mute struct{ redials int }

func (*mute) Send(context.Context, ...[]byte) error { return nil }
func (*mute) Close() error                          { return nil }
func (*mute) Lossy() bool                           { return false }
func (*mute) Recv(context.Context) ([]byte, error)  { return nil, transport.ErrTerminated }

func (m *mute) Redial(ctx context.Context) error {
	m.redials++
	<-ctx.Done()
	return ctx.Err()
}

func TestRedialEndsAtDeadline(t *testing.T) {
	m := &mute{}
	s := rpc.New(m, rpc.Options{})
	for i := range 3 {
		began := time.Now()
		_, err := s.Function(within(t, 50*time.Millisecond), "x")
		if !isReset(err, "could not be read") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 40*time.Millisecond || took > 5*time.Second || m.redials != i+1 {
			t.Errorf("%d redials, the last took %v", m.redials, took)
		}
	}
	if err := s.Close(within(t, time.Second)); err != nil {
		t.Error(err)
	}
}

func TestPriorFaultIsReported(t *testing.T) {
	ctx := testkit.Context(t)
	d := faulty(nil)
	d.Record = rpctest.AppendRecord(nil, busFault())
	s := opened(t, d, rpc.Options{})
	for range 2 {
		prior, err := s.PriorFault(ctx)
		if err != nil || prior == nil || !prior.Prior || prior.Record.PC != 0x1234 ||
			!strings.HasPrefix(prior.Error(), "earlier fault in function 0x0: hard fault") {
			t.Errorf("got %v, %v", prior, err)
		}
	}
	for name, d := range map[string]*rpctest.Device{"none": faulty(nil), "a device without": device(), "nonsense": {
		Globals: map[string]rpctest.Func{"boardsmith.fault": echoNumber},
	}} {
		t.Run(name, func(t *testing.T) {
			if prior, err := opened(t, d, rpc.Options{}).PriorFault(ctx); prior != nil || err != nil {
				t.Errorf("%v, %v", prior, err)
			}
		})
	}
}

// TestDamagedFaultRecordIsReadAgain: the answer with the record arrives damaged, and the session reads it again.
// Firmware that clears the record when it is read still works.
func TestDamagedFaultRecordIsReadAgain(t *testing.T) {
	ctx := testkit.Context(t)
	d := faulty(nil)
	d.Record = rpctest.AppendRecord(nil, busFault())
	hits := 0
	s := open(t, d, func(l transport.Link) transport.Link {
		return transporttest.Tamper(l, wholeFrames(transporttest.ToHost, func(p []byte) {
			if hits == 0 && bytes.Contains(p, []byte("BFLT")) {
				hits++
				p[len(p)-20] ^= 4
			}
		}))
	})
	prior, err := s.PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 || hits != 1 {
		t.Errorf("got %v, %v after %d damages", prior, err, hits)
	}
	if d.Record != nil {
		t.Error("the device still has the record")
	}
	d = faulty(nil)
	d.Globals["boardsmith.fault"] = rpctest.FaultOnce
	d.Record = rpctest.AppendRecord(nil, busFault())
	prior, err = opened(t, d, rpc.Options{}).PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 {
		t.Errorf("earlier firmware: got %v, %v", prior, err)
	}
}

func echoNumber(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
	return rpctest.Result(tvmrpc.Int(1)), nil
}

// TestTimedFunctionIsNamed: a fault during timing names the timed function.
func TestTimedFunctionIsNamed(t *testing.T) {
	ctx := testkit.Context(t)
	s := opened(t, faulty(busFault()), rpc.Options{})
	_, err := library(t, s).Time(ctx, "bad", rpc.TimeOptions{})
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || faultErr.Function != "bad" {
		t.Errorf("got %v", err)
	}
}

// A patchy transport's Redial succeeds at the second attempt only.
type patchy struct {
	*transport.Session
	fail int
}

func (p *patchy) Redial(ctx context.Context) error {
	if p.fail > 0 {
		p.fail--
		return failure.Errorf(failure.Timeout, "read: %w", context.DeadlineExceeded)
	}
	return p.Session.Redial(ctx)
}

// TestFaultBeforeFailedRedialIsPrior: if Redial fails at first, the next request succeeds, and the fault is not
// reported for it.
func TestFaultBeforeFailedRedialIsPrior(t *testing.T) {
	ctx := testkit.Context(t)
	host, link := transporttest.Pair()
	serve(t, faulty(busFault()), link)
	dialled, err := transport.Dial(ctx, host, transport.SessionOptions{})
	must(t, err)
	s := rpc.New(&patchy{dialled, 1}, rpc.Options{})
	defer func() { _ = s.Close(ctx) }()
	if _, err := operator(t, s, "bad").Call(ctx); !isReset(err, "could not be read") {
		t.Errorf("got %v", err)
	}
	if _, err := s.SystemLib(ctx); err != nil {
		t.Errorf("the next request: %v", err)
	}
	if prior, err := s.PriorFault(ctx); err != nil || prior == nil || prior.Function != "bad" {
		t.Errorf("got %v, %v", prior, err)
	}
}
