//go:build linux

package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/space"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// kernel is out[i] = 2 * in[i] in a loop with knobs: STRIDE > 8 computes something else.
const kernel = `#include <stdint.h>
static void twice(const int32_t* in, int8_t factor, int32_t out[2][32]) {
  for (int s = 0; s < STRIDE; s++) {
    for (int i = s; i < 64; i += STRIDE) {
      out[i / 32][i % 32] = factor * in[i] + (STRIDE > 8);
    }
  }
  for (volatile int i = 0; i < IDLE; i++) {
  }
}
`

// kernelSpace writes the kernel with a file of its space, in which the outputs that are wanted are given.
func kernelSpace(t *testing.T) *space.Space {
	t.Helper()
	dir := t.TempDir()
	int32s := ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}
	arrays := map[string]int32{"in.npz": 1, "want.npz": 2}
	for name, factor := range arrays {
		a, err := ndarray.New(int32s, 64)
		must(t, err)
		for i := range 64 {
			a.Data[4*i] = byte(int32(i) * factor)
		}
		must(t, ndarray.WriteNPZ(dir+"/"+name, []ndarray.Named{{Name: "a", Array: a}}))
	}
	writeFile(t, dir+"/twice.c", kernel)
	writeFile(t, dir+"/twice.json", `{
  "kernel": ["twice.c"], "function": "twice",
  "args": [
    {"dtype": "int32", "shape": [64], "data": {"file": "in.npz", "array": "a"}},
    {"dtype": "int8", "value": 2},
    {"dtype": "int32", "shape": [64], "want": {"file": "want.npz", "array": "a"}}
  ],
  "knobs": [
    {"name": "STRIDE", "range": {"from": 1, "to": 16, "powers_of_two": true}},
    {"name": "IDLE", "range": {"from": 0, "to": 90, "step": 10}},
    {"name": "opt", "flags": [["-O1"], ["-O2"]]}
  ]
}`)
	s, err := space.Read(dir + "/twice.json")
	must(t, err)
	return s
}

// searched returns the trials of a search on some boards, and the seconds that each one's result took.
func searched(t *testing.T, dir string, places []string, s *space.Space, p space.Proposer, n int) []Trial {
	t.Helper()
	run, err := tune.OpenRun(t.Context(), dir, &device.Desk{}, places, tune.Options{Samples: 1})
	must(t, err)
	defer func() { must(t, run.Close()) }()
	var trials []Trial
	for trial, err := range Measure(t.Context(), run, s, p, n) {
		must(t, err)
		trials = append(trials, trial)
	}
	return trials
}

// TestMeasure searches with one emulated board and with two: the proposals and the times are the same, the search
// finds the loop that does not idle, and what computes something else is not taken for fast.
func TestMeasure(t *testing.T) {
	testkit.Need(t, "arm-none-eabi-gcc", "qemu-system-arm")
	s := kernelSpace(t)
	const n = 40
	dir := t.TempDir()
	one := searched(t, dir, []string{"mps2_an385"}, s, s.Evolve(3), n)
	two := searched(t, t.TempDir(), []string{"mps2_an385", "mps2_an385"}, s, s.Evolve(3), n)
	if len(one) != n || len(two) != n {
		t.Fatalf("%d and %d trials, want %d", len(one), len(two), n)
	}
	best := one[0]
	for i := range one {
		a, b := one[i].Result, two[i].Result
		if one[i].Config != two[i].Config || (a.Time == nil) != (b.Time == nil) ||
			a.Time != nil && a.Time.Median != b.Time.Median {
			t.Fatalf("trial %d: %v %v with one board, %v %v with two", i, one[i].Config, a.Time, two[i].Config, b.Time)
		}
		if !strings.HasPrefix(a.ID, "STRIDE=") || !strings.HasSuffix(a.ID, one[i].Config.ID()) {
			t.Errorf("%v has the ID %s", one[i].Config, a.ID)
		}
		stride := one[i].Config.Indices()[0]
		switch {
		case stride == 4 && (a.Failure == nil || a.Failure.Class != failure.WrongAnswer):
			t.Errorf("%v computes something else: %+v", one[i].Config, a.Failure)
		case stride < 4 && a.Time == nil:
			t.Errorf("%v: %+v", one[i].Config, a.Failure)
		case a.Time != nil && (best.Result.Time == nil || a.Time.Median < best.Result.Time.Median):
			best = one[i]
		}
	}
	testkit.Equal(t, "IDLE of the fastest", best.Config.Indices()[1], 0)
	again := searched(t, dir, []string{"mps2_an385"}, s, s.Evolve(3), n)
	for i := range again {
		if !again[i].Result.Finished.Equal(one[i].Result.Finished) {
			t.Errorf("trial %d was measured again: %v", i, again[i].Config)
		}
	}
}

