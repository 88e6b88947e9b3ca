// This file reads desk.json, and finds attached devices in it.

package inputs

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/device"
)

// deskFileName is searched for like boardsmith.json, but describes this computer's desk, not a repository.
const deskFileName = "desk.json"

// DeskFilePath returns the path of the nearest desk.json in dir and its parents; else that of a new one in dir.
func DeskFilePath(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		path := filepath.Join(d, deskFileName)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		// The root is its own parent.
		if d == filepath.Dir(d) {
			return filepath.Join(dir, deskFileName)
		}
	}
}

// Means reports whether DEVICE names an attached device; all are the attached devices.
func (in *Inputs) Means(d device.Attached, all []device.Attached) bool {
	if noted := in.DeskFile.Find(in.Device); noted != nil {
		return IsNoted(*noted, d, all)
	}
	return in.Device == d.Probe || in.Device == d.Port || in.Device == d.Path
}

// IsNoted reports whether an attached device is the one in desk.json; all are the attached devices.
func IsNoted(noted device.DeskDevice, d device.Attached, all []device.Attached) bool {
	if noted.Probe == "" && noted.Link.Address != "" {
		return noted.Link.Address == d.Port
	}

	// A probe may serve several devices: then only the path tells them apart.
	shared := slices.ContainsFunc(all, func(o device.Attached) bool { return o.Probe == d.Probe && o.Path != d.Path })

	return noted.Probe == d.Probe && (noted.Link.Path == d.Path || noted.Probe != "" && !shared)
}
