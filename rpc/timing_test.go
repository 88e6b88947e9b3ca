package rpc_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

func TestTimeReturnsMeans(t *testing.T) {
	ctx := testkit.Context(t)
	calls := 0
	d := device()
	d.Module["count"] = doing(func() { calls++ })
	s := open(t, d)
	m := library(t, s)
	got := value(m.Time(ctx, "count", rpc.TimeOptions{Number: 3, Repeat: 4}))(t)
	wantEqual(t, got, []float64{1e-6, 2e-6, 3e-6, 4e-6})
	wantEqual(t, calls, 13)
	if got := value(m.Time(ctx, "count", rpc.TimeOptions{}))(t); len(got) != 1 || calls != 13+11 {
		t.Errorf("by default: %v, %d calls", got, calls)
	}
	wantError(t, last(m.Time(ctx, "absent", rpc.TimeOptions{})), failure.Fault, "0x100")
	wantError(t, last(m.Time(ctx, "fail", rpc.TimeOptions{})), failure.Fault, "boom")
	wantError(t, last(m.Time(ctx, "count", rpc.TimeOptions{Repeat: -1})), failure.Config)
	for _, d.Unit = range []float64{math.NaN(), math.Inf(1), -1} { // samples of a platform with a wrong timer
		if got, err := m.Time(ctx, "count", rpc.TimeOptions{}); failure.Of(err) != failure.Fault || failure.Next(err) == "" {
			t.Errorf("samples of %v s: %v, %v", d.Unit, got, err)
		}
	}
}

// TestStatsOfTimes: the interval of the mean of times does not reach below 0, that of other samples may.
func TestStatsOfTimes(t *testing.T) {
	for _, c := range []struct{ samples, interval []float64 }{
		{[]float64{1, 1, 1, 1, 101}, []float64{0, 76.5}},
		{[]float64{-1, 0, 1}, []float64{-2.5, 2.5}},
		{[]float64{99, 100, 101}, []float64{97.5, 102.5}},
	} {
		st := rpc.StatsOf(c.samples)
		if math.Abs(st.Low-c.interval[0]) > 0.1 || math.Abs(st.High-c.interval[1]) > 0.1 || st.Low > st.Mean {
			t.Errorf("%v: mean %g, %g to %g, want %v", c.samples, st.Mean, st.Low, st.High, c.interval)
		}
	}
}

// TimedInterrupts returns a count for each sample of the last measurement, nil where the firmware counts none, and the
// device's errors.
func TestTimedInterrupts(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	wantResult(t, nil, "of a device without that function")(open(t, d).TimedInterrupts(ctx))
	var answer []tvmrpc.Value
	var fails error
	d.Globals["boardsmith.timed_interrupts"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		return answer, fails
	}
	d.Module["idle"] = doing(func() {})
	s := open(t, d)
	value(library(t, s).Time(ctx, "idle", rpc.TimeOptions{Repeat: 66}))(t)
	counts := make([]byte, 64)
	want := make([]int, 66)
	for i := range want {
		counts[min(i, 63)] = byte(min(i, 63))
		want[i] = min(i, 63)
	}
	answer = rpctest.Result(tvmrpc.Raw(counts))
	wantResult(t, want, "after 66 samples")(s.TimedInterrupts(ctx))
	answer = rpctest.Nothing()
	wantResult(t, nil, "nothing")(s.TimedInterrupts(ctx))
	fails = errors.New("no counter")
	wantError(t, last(s.TimedInterrupts(ctx)), failure.Fault, "no counter")
}

// budgeted returns a device with time budgets, whose function "bad" has used up one of 20 ms. budgets receives the
// budgets, in milliseconds.
func budgeted(budgets *[]int64) *rpctest.Device {
	d := faulty(&fault.Record{Reason: fault.ReasonTimeout, WordBytes: 4, Code: 20})
	d.Globals["boardsmith.budget"] = func(_ *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
		*budgets = append(*budgets, int64(args[0].Word))
		return rpctest.Nothing(), nil
	}
	return d
}

func callOnce(ctx context.Context, t *testing.T, s *rpc.Session, name string) error {
	m := value(s.SystemLib(ctx))(t)
	_, err := value(m.Function(ctx, name))(t).Call(ctx)
	return err
}

func TestBudgetIsSentAgainAfterReset(t *testing.T) {
	ctx := testkit.Context(t)
	var budgets []int64
	s := open(t, budgeted(&budgets))
	must(t, s.SetBudget(ctx, 19*time.Millisecond+1))
	wantError(t, callOnce(ctx, t, s, "bad"), failure.Timeout, "timeout in bad: still running after", "budget of 20ms")
	_ = callOnce(ctx, t, s, "fail") // after the reset the budget is sent again
	_ = callOnce(ctx, t, s, "fail")
	must(t, s.SetBudget(ctx, 1<<62))
	_ = callOnce(ctx, t, s, "fail")
	wantEqual(t, budgets, []int64{20, 20, 1<<31 - 1}, "the device got the budgets")
}