// TestWholeSpace measures a grid that has fewer configurations than trials, each once.
func TestWholeSpace(t *testing.T) {
	s := kernelSpace(t)
	seen := map[space.Config]bool{}
	for _, trial := range searched(t, t.TempDir(), []string{"host"}, s, s.Grid(), 1000) {
		if seen[trial.Config] {
			t.Errorf("%v was measured twice", trial.Config)
		}
		seen[trial.Config] = true
	}
	testkit.Equal(t, "configurations", len(seen), 100)
}

func TestFlagList(t *testing.T) {
	for _, c := range []struct{ list, flag, want string }{
		{"", "-O3", "-O3"},
		{"-O3", "-Os", "-Os"},
		{"-O3,-fno-gcse", "-fgcse", "-O3,-fgcse"},
		{"-fira-region=all", "-fira-region=one", "-fira-region=one"},
		{"--param=a=1,--param=b=1", "--param=a=2", "--param=a=2,--param=b=1"},
		{"-O3,-fweb", "-fweb", "-O3"},
		{"-O3", "lib1.c:-Os", "-O3,lib1.c:-Os"},
		{"-O3,lib1.c:-Os", "lib1.c:-O1", "-O3,lib1.c:-O1"},
	} {
		testkit.Equal(t, c, listOf(c.list).with(c.flag).String(), c.want)
	}
	for _, c := range choices {
		if _, err := boards.ParseOptions([]string{"operator_flags=" + c}); err != nil {
			t.Error(err)
		}
	}
}

// digits is the bundled sample on an emulated board.
func digits(t *testing.T) Network {
	t.Helper()
	const sample = "../../examples/samples/digits_i8"
	return Network{
		Spec:   project.Spec{Board: "mps2_an386", Model: sample + ".aot_packed.tar"},
		Inputs: mlftest.Read(t, sample+".inputs.npz"), Want: mlftest.Read(t, sample+".outputs.npz"), Trials: 7,
	}
}

// TestFlags makes the sample faster: by the same flags on one emulated board and on two, with right outputs. A project
// with the flags takes that time, and a search that goes on measures only what it began with.
func TestFlags(t *testing.T) {
	testkit.Need(t, "arm-none-eabi-gcc", "qemu-system-arm")
	dir := t.TempDir()
	one, two := tried(t, dir, digits(t), "mps2_an386"), tried(t, t.TempDir(), digits(t), "mps2_an386", "mps2_an386")
	times := func(trials []NetworkTrial) map[string]float64 {
		all := map[string]float64{}
		for _, n := range trials {
			if n.Result.Time == nil {
				t.Errorf("%s: %+v", n.Flags, n.Result.Failure)
				continue
			}
			all[n.Flags] = n.seconds()
		}
		return all
	}
	testkit.Equal(t, "trials", len(times(one)), 7)
	testkit.Equal(t, "times on two boards", times(two), times(one))
	front := Front(one)
	if best := front[0]; best.seconds() > 0.7*one[0].seconds() || best.Flash <= one[0].Flash/2 || best.RAM <= 0 {
		t.Errorf("untuned %+v, best %+v", one[0], best)
	}
	for i := 1; i < len(front); i++ {
		if front[i].seconds() < front[i-1].seconds() || front[i].Flash >= front[i-1].Flash {
			t.Errorf("the front has %+v after %+v", front[i], front[i-1])
		}
	}

	var finished []string
	n := digits(t)
	n.OnEvent = func(e tune.Event) { finished = append(finished, e.Text) }
	again := tried(t, dir, n, "mps2_an386")
	if len(finished) != 0 || len(again) != 7 {
		t.Errorf("a search that was finished measured %v, and has %d trials", finished, len(again))
	}

	n.Spec.Options.OperatorFlags, n.Trials = front[0].Flags, 1
	best := tried(t, t.TempDir(), n, "mps2_an386")
	if best[0].seconds() != front[0].seconds() || best[0].Flash != front[0].Flash {
		t.Errorf("%s: %v s, then %v s", front[0].Flags, front[0].seconds(), best[0].seconds())
	}
	n.Spec.Options.RuntimeOpt = "O2"
	wantError(t, notTried(t, dir, n), failure.Config)
}

