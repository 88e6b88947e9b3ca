//go:build linux

package tune_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
)

// results returns the results in a run's folder.
func results(t testing.TB, dir string) []tune.Result {
	t.Helper()
	all, err := tune.ReadResults(dir)
	must(t, err)
	return all
}

// matmuls returns the 32 candidates of one matrix multiplication that TVM generated.
func matmuls(t testing.TB) (all []tune.Candidate) {
	names, err := filepath.Glob(mlftest.Dir(t) + "/candidates/matmul_*.tar.gz")
	must(t, err)
	inputs, outputs := mlftest.Arrays(names[0])
	var args []tune.Arg
	for _, a := range mlftest.Read(t, inputs) {
		args = append(args, tune.Arg{DType: a.Array.DType, Shape: a.Array.Shape, Data: a.Array.Data})
	}
	for _, a := range mlftest.Read(t, outputs) {
		args = append(args, tune.Arg{DType: a.Array.DType, Shape: a.Array.Shape, Want: a.Array.Data})
	}
	for _, name := range names {
		a, _ := mlftest.Open(t, name)
		source := a.Find("codegen/host/src/lib1.c")
		all = append(all, tune.Candidate{
			ID: mlftest.Name(name), Entry: "matmul", Args: args,
			Operators: project.Operators{Files: []mlf.File{{Name: "lib1.c", Data: source.Data}}},
		})
	}
	return all
}

// operator returns a candidate for out[i] = in[i] * 2 of 4 numbers, with the body of its function.
func operator(id, body string) tune.Candidate {
	source := `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
int twice(TVMValue* args, int* codes, int n, TVMValue* out_value, int* out_type, void* resource) {
  int32_t* in = (int32_t*)((DLTensor*)args[0].v_handle)->data;
  int32_t* out = (int32_t*)((DLTensor*)args[1].v_handle)->data;
  ` + body + `
  return 0;
}
`
	int32s := ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}
	return tune.Candidate{
		ID: id, Entry: "twice", Operators: project.Operators{Files: []mlf.File{{
			Name: "twice.c",
			Data: []byte(source),
		}}},
		Args: []tune.Arg{
			{DType: int32s, Shape: []int64{4}, Data: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}},
			{DType: int32s, Shape: []int64{4}, Want: []byte{2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0}},
		},
		Record: []byte(`{"input": ["c", "twice", [], {}], "config": {"index": 0, "code_hash": null, "entity": []}}`),
	}
}

const right = "for (int i = 0; i < 4; i++) out[i] = in[i] * 2;"

// TestEachFailureHasItsClass measures candidates that fail in all ways among good ones. A plain run draws four ways.
func TestEachFailureHasItsClass(t *testing.T) {
	bad := map[string]struct {
		body string
		want failure.Class
	}{
		"no C":           {"this is no C;", failure.Compile},
		"no such symbol": {"extern int nowhere(void); out[0] = nowhere();", failure.Link},
		"too large": {
			"static int32_t large[1 << 20]; large[in[0]] = in[1]; out[0] = large[in[2]];",
			failure.DoesNotFit,
		},
		"wrong":         {"for (int i = 0; i < 4; i++) out[i] = in[i] * 2 + (i == 2);", failure.WrongAnswer},
		"nothing":       {"", failure.WrongAnswer},
		"changes input": {right + " in[0] = 7;", failure.WrongAnswer},
		"refuses":       {`TVMAPISetLastError("I will not"); return -1;`, failure.Fault},
		"crashes":       {"*(volatile int*)0 = 1;" + right, failure.Fault},
		"aborts":        {"extern void TVMPlatformAbort(int); TVMPlatformAbort(5);", failure.Fault},
		"never returns": {"for (;;) out[0]++;", failure.Timeout},
		"stack overflows": {"volatile char deep[1 << 24]; deep[0] = 1; deep[in[0]] = 2; out[0] = deep[1]; for (long i = " +
			"0; i < (1 << 24); i += 64) deep[i] = 1;", failure.Fault},
	}
	onOneOf(t, "failures", []string{"host", "mps2_an385"}, func(t *testing.T, board string) {
		var cs []tune.Candidate
		for _, name := range drawn.Of(t, "bad candidates", slices.Sorted(maps.Keys(bad)), 4) {
			if name == "too large" && board == "host" {
				continue // a process has room for it
			}
			cs = append(cs, operator(name, bad[name].body),
				operator("good after "+name, right+fmt.Sprintf("volatile int k = %d; (void)k;", len(cs))))
		}
		reference := operator("reference", right)
		o := tune.Options{Reference: &reference, CallTimeout: time.Second, Every: 5, Drift: 1000}
		r, dir := opened(t, o, board, board)
		seen := 0
		for _, result := range measureAll(t, r, cs) {
			seen++
			wantFailure(t, result, bad[result.ID].want)
			if result.ID == "crashes" {
				wantFailure(t, result, failure.Fault, "in twice at twice.c:7")
			}
		}
		if kept := len(results(t, dir)); seen != len(cs) || kept != len(cs) {
			t.Errorf("%d results, %d kept, of %d candidates", seen, kept, len(cs))
		}
	})
}

