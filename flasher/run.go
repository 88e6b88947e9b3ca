// This file runs a tool and finds out whether it did all that it was told.

package flasher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
)

// mark begins each line that a tool prints, because it was told to, when a step is done.
const mark = "boardsmith: "

// finished is the last mark of every run.
const finished = "finished"

// noted adds a mark to those that the tool has to print, and returns it.
func (r *toolRun) noted(format string, args ...any) string {
	m := fmt.Sprintf(format, args...)
	r.marks = append(r.marks, m)
	return m
}

// run runs the tool to its end. The run is good if its exit status is 0 and the tool printed all of its marks in their
// order: an exit status alone may be that of a wrapper (openocd … | tee), and what a tool logs besides decides nothing.
func (c Config) run(ctx context.Context, cmd command.Command, timeout time.Duration, marks []string) error {
	line := func(s string) {
		c.warnOfChip(s)
		if c.told != nil {
			c.told(s)
		}
		m, ok := strings.CutPrefix(s, mark)
		if ok && len(marks) > 0 && m == marks[0] {
			marks = marks[1:]
			c.step(m)
		}
	}
	cmd.Out, cmd.Err, cmd.Timeout = line, line, timeout
	stdout, stderr, err := cmd.Capture(ctx)
	if err == nil && len(marks) > 0 {
		err = &command.Error{
			Tool: command.Name(cmd.Path), Text: stdout + stderr, Stderr: stderr, Command: cmd.Typed(),
			Err: fmt.Errorf("exit status 0, but the step %q was not reported as done", marks[0]),
		}
	}
	return err
}
