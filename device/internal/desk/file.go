// Package desk finds attached devices, leases one, and makes its programmer. It reads and writes desk.json, the names
// that users give to devices.
//
// It neither communicates with firmware nor writes flash: that is package device, whose users get its types from there.
package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// FileFormat is the format of desk.json.
const FileFormat = 1

// A File is desk.json, format 1.
type File struct {
	Format  int     `json:"format" is:"required 1|"`
	Devices []Entry `json:"devices" key:"Name"`
}

// An Entry is one device in desk.json.
type Entry struct {
	Name  string `json:"name" is:"required"`  // the user's name for it
	Board string `json:"board" is:"required"` // the kind
	Probe string `json:"probe,omitempty"`     // serial of its debug probe
	Chip  string `json:"chip,omitempty"`      // unique id of the chip, in hexadecimal; "" if it has none or it is unknown
	Link  Link   `json:"link"`
	Power string `json:"power,omitempty"` // a command that cycles its power
	Notes string `json:"notes,omitempty"`

	Shared bool `json:"-"` // another attached probe has the same serial: only Link.Path distinguishes them
}

// A Link is how the device was attached when it was saved.
type Link struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // USB path
	// USB interface of the UART, if the USB device has several; nil: the board file's
	Interface *int   `json:"interface,omitempty"`
	USB       string `json:"usb,omitempty"`     // vendor and product of the UART's adapter, if that is not the probe
	Serial    string `json:"serial,omitempty"`  // serial of that adapter
	Address   string `json:"address,omitempty"` // host and port of a link over TCP; "", behind a probe: the board file's
}

// ReadFile reads a desk.json. A missing file counts as empty. An invalid one is an error of class config.
func ReadFile(path string) (*File, error) {
	data, err := jsonfile.Read(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Format: FileFormat}, nil
	}
	if err != nil {
		return nil, failure.Errorf(failure.Config, "read %s: %w", path, err)
	}

	f := &File{}
	if _, err := jsonfile.Decode(path, data, f); err != nil {
		return nil, failure.New(failure.Config, "fix it there: docs/devices.md describes the file", "%w", err)
	}
	return f, nil
}

// Write replaces the file atomically.
func (f *File) Write(path string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := regularfile.Write(path, append(data, '\n'), 0o644); err != nil {
		return regularfile.Error("write", path, err)
	}
	return nil
}

// Find returns the device with a name, or nil. The pointer is valid until the next Note.
func (f *File) Find(name string) *Entry {
	i := slices.IndexFunc(f.Devices, func(d Entry) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Devices[i]
}

// Note adds a device or updates its entry: the one with the same chip, else with the same probe and board (and
// path, if the probe's serial is not unique). It keeps power command, notes and, unless d has one, the name. It
// returns the entry. A name of another device is an error of class config, and changes nothing.
func (f *File) Note(d Entry) (Entry, error) {
	i := slices.IndexFunc(f.Devices, func(o Entry) bool { return d.Chip != "" && o.Chip == d.Chip })

	if i < 0 {
		i = slices.IndexFunc(f.Devices, func(o Entry) bool {
			sameProbe := o.Probe == d.Probe && (!d.Shared || o.Link.Path == d.Link.Path)
			return sameProbe && o.Board == d.Board && (d.Probe != "" || o.Link.Address == d.Link.Address)
		})
	}

	if j := slices.IndexFunc(f.Devices, func(o Entry) bool { return o.Name == d.Name }); j >= 0 && j != i {
		return Entry{}, failure.Errorf(failure.Config, "another device is called %q", d.Name)
	}

	if i < 0 {
		if d.Name == "" {
			d.Name = f.newName(d.Board)
		}
		f.Devices = append(f.Devices, d)
		return d, nil
	}

	old := &f.Devices[i]
	if d.Name == "" {
		d.Name = old.Name
	}
	d.Power, d.Notes = old.Power, old.Notes
	if d.Chip == "" {
		d.Chip = old.Chip
	}
	*old = d
	return d, nil
}

func (f *File) newName(board string) string {
	for n := 1; ; n++ {
		if name := fmt.Sprintf("%s-%d", strings.ReplaceAll(board, "_", "-"), n); f.Find(name) == nil {
			return name
		}
	}
}

// addresses returns those of a board's devices, each once. A nil file has none.
func (f *File) addresses(board string) (list []string) {
	if f == nil {
		return nil
	}
	for _, d := range f.Devices {
		if a := d.Link.Address; d.Board == board && a != "" && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// behind lists the devices at an address, or behind a probe if the address is "". A nil file has none.
func (f *File) behind(address string, probe flasher.Probe) (list []Entry) {
	if f == nil {
		return nil
	}
	for _, d := range f.Devices {
		if address != "" {
			if d.Link.Address == address {
				list = append(list, d)
			}
			continue
		}

		samePath := d.Link.Path != "" && d.Link.Path == probe.USBPath
		if d.Probe == probe.Serial && d.Probe != "" && (samePath || !probe.Shared) || d.Probe == "" && samePath {
			list = append(list, d)
		}
	}
	return list
}

// entry returns the device of a board that behind lists, or the zero value.
func (f *File) entry(board, address string, probe flasher.Probe) Entry {
	for _, d := range f.behind(address, probe) {
		if d.Board == board {
			return d
		}
	}
	return Entry{}
}
