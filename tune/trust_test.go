//go:build linux

package tune_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/tune"
)

// inPlace returns a candidate whose one argument is input and output.
func inPlace(id, body string) tune.Candidate {
	c := operator(id, "(void)out; "+body)
	c.Args[0].Want = []byte{2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0}
	c.Args[1].Want = nil
	return c
}

// TestOutputsAreCheckedInEveryCall measures candidates that are right in some calls only, or only with the outputs of
// an earlier one.
func TestOutputsAreCheckedInEveryCall(t *testing.T) {
	r, _ := opened(t, tune.Options{GiveUp: 20}, "mps2_an385")
	double := "for (int i = 0; i < 4; i++) in[i] *= 2;"
	slow := "for (volatile int i = 0; i < 100000; i++) {} "
	for _, c := range []struct {
		candidate tune.Candidate
		class     failure.Class
	}{
		{inPlace("doubles", double), ""},
		{inPlace("does nothing", ""), failure.WrongAnswer},
		{inPlace("doubles again", double+"volatile int k = 1; (void)k;"), ""},
		{operator("lazy", "static int times; if (times++ == 0) {"+right+"}"), failure.WrongAnswer},
		{operator("stops", "static int times; if (times++ < 50) {"+right+"}"), failure.WrongAnswer}, // while it is timed
		{operator("right", right), ""},
		{operator("slow", slow+right), ""},                                                            // it is cut
		{operator("slow and undoes what it changes", slow+right+"out[5] ^= 1;"), failure.WrongAnswer}, // it is called twice
	} {
		wantFailure(t, measured(t, r, c.candidate), c.class)
	}
}

// TestCandidatesUseTheirArgumentsOnly measures candidates whose outputs are right, or would be with luck, and which use
// other memory, change their inputs, or skip the computation. Some have two outputs p and q that are not compared,
// before and behind the compared one in the order of arguments. A full run has all of them on all boards.
func TestCandidatesUseTheirArgumentsOnly(t *testing.T) {
	const workspace = "int32_t* w = TVMBackendAllocWorkspace(1, 0, 400, 0, 32); "
	const more = "int32_t* p = ((DLTensor*)args[2].v_handle)->data; " +
		"int32_t* q = ((DLTensor*)args[3].v_handle)->data; (void)p; (void)q; "
	const all = more + "for (int i = 0; i < 4; i++) { out[i] = in[i] * 2; p[i] = 1; q[i] = 2; } "
	for _, board := range drawn.Of(t, "hostile candidates", []string{"host", "mps2_an385", "qemu_riscv32"}, 1) {
		r, _ := opened(t, tune.Options{}, board)
		for _, c := range drawn.Of(t, "bodies of hostile candidates", []struct{ id, body, want string }{
			{"right", right, ""},
			{"writes behind", right + "out[5] = 7;", "beside its arguments"},
			{"writes before", right + "out[-1] = 7;", "beside its arguments"},
			{"writes far before the input", right + "in[-9] = 7;", "beside its arguments"},
			{"writes behind in every other call", right + "out[5] ^= 1;", "beside its arguments"},
			{"reads behind", right + "out[1] += in[4];", "elements differ"},
			{"reads before", right + "out[1] += in[-1];", "elements differ"},
			{"reads behind the output", right + "out[2] += out[4];", "elements differ"},
			{"changes the input", right + "in[2] = 7;", "changes its input"},
			{"changes the input once", right + "static int calls; if (calls++ == 0) in[0] = 7;", "changes its input"},
			{"reads its workspace", workspace + "for (int i = 0; i < 4; i++) out[i] = in[i] * 2 + w[20 * i]; " +
				"TVMBackendFreeWorkspace(1, 0, w);", "differ"},
			{"uses its workspace", workspace + "for (int i = 0; i < 100; i++) w[i] = 2; for (int i = 0; i < 4; i++) " +
				"out[i] = in[i] * w[i]; TVMBackendFreeWorkspace(1, 0, w);", ""},
			{
				"reads its stack", "volatile int32_t w[64]; for (int i = 0; i < 4; i++) out[i] = in[i] * 2 + w[16 * i];",
				"differ",
			},
			{"remembers the first call", "static int32_t kept[4]; static int calls; if (calls++ == 0) {" + right +
				"for (int i = 0; i < 4; i++) kept[i] = out[i];} for (int i = 0; i < 4; i++) out[i] = kept[i];", "differ"},
			{
				"remembers a call", "static int32_t kept[4]; static int calls; if (calls++ < 3) {" + right +
					"for (int i = 0; i < 4; i++) kept[i] = out[i];} for (int i = 0; i < 4; i++) out[i] = kept[i];",
				"differ from call to call",
			},
			{"right in the end", right + "volatile int k = 3; (void)k;", ""},
			{"writes to p and q", all, ""},
			{"ignores p and q", more + right, ""},
			{"writes before p", all + "p[-2] = 7;", "beside its arguments"},
			{"writes behind p", all + "p[5] = 7;", "beside its arguments"},
			{"writes before q", all + "q[-2] = 7;", "beside its arguments"},
			{"writes behind q", all + "q[5] = 7;", "beside its arguments"},
			{"reads before q", all + "out[1] += p[3] + q[-1];", "elements differ"},
			{"reads p", more + right + "out[1] += p[3];", "elements differ"},
		}, 10) {
			o := operator(c.id, c.body)
			if strings.HasPrefix(c.body, more) {
				scratch := tune.Arg{DType: o.Args[0].DType, Shape: []int64{4}}
				o.Args = append(o.Args, scratch, scratch)
			}
			class := failure.WrongAnswer
			if c.want == "" {
				class = ""
			}
			wantFailure(t, measured(t, r, o), class, c.want)
		}
	}
}