// tried returns the trials of a search.
func tried(t *testing.T, dir string, n Network, places ...string) []NetworkTrial {
	t.Helper()
	trials, err := Flags(t.Context(), dir, &device.Desk{}, places, n)
	must(t, err)
	return trials
}

// notTried returns the error of a search.
func notTried(t *testing.T, dir string, n Network) error {
	_, err := Flags(t.Context(), dir, &device.Desk{}, []string{n.Spec.Board}, n)
	return err
}

// TestFlagsOfAnotherCompilerAreRejected: trials of another compiler are not compared with new ones, and Retry measures
// a failure again that is kept.
func TestFlagsOfAnotherCompilerAreRejected(t *testing.T) {
	dir, n := t.TempDir(), digits(t)
	n.Trials = 1
	first := tried(t, dir, n, n.Spec.Board)
	file := dir + "/results.jsonl"
	data := readFile(t, file)
	made := first[0].Result.Toolchain
	if made == "" {
		t.Fatal("the compiler is not in the result")
	}
	writeFile(t, file, string(bytes.Replace(data, []byte(made[:8]), []byte("other-cc"), 1)))
	wantError(t, notTried(t, dir, n), failure.Config, "other-cc", made)
	writeFile(t, file, string(data))
	other := n
	other.Inputs, other.Want = slices.Clone(n.Inputs), nil
	x := *other.Inputs[0].Array
	x.Data = make([]byte, len(x.Data))
	other.Inputs[0].Array = &x
	wantError(t, notTried(t, dir, other), failure.Config, "other inputs")
	s, err := openStore(dir, n.inputsKey())
	must(t, err)
	kept := NetworkTrial{Flags: choices[0], Result: tune.Result{
		ID: choices[0], Tier: tune.Image, Failure: &tune.Failure{Class: failure.Compile, Blame: tune.BlameCandidate},
	}}
	must(t, errors.Join(s.add(kept), s.record.Close()))
	n.Trials = 2
	for _, n.Retry = range []bool{false, true} {
		trials := tried(t, dir, n, n.Spec.Board)
		last := trials[len(trials)-1]
		for _, trial := range trials {
			if trial.Flags == kept.Flags {
				last = trial
			}
		}
		if failed := last.Result.Failure != nil; failed == n.Retry {
			t.Errorf("Retry: %v: %s: %+v", n.Retry, last.Flags, last.Result.Failure)
		}
	}
}

// operatorOf is an operator as a network, with four numbers.
func operatorOf(t *testing.T, source string) Network {
	t.Helper()
	in, err := ndarray.New(ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}, 4)
	must(t, err)
	in.Data[0] = 21
	return Network{
		Spec:   project.Spec{Board: "host", Model: mlftest.Operator(t, source)},
		Inputs: []ndarray.Named{{Name: "arg0", Array: in}},
	}
}

