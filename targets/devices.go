// This file lists attached devices, saves them in desk.json, and attaches the one to use.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Devices lists probes, serial ports and emulated boards. SAVE=1 asks them for their chips and writes desk.json.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	SAVE         1 reads each chip's id and writes desk.json: devices.md [not written]
func Devices(ctx context.Context) error { return doDevices(ctx) }

var doDevices = jobTarget("devices", "", listDevices)

// devicesInputs are the variables of devices.
type devicesInputs struct {
	inputs.OnBoard
	Programmer string `var:"PROGRAMMER"`
	Save       string `var:"SAVE"`
}

func listDevices(ctx context.Context, j *job, v devicesInputs) error {
	all, err := j.desk().Devices(ctx)
	if err != nil {
		return err
	}

	for _, d := range all {
		printDevice(j, d, all)
	}
	if len(all) == 0 {
		j.Printf("devices: no probe, no serial port, and no emulated board was used yet (BOARD=microbit %s starts one)",
			j.Mage("emulated:up"))
	}

	printUnused(j, all)
	if console.IsOn(v.Save) {
		if err := saveDeskFile(ctx, j, v.Save, all); err != nil {
			return err
		}
	}

	j.JSONLine(jsonlines.Devices{Devices: len(all)})
	return nil
}

// printUnused prints the emulated boards that were never used, and those that each session starts.
func printUnused(j *job, used []device.Attached) {
	for _, name := range boards.List(j.in.Path) {
		b, err := boards.Find(name, j.in.Path)
		isListed := slices.ContainsFunc(used, func(d device.Attached) bool {
			return d.Emulated && slices.Contains(d.Boards, name)
		})

		r := jsonlines.Device{Attached: device.Attached{Boards: []string{name}, Emulated: true}}
		switch {
		case err != nil || isListed:
			continue
		case b.Flash.Emulated:
			r.Product = "emulated " + b.Flash.Chip
			j.Printf("%s, %s, not used yet; starts when used", name, r.Product)
		case b.Link.IsEmulator():
			r.Product = "emulated by " + b.Link.Program
			j.Printf("%s, %s, which each session starts", name, r.Product)
		default:
			continue
		}
		j.JSONLine(r)
	}
}

func printDevice(j *job, d device.Attached, all []device.Attached) {
	words := []string{cmp.Or(strings.Join(d.Boards, " or "), "unknown board")}

	if d.Product != "" {
		words = append(words, d.Product)
	}

	r := jsonlines.Device{Attached: d}
	r.Boards = append([]string{}, d.Boards...) // [] in JSON, not null

	for _, f := range []struct{ name, value string }{
		{"serial", d.Probe},
		{"port", d.Port},
		{"USB", d.USB},
		{"path", d.Path},
		{"interface", d.Interface},
	} {
		if f.value != "" {
			words = append(words, f.name+" "+f.value)
		}
	}

	if !d.Running {
		words = append(words, "not running; starts when used")
	}

	for _, b := range j.in.DeskFile.Devices {
		if (b.Probe != "" || b.Link.Address != "") && inputs.IsNoted(b, d, all) {
			words = append(words, "named "+b.Name)
			r.Name = b.Name
		}
	}

	j.Printf("%s", strings.Join(words, ", "))
	j.JSONLine(r)
}

// saveDeskFile saves the attached devices: each that may be only one kind of board, or the one that DEVICE names
// for BOARD. It queries the chip of each.
func saveDeskFile(ctx context.Context, j *job, name string, all []device.Attached) error {
	in := j.in
	path := inputs.DeskFilePath(j.Dir)
	noted := 0

	for _, d := range all {
		b := boardOf(j, d)
		if b == nil || in.Device != "" && !in.Means(d, all) || !isUART(b, d) {
			continue
		}

		n, answers, err := identify(ctx, j, b, d, name)
		if err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(d.Probe, d.Port), err)
		}
		// Only an answer shows which of several ports of the USB device is the UART.
		isOther := func(o device.Attached) bool {
			return isUART(b, o) && o.Port != "" && o.Port != d.Port && o.Probe == d.Probe && o.Path == d.Path && o.USB == d.USB
		}
		if !answers && d.USB != "" && d.Port != "" && slices.ContainsFunc(all, isOther) {
			j.Notef("%s: not saved: no boardsmith firmware responded, and the UART may be another port of its USB device",
				d.Port)
			continue
		}

		if n, err = in.DeskFile.Note(n); err != nil {
			return failure.New(failure.Config, "SAVE=NAME names the one device that DEVICE=… chooses", "%s: %w",
				j.Shown(path),
				err)
		}

		noted++

		chip := cmp.Or(n.Chip, "unknown: no boardsmith firmware responded")
		if answers && n.Chip == "" {
			chip = "without an id"
		}
		location := "probe " + cmp.Or(n.Probe, "none")
		if n.Probe == "" && n.Link.Address != "" {
			location = "address " + n.Link.Address
		}

		j.Printf("%s: %s, %s, chip %s", n.Name, n.Board, location, chip)
		j.JSONLine(jsonlines.Saved{
			Name: n.Name, Board: n.Board, Probe: n.Probe, Address: n.Link.Address, Chip: n.Chip,
		})
	}

	if noted == 0 {
		return failure.New(failure.ProbeMissing, "name its board: BOARD=… DEVICE=<serial, path or port> SAVE=1 "+
			nextstep.Target("devices"),
			"no device was saved: of none is known which board it is, and which port is its UART")
	}

	if err := in.DeskFile.Write(path); err != nil {
		return err
	}
	j.Printf("wrote %s", j.Shown(path))
	return nil
}

// boardOf returns a device's kind of board, or nil if unknown.
func boardOf(j *job, d device.Attached) *boards.Board {
	name, variable := "", j.in.NamedBoard
	switch {
	case len(d.Boards) == 1 && (variable == "" || variable == d.Boards[0]):
		name = d.Boards[0]
	case variable != "" && j.in.Device != "" && !d.Emulated:
		name = variable
	}

	b, err := boards.Find(name, j.in.Path)
	if name == "" || err != nil {
		return nil
	}
	return b
}

// isUART reports whether a port may be the board's, by its USB interface.
func isUART(b *boards.Board, d device.Attached) bool {
	want := b.Link.Interface
	return want == nil || d.Interface == "" || d.Interface == strconv.Itoa(*want)
}

// identify attaches a device and identifies it.
func identify(
	ctx context.Context, j *job, b *boards.Board, d device.Attached, name string,
) (n device.DeskDevice, answers bool, err error) {
	n = device.DeskDevice{Name: name, Board: b.Name, Probe: d.Probe}

	if console.IsSwitch(n.Name) {
		n.Name = ""
	}

	desk := j.desk()
	if desk.Programmer == boards.NoProgrammer {
		desk.Programmer = ""
	}

	which := cmp.Or(d.Port, d.Path, d.Probe)
	if d.Emulated {
		which = d.Probe
	}

	dev, err := attach(ctx, j.Console, b, which, desk)
	if err != nil {
		return n, false, err
	}

	identity, err := dev.Identify(ctx)
	n.Chip, n.Link, n.Shared = identity.Chip, identity.Link, identity.Shared
	return n, identity.Responds, errors.Join(err, dev.Close())
}
