// This file inspects a board that does not respond, as a debugger would, without changing its state.

package flasher

import (
	"context"
	"fmt"
	"time"
)

// A Core holds the registers of a halted Cortex-M core.
type Core struct{ PC, LR, SP uint32 }

// An Inspector is a programmer that can read a board's state without a reset.
type Inspector interface {
	// Inspect halts the core, reads its registers and the ranges, and resumes it. Errors: *ProgrammerError, those of ctx.
	Inspect(ctx context.Context, ranges []Range) (Core, []Segment, error)
}

// register is the prefix of a register's value; not a step, because the value is not known before.
const register = mark + "register %s 0x%x"

// inspected runs a tool with a configuration that collects the registers, and returns the result.
func (c Config) inspected(ctx context.Context, ranges []Range,
	run func(c Config, dir string, timeout time.Duration) error,
) (core Core, got []Segment, err error) {
	at := map[string]*uint32{"pc": &core.PC, "lr": &core.LR, "sp": &core.SP}
	c.told = func(line string) {
		var name string
		var value uint32
		if n, _ := fmt.Sscanf(line, register, &name, &value); n == 2 && at[name] != nil { // any other line is another mark
			*at[name] = value
		}
	}
	err = inFolder(ctx, func(dir string) error {
		if err := run(c, dir, c.readTimeout(ranges)); err != nil {
			return explain(err)
		}
		got, err = readBack(dir, ranges)
		return err
	})
	return core, got, err
}

// openocdInspect returns the commands for Inspect.
func openocdInspect(r *toolRun, ranges []Range) []string {
	registers := `foreach name {pc lr sp} {regexp {: (0x[0-9a-fA-F]+)} [capture "reg $name"] all value; echo "` + mark +
		`register $name $value"}`
	steps := []string{r.done("halt", "halted"), r.done(registers, "registers")}
	steps = append(steps, openocdDumps(r, ranges)...)
	steps = append(steps, r.done("resume", "resumed"))
	return append(steps, openocdEnd(r, false)...)
}

// Inspect implements Inspector.
func (o *openocd) Inspect(ctx context.Context, ranges []Range) (Core, []Segment, error) {
	return o.inspected(ctx, ranges, func(c Config, dir string, timeout time.Duration) error {
		told := &openocd{c}
		r := &toolRun{args: told.connect(dir, noGDB)}
		r.execute(openocdInspect(r, ranges))
		return told.execute(ctx, r, dir, timeout)
	})
}

// Inspect implements Inspector.
func (p *pyocd) Inspect(ctx context.Context, ranges []Range) (Core, []Segment, error) {
	return p.inspected(ctx, ranges, func(c Config, dir string, timeout time.Duration) error {
		told := &pyocd{c}
		r, err := told.script()
		if err != nil {
			return err
		}
		r.command("halt")
		r.noted("halted")
		r.pyocdReads(ranges)
		r.command("resume")
		r.noted("resumed")
		r.pyocdEnd(false)
		return told.execute(ctx, r, dir, timeout)
	})
}
