// This file runs all tests: the Go tests, the C tests, and at higher levels lint and those that take longer.

package develop

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
)

// testLimit and fullLimit end a run that hangs; a good run takes 10 or 80 minutes on two cores. test:soak has no limit.
const (
	testLimit = 45 * time.Minute
	fullLimit = 120 * time.Minute
)

// longest are the packages whose tests take longest. go test starts them first, so that none of them runs alone at the
// end.
var longest = []string{
	"./device", "./project", "./targets", "./tune", "./internal/virtualprobe", "./templates", "./cmodel",
	"./projectapi", "./internal/boardlab/accept", "./executor", "./tune/search", "./release",
}

// raced are packages with goroutines of their own, and what locks files for several processes. A plain run tries only
// these under the race detector, because it has every dependency of a test compiled a second time: package executor,
// whose goroutines are those of package rpc, would more than double them. Package internal/virtualprobe computes whole
// chips, three times as long under the race detector.
var raced = []string{
	"./cache", "./flasher", "./internal/builddir", "./internal/cli/console", "./internal/command",
	"./internal/desk", "./internal/files/filelock", "./internal/ledger", "./internal/sourcetree", "./internal/timegate",
	"./internal/workdir", "./rpc", "./transport", "./tune/internal/schedule",
}

// fuzzTimes are the default times for each fuzz target, if FUZZTIME is not set.
var fuzzTimes = map[string]string{drawn.Full: "15s", drawn.Soak: "10m"}

func (r *repository) test(ctx context.Context) error {
	var t tally
	if err := r.testAll(ctx, &t, ""); err != nil {
		return err
	}
	return r.conclude(&t)
}

func (r *repository) testSoak(ctx context.Context) error {
	var t tally
	if err := r.testAll(ctx, &t, drawn.Soak); err != nil {
		return err
	}
	return r.conclude(&t)
}

func (r *repository) testFull(ctx context.Context) error {
	var t tally
	start, commit := time.Now(), r.commit(ctx)
	if err := r.testAll(ctx, &t, drawn.Full); err != nil {
		return err
	}
	if t.failed > 0 {
		r.Notef("%s is not written: it is a report of runs without a failure", reportFile)
	} else if err := r.writeReport(ctx, &t, commit, time.Since(start)); err != nil {
		return err
	}
	return r.conclude(&t)
}

// testAll runs every check into t. A level of package drawn adds what takes long.
func (r *repository) testAll(ctx context.Context, t *tally, level string) error {
	each := "-timeout=0" // limit of one package
	if limit := map[string]time.Duration{"": testLimit, drawn.Full: fullLimit}[level]; limit > 0 {
		each = fmt.Sprintf("-timeout=%v", limit-time.Minute)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the tests took longer than %v", limit))
		defer cancel()
	}
	seed, err := r.testSeed()
	if err != nil {
		return err
	}
	runtimes, err := os.MkdirTemp("", "boardsmith-test-cache-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(runtimes) }()
	if err := r.setupForTests(ctx); err != nil {
		return err
	}
	env := []string{"SEED=" + seed, drawn.Variable + "=" + level, testcache.Variable + "=" + runtimes}
	args := []string{"-count=1", "-vet=off", each, "-shuffle=" + seed} // lint runs vet
	if level == "" {
		return r.testPlain(ctx, t, env, args)
	}
	raceEnv, race := r.raceDetector()
	all := slices.Concat(race, args, []string{atOnce()}, longest, []string{"./..."})
	return r.inTurn(ctx, t,
		func(ctx context.Context, t *tally) error { return r.goTest(ctx, t, append(raceEnv, env...), all...) },
		func(ctx context.Context, t *tally) error { return r.cTests(ctx, t, env) },
		r.testRuntimeFigures,
		func(ctx context.Context, t *tally) error { return r.runChecks(ctx, append(r.lintChecks(), misra), t) },
		func(ctx context.Context, t *tally) error { return r.fuzz(ctx, t, fuzzTimes[level]) },
		r.windowsTests, r.briefDebians)
}

// testPlain runs the tests of a plain run, those under the race detector and those of C beside the others.
func (r *repository) testPlain(ctx context.Context, t *tally, env, args []string) error {
	plain, err := r.plainPackages(ctx)
	if err != nil {
		return err
	}
	raceEnv, race := r.raceDetector()
	var beside tally
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.goTest(ctx, t, env, slices.Concat(args, []string{atOnce()}, plain)...) })
	group.Go(func() error {
		return r.inTurn(ctx, &beside,
			func(ctx context.Context, t *tally) error {
				return r.goTest(ctx, t, append(raceEnv, env...), slices.Concat(race, args, []string{"-p=1"}, raced)...)
			},
			func(ctx context.Context, t *tally) error { return r.cTests(ctx, t, env) },
			r.testRuntimeFigures)
	})
	err = group.Wait()
	t.add(&beside)
	return err
}

