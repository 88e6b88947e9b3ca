// This file prints how often the flash of each device was erased.

package targets

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
)

// wear prints how often the sectors of each device's flash were erased.
func (v *invocation) wear(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	list, err := v.desk(in).Wear()
	if err != nil {
		return err
	}
	shown := 0
	for _, w := range list {
		if in.Device != "" && !v.isDevice(in, w) || v.Env("BOARD") != "" && w.Board != in.BoardName() {
			continue
		}
		shown++
		v.printWear(w)
	}
	if shown == 0 {
		v.Printf("wear: nothing was flashed yet")
	}
	v.JSONLine(jsonlines.Devices{Devices: shown})
	return nil
}

func (v *invocation) isDevice(in *inputs.Inputs, w device.DeviceWear) bool {
	d := in.DeskFile.Find(in.Device)
	if d == nil {
		return w.Probe == in.Device || strings.HasSuffix(w.Device, ":"+in.Device)
	}
	if d.Chip != "" {
		return w.Device == "chip:"+d.Chip
	}
	return w.Probe == cmp.Or(d.Probe, d.Link.Path)
}

const barWidth = 30

func (v *invocation) printWear(w device.DeviceWear) {
	state := "holds build " + w.BuildID
	switch {
	case w.Dirty:
		state = "dirty: a flash was not finished"
	case w.BuildID == "" && !w.Verified.IsZero():
		state = "holds no image: " + w.Why
	case w.BuildID == "":
		state = "its contents are unverified"
	}
	v.Printf("%s, board %s, probe %s: %d flashes, %d failed; %s", w.Device, w.Board, w.Probe, w.Flashes, w.Failures, state)
	var sectors []jsonlines.SectorErase
	for _, c := range w.Sectors {
		r := jsonlines.SectorErase{
			Region: c.Region, Sector: c.Index, Addr: c.Addr, Size: c.Size, Erases: c.Erases, Rated: c.Rated,
		}
		text := fmt.Sprintf("  %-8s %4d  0x%08x %8s  %6d erases", c.Region, c.Index, c.Addr, valuetext.Bytes(int64(c.Size)),
			c.Erases)
		if c.Rated > 0 {
			text += fmt.Sprintf(" of %6d  %s", c.Rated, wearBar(c))
		}
		v.Printf("%s", text)
		sectors = append(sectors, r)
	}
	r := jsonlines.Wear{
		Device: w.Device, Board: w.Board, Probe: w.Probe, BuildID: w.BuildID, Dirty: w.Dirty, Flashes: w.Flashes,
		Failures: w.Failures, Why: w.Why, Sectors: sectors,
	}
	if !w.Verified.IsZero() {
		r.Verified = w.Verified.Format(time.RFC3339)
	}
	v.JSONLine(r)
}

// wearBar draws the used part of a sector's rated life: at least one mark after any erase.
func wearBar(s device.SectorWear) string {
	n := min(barWidth, (s.Erases*barWidth+s.Rated-1)/s.Rated)
	percent := 100 * float64(s.Erases) / float64(s.Rated)
	text := fmt.Sprintf("[%s%s] %.3g %%", strings.Repeat("#", n), strings.Repeat(".", barWidth-n), percent)
	switch {
	case percent >= 100:
		text += " worn out: FORCE=1 writes to it anyway"
	case s.Worn():
		text += " worn"
	}
	return text
}
