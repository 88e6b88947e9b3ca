package report

import (
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// hostile is a name that leaves its place in HTML, in SVG and on a terminal, if it is let.
const hostile = "</text></svg><script>document.title='x'</script><img src=http://192.0.2.1/x>\"'\x1b[2J#0072B2\xff"

func platform(hz uint32, states uint8) rpc.Platform {
	reset := rpc.ResetCause(1)
	return rpc.Platform{
		CoreHz: &hz, TicksHz: &hz, WaitStates: &states, Reset: &reset, ChipID: []byte{1, 2},
		Clock: rpc.HostClock,
	}
}

// day is when runs of tests begin.
var day = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)

// timed is a result with samples around a time in seconds.
func timed(id, kind, board string, p rpc.Platform, seconds float64) tune.Result {
	samples := []float64{seconds, 1.01 * seconds, 0.99 * seconds}
	stats := rpc.StatsOf(samples)
	return tune.Result{
		ID: id, Kind: kind, Board: board, Image: "0123456789abcdef", Tier: tune.RAM, Time: &stats, Samples: samples,
		Base: 0x20004000, Bytes: 1200, Platform: p, Build: 40 * time.Millisecond, Wait: 10 * time.Millisecond,
		Load: 30 * time.Millisecond, Run: 120 * time.Millisecond,
	}
}

func failed(id, kind string, class failure.Class, blame tune.Blame, message string) tune.Result {
	return tune.Result{
		ID: id, Kind: kind, Build: 35 * time.Millisecond,
		Failure: &tune.Failure{Class: class, Blame: blame, Message: message},
	}
}

// search is a run of 40 candidates on two boards of a kind, which becomes faster: every seventh fails, one was cut
// short, one has the same bytes as another, and one is of another kind. It was stopped for an hour in the middle.
func search(name string, start float64) Run {
	slow, other := platform(25e6, 0), platform(168e6, 5)
	r := Run{Name: name, Recoveries: map[string]int{"mps2_an385#1": 2}}
	for i := range 40 {
		id := fmt.Sprintf("matmul_%02d", i)
		seconds := start * (1/(1+0.05*float64(i)) + 0.3*float64(i*7%5))
		x := timed(id, "mps2_an385", fmt.Sprintf("mps2_an385#%d", i%2), slow, seconds)
		switch {
		case i%14 == 6:
			x = failed(id, "mps2_an385", failure.Compile, tune.BlameCandidate, "lib1.c:3:1: error: expected ';'\nmore")
		case i%14 == 13:
			x = failed(id, "mps2_an385", failure.Timeout, tune.BlameCandidate, "=1+1 a call took longer than 10 s")
		case i == 20:
			x.Cut, x.Samples = true, x.Samples[:1]
			stats := rpc.StatsOf(x.Samples)
			x.Time = &stats
		case i == 21:
			x.SameAs, x.Load, x.Run = "matmul_19", 0, 0
		case i == 30:
			x = timed(id, "nucleo_f746zg", "nucleo_f746zg#2", other, start/20)
		}
		x.Finished = day.Add(time.Duration(i+1) * 90 * time.Millisecond)
		if i >= 20 {
			x.Finished = x.Finished.Add(time.Hour)
		}
		r.Results = append(r.Results, x)
	}
	return r
}
