// This file groups ports and probes into USB devices.

package attached

import (
	"slices"
	"strings"
)

// A Unit is one USB device (a probe, an adapter, or both), or one port that is not on USB.
type Unit struct {
	ID       string // vendor and product
	Serial   string
	Path     string
	Shared   bool // another one has the same serial, or no serial either
	Unlisted bool // only its serial is set, from desk.json: this system does not list USB devices
	Ports    []Port
}

// Same reports whether two are the same USB device.
func (u Unit) Same(o Unit) bool {
	return u.Path == o.Path && u.Serial == o.Serial && (u.Path != "" || u.Serial != "" || u.portNames() == o.portNames())
}

func (u Unit) portNames() string {
	var names []string
	for _, p := range u.Ports {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// Matches reports whether a user's choice is the unit's serial or path, or the name of one of its ports.
func (u Unit) Matches(which string) bool {
	return u.Serial == which || u.Path == which ||
		slices.ContainsFunc(u.Ports, func(p Port) bool { return p.Name == which })
}

// Candidates lists the units of a later listing that may be u: by its serial if that was unique, else by its path. Of
// several with its serial, the one at its path is u.
func (u Unit) Candidates(all []Unit) (list []Unit) {
	if u.Unlisted {
		return []Unit{u}
	}

	for _, o := range all {
		same := false
		switch {
		case u.Serial != "" && !u.Shared:
			same = o.Serial == u.Serial
		case u.Path != "":
			same = o.Path == u.Path && o.Serial == u.Serial && o.ID == u.ID
		case len(u.Ports) > 0:
			same = o.Matches(u.Ports[0].Name)
		}

		if same {
			list = append(list, o)
		}
	}

	i := slices.IndexFunc(list, func(o Unit) bool { return u.Path != "" && o.Path == u.Path })
	if len(list) > 1 && i >= 0 {
		return list[i : i+1]
	}
	return list
}

// Units lists the USB devices that are probes or have ports, and other ports. probe is the vendor and product of
// a probe besides those that ProbeKind has.
func Units(probe string) (all []Unit, err error) {
	ports, err := Ports()
	if err != nil {
		return nil, err
	}

	for _, p := range ports {
		// Without a path, as on macOS and Windows, the serial has to show which ports are of one device.
		i := slices.IndexFunc(all, func(u Unit) bool {
			return p.Path != "" && u.Path == p.Path || p.Path == "" && p.Serial != "" && u.ID == p.USB && u.Serial == p.Serial
		})
		if i < 0 {
			all, i = append(all, Unit{ID: p.USB, Serial: p.Serial, Path: p.Path}), len(all)
		}
		all[i].Ports = append(all[i].Ports, p)
	}

	// A probe without a UART has no port.
	for _, d := range USBDevices() {
		isProbe := ProbeKind(d.ID) != "" || strings.EqualFold(d.ID, probe)
		if isProbe && !slices.ContainsFunc(all, func(u Unit) bool { return u.Path == d.Path }) {
			all = append(all, Unit{ID: d.ID, Serial: d.Serial, Path: d.Path})
		}
	}

	// Serials of one vendor may be equal, and devices without one cannot be told apart.
	for i := range all {
		for j, o := range all {
			same := o.Serial == all[i].Serial && (o.Serial != "" || o.ID == all[i].ID)
			all[i].Shared = all[i].Shared || i != j && same
		}
	}
	return all, nil
}