// TestOtherInputsMayBeInvalid measures candidates that are right for inputs that ascend, and fail for others.
func TestOtherInputsMayBeInvalid(t *testing.T) {
	for _, board := range drawn.Of(t, "invalid inputs", []string{"host", "mps2_an385"}, 1) {
		var mu sync.Mutex
		var without []string // IDs
		r, _ := opened(t, tune.Options{CallTimeout: 3 * time.Second, MaxRecoveries: 2, OnEvent: func(e tune.Event) {
			mu.Lock()
			defer mu.Unlock()
			id, _, _ := strings.Cut(e.Text, " was measured without calls with other inputs")
			without = append(without, id)
		}}, board)
		for _, c := range drawn.Of(t, "candidates of invalid inputs", []struct {
			id, body string
			works    bool
		}{
			{"crashes", "if (in[1] > in[2]) { __builtin_trap(); } " + right, true},
			{"returns an error", "if (in[1] > in[2]) { return -1; } " + right, true},
			{"does not end", "while (in[1] > in[2]) { __asm__ volatile(\"\"); } " + right, true},
			{"crashes with all", "__builtin_trap(); " + right, false},
			{"wrong with its own", "if (in[1] > in[2]) { return -1; } " + right + "out[1]++;", false},
			{"works with all", right, true},
		}, 2) {
			t.Run(board+"/"+c.id, func(t *testing.T) {
				if f := measured(t, r, operator(c.id, c.body)).Failure; (f == nil) != c.works {
					t.Errorf("%+v", f)
				}
				mu.Lock()
				defer mu.Unlock()
				isSaid := slices.Contains(without, c.id)
				if isSaid != (c.works && strings.Contains(c.body, ">")) {
					t.Errorf("%q", without)
				}
			})
		}
	}
}

// TestBadCandidatesResetNoBoard measures candidates that no device accepts. As a reference they are errors.
func TestBadCandidatesResetNoBoard(t *testing.T) {
	r, _ := opened(t, tune.Options{OnEvent: on("recovering", func(e tune.Event) { t.Error(e.Text, e.Err) })}, "mps2_an385")
	for name, change := range map[string]func(*tune.Candidate){
		"short data": func(c *tune.Candidate) { c.Args[0].Data = []byte{1} },
		"short want": func(c *tune.Candidate) { c.Args[1].Want = []byte{1} },
		"negative":   func(c *tune.Candidate) { c.Args[0].Shape = []int64{-4} },
		"no data":    func(c *tune.Candidate) { c.Args[0].Data, c.Args[0].Flash = nil, true },
		"tolerance":  func(c *tune.Candidate) { c.Args[1].RelTol = -1 },
		"no number":  func(c *tune.Candidate) { c.Args[1].RelTol = math.NaN() },
		"infinite":   func(c *tune.Candidate) { c.Args[1].AbsTol = math.Inf(1) },
		"record":     func(c *tune.Candidate) { c.Record = []byte("no JSON") },
	} {
		t.Log(name)
		c := operator(name, right)
		change(&c)
		wantFailure(t, measured(t, r, c), failure.Config)
		wantError(t, refused(t, t.TempDir(), tune.Options{Reference: &c}, "host"), "")
	}
	large := operator("large", right)
	large.Args[1] = tune.Arg{DType: large.Args[0].DType, Shape: []int64{1 << 26}}
	wantFailure(t, measured(t, r, large), failure.DoesNotFit)
	for _, id := range []string{"", "a@flash", "\xff"} {
		_, err := r.Measure(t.Context(), operator(id, right))
		wantError(t, err, failure.Config)
	}
}

