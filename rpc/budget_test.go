package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// budgeted returns a device with time budgets. Its function "endless" uses up the budget, after which the device
// resets with a record. budgets receives the budgets, in milliseconds.
func budgeted(budgets *[]int64) *rpctest.Device {
	d := faulty(&fault.Record{Reason: fault.ReasonTimeout, WordBytes: 4, Code: 20})
	budget := 10 * time.Second // its own
	d.Globals["boardsmith.budget"] = func(_ *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
		*budgets = append(*budgets, int64(args[0].Word))
		budget = time.Duration(args[0].Word) * time.Millisecond
		return rpctest.Nothing(), nil
	}
	d.Module["endless"] = func(d *rpctest.Device, _ []tvmrpc.Value) ([]tvmrpc.Value, error) {
		time.Sleep(budget)
		r := fault.Record{
			Reason: fault.ReasonTimeout, WordBytes: 4, Code: uint32(budget.Milliseconds()),
			Function: d.Running(),
		}
		d.Reset(rpctest.AppendRecord(nil, &r))
		return rpctest.Nothing(), nil
	}
	return d
}

func callOnce(ctx context.Context, t *testing.T, s *rpc.Session, name string) error {
	m := valueOf[rpc.Module](t)(s.SystemLib(ctx))
	_, err := valueOf[rpc.Function](t)(m.Function(ctx, name)).Call(ctx)
	return err
}

func TestBudgetIsSentAgainAfterReset(t *testing.T) {
	ctx := testkit.Context(t)
	var budgets []int64
	s := opened(t, budgeted(&budgets), rpc.Options{})
	must(t, s.SetBudget(ctx, 19*time.Millisecond+1))
	err := callOnce(ctx, t, s, "bad")
	wantError(t, err, failure.Timeout, "timeout in bad: still running after its time budget of 20ms")
	_ = callOnce(ctx, t, s, "fail") // after the reset the budget is sent again
	_ = callOnce(ctx, t, s, "fail")
	must(t, s.SetBudget(ctx, 1<<62))
	_ = callOnce(ctx, t, s, "fail")
	if want := []int64{20, 20, 1<<31 - 1}; !reflect.DeepEqual(budgets, want) {
		t.Errorf("the device got the budgets %v, want %v", budgets, want)
	}
}

// TestOverwrittenBudget: a time-out with another budget than the call had is corrupted memory, no time-out.
func TestOverwrittenBudget(t *testing.T) {
	for code, class := range map[uint32]failure.Class{20: failure.Timeout, 0x3fc00000: failure.Fault, 0: failure.Fault} {
		var budgets []int64
		d := faulty(&fault.Record{Reason: fault.ReasonTimeout, WordBytes: 4, Code: code})
		d.Globals["boardsmith.budget"] = budgeted(&budgets).Globals["boardsmith.budget"]
		s, ctx := opened(t, d, rpc.Options{}), testkit.Context(t)
		must(t, s.SetBudget(ctx, 20*time.Millisecond))
		err := callOnce(ctx, t, s, "bad")
		if failure.Of(err) != class || (class == failure.Fault) != strings.Contains(err.Error(),
			"fault in bad: failed check: corrupted memory: a call with a time budget of 20ms ended as one of ") {
			t.Errorf("a budget of %d: class %q, %v", code, failure.Of(err), err)
		}
	}
}

// TestEndlessCallEndsBeforeDeadline checks that the device stops an endless call before its context ends, and that the
// session continues.
func TestEndlessCallEndsBeforeDeadline(t *testing.T) {
	var budgets []int64
	s := opened(t, budgeted(&budgets), rpc.Options{})
	err := callOnce(within(t, 1500*time.Millisecond), t, s, "endless")
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || faultErr.Record.Reason != fault.ReasonTimeout || faultErr.Function != "endless" {
		t.Fatalf("got %v", err)
	}
	wantError(t, callOnce(testkit.Context(t), t, s, "fail"), failure.Fault)
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
			t.Run(fmt.Sprintf("%s of %v", name, c.limit), func(t *testing.T) {
				ctx := context.Background()
				if name == "context" {
					ctx = within(t, c.limit)
				}
				var budgets []int64
				s := opened(t, budgeted(&budgets), o)
				_ = callOnce(ctx, t, s, "fail")
				if len(budgets) != 1 {
					t.Fatalf("the device received %v", budgets)
				}
				if got := time.Duration(budgets[0]) * time.Millisecond; got < c.least || got > c.most {
					t.Errorf("budget %v", got)
				}
			})
		}
	}
}

// TestBudgetIsSentOncePerDeadline: calls with similar deadlines take one request each; another deadline takes one more,
// once.
func TestBudgetIsSentOncePerDeadline(t *testing.T) {
	var budgets []int64
	d := budgeted(&budgets)
	s := opened(t, d, rpc.Options{})
	setup := within(t, time.Hour)
	f := valueOf[rpc.Function](t)(s.Function(setup, "fail"))
	for _, limit := range []time.Duration{time.Hour, 10 * time.Minute, time.Hour} {
		for range 50 {
			_, _ = f.Call(within(t, limit))
		}
	}
	if len(budgets) != 3 {
		t.Errorf("the device got the budgets %v", budgets)
	}
	must(t, s.Close(setup))
	if want := 1 + 1 + 3 + 150; len(d.Requests) != want { // two functions looked up
		t.Errorf("%d requests, want %d", len(d.Requests), want)
	}
}

// TestOwnFunctionsNeedLittle: a request of the firmware's own functions keeps the budget of an earlier call, unless
// that is short: then it has the time of its own context.
func TestOwnFunctionsNeedLittle(t *testing.T) {
	var budgets []int64
	s := opened(t, budgeted(&budgets), rpc.Options{})
	ctx := within(t, time.Hour)
	f := valueOf[rpc.Function](t)(s.Function(ctx, "fail"))
	for limit, sent := range map[time.Duration]int{10 * time.Second: 1, time.Second: 2} {
		budgets = nil
		_, _ = f.Call(within(t, limit))
		_, _ = valueOf[rpc.Module](t)(s.SystemLib(within(t, limit))).Function(ctx, "negate")
		if len(budgets) != sent || sent == 2 && budgets[1] < 1000*1000 {
			t.Errorf("after a call of %v the device got the budgets %v", limit, budgets)
		}
	}
}

// TestCallsWorkWithoutBudgets checks that a device without budgets gets one request for them, and that calls work.
func TestCallsWorkWithoutBudgets(t *testing.T) {
	d := device()
	s := opened(t, d, rpc.Options{})
	ctx := testkit.Context(t)
	f := global(t, s, "echo")
	for i := range 3 {
		if got, err := f.Call(ctx, i); err != nil || got != int64(i) {
			t.Errorf("got %v, %v", got, err)
		}
	}
	must(t, s.Close(ctx))
	want := []tvmrpc.Code{
		tvmrpc.CodeGetGlobalFunc, tvmrpc.CodeGetGlobalFunc, tvmrpc.CodeCallFunc,
		tvmrpc.CodeCallFunc, tvmrpc.CodeCallFunc,
	}
	if !slices.Equal(d.Requests, want) {
		t.Errorf("requests %v, want %v", d.Requests, want)
	}
}
