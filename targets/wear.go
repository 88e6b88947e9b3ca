// This file prints how often the flash of each device was erased.

package targets

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Wear shows how often each sector of boards' flash was erased, and its rating.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func Wear(ctx context.Context) error { return doWear(ctx) }

var doWear = jobTarget("wear", "", listWear)

// wearInputs are the variables of wear.
type wearInputs struct {
	inputs.OnBoard
}

func listWear(ctx context.Context, j *job, _ wearInputs) error {
	list, err := j.desk().Wear()
	if err != nil {
		return err
	}

	count := 0
	for _, w := range list {
		if j.in.Device != "" && !namesDevice(j, w) || j.in.NamedBoard != "" && w.Board != j.in.BoardName() {
			continue
		}
		count++
		printWear(j.Console, w)
	}

	switch {
	case len(list) == 0:
		j.Printf("wear: nothing was flashed yet")
	case count == 0:
		j.Printf("wear: of the %d devices that were flashed, none is meant by BOARD and DEVICE", len(list))
	}

	j.JSONLine(jsonlines.Devices{Devices: count})
	return nil
}

func namesDevice(j *job, w device.DeviceWear) bool {
	in := j.in
	d := in.DeskFile.Find(in.Device)
	// Without an entry in desk.json, DEVICE is a probe or a chip.
	if d == nil {
		return w.Probe == in.Device || strings.HasSuffix(w.Device, ":"+in.Device)
	}

	if d.Chip != "" {
		return w.Device == "chip:"+d.Chip
	}
	// A device without a chip's id is known by its probe.
	return w.Probe == cmp.Or(d.Probe, d.Link.Path)
}

func printWear(c *console.Console, w device.DeviceWear) {
	state := "holds build " + w.BuildID
	switch {
	case w.Dirty:
		state = "dirty: a flash was not finished"
	case w.BuildID == "" && !w.Verified.IsZero():
		state = "holds no image: " + w.Reason
	case w.BuildID == "":
		state = "its contents are unverified"
	}

	c.Printf("%s, board %s, probe %s: %d flashes, %d failed; %s", w.Device, w.Board, w.Probe, w.Flashes, w.Failures, state)

	for i, s := range w.Sectors {
		if i == 0 || !sameWear(w.Sectors[i-1], s) {
			c.Printf("%s", wearLine(w.Sectors[i:]))
		}
	}
	c.JSONLine(jsonlines.Wear{DeviceWear: w})
}

// sameWear reports whether a sector follows another one, with the same size, erases and rating.
func sameWear(a, b device.SectorWear) bool {
	return a.Region == b.Region && a.Index+1 == b.Index && a.Size == b.Size && a.Erases == b.Erases && a.Rated == b.Rated
}

// wearLine returns the line of the first sector, and of those behind it whose wear is the same.
func wearLine(sectors []device.SectorWear) string {
	s, last := sectors[0], 0

	for last+1 < len(sectors) && sameWear(sectors[last], sectors[last+1]) {
		last++
	}

	number := fmt.Sprint(s.Index)
	if last > 0 {
		number += fmt.Sprintf("-%d", s.Index+last)
	}

	text := fmt.Sprintf("  %-8s %9s  0x%08x %7s %6d erases", s.Region, number, s.Addr, format.Bytes(int64(s.Size)),
		s.Erases)

	if s.Rated > 0 {
		text += fmt.Sprintf(" of %6d: %s", s.Rated, usedLife(s))
	}

	return text
}

// usedLife returns how much of a sector's rated life is used.
func usedLife(s device.SectorWear) string {
	percent := 100 * float64(s.Erases) / float64(s.Rated)

	text := fmt.Sprintf("%.3g %%", percent)
	switch {
	case percent >= 100:
		text += " worn out"
	case s.Worn():
		text += " worn"
	}
	return text
}