// TestFirmwareThatDoesNotStartBlamesOneCandidate puts a candidate that never lets the firmware start into one image
// with others.
func TestFirmwareThatDoesNotStartBlamesOneCandidate(t *testing.T) {
	r, _ := opened(t, tune.Options{
		Memory: map[string]boards.Options{"": {UploadKiB: 4}}, StepTimeout: 3 * time.Second,
	}, "mps2_an385", "mps2_an385")
	bad := large("bad", 5000)
	bad.Operators.Files[0].Data = append(bad.Operators.Files[0].Data,
		"\n__attribute__((constructor)) static void stop(void) { for (;;) { __asm__ volatile(\"wfi\"); } }\n"...)
	cs := []tune.Candidate{large("a", 5000), bad, large("b", 6000), operator("small", right)}
	for _, result := range measureAll(t, r, cs) {
		if f := result.Failure; (f != nil) != (result.ID == "bad") || f != nil && f.Blame != tune.BlameCandidate {
			t.Errorf("%s: %+v", result.ID, f)
		}
	}
}

// TestAllDoesNotWaitForSequence ends All while its sequence blocks.
func TestAllDoesNotWaitForSequence(t *testing.T) {
	r, _ := opened(t, tune.Options{}, "host")
	for _, stop := range []string{"context", "break"} {
		t.Run(stop, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			never := make(chan bool)
			sequence := func(yield func(tune.Candidate) bool) {
				if yield(operator("before "+stop, right)) {
					<-never
				}
			}
			done := make(chan bool)
			go func() {
				defer close(done)
				for range r.All(ctx, sequence) {
					if stop == "break" {
						return
					}
					cancel()
				}
			}()
			select {
			case <-done:
			case <-testkit.Context(t).Done():
				t.Errorf("All waits after %s", stop)
			}
			close(never)
			cancel()
		})
	}
}

// A loosePlace fails to be prepared for the first time.
type loosePlace struct {
	tune.Place
	failed *atomic.Bool
}

func (p loosePlace) Prepare(ctx context.Context, i *image.Image) (tune.Tier, string, error) {
	if !p.failed.Swap(true) {
		return "", "", errors.New("the cable was loose")
	}
	return p.Place.Prepare(ctx, i)
}

// TestPrepareIsRetried fails the first Prepare of the only place of a run with a reference.
func TestPrepareIsRetried(t *testing.T) {
	var failed atomic.Bool
	reference := operator("reference", right)
	r, _ := opened(t, tune.Options{Reference: &reference, Drift: 1000}.Replacing(
		func(p tune.Place) tune.Place { return loosePlace{p, &failed} }), "host")
	ctx := testkit.Context(t)
	result, err := r.Measure(ctx, operator("one", right))
	must(t, err)
	wantFailure(t, result, "")
	testkit.Equal(t, "failed once", failed.Load(), true)
}

// TestKilledEmulatorBlamesNoCandidate ends emulators by SIGTERM, with which they exit without an error, and by SIGKILL.
func TestKilledEmulatorBlamesNoCandidate(t *testing.T) {
	r, dir := opened(t, tune.Options{StepTimeout: 5 * time.Second, MaxRecoveries: 20}, "mps2_an385")
	slow := operator("slow", "for (volatile int i = 0; i < 40000000; i++) {} "+right)
	done := make(chan tune.Result)
	go func() {
		result, err := r.Measure(t.Context(), slow)
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	killed := 0
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		time.Sleep(700 * time.Millisecond)
		killed += len(signalled(t, dir, "qemu-system", signal))
	}
	if killed == 0 {
		t.Error("no emulator was killed")
	}
	wantFailure(t, <-done, "")
}

// TestUnprovenResultsAreConfirmedOrRemeasured closes a run since whose last results the reference was not measured.
func TestUnprovenResultsAreConfirmedOrRemeasured(t *testing.T) {
	slow := t.TempDir() + "/slow"
	reference := slowWhile(slow)
	dir := t.TempDir()
	open := func() *tune.Run {
		return openedIn(t, dir, tune.Options{Reference: &reference, Drift: 100, MaxRecoveries: 1}, "host")
	}
	twin := operator("twin of 1", right+"volatile int k = 1; (void)k;") // compiles to the same bytes
	measure := func(r *tune.Run, cs []tune.Candidate) {
		for _, c := range cs {
			result := measured(t, r, c)
			if !result.Unproven {
				t.Errorf("%s is proven before the reference was measured", c.ID)
			}
		}
	}
	r := open()
	measure(r, append(goods(3), twin))
	must(t, r.Close())
	for _, result := range results(t, dir) {
		if result.Unproven {
			t.Errorf("%s is unproven after Close", result.ID)
		}
	}
	r = open()
	measure(r, goods(6)[3:])
	writeFile(t, slow, "") // until Close measures the reference
	must(t, r.Close())
	must(t, os.Remove(slow))
	before := record(t, dir)
	r = open()
	for _, c := range goods(6) {
		measured(t, r, c)
	}
	must(t, r.Close())
	again := strings.TrimPrefix(record(t, dir), before)
	for i, c := range goods(6) {
		testkit.Equal(t, c.ID+" was measured again", strings.Contains(again, fmt.Sprintf("{\"id\":%q", c.ID)), i >= 3)
	}
}