// TestFlagsThatChangeOutputsFail: flags that change outputs are no improvement, and wrong outputs without flags are an
// error.
func TestFlagsThatChangeOutputsFail(t *testing.T) {
	defer func(all []string) { choices = all }(choices)
	choices = []string{"-Os", "-O3"}
	source := strings.Replace(mlftest.TinyOperator, "in[i] * 2;", `in[i] * 2;
#ifdef __OPTIMIZE_SIZE__
    out[i] = 0;
#endif`, 1)
	n := operatorOf(t, source)
	in := n.Inputs[0].Array
	dir := t.TempDir()
	failures := map[string]failure.Class{}
	for _, trial := range tried(t, dir, n, "host") {
		if f := trial.Result.Failure; f != nil {
			failures[trial.Flags] = f.Class
		}
	}
	testkit.Equal(t, "failures", failures, map[string]failure.Class{"-Os": failure.WrongAnswer})
	failed := n
	failed.Spec.Options.OperatorFlags = "-Os"
	wantError(t, notTried(t, dir, failed), failure.Config, "began with other flags")
	n.Want = []ndarray.Named{{Array: in}}
	wantError(t, notTried(t, t.TempDir(), n), failure.WrongAnswer)
	square := *in
	square.Shape = []int64{2, 2}
	for _, n.Want = range [][]ndarray.Named{{{Name: "arg0", Array: in}}, {{Array: &square}}, {{Array: in}, {Array: in}}} {
		wantError(t, notTried(t, t.TempDir(), n), failure.Config)
	}
}

// TestNoCompilerRunsWhileNetworkIsTimed: no compiler runs while one of two processes runs the network.
func TestNoCompilerRunsWhileNetworkIsTimed(t *testing.T) {
	defer func(all []string) { choices = all }(choices)
	choices = []string{"-Os", "-O3", "-O1", "-funroll-loops", "-fno-gcse", "-fno-tree-pre"}
	running, logs := testkit.WatchCompiler(t), t.TempDir()
	disturbed, calls := logs+"/disturbed", logs+"/calls"
	source := `#include <stdio.h>
extern void* opendir(const char* name);
extern void* readdir(void* folder);
extern int closedir(void* folder);
` + strings.Replace(mlftest.TinyOperator, "  return 0;", fmt.Sprintf(`
  FILE* log = fopen("%s", "w");
  fclose(log);
  void* folder = opendir("%s");
  int entries = 0; // an empty folder has two
  while (readdir(folder) != 0) {
    entries++;
  }
  closedir(folder);
  if (entries > 2) {
    log = fopen("%s", "a");
    fprintf(log, "%%d\n", entries);
    fclose(log);
  }
  return 0;`, calls, running, disturbed), 1)
	n := operatorOf(t, source)
	n.Builder = &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	n.Trials = 8
	for _, trial := range tried(t, t.TempDir(), n, "host", "host") {
		if trial.Result.Failure != nil {
			t.Errorf("%s: %+v", trial.Flags, trial.Result.Failure)
		}
	}
	if _, err := os.Stat(calls); err != nil {
		t.Errorf("the network was not called: %v", err)
	}
	if data, err := os.ReadFile(disturbed); !os.IsNotExist(err) {
		t.Errorf("%d calls while a compiler ran, %v", strings.Count(string(data), "\n"), err)
	}
}

// tableRow matches a row of the table in docs/tuning.md: network, flags, instructions, bytes of flash and of RAM.
var tableRow = regexp.MustCompile("(?m)^\\| (\\w+) \\| (?:`([^`]*)`|none) \\| ([0-9]+) \\| ([0-9]+) \\| ([0-9]+) \\|$")

// TestDocumentedNetworkTimes measures each row of the table in docs/tuning.md. Other versions of GCC may differ by 2 %.
func TestDocumentedNetworkTimes(t *testing.T) {
	doc := readFile(t, "../../docs/tuning.md")
	rows := tableRow.FindAllStringSubmatch(string(doc), -1)
	if len(rows) < 8 {
		t.Fatalf("%d rows", len(rows))
	}
	archives := map[string]string{}
	for _, a := range mlftest.Archives(t) {
		archives[mlftest.Name(a)] = a
	}
	if archives["kws.aot_packed"] == "" || !drawn.InFull() {
		t.Skip("BOARDSMITH_ARCHIVES names no mlperf_tiny, or this is not the full test")
	}
	testkit.Need(t, "arm-none-eabi-gcc", "qemu-system-arm")
	for _, row := range rows {
		path := archives[row[1]+".aot_packed"]
		in, out := mlftest.Arrays(path)
		trials := tried(t, t.TempDir(), Network{
			Spec: project.Spec{
				Board: "mps2_an386", Model: path, Options: boards.Options{OperatorFlags: row[2]},
			},
			Inputs: mlftest.Read(t, in), Want: mlftest.Read(t, out), Trials: 1,
		}, "mps2_an386")
		got := []float64{trials[0].seconds() / 16e-9, float64(trials[0].Flash), float64(trials[0].RAM)}
		for i, name := range []string{"instructions", "flash", "RAM"} {
			want, err := strconv.ParseFloat(row[3+i], 64)
			must(t, err)
			if math.Abs(got[i]-want) > 0.02*want {
				t.Errorf("%s with %q: %.0f %s, the table has %.0f", row[1], row[2], got[i], name, want)
			}
		}
	}
}