// TestOverwrittenBudget: a time-out with another budget than the call had is corrupted memory, no time-out.
func TestOverwrittenBudget(t *testing.T) {
	for code, class := range map[uint32]failure.Class{20: failure.Timeout, 0x3fc00000: failure.Fault, 0: failure.Fault} {
		var budgets []int64
		d := faulty(&fault.Record{Reason: fault.ReasonTimeout, WordBytes: 4, Code: code})
		d.Globals["boardsmith.budget"] = budgeted(&budgets).Globals["boardsmith.budget"]
		s, ctx := open(t, d), testkit.Context(t)
		must(t, s.SetBudget(ctx, 20*time.Millisecond))
		err := callOnce(ctx, t, s, "bad")
		if failure.Of(err) != class || (class == failure.Fault) != strings.Contains(err.Error(),
			"fault in bad: failed check: corrupted memory: a call with a time budget of 20ms ended as one of ") {
			t.Errorf("a budget of %d: class %q, %v", code, failure.Of(err), err)
		}
	}
}

// TestBudgetFollowsDeadline: the budget is the deadline less the margin, within half the margin.
func TestBudgetFollowsDeadline(t *testing.T) {
	for _, c := range []struct{ limit, least, most time.Duration }{
		{10 * time.Minute, 596 * time.Second, 598 * time.Second},
		{time.Minute, 55 * time.Second, 58 * time.Second},
		{10 * time.Second, 8 * time.Second, 9 * time.Second},
		{1 << 62, 1<<31*time.Millisecond - time.Second, 1 << 31 * time.Millisecond},
	} {
		for name, o := range map[string]rpc.Options{"context": {}, "option": {Timeout: c.limit}} {
			ctx := context.Background()
			if name == "context" {
				ctx = within(t, c.limit)
			}
			var budgets []int64
			s := opened(t, budgeted(&budgets), o)
			_ = callOnce(ctx, t, s, "fail")
			wantEqual(t, len(budgets), 1, budgets)
			if got := time.Duration(budgets[0]) * time.Millisecond; got < c.least || got > c.most {
				t.Errorf("%s of %v: budget %v", name, c.limit, got)
			}
		}
	}
}

// TestBudgetIsSentOncePerDeadline: calls with similar deadlines take one request each; another deadline takes one more,
// once.
func TestBudgetIsSentOncePerDeadline(t *testing.T) {
	var budgets []int64
	d := budgeted(&budgets)
	s := open(t, d)
	setup := within(t, time.Hour)
	f := value(s.Function(setup, "fail"))(t)
	for _, limit := range []time.Duration{time.Hour, 10 * time.Minute, time.Hour} {
		for range 50 {
			_, _ = f.Call(within(t, limit))
		}
	}
	wantEqual(t, len(budgets), 3, budgets)
	must(t, s.Close(setup))
	wantEqual(t, len(d.Requests), 1+1+3+150) // two functions looked up
}

// TestInternalCallHasOwnBudget: an internal request has the time of its own context, not the budget of an earlier short
// call.
func TestInternalCallHasOwnBudget(t *testing.T) {
	var budgets []int64
	s := open(t, budgeted(&budgets))
	ctx := within(t, time.Hour)
	f := value(s.Function(ctx, "fail"))(t)
	_, _ = f.Call(within(t, time.Second))
	_, _ = value(s.SystemLib(within(t, time.Second)))(t).Function(ctx, "negate")
	if len(budgets) != 2 || budgets[1] < 1000*1000 {
		t.Errorf("the device got the budgets %v", budgets)
	}
}

// TestCallsWorkWithoutBudgets checks that a device without budgets gets one request for them, and that calls work.
func TestCallsWorkWithoutBudgets(t *testing.T) {
	d := device()
	s := open(t, d)
	ctx := testkit.Context(t)
	f := global(t, s, "echo")
	for i := range 3 {
		wantResult(t, int64(i))(f.Call(ctx, i))
	}
	must(t, s.Close(ctx))
	want := []tvmrpc.Code{
		tvmrpc.CodeGetGlobalFunc, tvmrpc.CodeGetGlobalFunc, tvmrpc.CodeCallFunc,
		tvmrpc.CodeCallFunc, tvmrpc.CodeCallFunc,
	}
	wantEqual(t, d.Requests, want, "requests")
}
