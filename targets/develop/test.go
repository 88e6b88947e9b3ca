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
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// longest are the packages whose tests take longest. go test starts them first, so that none of them runs alone at the
// end.
var longest = []string{
	"./measure", "./device", "./project", "./targets", "./tune", "./device/emulated/internal/virtualprobe",
	"./templates", "./cmodel", "./internal/projectapi", "./targets/internal/accept", "./executor", "./tune/search",
	"./project/release",
}

// raced are packages with goroutines of their own, and what locks files for several processes. A plain run tries only
// these under the race detector, because it has every dependency of a test compiled a second time: package executor,
// whose goroutines are those of package rpc, would more than double them. Package device/emulated/internal/virtualprobe
// computes whole chips, three times as long under the race detector.
var raced = []string{
	"./cache", "./flasher", "./project/internal/builddir", "./targets/internal/console", "./internal/command",
	"./device/internal/desk", "./internal/files/filelock", "./device/internal/ledger", "./internal/sourcetree",
	"./tune/internal/cpulock", "./project/internal/workdir", "./rpc", "./transport", "./tune/internal/schedule",
}

func (r *repository) test(ctx context.Context) error {
	// These end a run that hangs; a good one takes 10 minutes on two cores.
	return r.testAll(ctx, "", 45*time.Minute, 0)
}

func (r *repository) testFull(ctx context.Context) error {
	return r.testAll(ctx, drawn.Full, 120*time.Minute, 15*time.Second)
}

func (r *repository) testSoak(ctx context.Context) error {
	return r.testAll(ctx, drawn.Soak, 0, 10*time.Minute)
}

// testAll runs every check, within a limit unless that is 0. A level of package drawn adds what takes long: fuzzTime is
// its default for each fuzz target.
func (r *repository) testAll(ctx context.Context, level string, limit, fuzzTime time.Duration) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the tests took longer than %v", limit))
		defer cancel()
	}
	scratch, err := os.MkdirTemp("", "boardsmith-test-cache-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := r.setupForTests(ctx); err != nil {
		return err
	}

	// The seed, of the random data of the Go tests and of their order, is printed so that a run can be repeated.
	seed := r.vars.Seed
	if seed == "random" {
		seed = fmt.Sprint(rand.Uint32())
	}
	r.Printf("what the tests draw, their order too, is drawn by SEED=%s", seed)
	env := []string{"SEED=" + seed, drawn.Variable + "=" + level, testcache.Variable + "=" + scratch}

	// Lint runs vet. A package that hangs ends, and prints where, before the whole run does.
	each := fmt.Sprintf("-timeout=%v", max(0, limit-time.Minute))
	args := []string{"-count=1", "-vet=off", "-shuffle=" + seed, each}
	if level == "" {
		err = r.testPlain(ctx, env, args)
	} else {
		err = r.testMore(ctx, env, args, cmp.Or(r.vars.FuzzTime, fuzzTime), scratch)
	}
	if err == nil && level == drawn.Full {
		_, err = r.measureGoals(ctx)
	}
	if err != nil {
		return err
	}
	return r.conclude()
}

// atOnce is the flag for one package at a time more than there are processors: tests wait for emulators.
var atOnce = fmt.Sprintf("-p=%d", runtime.NumCPU()+1)

// testPlain runs the tests of a plain run, those under the race detector and those of C beside the others.
func (r *repository) testPlain(ctx context.Context, env, args []string) error {
	list := exec.CommandContext(ctx, "go", "list", "./...")
	list.Dir = r.Dir
	printed, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	plain := slices.Concat(longest, strings.Fields(strings.ReplaceAll(string(printed), module, "./")))
	plain = slices.DeleteFunc(plain, func(p string) bool { return slices.Contains(raced, p) })

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.goTest(ctx, env, slices.Concat(args, []string{atOnce}, plain)...) })
	group.Go(func() error {
		if err := r.goTestRaced(ctx, env, slices.Concat(args, []string{"-p=1"}, raced)...); err != nil {
			return err
		}
		return r.runChecks(ctx, cTests(ctx), runtimeFigures)
	})
	return group.Wait()
}

// testMore runs all tests under the race detector, then those of C, and then lint and what takes long.
func (r *repository) testMore(
	ctx context.Context, env, args []string, fuzzTime time.Duration, scratch string,
) error {
	err := r.goTestRaced(ctx, env, slices.Concat(args, []string{atOnce}, longest, []string{"./..."})...)
	if err != nil {
		return err
	}
	if err := r.runChecks(ctx, cTests(ctx), runtimeFigures); err != nil {
		return err
	}

	return r.runChecks(ctx, slices.Concat(lintChecks(), []check{misra, fuzzing(fuzzTime)}, otherSystems(scratch))...)
}

// goTestRaced is goTest under the race detector, which needs a C compiler. It does not slow down compilers and
// emulators, which take most of the tests' time.
func (r *repository) goTestRaced(ctx context.Context, env []string, args ...string) error {
	if _, err := exec.LookPath("gcc"); err != nil {
		r.Notef("the tests run without the race detector: gcc is not installed")
		return r.goTest(ctx, env, args...)
	}
	return r.goTest(ctx, append([]string{"CGO_ENABLED=1"}, env...), append([]string{"-race"}, args...)...)
}

// setupForTests installs missing tools if that needs no password and CHECK is not set. Otherwise the tests that need
// them are skipped with that reason.
func (r *repository) setupForTests(ctx context.Context) error {
	if r.vars.Check {
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
