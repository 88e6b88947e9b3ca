// This file ends a target: the one place where an error becomes words for a person, a JSON line and an exit code.

package console

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
)

// exitCode is what a failure of each class makes mage exit with; docs/exit-codes.md says what each means.
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
	failure.Interrupted:  130,
	failure.Internal:     1,
}

// An exitError is a target's failure, already told to the user. mage prints it as its own last line and exits with
// its status.
type exitError struct {
	step  string
	class failure.Class
	code  int
	err   error
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended with status %d (%s)", e.step, e.code, e.class)
}

// ExitStatus is what mage asks its targets' errors for.
func (e *exitError) ExitStatus() int { return e.code }

func (e *exitError) Unwrap() error { return e.err }

// Do runs a target, which is called step. Besides mage's own Ctrl-C, the signals that end a process stop it as cleanly.
// Its error has been told to the user, and has the exit status that mage asks for.
func (c *Console) Do(ctx context.Context, step string, target func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	c.step = step
	err := c.Env.checkNames()
	if err == nil {
		err = target(ctx)
	}
	c.endProgress()
	if err == nil {
		err = c.written()
	}
	if err == nil {
		return nil
	}
	return c.fail(classOf(ctx, err), err)
}

// classOf is the failure's class, or Interrupted where the user stopped the step: the errors of a tool or a link
// that was cut off are only a consequence then.
func classOf(ctx context.Context, err error) failure.Class {
	if errors.Is(ctx.Err(), context.Canceled) {
		return failure.Interrupted
	}
	return failure.Of(err)
}

// fail tells the user about err and makes the target's error of it.
func (c *Console) fail(class failure.Class, err error) error {
	code, ok := exitCode[class]
	if !ok {
		code = 1
	}
	next := c.NextStep(err)
	if class == failure.Interrupted {
		err, next = errors.New("interrupted"), ""
	}
	c.Notef("error: %v", err)
	if next != "" {
		c.Notef("hint: %s", next)
	}
	line := Fields{"status": "failed", "class": class, "code": code, "error": err.Error(), "next": next}
	if fault := new(rpc.FaultError); errors.As(err, &fault) {
		line["fault"] = faultFields(fault)
	}
	c.JSONLine(line)
	return &exitError{c.step, class, code, err}
}

// faultFields is a device's fault for JSON.
func faultFields(e *rpc.FaultError) Fields {
	var frames []Fields
	for _, f := range e.Frames {
		r := Fields{"pc": f.PC, "function": f.Function, "inlined": f.Inlined, "guessed": f.Guessed}
		if f.File != "" {
			r["file"], r["line"] = f.File, f.Line
		}
		frames = append(frames, r)
	}
	r := Fields{
		"reason": e.Record.Reason.String(), "cause": e.Record.Cause(), "function": e.Function, "operator": e.Operator,
		"frames": frames,
	}
	if e.Record.PCValid {
		r["pc"] = e.Record.PC
	}
	return r
}
