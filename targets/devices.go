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
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
)

// devices lists probes, ports and emulated boards; with SAVE=1 it asks known boards for their chips and writes
// desk.json.
func (v *invocation) devices(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	all, err := v.desk(in).Devices(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		v.printDevice(in, d, all)
	}
	if len(all) == 0 {
		v.Printf("devices: no probe, no serial port, and no emulated board was used yet (BOARD=microbit %s starts one)",
			v.Mage("emulated:up"))
	}
	if v.Env.On("SAVE") {
		if err := v.saveDeskFile(ctx, in, all); err != nil {
			return err
		}
	}
	v.JSONLine(jsonlines.Devices{Devices: len(all)})
	return nil
}

func (v *invocation) printDevice(in *inputs.Inputs, d device.Attached, all []device.Attached) {
	words := []string{cmp.Or(strings.Join(d.Boards, " or "), "unknown board")}
	if d.What != "" {
		words = append(words, d.What)
	}
	r := jsonlines.Device{
		Boards: append([]string{}, d.Boards...), Probe: d.Probe, Port: d.Port, USB: d.USB, Path: d.Path,
		Interface: d.Interface, What: d.What, Emulated: d.Emulated, Runs: d.Runs,
	}
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
	if !d.Runs {
		words = append(words, "not running; starts when used")
	}
	for _, b := range in.DeskFile.Devices {
		if (b.Probe != "" || b.Link.Address != "") && inputs.IsNoted(b, d, all) {
			words = append(words, "named "+b.Name)
			r.Name = b.Name
		}
	}
	v.Printf("%s", strings.Join(words, ", "))
	v.JSONLine(r)
}

// saveDeskFile saves the attached devices: each that may be only one kind of board, or the one that DEVICE names
// for BOARD. It asks each for its chip.
func (v *invocation) saveDeskFile(ctx context.Context, in *inputs.Inputs, all []device.Attached) error {
	path := inputs.DeskFilePath(v.Dir)
	noted := 0
	for _, d := range all {
		b := v.kindOf(in, d)
		if b == nil || in.Device != "" && !in.Means(d, all) || !isUART(b, d) {
			continue
		}
		n, answers, err := v.ask(ctx, in, b, d)
		if err != nil {
			return fmt.Errorf("%s: %w", cmp.Or(d.Probe, d.Port), err)
		}
		if !answers && severalPorts(b, d, all) {
			v.Notef("%s: not saved: no boardsmith firmware responded, and the UART may be another port of its USB device",
				d.Port)
			continue
		}
		if n, err = in.DeskFile.Note(n); err != nil {
			return failure.New(failure.Config, "NAME=… names the one device that DEVICE=… chooses", "%s: %w",
				v.Shown(path),
				err)
		}
		noted++
		chip := cmp.Or(n.Chip, "unknown: no boardsmith firmware responded")
		if answers && n.Chip == "" {
			chip = "without an id"
		}
		place := "probe " + cmp.Or(n.Probe, "none")
		if n.Probe == "" && n.Link.Address != "" {
			place = "address " + n.Link.Address
		}
		v.Printf("%s: %s, %s, chip %s", n.Name, n.Board, place, chip)
		v.JSONLine(jsonlines.Saved{
			Name: n.Name, Board: n.Board, Probe: n.Probe, Address: n.Link.Address, Chip: n.Chip,
		})
	}
	if noted == 0 {
		return failure.New(failure.ProbeMissing, "name its board: BOARD=… DEVICE=<serial, path or port> SAVE=1 "+
			failure.Target("devices"),
			"no device was saved: of none is known which board it is, and which port is its UART")
	}
	if err := in.DeskFile.Write(path); err != nil {
		return err
	}
	v.Printf("wrote %s", v.Shown(path))
	return nil
}

// kindOf returns a device's kind of board, or nil if unknown.
func (v *invocation) kindOf(in *inputs.Inputs, d device.Attached) *boards.Board {
	name := ""
	switch asked := v.Env("BOARD"); {
	case len(d.Boards) == 1 && (asked == "" || asked == d.Boards[0]):
		name = d.Boards[0]
	case asked != "" && in.Device != "" && !d.Emulated:
		name = asked
	}
	b, err := boards.Find(name, in.Path)
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

// severalPorts reports whether a device's USB device has other ports that may be its UART.
func severalPorts(b *boards.Board, d device.Attached, all []device.Attached) bool {
	return d.USB != "" && d.Port != "" && slices.ContainsFunc(all, func(o device.Attached) bool {
		return isUART(b, o) && o.Port != "" && o.Port != d.Port && o.Probe == d.Probe && o.Path == d.Path && o.USB == d.USB
	})
}

// ask attaches a device and identifies it.
func (v *invocation) ask(
	ctx context.Context, in *inputs.Inputs, b *boards.Board, d device.Attached,
) (n device.DeskDevice, answers bool, err error) {
	n = device.DeskDevice{Name: v.Env("NAME"), Board: b.Name, Probe: d.Probe}
	desk := v.desk(in)
	if desk.Programmer == boards.NoProgrammer {
		desk.Programmer = ""
	}
	which := cmp.Or(d.Port, d.Path, d.Probe)
	if d.Emulated {
		which = d.Probe
	}
	dev, err := v.attach(ctx, b, which, desk)
	if err != nil {
		return n, false, err
	}
	is, err := dev.Identify(ctx)
	n.Chip, n.Link, n.Shared = is.Chip, is.Link, is.Shared
	return n, is.Answers, errors.Join(err, dev.Close())
}

// attached returns the board's device, leased until the run target or the process ends.
func (v *invocation) attached(ctx context.Context) (*device.Device, error) {
	if v.device == nil {
		d, err := v.attach(ctx, v.project.Board(), v.in.Device, v.desk(v.in))
		if err != nil {
			return nil, err
		}
		v.device = d
	}
	return v.device, nil
}

func (v *invocation) detach() error {
	d := v.device
	v.device = nil
	if d == nil {
		return nil
	}
	return d.Close()
}
