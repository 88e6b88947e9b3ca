// This file is the table of the kinds of links: what a board file may contain for each. Package device opens them.

package boards

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// A linkKind is one way to reach the firmware.
type linkKind struct {
	name     string
	needs    []string // fields of Link that a board file must have for it
	takes    []string // those that it may have, besides kind
	remote   bool     // Link.Remote
	host     bool     // Link.OnHost
	emulator bool     // Link.IsEmulator
	probe    bool     // Link.ThroughProbe

	checkAddress func(string) error // of Link.Address; nil if the kind does not take it
}

var linkKinds = []linkKind{
	{name: "process", host: true},
	{
		name: "qemu", host: true, emulator: true, needs: []string{"program", "args"},
		takes: []string{"install", "min_version", "baud"},
	},
	{name: "serial", takes: []string{"usb", "interface", "baud"}},
	{name: "tcp", takes: []string{"address", "baud"}, remote: true, checkAddress: checkHostPort},
	{name: "rtt", probe: true},
}

// LinkKinds lists the values that Link.Kind can have.
func LinkKinds() (names []string) {
	for _, k := range linkKinds {
		names = append(names, k.name)
	}
	return names
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

// A given is a field by its name in a board file.
type given struct {
	name string
	set  bool
}

// fieldsOf returns the fields of a Link besides the kind, or those of a Flash.
func fieldsOf(of any) (list []given) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		set := !v.Field(i).IsZero()
		// IsZero is false for an empty list that is not nil.
		if v.Field(i).Kind() == reflect.Slice {
			set = v.Field(i).Len() > 0
		}

		if name != "kind" && name != "-" {
			list = append(list, given{name, set})
		}
	}
	return list
}

func (b *Board) checkLink() error {
	l := b.Link
	if l.Kind == "" { // of a partial board
		return nil
	}

	k, ok := l.kind()
	if !ok {
		return b.wrong("link.kind", "%q is not a link%s", l.Kind, jsonfile.DidYouMean(l.Kind, LinkKinds()))
	}

	if err := b.checkLinkFields(k); err != nil {
		return err
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

	if l.Address != "" {
		if err := k.checkAddress(l.Address); err != nil {
			return b.wrong("link.address", "%v", err)
		}
	}
	return nil
}

// checkHostPort returns an error unless an address has a host and the number of a port.
func checkHostPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || notNumber != nil || n == 0 {
		return fmt.Errorf("%q is not host:port, as in 192.0.2.7:4000", address)
	}
	return nil
}

// checkLinkFields reports a field that the kind needs and that is missing, and one that another kind has.
func (b *Board) checkLinkFields(k linkKind) error {
	for _, f := range fieldsOf(b.Link) {
		switch {
		case !f.set && slices.Contains(k.needs, f.name):
			return b.wrong("link", "a link of kind %s needs %s", k.name, strings.Join(k.needs, " and "))
		case f.set && !k.has(f.name):
			return b.wrong("link."+f.name, "a link of kind %s has no %s: it is for %s",
				k.name, f.name, strings.Join(kindsWith(f.name), ", "))
		}
	}
	return nil
}

func (k linkKind) has(field string) bool {
	return slices.Contains(k.needs, field) || slices.Contains(k.takes, field)
}

// kindsWith lists the kinds that have a field.
func kindsWith(field string) (names []string) {
	for _, k := range linkKinds {
		if k.has(field) {
			names = append(names, k.name)
		}
	}
	return names
}
