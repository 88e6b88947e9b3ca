// This file runs commands that must succeed.

package develop

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A check is a command that must succeed, in the working folder.
type check struct {
	name   string
	argv   []string
	env    []string // variables added to the environment
	silent bool     // standard output is a failure too, because the tool lists errors there and exits with 0
	needs  string   // a program without which the check is skipped; "" for none

	ignore func(output string) bool // reports that a failure counts as success; nil: none does
}

// runChecks runs the checks into t, as many at once as there are processors, and prints each as it ends. It returns an
// error only if the user stopped it.
func (r *repository) runChecks(ctx context.Context, checks []check, t *tally) error {
	checks = slices.DeleteFunc(checks, func(c check) bool {
		if c.needs == "" {
			return false
		}
		_, err := exec.LookPath(c.needs)
		if err != nil {
			r.skip(t, c.name, c.needs+" is not installed")
		}
		return err != nil
	})
	if len(checks) == 0 {
		return ctx.Err()
	}
	what, total := "checks", len(checks)
	if total == 1 {
		what, total = checks[0].name, 0 // a single check has no counter
	}
	p := r.Start(what, total)
	defer p.End()
	type outcome struct {
		check
		printed string
		err     error
		took    time.Duration
	}
	next, ended := make(chan check, len(checks)), make(chan outcome)
	for _, c := range checks {
		next <- c
	}
	close(next)
	for range min(runtime.NumCPU(), len(checks)) {
		go func() {
			for c := range next {
				start := time.Now()
				printed, err := r.runCheck(ctx, c)
				ended <- outcome{c, printed, err, time.Since(start)}
			}
		}()
	}
	for range checks {
		o := <-ended
		p.Add(1)
		switch {
		case ctx.Err() != nil: // the user stopped it
		case o.err != nil:
			r.fail(t, o.name, fmt.Sprintf("%s%v\nto repeat: %s", o.printed, o.err, o.typed()))
		default:
			r.pass(t, o.name, o.took)
		}
	}
	return ctx.Err()
}

// runCheck runs one check and returns what it printed.
func (r *repository) runCheck(ctx context.Context, c check) (printed string, err error) {
	path, err := exec.LookPath(c.argv[0])
	if err != nil {
		return "", err
	}
	env := append(console.ToolEnv(), c.env...)
	out, errs, err := command.Command{Path: path, Args: c.argv[1:], Dir: r.Dir, Env: env}.Capture(ctx)
	var ended *command.Error
	if errors.As(err, &ended) {
		err = ended.Err // the output is returned beside it
	}
	if err != nil && ctx.Err() == nil && c.ignore != nil && c.ignore(out+errs) {
		err = nil
	}
	if err == nil && c.silent && strings.TrimSpace(out) != "" { // go reports downloads on standard error
		err = errors.New("it must list nothing")
	}
	return out + errs, err
}

// typed returns the command that repeats the check by hand.
func (c check) typed() string {
	return strings.Join(append(c.env[:len(c.env):len(c.env)], c.argv...), " ")
}