// TestSeededInputIsRestored measures candidates whose input has a seed, after one that changes it.
func TestSeededInputIsRestored(t *testing.T) {
	r, _ := opened(t, tune.Options{}, "mps2_an385")
	for _, c := range []struct {
		id, body string
		seed     uint64
		want     failure.Class
	}{
		{"right", right, 7, ""},
		{"changes", right + " in[0]++;", 7, failure.WrongAnswer},
		{"again", right + " out[0] += 0;", 7, ""},
		{"another seed", right, 8, ""},
		{"no input", right, 0, failure.WrongAnswer},
	} {
		candidate := operator(c.id, c.body)
		in, out := &candidate.Args[0], &candidate.Args[1]
		numbers, err := ndarray.Fill(in.DType, in.Shape, max(c.seed, 1))
		must(t, err)
		in.Data, in.Seed = nil, c.seed
		for i := range numbers.Len() {
			out.Want = binary.LittleEndian.AppendUint32(out.Want[:4*i], uint32(2*numbers.Int(i)))
		}
		wantFailure(t, measured(t, r, candidate), c.want)
	}
}

// TestDisturbedSamplesDoNotCount measures candidates that set all enabled interrupts pending in some calls. The first
// call is the check, the second warms up.
func TestDisturbedSamplesDoNotCount(t *testing.T) {
	r, _ := opened(t, tune.Options{MinSample: time.Microsecond}, "mps2_an385") // one call is enough
	for when, want := range map[string][]int{"0": nil, "calls == 4": {0, 1, 0}, "1": {1, 1, 1}} {
		result := measured(t, r, operator(when, right+"static int calls; calls++; if ("+when+
			") *(volatile uint32_t*)0xE000E200 = *(volatile uint32_t*)0xE000E100;"))
		wantFailure(t, result, "")
		undisturbed := 3
		if when == "calls == 4" {
			undisturbed = 2
		}
		if !slices.Equal(result.Interrupts, want) || result.Disturbed != (when == "1") || result.Time.N != undisturbed {
			t.Errorf("if (%s): %+v, of %d samples, disturbed: %v", when, result.Interrupts, result.Time.N, result.Disturbed)
		}
	}
}

// goods returns n good candidates, no two of the same bytes.
func goods(n int) (all []tune.Candidate) {
	for i := range n {
		all = append(all, operator(fmt.Sprintf("good %d", i), right+fmt.Sprintf("volatile int k = %d; (void)k;", i)))
	}
	return all
}

