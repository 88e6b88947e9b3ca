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
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
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
	{"transport.BenchmarkFrame/4096", "framing random payloads of 4 KiB", "MB/s", 1, "MB/s", 1000, true},
	{"transport.BenchmarkFrame/65536", "framing random payloads of 64 KiB", "MB/s", 1, "MB/s", 1000, true},
	{"transport.BenchmarkFrame/4096", "allocations per message framed", "allocs/op", 1, "", 0, false},
	{"transport.BenchmarkUnframe/4096", "unframing random payloads of 4 KiB", "MB/s", 1, "MB/s", 800, true},
	{"transport.BenchmarkUnframe/65536", "unframing random payloads of 64 KiB", "MB/s", 1, "MB/s", 800, true},
	{"transport.BenchmarkUnframe/4096", "allocations per message unframed", "allocs/op", 1, "", 0, false},
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

// allGoals are those that can be measured here.
func allGoals() []goal {
	if os.Getenv(zephyrBase) == "" {
		return goals
	}
	return slices.Concat(goals, zephyrGoals)
}

// benchPackages hold the benchmarks of goals.
var benchPackages = []string{
	"github.com/boardsmith/boardsmith/transport",
	"github.com/boardsmith/boardsmith/project",
	"github.com/boardsmith/boardsmith/serve",
	"github.com/boardsmith/boardsmith/targets",
	"github.com/boardsmith/boardsmith/tune",
}

func (r *repository) bench(ctx context.Context) error {
	speed, err := r.measure(ctx)
	if err != nil {
		return err
	}
	table := r.goalTable(speed)
	r.Printf("%s", strings.TrimRight(table, "\n"))
	if err := r.benchRuntime(ctx); err != nil {
		return err
	}
	if strings.Contains(table, missed) {
		return failure.New(failure.Internal, "measure on an idle machine with at least two cores", "not all targets are met")
	}
	r.JSONLine(jsonlines.Done{})
	return nil
}

const missed = "MISSED"

// benchRuntime prints the C runtime's figures if its tools are installed.
func (r *repository) benchRuntime(ctx context.Context) error {
	figures, missing, err := r.runtimeTable(ctx)
	switch {
	case err != nil:
		return failure.Errorf(failure.Internal, "the runtime's figures: %w", err)
	case missing != "":
		r.Notef("note: the runtime's size and instructions are not measured: %s", missing)
	default:
		r.Printf("\nthe runtime on an emulated Cortex-M3:\n%s", figures)
	}
	return nil
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
	var t tally
	speed := speeds{}
	pkg := ""
	argv := []string{"go", "test", "-run=^$", "-bench=" + benchNames(), "-benchmem", "-count=1", "-p=1"}
	argv = append(argv, benchPackages...)
	err := r.tests(ctx, &t, "benchmarks", argv, nil, func(line string) {
		if p, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = short(p)
		}
		name, values, ok := parseBench(line)
		if !ok {
			fmt.Fprintln(r.Console, line)
			return
		}
		speed[pkg+"."+name] = values
	})
	if err != nil {
		return nil, err
	}
	if t.failed > 0 {
		return nil, failure.Errorf(failure.Internal, "the benchmarks failed")
	}
	return speed, nil
}

// goalTable returns the table of goals.
func (r *repository) goalTable(speed speeds) string {
	var b strings.Builder
	for _, g := range allGoals() {
		b.WriteString(r.goalLine(g, speed))
	}
	return b.String()
}

func (r *repository) goalLine(g goal, speed speeds) string {
	word, compare := "at most", "<="
	if g.atLeast {
		word, compare = "at least", ">="
	}
	value, ok := speed.value(g)
	if !ok {
		return fmt.Sprintf("%-58s not measured            target %s %g %s  %s\n", g.what, word, g.bound, g.shown, missed)
	}
	met := value <= g.bound
	if g.atLeast {
		met = value >= g.bound
	}
	bound := compare + strconv.FormatFloat(g.bound, 'g', -1, 64)
	r.JSONLine(jsonlines.Bench{Name: g.what, Value: value, Unit: g.shown, Bound: bound, Met: met})
	return fmt.Sprintf("%-58s %10.4g %-4s   target %s %g %s  %s\n", g.what, value, g.shown, word, g.bound, g.shown,
		map[bool]string{true: "met", false: missed}[met])
}

// benchNames matches the benchmarks that have a goal.
func benchNames() string {
	var names []string
	seen := map[string]bool{}
	for _, g := range allGoals() {
		_, top, _ := strings.Cut(g.benchmark, ".")
		top, _, _ = strings.Cut(top, "/")
		if !seen[top] {
			seen[top] = true
			names = append(names, top)
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

var benchRE = regexp.MustCompile(`^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// parseBench reads a line like "BenchmarkFrame-2  100  12 ns/op  1200 MB/s".
func parseBench(line string) (name string, values map[string]float64, ok bool) {
	m := benchRE.FindStringSubmatch(line)
	if m == nil {
		return "", nil, false
	}
	words := strings.Fields(m[2])
	values = map[string]float64{}
	for i := 0; i+1 < len(words); i += 2 {
		v, err := strconv.ParseFloat(words[i], 64)
		if err != nil {
			return "", nil, false
		}
		values[words[i+1]] = v
	}
	return m[1], values, true
}
