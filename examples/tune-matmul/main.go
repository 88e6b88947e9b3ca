// Tune-matmul finds a fast configuration of a matrix multiplication in C, on two emulated boards at once.
//
// It shows what a tuning loop of your own takes: knobs, a proposer, and package tune, which compiles each candidate,
// loads it into the RAM of a free board, compares its output and times it. Run it with
//
//	go run ./examples/tune-matmul
//
// Where the knobs of a kernel can be listed in a file, no program is needed:
//
//	SPACE=examples/tune-matmul/kernel/matmul.json BOARD=mps2_an385,mps2_an385 go tool mage tune
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/tune"
)

//go:embed kernel/matmul.c
var source []byte

// A config is a choice for each knob of kernel/matmul.c.
type config struct {
	rows, columns, depth int
	flags                string // of the compiler
}

// The values of the knobs. All sizes divide 48.
var (
	sizes = []int{1, 2, 3, 4, 6, 8}
	flags = []string{"-Os", "-O2", "-O3"}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "tune-matmul-") // name a folder to keep the results, and to go on after Ctrl-C
	if err == nil {
		_, err = search(ctx, os.Stdout, dir, []string{"mps2_an385", "mps2_an385"})
		os.RemoveAll(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// search measures a configuration and its neighbours, goes on from the fastest of them, and ends where no neighbour is
// faster. It returns the times of the configuration that it began with and of the fastest one, in seconds.
func search(ctx context.Context, w io.Writer, dir string, boards []string) (times [2]float64, err error) {
	run, err := tune.OpenRun(ctx, dir, &device.Desk{}, boards, tune.Options{Samples: 1})
	if err != nil {
		return times, err
	}
	defer func() {
		if closed := run.Close(); err == nil {
			err = closed
		}
	}()
	args := arguments()
	best := config{rows: 1, columns: 1, depth: 1, flags: "-Os"}
	r, err := run.Measure(ctx, candidate(best, args))
	if err != nil {
		return times, err
	}
	if r.Failure != nil {
		return times, fmt.Errorf("%s: %s", r.ID, r.Failure.Message)
	}
	times = [2]float64{r.Time.Median, r.Time.Median}
	for improved := true; improved; {
		improved = false
		around := map[string]config{}
		var candidates []tune.Candidate
		for _, c := range neighbours(best) {
			candidates = append(candidates, candidate(c, args))
			around[candidates[len(candidates)-1].ID] = c
		}
		// Each board takes the next candidate as soon as it is free. What was measured before costs nothing.
		for r, err := range run.All(ctx, slices.Values(candidates)) {
			if err != nil {
				return times, err // no board is left, or ctx has ended
			}
			if r.Failure != nil { // of this candidate: the others go on
				fmt.Fprintf(w, "%s: %s: %s\n", r.ID, r.Failure.Class, r.Failure.Message)
				continue
			}
			if r.Time.Median < times[1] {
				best, times[1], improved = around[r.ID], r.Time.Median, true
			}
		}
		all, err := run.Results()
		if err != nil {
			return times, err
		}
		fmt.Fprintf(w, "%d measured, best %+v: %.0f µs\n", len(all), best, times[1]*1e6)
	}
	return times, nil
}

// neighbours returns the configurations that differ from c in one knob.
func neighbours(c config) (all []config) {
	for _, n := range sizes {
		for _, other := range []config{
			{n, c.columns, c.depth, c.flags}, {c.rows, n, c.depth, c.flags}, {c.rows, c.columns, n, c.flags},
		} {
			if other != c {
				all = append(all, other)
			}
		}
	}
	for _, f := range flags {
		if f != c.flags {
			all = append(all, config{c.rows, c.columns, c.depth, f})
		}
	}
	return all
}

// candidate returns what to compile and to call. Its ID names the configuration in the run's results.
func candidate(c config, args []tune.Arg) tune.Candidate {
	id := fmt.Sprintf("%dx%dx%d %s", c.rows, c.columns, c.depth, c.flags)
	t := tune.Func(id, "matmul", []mlf.File{{Name: "matmul.c", Data: source}}, args...)
	t.Operators.Flags = []string{
		fmt.Sprintf("-DROWS=%d", c.rows), fmt.Sprintf("-DCOLUMNS=%d", c.columns), fmt.Sprintf("-DDEPTH=%d", c.depth),
		c.flags,
	}
	return t
}

// arguments returns two matrices, and the product that is expected.
func arguments() []tune.Arg {
	const size = 48
	var a, b [size * size]int8
	var c [size * size]int32
	for i := range a {
		a[i], b[i] = int8(7*i), int8(13*i+5)
	}
	for i := range size {
		for j := range size {
			for k := range size {
				c[i*size+j] += int32(a[i*size+k]) * int32(b[k*size+j])
			}
		}
	}
	return []tune.Arg{
		tune.ArgOf(a[:], size, size), tune.ArgOf(b[:], size, size), tune.ArgOf(c[:], size, size).Expected(),
	}
}
