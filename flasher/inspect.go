// This file inspects a board that does not respond, as a debugger would, without changing its state.

package flasher

import (
	"context"
	"fmt"
	"time"
)

// A Core holds the registers of a halted Cortex-M core.
type Core struct{ PC, LR, SP uint32 }

// register is the prefix of a register's value; not a step, because the value varies.
const register = mark + "register %s 0x%x"

// runInspection runs a tool with a configuration that collects the registers, and returns the result.
func (c Config) runInspection(ranges []Range,
	run func(c Config, dir string, timeout time.Duration) error,
) (core Core, got []Segment, err error) {
	registers := map[string]*uint32{"pc": &core.PC, "lr": &core.LR, "sp": &core.SP}

	c.output = func(line string) {
		var name string
		var value uint32
		if n, _ := fmt.Sscanf(line, register, &name, &value); n == 2 && registers[name] != nil { // else it is another mark
			*registers[name] = value
		}
	}

	err = inFolder(func(dir string) error {
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

// Inspect halts the core, reads its registers and the ranges, and resumes it.
func (o *openocd) Inspect(ctx context.Context, ranges []Range) (Core, []Segment, error) {
	return o.runInspection(ranges, func(c Config, dir string, timeout time.Duration) error {
		inspecting := &openocd{c}
		r := &toolRun{args: inspecting.connect(dir, noGDB)}
		r.execute(openocdInspect(r, ranges))
		return inspecting.execute(ctx, r, dir, timeout)
	})
}

// Inspect halts the core, reads its registers and the ranges, and resumes it.
func (p *pyocd) Inspect(ctx context.Context, ranges []Range) (Core, []Segment, error) {
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
