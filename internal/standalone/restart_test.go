// This file tests what a session does about a device that restarts, is slow, or is asked for too much.

package standalone

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
)

func identified(ctx context.Context, s *Session) error { _, err := s.Identify(ctx, 1); return err }

// TestRepeatedRestartIsReportedOnce has the device restart at each request from a run on, with and without a record, at
// the first one only, and while it is asked for its fault record: the call ends, and its error reports a restart once,
// or the fault.
func TestRepeatedRestartIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restarts func(after int, words string) bool // after the run
		sends    string                             // before its first line
		want     string
	}{
		"always":        {func(int, string) bool { return true }, "", "again"},
		"with a record": {func(int, string) bool { return true }, faultLine(), "hardware fault"},
		"twice":         {func(after int, _ string) bool { return after < 2 }, "", "again"},
		"once":          {func(after int, _ string) bool { return after < 1 }, "", "left no record"},
		"after the record": {
			func(after int, words string) bool { return after < 1 || strings.HasPrefix(words, "id ") }, "", "left no record",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				after := -1
				s := talk(t, func(number uint16, words string) string {
					if after >= 0 || strings.HasPrefix(words, "run") {
						if after++; c.restarts(after, words) {
							return c.sends + lineOf('!', 0, "start")
						}
					}
					return honest(number, words)
				}, nil)
				ctx := soon(t)
				must(t, identified(ctx, s))
				began := time.Now()
				_, err := s.Run(ctx, 1)
				if !errors.Is(err, ErrRestarted) || failure.Of(err) != failure.Fault || !strings.Contains(err.Error(), c.want) ||
					strings.Count(err.Error(), "the device restarted") > 1 || time.Since(began) > 2*time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// TestRestartEndsWithContext ends the context of a call whose device restarted and is silent then.
func TestRestartEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := talk(t, func(number uint16, words string) string {
			switch {
			case strings.HasPrefix(words, "run"):
				return lineOf('!', 0, "faulted")
			case strings.HasPrefix(words, "fault"):
				cancel()
				return ""
			}
			return honest(number, words)
		}, nil)
		must(t, identified(ctx, s))
		began := time.Now()
		if _, err := s.Run(ctx, 1); failure.Of(err) != failure.Interrupted || time.Since(began) > time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestRestartBeginsNewSession has the device restart once: what follows belongs to a new session of the firmware.
func TestRestartBeginsNewSession(t *testing.T) {
	t.Parallel()
	session, restarted := "", false
	s := talk(t, func(number uint16, words string) string {
		w := strings.Fields(words)
		switch {
		case w[0] == "id":
			session = w[1]
		case w[0] == "run" && !restarted:
			session, restarted = "", true
			return lineOf('!', 0, "start")
		case session == "" && w[0] != "fault":
			return lineOf('=', number, "no session")
		}
		return honest(number, words)
	}, nil)
	ctx := soon(t)
	must(t, identified(ctx, s))
	first := session
	wantIs(t, last(s.Run(ctx, 1)), ErrRestarted)
	if err := s.SetInput(ctx, 0, []byte{1}); err != nil || session == first {
		t.Errorf("session %s after %s: %v", session, first, err)
	}
}

// TestStartTimeout begins sessions with limits shorter than the wait for one answer.
func TestStartTimeout(t *testing.T) {
	t.Parallel()
	for _, limit := range []time.Duration{time.Nanosecond, 300 * time.Millisecond} {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			host, device := transporttest.Pair()
			asked := make(chan struct{}, 1)
			go firmware(device, func(number uint16, words string) string {
				asked <- struct{}{}
				return honest(number, words)
			})
			t.Cleanup(func() { device.Close() })
			s := New(host, Options{StartTimeout: limit})
			t.Cleanup(func() { s.Close() })
			_, err := s.Identify(soon(t), 1)
			if limit > time.Millisecond && err != nil {
				t.Error(err)
			}
			select {
			case <-asked:
			case <-time.After(5 * time.Second):
				t.Error("no request was sent")
			}
		})
	}
}

// TestRunCountIsLimited refuses numbers of runs that a request cannot have.
func TestRunCountIsLimited(t *testing.T) {
	t.Parallel()
	s := talk(t, honest, nil)
	counts := []int{-1, math.MinInt}
	if strconv.IntSize > 32 {
		counts = append(counts, math.MaxInt)
	}
	for _, times := range counts {
		wantError(t, last(s.Run(soon(t), times)), failure.Config)
	}
}

// TestPossibleRunIsNotRepeated has the firmware lose a run, and read the first request for another one damaged: only a
// request that cannot be running is sent again, as a new one, with less time.
func TestPossibleRunIsNotRepeated(t *testing.T) {
	t.Parallel()
	lost, runs := true, []string{}
	var numbers []uint16
	s := talk(t, func(number uint16, words string) string {
		if !strings.HasPrefix(words, "run") {
			return honest(number, words)
		}
		runs, numbers = append(runs, words), append(numbers, number)
		switch {
		case lost:
			return ""
		case len(runs) == 1:
			time.Sleep(20 * time.Millisecond)
			return lineOf('=', 0, "no damaged")
		}
		return honest(number, words)
	}, nil)
	must(t, identified(soon(t), s))
	wantError(t, last(s.Run(testkit.Within(t, 100*time.Millisecond), 1)), failure.Timeout)
	if _, err := s.Model(soon(t)); err != nil || len(runs) != 1 { // its answer is after the run's
		t.Errorf("the run was sent %d times: %v", len(runs), err)
	}
	lost, runs, numbers = false, nil, nil
	wantResult(t, 100*time.Millisecond)(s.Run(soon(t), 1))
	if len(runs) != 2 || runs[1] >= runs[0] || numbers[0] == numbers[1] {
		t.Errorf("requests %v with %q", numbers, runs)
	}
}
