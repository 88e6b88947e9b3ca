// This file measures speed and compares it with the targets.

package develop

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// A goal is a figure of one benchmark and its promised bound.
type goal struct {
	benchmark string // its package, and its name in the output of go test without the number of processors
	what      string
	unit      string // unit of the benchmark's figure in the output of go test
	scale     float64
	shown     string  // the unit in the table: the figure times scale
	bound     float64 // in the shown unit
	atLeast   bool    // else at most
}

// goals are boardsmith's speed goals, on two cores.
var goals = []goal{
	{"internal/framing.BenchmarkFrame/4096", "framing random payloads of 4 KiB", "MB/s", 1, "MB/s", 1000, true},
	{"internal/framing.BenchmarkFrame/65536", "framing random payloads of 64 KiB", "MB/s", 1, "MB/s", 1000, true},
	{"internal/framing.BenchmarkFrame/4096", "allocations per message framed", "allocs/op", 1, "", 0, false},
	{"internal/framing.BenchmarkUnframe/4096", "unframing random payloads of 4 KiB", "MB/s", 1, "MB/s", 800, true},
	{"internal/framing.BenchmarkUnframe/65536", "unframing random payloads of 64 KiB", "MB/s", 1, "MB/s", 800, true},
	{"internal/framing.BenchmarkUnframe/4096", "allocations per message unframed", "allocs/op", 1, "", 0, false},
	{"targets.BenchmarkEmptyCall", "empty remote call over the pipe, median", "median-µs", 1, "µs", 40, false},
	{
		"project.BenchmarkArchiveToSession/model=digits/runtime=compiled",
		"archive to open session, nothing cached", "ns/op", 1e-9, "s", 1.2, false,
	},
	{
		"project.BenchmarkArchiveToSession/model=operator/runtime=cached",
		"the same for an operator, runtime built before", "ns/op", 1e-9, "s", 0.25, false,
	},
	{
		"targets.BenchmarkNothingToDo",
		"mage build flash with nothing to do, without mage's start", "ns/op", 1e-9, "s", 0.3, false,
	},
	{"tune.BenchmarkCandidates/host", "candidates to verified times, host", "candidates/min", 1, "a minute", 1200, true},
	{"tune.BenchmarkCandidates/host", "of what the compiler allows", "%bound", 1, "%", 50, true},
	{
		"tune.BenchmarkCandidates/mps2_an385",
		"candidates to verified times, mps2_an385", "candidates/min", 1, "a minute", 600, true,
	},
	{"serve.BenchmarkCandidate", "session of TVM's runner, board simulated", "ns/op", 1e-6, "ms", 2, false},
}

// zephyrBase is Zephyr's own variable, not an input of the targets.
const zephyrBase = "ZEPHYR_BASE"

// zephyrGoals are those with the Zephyr that it names.
var zephyrGoals = []goal{
	{"project.BenchmarkZephyr/from=nothing", "Zephyr image, nothing built before", "ns/op", 1e-9, "s", 5.5, false},
	{"project.BenchmarkZephyr/from=operator", "Zephyr image after an operator changed", "ns/op", 1e-9, "s", 0.8, false},
	{"project.BenchmarkZephyr/from=image", "Zephyr image without a change", "ns/op", 1e-9, "s", 0.5, false},
	{"project.BenchmarkZephyr/candidate=new", "Zephyr, new operator to its first call", "ns/op", 1e-9, "s", 1.5, false},
}

func (r *repository) bench(ctx context.Context) error {
	allMet, err := r.measureGoals(ctx)
	if err != nil {
		return err
	}
	if err := r.runChecks(ctx, runtimeFigures); err != nil {
		return err
	}
	if !allMet || len(r.failures) > 0 {
		return failure.New(failure.Internal, "measure on an idle machine with at least two cores", "not all targets are met")
	}
	r.JSONLine(jsonlines.Done{})
	return nil
}

// measureGoals measures, and prints a line for each goal.
func (r *repository) measureGoals(ctx context.Context) (allMet bool, err error) {
	speed, err := r.measure(ctx)
	if err != nil {
		return false, err
	}

	allMet = true
	for _, g := range allGoals() {
		word, compare := "at most", "<="
		if g.atLeast {
			word, compare = "at least", ">="
		}
		value, measured := speed.value(g)
		met := measured && (value == g.bound || (value > g.bound) == g.atLeast)
		allMet = allMet && met
		r.Printf("%-58s %10.4g %-4s   target %s %g %s  %s", g.what, value, g.shown, word, g.bound, g.shown,
			map[bool]string{true: "met", false: "MISSED"}[met])
		bound := compare + strconv.FormatFloat(g.bound, 'g', -1, 64)
		r.JSONLine(jsonlines.Bench{Name: g.what, Value: value, Unit: g.shown, Bound: bound, Met: met})
	}
	return allMet, nil
}

// allGoals are those that can be measured here.
func allGoals() []goal {
	if os.Getenv(zephyrBase) == "" {
		return goals
	}
	return slices.Concat(goals, zephyrGoals)
}

// speeds are the figures of benchmarks, by the name in goals and by unit.
type speeds map[string]map[string]float64

// value returns a goal's figure in the unit that is shown.
func (s speeds) value(g goal) (value float64, measured bool) {
	raw, measured := s[g.benchmark][g.unit]
	return raw * g.scale, measured
}

// measure runs the benchmarks of goals.
func (r *repository) measure(ctx context.Context) (speeds, error) {
	var names, packages []string
	for _, g := range allGoals() {
		pkg, name, _ := strings.Cut(g.benchmark, ".")
		name, _, _ = strings.Cut(name, "/")
		names, packages = append(names, name), append(packages, "./"+pkg)
	}
	run := check{name: "benchmarks", argv: slices.Concat([]string{
		"go", "test", "-run=^$", "-bench=^(" + strings.Join(names, "|") + ")$", "-benchmem", "-count=1", "-p=1",
	}, packages)}

	speed := speeds{}
	pkg := ""
	printed, err := r.runCheck(ctx, run, func(line string) {
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = short(p)
		}
		if name, values, ok := parseBench(line); ok {
			speed[pkg+"."+name] = values
		} else {
			fmt.Fprintln(r.Console, line)
		}
	})
	if err != nil {
		return nil, failure.Errorf(failure.Internal, "%s: %w\n%s", run.typed(), err, printed)
	}
	return speed, nil
}

// parseBench reads a line like "BenchmarkFrame-2  100  12 ns/op  1200 MB/s".
func parseBench(line string) (name string, values map[string]float64, ok bool) {
	words := strings.Fields(line)
	if len(words) < 4 || !strings.HasPrefix(line, "Benchmark") {
		return "", nil, false
	}
	values = map[string]float64{}
	for pair := range slices.Chunk(words[2:], 2) {
		v, err := strconv.ParseFloat(pair[0], 64)
		if err != nil || len(pair) < 2 {
			return "", nil, false
		}
		values[pair[1]] = v
	}
	return processorsRE.ReplaceAllString(words[0], ""), values, true
}

// processorsRE matches the number of processors at the end of a benchmark's name.
var processorsRE = regexp.MustCompile(`-\d+$`)
