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
			wantEqual(t, called, "bad")
			return fault.Explanation{Frames: []fault.Frame{{PC: r.PC, Function: "bad", File: "model/bad.c", Line: 3}}}
		},
	})
	lib, bad, old := library(t, s), operator(t, s, "bad"), empty(t, s, 4)
	_, err := bad.Call(ctx)
	if e := faultOf(t, err, "bad"); e.Prior || e.Record.PC != 0x1234 {
		t.Errorf("got %v", err)
	}
	wantError(t, err, failure.Fault, "calling bad: fault in bad: hard fault (", "), in bad at model/bad.c:3")
	wantIs(t, err, transport.ErrTerminated)

	// Using what existed before the reset is ErrStale; freeing it is no error.
	for n, err := range []error{
		last(bad.Call(ctx)), last(lib.Function(ctx, "negate")), last(lib.Time(ctx, "negate", rpc.TimeOptions{})),
		old.Write(ctx, make([]byte, 4)), old.Read(ctx, make([]byte, 4)),
	} {
		wantIs(t, err, rpc.ErrStale, n)
	}
	must(t, errors.Join(old.Free(ctx), lib.Free(ctx), old.Free(ctx)))
	wantEqual(t, len(d.Freed), 0) // these handles now belong to other objects

	// What is looked up now works.
	must(t, shortTrip(ctx, s, 7))
	wantResult(t, nil, "the fault was reported already, but there is a prior one")(s.PriorFault(ctx))
}

// faultOf returns the fault of a function that an error reports.
func faultOf(t *testing.T, err error, function string) (e *fault.Error) {
	t.Helper()
	if !errors.As(err, &e) || e.Function != function {
		t.Fatalf("got %v", err)
	}
	return e
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
			s := open(t, d)
			wantError(t, last(operator(t, s, "bad").Call(ctx)), failure.Fault, "fault record", c.want)
			must(t, last(s.SystemLib(ctx)))
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
	s := open(t, d)
	ctx := testkit.Context(t)
	wantError(t, last(global(t, s, "echo").Call(ctx)), "", "fault record", "could not be read")
	wantError(t, last(s.Function(ctx, "echo")), "", "fault record")
}

// A mute transport's device does not respond after its reset.
type mute struct {
	silent
	redials int
}

func (*mute) Recv(context.Context) ([]byte, error) { return nil, transport.ErrTerminated }

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
		wantError(t, err, "", "fault record", "could not be read")
		wantIs(t, err, context.DeadlineExceeded)
		if took := time.Since(began); took < 40*time.Millisecond || took > 5*time.Second || m.redials != i+1 {
			t.Errorf("%d redials, the last took %v", m.redials, took)
		}
	}
	must(t, s.Close(within(t, time.Second)))
}

func TestPriorFaultIsReported(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, afterFault())
	for range 2 {
		prior, err := s.PriorFault(ctx)
		if err != nil || prior == nil || !prior.Prior || prior.Record.PC != 0x1234 ||
			!strings.HasPrefix(prior.Error(), "earlier fault in function 0x0: hard fault") {
			t.Errorf("got %v, %v", prior, err)
		}
	}
	nonsense := device()
	nonsense.Globals["boardsmith.fault"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		return rpctest.Result(tvmrpc.Int(1)), nil
	}
	for n, d := range []*rpctest.Device{faulty(nil), device(), nonsense} {
		wantResult(t, nil, n)(open(t, d).PriorFault(ctx))
	}
}

// afterFault returns a device that has the record of a fault.
func afterFault() *rpctest.Device {
	d := faulty(nil)
	d.Record = rpctest.AppendRecord(nil, busFault())
	return d
}

// TestDamagedFaultRecordIsReadAgain: the answer with the record arrives damaged, and the session reads it again.
// Firmware that clears the record when it is read still works.
func TestDamagedFaultRecordIsReadAgain(t *testing.T) {
	ctx := testkit.Context(t)
	d := afterFault()
	hits := 0
	s := open(t, d, wholeFrames(transporttest.ToHost, func(p []byte) {
		if hits == 0 && bytes.Contains(p, []byte("BFLT")) {
			hits++
			p[len(p)-20] ^= 4
		}
	}))
	prior, err := s.PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 || hits != 1 {
		t.Errorf("got %v, %v after %d damages", prior, err, hits)
	}
	if d.Record != nil {
		t.Error("the device still has the record")
	}
	d = afterFault()
	d.Globals["boardsmith.fault"] = rpctest.FaultOnce
	prior, err = open(t, d).PriorFault(ctx)
	if err != nil || prior == nil || prior.Record.PC != 0x1234 {
		t.Errorf("earlier firmware: got %v, %v", prior, err)
	}
}

// TestTimedFunctionIsNamed: a fault during timing names the timed function.
func TestTimedFunctionIsNamed(t *testing.T) {
	ctx := testkit.Context(t)
	s := open(t, faulty(busFault()))
	faultOf(t, last(library(t, s).Time(ctx, "bad", rpc.TimeOptions{})), "bad")
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
	s := rpc.New(&patchy{value(transport.Dial(ctx, host, transport.SessionOptions{}))(t), 1}, rpc.Options{})
	defer func() { _ = s.Close(ctx) }()
	wantError(t, last(operator(t, s, "bad").Call(ctx)), "", "fault record", "could not be read")
	must(t, last(s.SystemLib(ctx)))
	if prior, err := s.PriorFault(ctx); err != nil || prior == nil || prior.Function != "bad" {
		t.Errorf("got %v, %v", prior, err)
	}
}
