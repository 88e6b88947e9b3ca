// This file runs a tool and checks that every step was reported as done.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

// mark begins each line that a tool is made to print after a step.
const mark = "boardsmith: "

// finished is the last mark of every run.
const finished = "finished"

// addMark adds a mark that the tool must print, and returns it.
func (r *toolRun) addMark(format string, args ...any) string {
	m := fmt.Sprintf(format, args...)
	r.marks = append(r.marks, m)
	return m
}

// markErase records that the step after the last mark erases a sector.
func (r *toolRun) markErase(addr uint64) {
	if r.erases == nil {
		r.erases = map[string]uint64{}
	}
	r.erases[r.marks[len(r.marks)-1]] = addr
}

// reportErase reports the sector whose erasing may begin after a mark was printed.
func (r *toolRun) reportErase(mark string) {
	if addr, ok := r.erases[mark]; ok && r.begins != nil {
		r.begins(addr)
	}
}

// run runs the tool to its end. The run succeeded if the exit status is 0 and the tool printed all its marks in
// order: the exit status may be that of a wrapper (openocd … | tee). Other output is ignored.
func (c Config) run(ctx context.Context, cmd command.Command, timeout time.Duration, r *toolRun) error {
	marks := r.marks
	line := func(s string) {
		c.warnAboutChip(s)
		if c.output != nil {
			c.output(s)
		}

		// A mark out of order does not count.
		m, ok := strings.CutPrefix(s, mark)
		if ok && len(marks) > 0 && m == marks[0] {
			marks = marks[1:]
			c.step(m)
			r.reportErase(m)
		}
	}

	cmd.Out, cmd.Err, cmd.Timeout = line, line, timeout
	stdout, stderr, err := cmd.Capture(ctx)

	// Unless the tool ended by itself, with a complete output, it may have done more steps than it reported.
	stopped := ctx.Err() != nil || errors.Is(err, command.ErrTooLong) || errors.Is(err, exec.ErrWaitDelay)
	if connected := len(marks) < len(r.marks); err != nil && connected && stopped {
		for _, m := range marks {
			r.reportErase(m)
		}
	}

	if err == nil && len(marks) > 0 {
		err = &command.Error{
			Tool: command.Name(cmd.Path), Text: stdout + stderr, Stderr: stderr, Command: cmd.Typed(),
			Err: fmt.Errorf("exit status 0, but the step %q was not reported as done", marks[0]),
		}
	}
	return err
}
