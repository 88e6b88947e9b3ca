// This file inspects a board that does not respond, as a debugger would, without changing its state.

package flasher

import (
	"context"
	"fmt"
	"time"
)

// counter is the prefix of the program counter's value; not a step, because the value varies.
const counter = "pc "

// runInspection runs a tool with a configuration that reads the program counter, and returns the result.
func (c Config) runInspection(ranges []Range,
	run func(c Config, dir string, timeout time.Duration) error,
) (pc uint32, got []Segment, err error) {
	c.output = func(line string) { _, _ = fmt.Sscanf(line, mark+counter+"0x%x", &pc) } // else it is another mark

	err = inFolder(func(dir string) error {
		if err := run(c, dir, c.readTimeout(ranges)); err != nil {
			return explain(err)
		}
		got, err = readBack(dir, ranges)
		return err
	})

	return pc, got, err
}

// openocdInspect returns the commands for Inspect.
func openocdInspect(r *toolRun, ranges []Range) []string {
	read := `regexp {: (0x[0-9a-fA-F]+)} [capture "reg pc"] all value; echo "` + mark + counter + `$value"`

	steps := []string{r.done("halt", "halted"), r.done(read, "read the program counter")}
	steps = append(steps, openocdDumps(r, ranges)...)
	steps = append(steps, r.done("resume", "resumed"))
	return append(steps, openocdEnd(r, false)...)
}

// Inspect halts the core, reads its program counter and the ranges, and resumes it.
func (o *openocd) Inspect(ctx context.Context, ranges []Range) (uint32, []Segment, error) {
	return o.runInspection(ranges, func(c Config, dir string, timeout time.Duration) error {
		inspecting := &openocd{c}
		r := &toolRun{args: inspecting.connect(dir, noGDB)}
		r.execute(openocdInspect(r, ranges))
		return inspecting.execute(ctx, r, dir, timeout)
	})
}

// Inspect halts the core, reads its program counter and the ranges, and resumes it.
func (p *pyocd) Inspect(ctx context.Context, ranges []Range) (uint32, []Segment, error) {
	return p.runInspection(ranges, func(c Config, dir string, timeout time.Duration) error {
		inspecting := &pyocd{c}

		r, err := inspecting.script()
		if err != nil {
			return err
		}
		// Halted without a reset, which would destroy the state.
		r.command("halt")
		r.addMark("halted")
		r.pyocdReads(ranges)
		r.command("resume")
		r.addMark("resumed")
		r.pyocdEnd(false)
		return inspecting.execute(ctx, r, dir, timeout)
	})
}
