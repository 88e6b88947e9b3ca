//go:build linux

package tune_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// opened returns a run in a new folder, and the folder.
func opened(t *testing.T, o tune.Options, boards ...string) (*tune.Run, string) {
	t.Helper()
	dir := t.TempDir()
	return openedIn(t, dir, o, boards...), dir
}

// openedIn returns a run in a folder, which is closed with the test at the latest.
func openedIn(t *testing.T, dir string, o tune.Options, boards ...string) *tune.Run {
	t.Helper()
	r, err := tune.OpenRun(t.Context(), dir, desk(t), boards, o)
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

// refused returns the error of a run that cannot be opened.
func refused(t *testing.T, dir string, o tune.Options, boards ...string) error {
	t.Helper()
	r, err := tune.OpenRun(t.Context(), dir, desk(t), boards, o)
	if err == nil {
		must(t, r.Close())
	}
	return err
}

// wantFailure reports a result whose failure is not of a class and the candidate's, or lacks a text. Class "" means a
// time.
func wantFailure(t *testing.T, r tune.Result, class failure.Class, texts ...string) {
	t.Helper()
	f := r.Failure
	if f == nil || class == "" {
		if f != nil || class != "" || r.Time == nil {
			t.Errorf("%s: %v, %+v; want %q", r.ID, r.Time, f, class)
		}
		return
	}
	if f.Class != class || f.Blame != tune.BlameCandidate {
		t.Errorf("%s: %+v, want %s", r.ID, f, class)
	}
	testkit.WantText(t, r.ID+": "+f.Message, texts...)
}

// measureAll measures candidates at once and returns the results as they arrive.
func measureAll(t *testing.T, r *tune.Run, cs []tune.Candidate) (all []tune.Result) {
	t.Helper()
	for result, err := range r.All(testkit.Context(t), slices.Values(cs)) {
		must(t, err)
		all = append(all, result)
	}
	return all
}

// wantTime reports a result that has no time, or is of the other tier.
func wantTime(t *testing.T, r tune.Result, inRAM bool) {
	t.Helper()
	wantFailure(t, r, "")
	if (r.Tier == tune.RAM) != inRAM {
		t.Errorf("%s: %s, %s", r.ID, r.Tier, r.Reason)
	}
}

// confirm confirms the n fastest candidates of each kind of board: all have times in firmware.
func confirm(t *testing.T, r *tune.Run, n int) []tune.Result {
	t.Helper()
	all, err := r.Confirm(t.Context(), n)
	must(t, err)
	if len(all) != n*len(r.Kinds()) {
		t.Fatalf("%d confirmed, want %d of each kind: %+v", len(all), n, all)
	}
	for _, result := range all {
		wantTime(t, result, false)
		testkit.Equal(t, "ID", result.ID, result.Confirms+"@flash")
	}
	return all
}

// onOneOf tests on one of these boards, a full run on more.
func onOneOf(t *testing.T, purpose string, boards []string, test func(t *testing.T, board string)) {
	t.Helper()
	for _, board := range drawn.Of(t, purpose, boards, 1) {
		t.Run(board, func(t *testing.T) { test(t, board) })
	}
}

// on returns what handles events whose texts begin so.
func on(beginning string, handle func(tune.Event)) func(tune.Event) {
	return func(e tune.Event) {
		if strings.HasPrefix(e.Text, beginning) {
			handle(e)
		}
	}
}

// record returns the file of a run's results.
func record(t *testing.T, dir string) string {
	t.Helper()
	return string(readFile(t, dir+"/results.jsonl"))
}

// desk returns a desk with emulated chips of its own, which end with the test.
func desk(t testing.TB) *device.Desk {
	t.Helper()
	keepertest.Use(t)
	d := &device.Desk{Probes: emulated.Probes(), StateDir: t.TempDir(), LeaseDir: t.TempDir()}
	t.Cleanup(func() {
		b, err := boards.Find("netduinoplus2", nil)
		must(t, err)
		_, err = d.StopEmulated(context.Background(), b)
		must(t, err)
	})
	return d
}

// large returns a candidate with a table of so many bytes, which makes it too large for a window of 4 KiB.
func large(id string, bytes int) tune.Candidate {
	return operator(id, fmt.Sprintf("static const signed char table[%d] = {%s}; %s if (table[in[0]] != 2) out[0] = 0;",
		bytes, strings.Repeat("1,", 1)+"2", right))
}

// TestLargeCandidatesShareFirmware measures candidates that do not fit into RAM among others that do.
func TestLargeCandidatesShareFirmware(t *testing.T) {
	names := []string{"host", "mps2_an385", "netduinoplus2", "qemu_riscv32", "qemu_riscv64"}
	onOneOf(t, "flash tier", names, func(t *testing.T, board string) {
		var images []string
		small := tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 4}}}
		small.OnEvent = on("building firmware", func(e tune.Event) { images = append(images, e.Text) })
		r, _ := opened(t, small, board)
		cs := slices.Concat(goods(3), []tune.Candidate{
			large("large a", 5000), large("large b", 6000),
			operator("wrong", "static const char t[5000] = {1}; out[0] = t[in[0]];"),
		})
		for _, result := range measureAll(t, r, cs) {
			fits, reason := strings.HasPrefix(result.ID, "good"), "bytes too many for the window of 4096 bytes; "
			if fits {
				reason = "it fits: "
			}
			testkit.WantText(t, result.Reason, reason)
			if result.ID == "wrong" {
				wantFailure(t, result, failure.WrongAnswer)
			} else {
				wantTime(t, result, fits)
			}
		}
		if len(images) != 1 || !strings.Contains(images[0], "3 candidates") {
			t.Errorf("firmware was built: %q", images)
		}
		// What is much larger than memory is the candidate's fault, and the others of its firmware are measured.
		huge := operator("huge",
			"static volatile char a[1 << 27]; static volatile char b[1 << 27]; static volatile char c[1 << 27]; "+
				"a[in[0]] = b[in[1]] = c[in[2]];")
		for _, result := range measureAll(t, r, []tune.Candidate{huge, large("large c", 7000)}) {
			if (result.Failure == nil) != (result.ID == "large c") {
				t.Errorf("%s: %+v", result.ID, result.Failure)
			}
		}
		small.FlashBatch = -1
		none, _ := opened(t, small, board)
		wantFailure(t, measured(t, none, large("large", 5000)), failure.DoesNotFit)
	})
}