func (r *repository) inTurn(ctx context.Context, t *tally, steps ...func(context.Context, *tally) error) error {
	for _, step := range steps {
		if err := step(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// atOnce returns the flag for one package at a time more than there are processors: tests wait for emulators.
func atOnce() string { return fmt.Sprintf("-p=%d", runtime.NumCPU()+1) }

// plainPackages returns the packages that are not raced, the longest first.
func (r *repository) plainPackages(ctx context.Context) ([]string, error) {
	list := check{argv: []string{"go", "list", "-f={{.ImportPath}}", "./..."}}
	printed, err := r.runCheck(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", list.typed(), err, printed)
	}
	all := append([]string(nil), longest...)
	for _, path := range strings.Fields(printed) { // on a fresh computer, go also lists its downloads
		if within := short(path); within != path {
			all = append(all, "./"+within)
		}
	}
	return slices.DeleteFunc(all, func(p string) bool { return slices.Contains(raced, p) }), nil
}

// testSeed returns the seed for the random data of the Go tests and for their order. It is the same in every run unless
// SEED is another number or "random". It is printed so that a run can be repeated.
func (r *repository) testSeed() (string, error) {
	seed := cmp.Or(r.Env("SEED"), "1")
	if seed == "random" {
		seed = fmt.Sprint(rand.Uint32())
	}
	if _, err := strconv.ParseUint(seed, 10, 63); err != nil {
		return "", failure.New(failure.Config, `SEED=random draws one`, "SEED=%s is not a number", seed)
	}
	r.Printf("what the tests draw, their order too, is drawn by SEED=%s", seed)
	return seed, nil
}

// setupForTests installs missing tools if that needs no password and CHECK is not set. Otherwise the tests that need
// them are skipped with that reason.
func (r *repository) setupForTests(ctx context.Context) error {
	if r.Env.On("CHECK") {
		return nil
	}
	err := toolbox.Setup(ctx, r.Console)
	if failure.Of(err) != failure.ToolMissing || ctx.Err() != nil {
		return err
	}
	r.Notef("%v", err)
	r.Notef("hint: %s; what needs it is skipped now", r.NextStep(err))
	return nil
}

// raceDetector returns the environment and the flag to run the Go tests under the race detector, which needs a C
// compiler. It does not slow down compilers and emulators, which take most of the tests' time.
func (r *repository) raceDetector() (env, args []string) {
	if _, err := exec.LookPath("gcc"); err != nil {
		r.Notef("the tests run without the race detector: gcc is not installed")
		return nil, nil
	}
	return []string{"CGO_ENABLED=1"}, []string{"-race"}
}

func (r *repository) cTests(ctx context.Context, t *tally, env []string) error {
	if found := toolbox.Probe(ctx, cmocka); !found.Installed {
		r.skip(t, "crt", found.Reason)
		return ctx.Err()
	}
	return r.cTest(ctx, t, env, "make", "-C", "crt", "test")
}
