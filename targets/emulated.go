// This file starts, stops and changes the emulated chip of a board.

package targets

import (
	"context"
)

// emulated runs an action on BOARD's emulated chip.
func (v *invocation) emulated(ctx context.Context, do string) error {
	in, b, err := v.boardOf()
	if err != nil {
		return err
	}
	if do != "down" {
		if err := v.needKeeper(ctx, b); err != nil {
			return err
		}
	}
	chip, err := v.desk(in).Emulated(ctx, b, do)
	if err != nil {
		return err
	}
	state := "is not running; its flash is kept"
	if chip.Runs {
		state = "runs, port " + chip.Port
	}
	done := map[string]string{"erase": ", its flash was erased", "swap": ", a new chip is on it"}[do]
	v.Printf("emulated: board %s, probe %s, %s%s", b.Name, chip.Probe, state, done)
	v.JSONLine(fields{
		"status": "done", "board": b.Name, "probe": chip.Probe, "port": chip.Port, "runs": chip.Runs,
		"chips": chip.Chip,
	})
	return nil
}
