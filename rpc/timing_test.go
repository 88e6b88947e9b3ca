package rpc_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

func TestTimeReturnsMeans(t *testing.T) {
	ctx := testkit.Context(t)
	calls := 0
	d := device()
	d.Module["count"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		calls++
		return rpctest.Nothing(), nil
	}
	s := open(t, d, nil)
	m := library(t, s)
	got := valueOf[[]float64](t)(m.Time(ctx, "count", rpc.TimeOptions{Number: 3, Repeat: 4}))
	if want := []float64{1e-6, 2e-6, 3e-6, 4e-6}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if calls != 13 {
		t.Errorf("%d calls", calls)
	}
	if got := valueOf[[]float64](t)(m.Time(ctx, "count", rpc.TimeOptions{})); len(got) != 1 || calls != 13+11 {
		t.Errorf("by default: %v, %d calls", got, calls)
	}
	var e *rpc.DeviceError
	if _, err := m.Time(ctx, "absent", rpc.TimeOptions{}); !errors.As(err, &e) {
		t.Errorf("an unknown function: %v", err)
	}
	if _, err := m.Time(ctx, "fail", rpc.TimeOptions{}); !errors.As(err, &e) || e.Message != "boom" {
		t.Errorf("a failing function: %v", err)
	}
	_, err := m.Time(ctx, "count", rpc.TimeOptions{Repeat: -1})
	wantError(t, err, failure.Config)
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
	if got, err := opened(t, d, rpc.Options{}).TimedInterrupts(ctx); got != nil || err != nil {
		t.Errorf("of a device without that function: %v, %v", got, err)
	}
	var answer []tvmrpc.Value
	var fails error
	d.Globals["boardsmith.timed_interrupts"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		return answer, fails
	}
	d.Module["idle"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) { return rpctest.Nothing(), nil }
	s := opened(t, d, rpc.Options{})
	valueOf[[]float64](t)(library(t, s).Time(ctx, "idle", rpc.TimeOptions{Repeat: 66}))
	counts := make([]byte, 64)
	want := make([]int, 66)
	for i := range want {
		counts[min(i, 63)] = byte(min(i, 63))
		want[i] = min(i, 63)
	}
	answer = rpctest.Result(tvmrpc.Raw(counts))
	if got, err := s.TimedInterrupts(ctx); !slices.Equal(got, want) || err != nil {
		t.Errorf("after 66 samples: %v, %v", got, err)
	}
	answer = rpctest.Nothing()
	if got, err := s.TimedInterrupts(ctx); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
	var e *rpc.DeviceError
	fails = errors.New("no counter")
	if _, err := s.TimedInterrupts(ctx); !errors.As(err, &e) {
		t.Errorf("a failing device: %v", err)
	}
}