// TestStoreSurvivesCutLine cuts results.jsonl at each byte of its last line: the whole lines are read, and the next
// one is appended.
func TestStoreSurvivesCutLine(t *testing.T) {
	dir := t.TempDir()
	trial := func(flags string) NetworkTrial {
		return NetworkTrial{Flags: flags, Flash: 3, RAM: 4, Result: tune.Result{
			ID: flags, Tier: tune.Image, Failure: &tune.Failure{Class: failure.Compile},
		}}
	}
	s, err := openStore(dir, "")
	must(t, err)
	_, err = openStore(dir, "")
	wantError(t, err, failure.Config, "in use")
	must(t, s.add(trial("-O1")))
	must(t, s.add(trial("-O2")))
	must(t, s.record.Close())
	name := dir + "/results.jsonl"
	whole := readFile(t, name)
	first := strings.IndexByte(string(whole), '\n') + 1
	for n := first; n < len(whole); n++ {
		writeFile(t, name, string(whole[:n]))
		s, err := openStore(dir, "")
		must(t, err)
		if len(s.earlier) != 1 || s.earlier[0].Flags != "-O1" || s.earlier[0].Flash != 3 || s.earlier[0].RAM != 4 {
			t.Fatalf("cut at %d: %+v", n, s.earlier)
		}
		must(t, s.add(trial("-O3")))
		must(t, s.record.Close())
		results, err := tune.ReadResults(dir)
		must(t, err)
		if len(results) != 2 || results[1].ID != "-O3" {
			t.Fatalf("cut at %d: %+v", n, results)
		}
	}
	line, err := json.Marshal(tune.Result{ID: "x", Tier: tune.RAM, Failure: &tune.Failure{}})
	must(t, err)
	for n := range first {
		writeFile(t, name, string(whole[:n]))
		s, err := openStore(dir, "")
		must(t, err)
		must(t, s.record.Close())
	}
	for _, other := range []string{string(line) + "\n", string(line) + "\n{", "notes", `{"id": 1}`} {
		writeFile(t, name, other)
		_, err = openStore(dir, "")
		wantError(t, err, failure.Config, ":1: not a result")
		testkit.Equal(t, "results.jsonl", string(readFile(t, name)), other)
	}
}

// TestContexts calls what takes a context with one that has ended.
func TestContexts(t *testing.T) {
	s, n := kernelSpace(t), digits(t)
	run, err := tune.OpenRun(t.Context(), t.TempDir(), &device.Desk{}, []string{"host"}, tune.Options{})
	must(t, err)
	defer func() { must(t, run.Close()) }()
	failuretest.Ended(t, failuretest.Calls{
		"Flags": func(ctx context.Context) error {
			_, err := Flags(ctx, t.TempDir(), &device.Desk{}, []string{"host"}, n)
			return err
		},
		"Measure": func(ctx context.Context) (err error) {
			for _, err = range Measure(ctx, run, s, s.Grid(), 3) {
			}
			return err
		},
	})
}

// TestDisturbedTrials: a trial that interrupts disturbed is neither the fastest nor better than another one.
func TestDisturbedTrials(t *testing.T) {
	trial := func(seconds float64, disturbed bool) NetworkTrial {
		return NetworkTrial{Result: tune.Result{Time: &rpc.Stats{Median: seconds}, Disturbed: disturbed}}
	}
	fast, slow := trial(1, true), trial(2, false)
	if front := Front([]NetworkTrial{fast, slow}); len(front) != 1 || front[0].seconds() != 2 || fast.better(slow) {
		t.Errorf("%+v", front)
	}
}
