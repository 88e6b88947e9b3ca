// This file defines the errors of a choice that no device, several devices or another device match.

package desk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// ambiguous returns the error, of class config, of a choice that several attached devices match. Several ports may
// belong to one USB device; or their names are addresses.
func ambiguous(board string, ports []attached.Port) error {
	var names []string
	for _, p := range ports {
		names = append(names, describe(p))
	}
	return failure.New(failure.Config, howToChoose(ports), "%d attached devices may be board %s: %s", len(ports), board,
		strings.Join(names, ", "))
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

// howToChoose returns advice: to choose by the first of serial, path and name that is unique.
func howToChoose(ports []attached.Port) string {
	for _, property := range []func(attached.Port) string{
		func(p attached.Port) string { return p.Serial },
		func(p attached.Port) string { return p.Path },
		func(p attached.Port) string { return p.Name },
	} {
		first := property(ports[0])
		same := func(o attached.Port) bool { return property(o) == first }
		if first != "" && !slices.ContainsFunc(ports[1:], same) {
			return "choose one, as in " + nextstep.Option("which", first) + interfaces(ports)
		}
	}
	return "name the probe and its UART in desk.json (docs/devices.md)"
}

// interfaces returns further advice if all are ports of one USB device.
func interfaces(ports []attached.Port) string {
	var list []string
	for _, p := range ports {
		if p.Interface == "" || p.Path != ports[0].Path {
			return ""
		}
		list = append(list, p.Interface)
	}
	return ", or name the interface of the board's UART as link.interface in its board file: " + strings.Join(list, " or ")
}

// ErrMissing is wrapped by the error, of class probe-missing, of a board that is not attached.
var ErrMissing = failure.New(failure.ProbeMissing, nextstep.Target("devices")+" lists what is attached", "not attached")

// missing returns ErrMissing for the chosen device, or for any device of the board if which is "".
func missing(b *boards.Board, which string) error {
	if which != "" {
		return fmt.Errorf("device %q of board %s is %w", which, b.Name, ErrMissing)
	}
	return fmt.Errorf("board %s is %w: no probe or serial port of USB device %s", b.Name, ErrMissing, usbID(b))
}

// WrongBoard returns the error, of class config, of a device that may not be the chosen board, because of these facts.
// Nothing was written.
func WrongBoard(board string, facts ...string) error {
	return failure.New(failure.Config, "choose the right board and device, or save the change: "+
		nextstep.Option("DeskFile.Note", "")+"; "+nextstep.Option("Desk.Reflash", "true")+" flashes anyway",
		"the device may not be the chosen board %s: %s", board, strings.Join(facts, "; "))
}
