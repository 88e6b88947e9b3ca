// This file defines the errors of a choice that no device, several devices or another device match.

package desk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/desk/attached"
)

// An AmbiguousError reports a choice that several attached devices match.
type AmbiguousError struct {
	Board string
	Which string
	Ports []attached.Port // several may belong to one USB device; or the Names are addresses
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, p := range e.Ports {
		names = append(names, describe(p))
	}
	return fmt.Sprintf("%d attached devices may be board %s: %s", len(e.Ports), e.Board, strings.Join(names, ", "))
}

// describe returns the port's name and the properties of its USB device.
func describe(p attached.Port) string {
	var words []string
	for _, w := range []struct{ name, value string }{
		{"serial ", p.Serial},
		{"USB path ", p.Path},
		{"interface ", p.Interface},
	} {
		if w.value != "" {
			words = append(words, w.name+w.value)
		}
	}
	switch {
	case len(words) == 0:
		return p.Name
	case p.Name == "":
		return strings.Join(words, ", ")
	}
	return p.Name + " (" + strings.Join(words, ", ") + ")"
}

// FailureClass returns failure.Config.
func (e *AmbiguousError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to choose: by the first of serial, path and name that is unique.
func (e *AmbiguousError) NextStep() string {
	for _, property := range []func(attached.Port) string{
		func(p attached.Port) string { return p.Serial },
		func(p attached.Port) string { return p.Path },
		func(p attached.Port) string { return p.Name },
	} {
		first := property(e.Ports[0])
		same := func(o attached.Port) bool { return property(o) == first }
		if first != "" && !slices.ContainsFunc(e.Ports[1:], same) {
			return "choose one, as in " + failure.Option("which", first) + e.interfaces()
		}
	}
	return "name the probe and its UART in desk.json (docs/devices.md)"
}

// interfaces returns further advice if all are ports of one USB device.
func (e *AmbiguousError) interfaces() string {
	var list []string
	for _, p := range e.Ports {
		if p.Interface == "" || p.Path != e.Ports[0].Path {
			return ""
		}
		list = append(list, p.Interface)
	}
	return ", or name the interface of the board's UART as link.interface in its board file: " + strings.Join(list, " or ")
}

// A NoDeviceError reports a board that is not attached.
type NoDeviceError struct {
	Board, Which, USB string
}

func (e *NoDeviceError) Error() string {
	if e.Which != "" {
		return fmt.Sprintf("no attached device of board %s is called %q", e.Board, e.Which)
	}
	return fmt.Sprintf("board %s is not attached: no probe or serial port of USB device %s", e.Board, e.USB)
}

// FailureClass returns failure.ProbeMissing.
func (e *NoDeviceError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep returns what to check.
func (e *NoDeviceError) NextStep() string {
	return failure.Target("devices") + " lists what is attached"
}

// WrongBoard returns the error, of class config, of a device that may not be the chosen board, because of these facts.
// Nothing was written.
func WrongBoard(board string, facts ...string) error {
	return failure.New(failure.Config, "choose the right board and device, or save the change: "+
		failure.Option("DeskFile.Note", "")+"; "+failure.Option("Desk.Reflash", "true")+" flashes anyway",
		"the device may not be the chosen board %s: %s", board, strings.Join(facts, "; "))
}
