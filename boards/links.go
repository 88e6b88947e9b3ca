// This file is the table of the kinds of links: what a board file may contain for each. Package device opens them.

package boards

import (
	"slices"
)

// A linkKind is one way to reach the firmware.
type linkKind struct {
	name     string
	remote   bool // Link.Remote
	host     bool // Link.OnHost
	emulator bool // Link.IsEmulator
	probe    bool // Link.ThroughProbe
}

var linkKinds = []linkKind{
	{name: "process", host: true},
	{name: "qemu", host: true, emulator: true},
	{name: "serial"},
	{name: "tcp", remote: true},
	{name: "rtt", probe: true},
}

// kind returns the table's row for the link's kind; ok is false if there is none.
func (l Link) kind() (k linkKind, ok bool) {
	i := slices.IndexFunc(linkKinds, func(k linkKind) bool { return k.name == l.Kind })
	if i < 0 {
		return linkKind{}, false
	}
	return linkKinds[i], true
}

// Remote reports whether the firmware is reached at an address. The link then needs no USB device of this computer, and
// nothing of it names the board's debug probe.
func (l Link) Remote() bool {
	k, _ := l.kind()
	return k.remote
}

// OnHost reports whether the firmware runs on this computer: as a process, or emulated.
func (l Link) OnHost() bool {
	k, _ := l.kind()
	return k.host
}

// IsEmulator reports whether an emulator runs the firmware.
func (l Link) IsEmulator() bool {
	k, _ := l.kind()
	return k.emulator
}

// IsProcess reports whether the firmware is a program of this computer.
func (l Link) IsProcess() bool { return l.OnHost() && !l.IsEmulator() }

// ThroughProbe reports whether the firmware is reached through the board's debug probe, which is then all of the device
// that is on USB.
func (l Link) ThroughProbe() bool {
	k, _ := l.kind()
	return k.probe
}

func (b *Board) checkLink() error {
	l := b.Link
	k, ok := l.kind()
	if !ok { // of a partial board
		return nil
	}

	// No USB device of the link identifies the probe.
	if f := b.Flash; (k.remote || k.probe) && f.Programmer != NoProgrammer && f.USB == "" && !f.Emulated {
		return b.wrong("flash", "with a link of kind %s, %s needs usb, vendor and product of the debug probe",
			l.Kind, f.Programmer)
	}

	if p, _ := b.Flash.programmer(); k.probe && !p.rtt {
		i := slices.IndexFunc(programmers, func(p programmer) bool { return p.rtt })
		return b.wrong("flash.programmer", "a link of kind %s needs %s", l.Kind, programmers[i].name)
	}
	return nil
}
