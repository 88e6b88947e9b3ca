// This file runs commands that must succeed, and counts their results.

package develop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// A check is a command that must succeed, in the working folder.
type check struct {
	name    string
	argv    []string
	env     []string // variables added to the environment
	needs   []string // programs without which the check is skipped
	missing string   // another reason to skip it
	silent  bool     // standard output is a failure too, because the tool lists errors there and exits with 0
	shown   bool     // the output is printed after success, too

	ignore func(output string) bool // reports that a failure counts as success; nil: none does
}

// A tally counts the results of checks, of which several run at once.
type tally struct {
	mu              sync.Mutex
	passed, skipped int
	failures        []string   // names
	slowest         []slowTest // of Go
}

// A slowTest is a test of Go and its time.
type slowTest struct {
	name    string
	seconds float64
}

// runChecks runs the checks, as many at once as there are processors, and prints each as it ends. It returns an error
// only if the user stopped it.
func (r *repository) runChecks(ctx context.Context, checks ...check) error {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for _, c := range checks {
		group.Go(func() error {
			for _, program := range c.needs {
				if _, err := exec.LookPath(program); err != nil {
					c.missing = cmp.Or(c.missing, program+" is not installed")
				}
			}
			if c.missing != "" {
				r.skip(c.name, c.missing)
				return ctx.Err()
			}

			start := time.Now()
			printed, err := r.runCheck(ctx, c, nil)
			switch {
			case ctx.Err() != nil: // the user stopped it
			case err != nil:
				r.fail(c.name, fmt.Sprintf("%s%v\nto repeat: %s", printed, err, c.typed()))
			default:
				r.pass(c.name, time.Since(start))
				if c.shown {
					r.Printf("%s", strings.TrimRight(printed, "\n"))
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// runCheck runs one check and returns what it printed. Function line, unless nil, is called with each line.
func (r *repository) runCheck(ctx context.Context, c check, line func(string)) (printed string, err error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return "", err
	}
	p := r.Start(c.name, 0)
	defer p.End()

	out, errs, err := command.Command{
		Path: path, Args: c.argv[1:], Dir: r.Dir, Env: append(console.ToolEnv(), c.env...),
		Out: line, Err: line, Grace: 5 * time.Second,
	}.Capture(ctx)
	printed = out + errs

	var ended *command.Error
	if errors.As(err, &ended) { // its text has the end of a long output, too
		printed, err = ended.Text, ended.Err
	}
	switch {
	case err != nil && ctx.Err() == nil && c.ignore != nil && c.ignore(printed):
		return printed, nil
	case err == nil && c.silent && strings.TrimSpace(out) != "": // go reports downloads on standard error
		err = errors.New("it must list nothing")
	}
	return printed, err
}

// typed returns the command that repeats the check by hand.
func (c check) typed() string { return strings.Join(slices.Concat(c.env, c.argv), " ") }

func (r *repository) pass(name string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
	r.Printf("ok      %-60s %6.1f s", name, d.Seconds())
}

func (r *repository) fail(name, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, name)
	r.Printf("FAILED  %s\n%s", name, strings.TrimRight(reason, "\n"))
	r.JSONLine(jsonlines.CheckFailed{
		Status: jsonlines.StatusFailed, Name: name, Class: string(failure.Internal), Error: reason,
	})
}

func (r *repository) skip(name, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped++
	r.Printf("skipped %s: %s", name, reason)
}

// conclude prints the tests that took longest and the closing line, and returns an error if there were failures.
func (r *repository) conclude() error {
	slices.SortFunc(r.slowest, func(a, b slowTest) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, s := range r.slowest[:min(50, len(r.slowest))] {
		r.Printf("slow    %-60s %6.1f s", s.name, s.seconds)
	}
	for _, name := range r.failures {
		r.Printf("failed: %s", name)
	}

	failed := len(r.failures)
	r.Printf("%d passed, %d failed, %d skipped", r.passed, failed, r.skipped)
	if failed > 0 {
		return failure.Errorf(failure.Internal, "%d of %d checks failed", failed, failed+r.passed)
	}
	r.JSONLine(jsonlines.Checks{Passed: r.passed, Failed: failed, Skipped: r.skipped})
	return nil
}