// TestConfirmUsesOneImage confirms several candidates, twice.
func TestConfirmUsesOneImage(t *testing.T) {
	onOneOf(t, "confirm", []string{"host", "netduinoplus2"}, func(t *testing.T, board string) {
		images := 0
		r, dir := opened(t, tune.Options{OnEvent: on("building firmware", func(tune.Event) { images++ })}, board)
		cs := matmuls(t)[:6]
		measureAll(t, r, cs)
		for range 2 { // the second time costs nothing
			confirm(t, r, 4)
			testkit.Equal(t, "images", images, 1)
		}
		all := results(t, dir)
		testkit.Equal(t, "results", len(all), 10)
		_, pairs := tune.Correlation(all, board)
		testkit.Equal(t, "pairs", pairs, 4)
	})
}

// TestFlashArgumentsShareFirmware measures candidates with an input in flash, and one that writes to it.
func TestFlashArgumentsShareFirmware(t *testing.T) {
	onOneOf(t, "flash arguments", []string{"host", "mps2_an385", "netduinoplus2"}, func(t *testing.T, board string) {
		r, _ := opened(t, tune.Options{}, board)
		images := map[string]bool{}
		for i, c := range append(goods(3), operator("writes", right+"*(volatile int32_t*)in = 7;")) {
			if i > 0 {
				c.Args = slices.Clone(c.Args)
				c.Args[0].Flash = true
			}
			result := measured(t, r, c)
			if (result.Failure != nil) != (c.ID == "writes") {
				t.Errorf("%s: %+v", c.ID, result.Failure)
			}
			images[result.Image] = true
		}
		testkit.Equal(t, "images", len(images), 2)
	})
}

// TestCorrelationOfFixedOrder correlates times whose rank correlation is 0.8.
func TestCorrelationOfFixedOrder(t *testing.T) {
	var all []tune.Result
	for i, of := range []float64{1, 2, 3, 4, 5} {
		id := fmt.Sprint(i)
		all = append(all, timedResult(id, "k", 1, of))
		flash := timedResult(id+"@flash", "k", 1, []float64{2, 1, 4, 3, 5}[i])
		flash.Confirms, flash.Tier = id, tune.Image
		all = append(all, flash)
	}
	other := timedResult("1@flash", "other", 1, 7)
	other.Confirms = "1"
	if rho, pairs := tune.Correlation(append(all, other), "k"); pairs != 5 || math.Abs(rho-0.8) > 1e-9 {
		t.Errorf("%v of %d pairs, want 0.8 of 5", rho, pairs)
	}
	if rho, pairs := tune.Correlation(all[:1], "k"); pairs != 0 || rho != 0 {
		t.Errorf("of one result: %v of %d pairs", rho, pairs)
	}
}

