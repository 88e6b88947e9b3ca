// This file reports the C runtime's size and speed, so that the cost of each change is visible.

package develop

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// runtimeFigures is a check: it measures the runtime on an emulated Cortex-M3, and fails if a figure exceeds its
// committed ceiling.
var runtimeFigures = check{name: "crt measure", argv: []string{"make", "-s", "-C", "crt", "measure"}}

// runtimeTools are the tools that it needs.
var runtimeTools = []string{"make", "arm-none-eabi-gcc", "qemu-system-arm"}

// runtimeTable measures, and returns the table of figures, ceilings and budget. If it cannot measure, missing is the
// reason. An error contains the output.
func (r *repository) runtimeTable(ctx context.Context) (table, missing string, err error) {
	for _, tool := range runtimeTools {
		if _, err := exec.LookPath(tool); err != nil {
			return "", tool + " is not installed", nil
		}
	}
	printed, err := r.runCheck(ctx, runtimeFigures)
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if err != nil {
		return "", "", fmt.Errorf("%s%w\nto repeat: %s", printed, err, runtimeFigures.typed())
	}
	return strings.TrimRight(string(printed), "\n"), "", nil
}

// testRuntimeFigures prints the table with the other tests' results.
func (r *repository) testRuntimeFigures(ctx context.Context, t *tally) error {
	start := time.Now()
	p := r.Start(runtimeFigures.name, 0)
	table, missing, err := r.runtimeTable(ctx)
	p.End()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.fail(t, runtimeFigures.name, err.Error())
	case missing != "":
		r.skip(t, runtimeFigures.name, missing)
	default:
		r.pass(t, runtimeFigures.name, time.Since(start))
		r.Printf("%s", table)
		t.sections = append(t.sections, "", table)
	}
	return nil
}
