// This file ends a target. It alone converts an error to text, a JSON line and an exit code.

package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// exitCode maps failure classes to mage's exit codes; see docs/command-line.md.
var exitCode = map[failure.Class]int{
	failure.Config:       2,
	failure.ToolMissing:  3,
	failure.Compile:      1,
	failure.Link:         1,
	failure.DoesNotFit:   4,
	failure.ProbeMissing: 5,
	failure.Flash:        5,
	failure.Verify:       5,
	failure.Boot:         5,
	failure.Transport:    5,
	failure.Timeout:      5,
	failure.Fault:        5,
	failure.WrongAnswer:  1,
	failure.BoardLost:    5,
	failure.Host:         6,
	failure.Network:      7,
	failure.Interrupted:  130,
	failure.Internal:     1,
}

// An exitError is a target's failure that was printed already. mage prints it as the last line and exits with its
// status.
type exitError struct {
	step  string
	class failure.Class
	code  int
	err   error
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended with status %d (%s)", e.step, e.code, e.class)
}

// ExitStatus returns the exit code, for mage.
func (e *exitError) ExitStatus() int { return e.code }

func (e *exitError) Unwrap() error { return e.err }

// Do runs a target, named step. SIGTERM and SIGHUP cancel it, as mage does on Ctrl-C, and so does the end of mage. Do
// prints the error; the error that it returns has the exit status for mage.
func (c *Console) Do(ctx context.Context, step string, target func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	if c.ofMage { // which passes no signal on
		go endWith(ctx, stop)
	}

	c.step = step
	c.readJSON()

	defer context.AfterFunc(ctx, c.leaveBar)()

	c.findOthers()
	err := c.checkInputs()

	if err == nil {
		err = c.checkNames()
	}
	if err == nil {
		c.DryRun, c.Verbose = Reads(step, "DRYRUN") && IsOn(c.Env("DRYRUN")), IsOn(c.Env("VERBOSE"))
		err = target(ctx)
	}

	c.endProgress()
	if err == nil {
		err = c.written()
	}
	if err == nil {
		return nil
	}

	class := failure.Of(err)
	// An error of a tool or link is then a consequence.
	if errors.Is(ctx.Err(), context.Canceled) {
		class = failure.Interrupted
	}
	return c.fail(class, err)
}

// starter is the process that has started this one. It is read first of all, as one that adopts this process after its
// end is another.
var starter = os.Getppid()

// endWith calls stop once the process that has started this one has ended.
func endWith(ctx context.Context, stop func()) {
	for os.Getppid() == starter {
		select {
		case <-time.After(parentPoll):
		case <-ctx.Done():
			return
		}
	}
	stop()
}

const parentPoll = 500 * time.Millisecond

// fail prints err and returns the target's error.
func (c *Console) fail(class failure.Class, err error) error {
	code, ok := exitCode[class]
	if !ok {
		code = 1
	}

	next := c.NextStep(err)
	// An error after an interrupt is its consequence, and needs no advice.
	if class == failure.Interrupted {
		err, next = errors.New("interrupted"), ""
	}

	text := c.withPlaces(err.Error())
	c.Notef("error: %s", text)
	if next != "" {
		c.Notef("hint: %s", next)
	}

	line := jsonlines.Failed{
		Status: jsonlines.StatusFailed, Class: string(class), Code: code, Error: text, Next: next,
	}

	var grown interface{ Exceeds() []string }
	if errors.As(err, &grown) {
		line.Exceeds = grown.Exceeds()
	}

	if faultErr := new(fault.Error); errors.As(err, &faultErr) {
		line.Fault = faultOf(faultErr)
	}

	c.JSONLine(line)
	return &exitError{c.step, class, code, err}
}

// faultOf returns a device's fault for JSON.
func faultOf(e *fault.Error) *jsonlines.Fault {
	r := &jsonlines.Fault{
		Reason: e.Record.Reason.String(), Cause: e.Record.Cause(), Function: e.Function, Operator: e.Operator,
		Frames: e.Frames,
	}

	if e.Record.PCValid {
		r.PC = &e.Record.PC
	}
	return r
}
