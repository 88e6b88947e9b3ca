// This file groups what is attached into USB devices.

package attached

import (
	"slices"
	"strings"
)

// A Unit is one USB device (a probe, an adapter, or both), or one port that is not on USB.
type Unit struct {
	ID     string // vendor and product
	Serial string
	Path   string
	Shared bool // another one has the same serial, or no serial either
	Told   bool // not seen: from desk.json's serial, on a system that does not list USB devices
	Ports  []Port
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

// Called reports whether a user's name is that of the unit or of one of its ports.
func (u Unit) Called(which string) bool {
	return u.Serial == which || u.Path == which ||
		slices.ContainsFunc(u.Ports, func(p Port) bool { return p.Name == which })
}

// Again lists the units that may be the one found before: by its serial if that was unique, else by its place.
func (u Unit) Again(all []Unit) (fit []Unit) {
	if u.Told {
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
			same = o.Called(u.Ports[0].Name)
		}
		if same {
			fit = append(fit, o)
		}
	}
	if there := slices.IndexFunc(fit, func(o Unit) bool { return u.Path != "" && o.Path == u.Path }); len(fit) > 1 &&
		there >= 0 {
		return fit[there : there+1] // another one with its serial was plugged in
	}
	return fit
}

// Units lists the USB devices that are probes or have ports, and other ports. probe is the vendor and product of
// a probe besides those that ProbeKind has.
func Units(probe string) (all []Unit, err error) {
	ports, err := Ports()
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		i := slices.IndexFunc(all, func(u Unit) bool {
			return p.Path != "" && u.Path == p.Path || p.Path == "" && p.Serial != "" && u.ID == p.USB && u.Serial == p.Serial
		})
		if i < 0 {
			all, i = append(all, Unit{ID: p.USB, Serial: p.Serial, Path: p.Path}), len(all)
		}
		all[i].Ports = append(all[i].Ports, p)
	}
	for _, d := range USBDevices() {
		isProbe := ProbeKind(d.ID) != "" || strings.EqualFold(d.ID, probe)
		if isProbe && !slices.ContainsFunc(all, func(u Unit) bool { return u.Path == d.Path }) {
			all = append(all, Unit{ID: d.ID, Serial: d.Serial, Path: d.Path})
		}
	}
	for i := range all {
		for j, o := range all {
			same := o.Serial == all[i].Serial && (o.Serial != "" || o.ID == all[i].ID)
			all[i].Shared = all[i].Shared || i != j && same
		}
	}
	return all, nil
}