// TestSlowCandidateIsCut measures a candidate that is far slower than the best.
func TestSlowCandidateIsCut(t *testing.T) {
	r, _ := opened(t, tune.Options{GiveUp: 10, Samples: 5}, "mps2_an385")
	slow := "for (volatile int i = 0; i < 100000; i++) {} " + right
	for i, c := range []tune.Candidate{
		operator("fast", right), operator("slow", slow),
		operator("fast again", right+"volatile int k = 1; (void)k;"),
	} {
		result := measured(t, r, c)
		if want := i == 1; result.Failure != nil || result.Cut != want || (len(result.Samples) == 1) != want {
			t.Errorf("%s: cut %v, %d samples, %+v", c.ID, result.Cut, len(result.Samples), result.Failure)
		}
	}
}

// stored returns the candidate of a result as its run keeps it.
func stored(t *testing.T, dir string, r tune.Result) tune.Candidate {
	t.Helper()
	c, err := tune.ReadCandidate(dir, r)
	must(t, err)
	return c
}

// TestReadCandidateReturnsMeasuredOne reads a candidate from the folder of a run.
func TestReadCandidateReturnsMeasuredOne(t *testing.T) {
	r, dir := opened(t, tune.Options{}, "host")
	c := operator("one", right)
	c.Operators.Flags, c.Args[1].RelTol = []string{"-O1"}, 0.5
	c.Args = append(c.Args, tune.Arg{
		DType: ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}, Shape: []int64{0},
		Data: []byte{},
	})
	result := measured(t, r, c)
	c.Kind = "host"
	var texts []string
	for _, candidate := range []tune.Candidate{stored(t, dir, result), c} {
		text, err := json.Marshal(candidate)
		must(t, err)
		texts = append(texts, string(text))
	}
	testkit.Equal(t, "candidate", texts[0], texts[1])
	_, err := tune.ReadCandidate(dir, tune.Result{ID: "two", Content: "another"})
	wantError(t, err, failure.Config)
	_, err = tune.ReadCandidate(t.TempDir(), result)
	wantError(t, err, failure.Config)
}

// TestReproduceRepeatsResult reproduces a time in RAM, one in flash, and a failure of an emulator.
func TestReproduceRepeatsResult(t *testing.T) {
	r, dir := opened(t, tune.Options{Samples: 2}, "mps2_an385")
	measured(t, r, operator("one", right))
	measured(t, r, operator("wrong", "out[0] = 1;"))
	confirm(t, r, 1)
	for _, id := range drawn.Of(t, "IDs", []string{"one", "on…", "wrong", "wro", "one@flash"}, 2) {
		t.Run(id, func(t *testing.T) {
			was, is, err := tune.Reproduce(t.Context(), dir, id, desk(t), "", tune.Options{})
			must(t, err)
			switch id := was.ID; {
			case id == "wrong" && (is.Failure == nil || *is.Failure != *was.Failure):
				t.Errorf("%+v, then %+v", was.Failure, is.Failure)
			case id != "wrong" && (is.Tier != was.Tier || !slices.Equal(is.Samples, was.Samples) || len(is.Samples) != 2):
				t.Errorf("%s: %s %v, then %s %v", id, was.Tier, was.Samples, is.Tier, is.Samples)
			}
		})
	}
	for _, id := range []string{"", "…", "one@"} {
		_, _, err := tune.Reproduce(t.Context(), dir, id, desk(t), "", tune.Options{})
		wantError(t, err, failure.Config)
	}
}

// TestSameTimeInFlash measures a candidate that clears memory: it calls the same function in RAM and in flash.
func TestSameTimeInFlash(t *testing.T) {
	onOneOf(t, "same time", []string{"mps2_an385", "qemu_riscv32"}, func(t *testing.T, board string) {
		r, _ := opened(t, tune.Options{}, board)
		was := measured(t, r, operator("clears",
			"static char all[4000]; __builtin_memset(all, in[0], sizeof all - in[1]); if (all[7] == 1) {"+right+"}"))
		is := confirm(t, r, 1)
		if a, b := was.Time.Median, is[0].Time.Median; math.Abs(a-b) > 0.01*a {
			t.Errorf("%g s in RAM, %g s in flash", a, b)
		}
	})
}

// TestClang: Clang is the host's compiler, and names the linker's words otherwise than GCC.
func TestClang(t *testing.T) {
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	must(t, os.Symlink(clang, dir+"/cc"))
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	r, _ := opened(t, tune.Options{Samples: 1}, "host")
	wantTime(t, measured(t, r, operator("one", right)), true)
}