// TestKilledRunContinues kills the measuring process while it opens the run, and then again and again after more
// results.
func TestKilledRunContinues(t *testing.T) {
	dir := t.TempDir()
	kills := map[string]int{"": 3, "full": 10, "soak": 50}[os.Getenv("BOARDSMITH_TESTS")]
	candidates := 100 + 20*kills
	random := rand.New(rand.NewPCG(3, 4))
	for killed, after := 0, 0; killed <= kills; killed++ {
		if killed == kills {
			after = candidates + 1
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
		cmd.Env = append(os.Environ(), "TUNE_CHILD="+dir, fmt.Sprintf("TUNE_CANDIDATES=%d", candidates),
			fmt.Sprintf("TUNE_KILLED_AFTER=%d", after))
		if out, err := cmd.CombinedOutput(); (err == nil) != (killed == kills) {
			t.Fatalf("after %d kills: %v\n%s", killed, err, out)
		}
		after += 1 + random.IntN(candidates/kills)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(record(t, dir)) {
		var r tune.Result
		must(t, json.Unmarshal([]byte(line), &r))
		if r.ID == "" { // the settings
			continue
		}
		if seen[r.ID] {
			t.Errorf("%s is there twice", r.ID)
		}
		seen[r.ID] = true
		if r.Time == nil {
			t.Errorf("%s: %+v", r.ID, r.Failure)
		}
	}
	testkit.Equal(t, "finished candidates", len(seen), candidates)
}

func TestChild(t *testing.T) {
	dir := os.Getenv("TUNE_CHILD")
	n, err := strconv.Atoi(os.Getenv("TUNE_CANDIDATES"))
	if dir == "" || err != nil {
		t.Skip("it is TestKilledRunContinues's child")
	}
	after, err := strconv.Atoi(os.Getenv("TUNE_KILLED_AFTER"))
	must(t, err)
	die := func() {
		time.Sleep(rand.N(300 * time.Millisecond))
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if after == 0 {
		go die()
	}
	r := openedIn(t, dir, tune.Options{}, "host")
	given := 0
	for _, err := range r.All(t.Context(), slices.Values(goods(n))) {
		must(t, err)
		if given++; given >= after {
			die() // All draws only a few candidates ahead while it waits for this loop
		}
	}
}

// TestSchedulesWriteFlashOnce measures schedules of one matrix multiplication in two runs, in which an emulator counts
// the same instructions. There are 32, of which a plain run takes 8.
func TestSchedulesWriteFlashOnce(t *testing.T) {
	boards := []string{"host", "mps2_an385", "mps2_an500", "qemu_riscv32", "netduinoplus2"}
	onOneOf(t, "matmul", boards, func(t *testing.T, board string) {
		cs := matmuls(t)
		cs = cs[:drawn.Count(8, len(cs))]
		d := desk(t)
		var times [2]map[string][]float64
		for i := range times {
			r, err := tune.OpenRun(t.Context(), t.TempDir(), d, []string{board}, tune.Options{Reference: &cs[0]})
			must(t, err)
			times[i] = map[string][]float64{}
			for _, result := range measureAll(t, r, cs) {
				wantTime(t, result, true)
				times[i][result.ID] = result.Samples
			}
			must(t, r.Close())
		}
		testkit.Equal(t, "times", len(times[0]), len(cs))
		for id := range times[0] {
			if board != "host" && !slices.Equal(times[0][id], times[1][id]) {
				t.Errorf("%s: %v, then %v", id, times[0][id], times[1][id])
			}
		}
		wear, err := d.Wear()
		must(t, err)
		for _, w := range wear {
			testkit.Equal(t, w.Device+": flashes", w.Flashes, 1)
		}
		if (board == "netduinoplus2") != (len(wear) == 1) {
			t.Errorf("%d devices with flash", len(wear))
		}
	})
}

// slowWhile returns a reference that is slow while a file exists.
func slowWhile(file string) tune.Candidate {
	return operator("reference", fmt.Sprintf(
		`extern int access(const char*, int); for (volatile int i = 0; i < 100000 && access("%s", 0) == 0; i++) {} %s`,
		file, right))
}

// TestDriftRemeasuresSinceLastCheck slows the reference down for a while.
func TestDriftRemeasuresSinceLastCheck(t *testing.T) {
	slow := t.TempDir() + "/slow"
	reference := slowWhile(slow)
	recovered := make(chan struct{}, 10)
	r, dir := opened(t, tune.Options{
		Reference: &reference, Every: 5, Drift: 100, MaxRecoveries: 5,
		OnEvent: on("recovering", func(tune.Event) {
			_ = os.Remove(slow) // the next try finds it gone
			recovered <- struct{}{}
		}),
	}, "host")
	cs := goods(20)
	for i, c := range cs {
		if i == 8 { // after the fifth the reference was right
			writeFile(t, slow, "")
		}
		measured(t, r, c)
	}
	select {
	case <-recovered:
	default:
		t.Error("nothing drifted")
	}
	times := map[string]int{}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		clear(times)
		for line := range strings.Lines(record(t, dir)) {
			var result tune.Result
			must(t, json.Unmarshal([]byte(line), &result))
			times[result.ID]++
		}
		if times["good 9"] == 2 || time.Now().After(deadline) {
			break
		}
	}
	must(t, r.Close())
	for i, c := range cs {
		want := 1
		if i >= 5 && i < 10 {
			want = 2
		}
		testkit.Equal(t, c.ID+": measurements", times[c.ID], want)
	}
	testkit.Equal(t, "results", len(results(t, dir)), len(cs))
}

// TestLongestCallTimeoutIsKept opens a run with several call timeouts.
func TestLongestCallTimeoutIsKept(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ limit, kept time.Duration }{
		{2 * time.Second, 2 * time.Second}, {5 * time.Second, 5 * time.Second}, {time.Second, 5 * time.Second},
	} {
		r := openedIn(t, dir, tune.Options{CallTimeout: c.limit, Samples: 3 + i}, "host")
		measured(t, r, operator("one", right))
		must(t, r.Close())
		var settings struct {
			Samples     int           `json:"samples"`
			CallTimeout time.Duration `json:"call_timeout_ns"`
		}
		for line := range strings.Lines(record(t, dir)) {
			must(t, json.Unmarshal([]byte(line), &struct{ Settings any }{&settings}))
		}
		if settings.CallTimeout != c.kept || settings.Samples != 3 {
			t.Errorf("opened with %v: %+v", c.limit, settings)
		}
	}
}

// measured returns the result of a candidate, which a failed measurement has, too.
func measured(t *testing.T, r *tune.Run, c tune.Candidate) tune.Result {
	t.Helper()
	result, err := r.Measure(t.Context(), c)
	must(t, err)
	return result
}
