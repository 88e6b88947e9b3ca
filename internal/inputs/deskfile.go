// This file reads desk.json, and finds attached devices in it.

package inputs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/device"
)

// deskFileName is searched for like boardsmith.json, but describes this computer's desk, not a repository.
const deskFileName = "desk.json"

// formerDeskFileName is the former name of desk.json.
const formerDeskFileName = "bench.json"

// readDeskFile reads the desk.json at path. If there is only one of the former name, it converts that and returns a
// note.
func readDeskFile(path string) (f *device.DeskFile, made string, err error) {
	former := filepath.Join(filepath.Dir(path), formerDeskFileName)
	if exists(path) || !exists(former) {
		f, err = device.ReadDeskFile(path)
		return f, "", err
	}
	if f, err = device.ReadDeskFile(former); err == nil {
		err = f.Write(path)
	}
	return f, fmt.Sprintf("made %s from %s, which is no longer read", path, former), err
}

// DeskFilePath returns the path of the nearest desk.json, or one of the former name, in dir and its parents; else
// that of a new one in dir.
func DeskFilePath(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		path := filepath.Join(d, deskFileName)
		if exists(path) || exists(filepath.Join(d, formerDeskFileName)) {
			return path
		}
		if d == filepath.Dir(d) {
			return filepath.Join(dir, deskFileName)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
	shared := slices.ContainsFunc(all, func(o device.Attached) bool { return o.Probe == d.Probe && o.Path != d.Path })
	return noted.Probe == d.Probe && (noted.Link.Path == d.Path || noted.Probe != "" && !shared)
}
