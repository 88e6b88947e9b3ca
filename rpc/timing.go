// This file times functions on the device's own clock, and computes statistics of the samples.

package rpc

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// TimeOptions configure how to time a function on the device. The zero value is TVM's default: the mean of ten
// calls, once.
type TimeOptions struct {
	Number    int           // calls per measurement; 0 means 10
	Repeat    int           // measurements, each a sample; 0 means 1
	MinRepeat time.Duration // minimum time of a measurement: calls are added until it is reached; whole milliseconds
}

// Check returns an error of class failure.Config for options that no measurement can have.
func (o TimeOptions) Check() error {
	if o.Number < 0 || o.Repeat < 0 || o.MinRepeat < 0 {
		return failure.Errorf(failure.Config, "negative number, repeat or time")
	}
	return nil
}

// Time measures a function of the module with the device's clock. Each sample is the mean of Number calls, in
// seconds per call, after one call that is not counted. Each of them has the whole time budget (Session.SetBudget), and
// the measurement must end within ctx's deadline, else the session's timeout. A device measures one function at a time.
func (m Module) Time(ctx context.Context, fn string, o TimeOptions, args ...any) ([]float64, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("timing %s: %w", fn, err)
	}
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.session.leave()

	samples, err := m.session.time(ctx, m, fn, o, args)
	if err != nil {
		return nil, fmt.Errorf("timing %s: %w", fn, err)
	}
	return samples, nil
}

func (s *Session) time(ctx context.Context, m Module, fn string, o TimeOptions, args []any) ([]float64, error) {
	handle, err := s.lookup(ctx, evaluatorFunction)
	if err != nil {
		return nil, err
	}

	const zeroTimes = 100 // measurements of no time
	repeat := cmp.Or(o.Repeat, 1)
	result, err := s.callFunction(ctx, s.function(handle, evaluatorFunction), []any{ // rpc.md §6: exactly these
		m, fn, tvmrpc.CPU.Type, tvmrpc.CPU.ID, cmp.Or(o.Number, 10), repeat, o.MinRepeat.Milliseconds(), zeroTimes,
		0, 1, 0, "", // cooldown, and what a microcontroller ignores
	})
	if err != nil {
		return nil, err
	}

	evaluator, ok := result.(Function)
	if !ok {
		return nil, s.breakUp(tvmrpc.Errorf("%s returned %T", evaluatorFunction, result))
	}

	s.names[uint32(evaluator.handle)] = fn // a fault belongs to the timed function
	result, err = s.callFunction(ctx, evaluator, args)
	if err != nil {
		return nil, err
	}

	raw, ok := result.([]byte)
	if !ok || len(raw) != 8*repeat {
		return nil, s.breakUp(tvmrpc.Errorf("timing returned %T of %d bytes instead of %d", result, len(raw), 8*repeat))
	}
	s.samples = repeat

	samples := make([]float64, repeat)
	for i := range samples {
		samples[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		// Written so that NaN is refused too.
		if !(samples[i] >= 0) || math.IsInf(samples[i], 1) {
			return nil, failure.New(failure.Fault, "check TVMPlatformTimerStop in the firmware's platform code",
				"the device's timer measured %v s", samples[i])
		}
	}
	return samples, nil
}

// TimedInterrupts returns the number of interrupts that the device processed, besides its tick, during each sample of
// the last Module.Time; 255 stands for more. From the 64th sample on the largest number is that of all. Nil if the
// firmware does not count them: only firmware that takes code into RAM does, on a chip.
func (s *Session) TimedInterrupts(ctx context.Context) ([]int, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	const name = "boardsmith.timed_interrupts"
	handle, err := s.lookup(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	result, err := s.callFunction(ctx, s.function(handle, name), nil)
	if err != nil || result == nil {
		return nil, err
	}

	raw, ok := result.([]byte)
	if !ok || len(raw) != min(s.samples, timedSamples) {
		return nil, tvmrpc.Errorf("%s returned %T of %d bytes after %d samples", name, result, len(raw), s.samples)
	}

	counts := make([]int, s.samples)
	for i := range counts {
		counts[i] = int(raw[min(i, timedSamples-1)])
	}
	return counts, nil
}

// timedSamples is the number of samples for which the device counts interrupts.
const timedSamples = 64

// Stats summarises samples, in their unit.
type Stats struct {
	N            int
	Mean, Median float64
	Min, Max     float64
	StdDev       float64 // standard deviation of the samples; 0 if there is one
	Low, High    float64 // 95 % confidence interval of the mean; equal to Mean if there is one sample
}

// StatsOf summarises samples. The interval is Student's t, which assumes independent, normally distributed samples. If
// no sample is negative, as no time is, the interval does not reach below 0: the mean cannot lie there.
func StatsOf(samples []float64) Stats {
	n := len(samples)
	if n == 0 {
		return Stats{}
	}

	sorted := slices.Sorted(slices.Values(samples))
	st := Stats{N: n, Min: sorted[0], Max: sorted[n-1], Median: (sorted[(n-1)/2] + sorted[n/2]) / 2}
	for _, x := range sorted {
		st.Mean += x / float64(n)
	}

	st.Low, st.High = st.Mean, st.Mean
	if n == 1 {
		return st
	}

	// By n-1, since the deviations are from the samples' own mean.
	for _, x := range sorted {
		st.StdDev += (x - st.Mean) * (x - st.Mean) / float64(n-1)
	}
	st.StdDev = math.Sqrt(st.StdDev)

	half := studentT975(n-1) * st.StdDev / math.Sqrt(float64(n))
	st.Low, st.High = st.Mean-half, st.Mean+half
	if st.Min >= 0 {
		st.Low = max(st.Low, 0)
	}
	return st
}

// studentT975 returns t such that 95 % of Student's t distribution lie between -t and t.
func studentT975(df int) float64 {
	low, high := 1.9, 12.8 // it is 12.706 at one degree of freedom, 1.960 at infinitely many
	// 50 halvings of the interval leave 1e-14.
	for range 50 {
		mid := (low + high) / 2
		if studentWithin(mid, df) < 0.95 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// studentWithin returns the share of Student's t distribution between -t and t (Abramowitz and Stegun, 26.7.3,
// 26.7.4).
func studentWithin(t float64, df int) float64 {
	theta := math.Atan(t / math.Sqrt(float64(df)))
	sin, cos := math.Sincos(theta)

	sum, term, k := 0.0, 1.0, 2
	if df%2 == 1 {
		term, k = cos, 3
	}
	for ; k <= df; k += 2 {
		sum += term
		term *= cos * cos * float64(k-1) / float64(k)
	}

	if df%2 == 1 {
		return 2 / math.Pi * (theta + sin*sum)
	}
	return sin * sum
}
