// This file defines desk.json: the devices on the desk, by names that users give them.

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

const (
	deskFileFormat   = 1
	maxDeskFileBytes = 1 << 20
)

// A DeskFile is desk.json, format 1.
type DeskFile struct {
	Format  int          `json:"format"`
	Devices []DeskDevice `json:"devices"`
}

// A DeskDevice is one device on the desk.
type DeskDevice struct {
	Name  string   `json:"name"`            // the user's name for it
	Board string   `json:"board"`           // the kind
	Probe string   `json:"probe,omitempty"` // serial of its debug probe
	Chip  string   `json:"chip,omitempty"`  // unique id of the chip, in hexadecimal; "" if it has none or was not asked
	Link  DeskLink `json:"link"`
	Power string   `json:"power,omitempty"` // a command that cycles its power
	Notes string   `json:"notes,omitempty"`

	Shared bool `json:"-"` // another attached probe has the same serial: only Link.Path distinguishes them
}

// A DeskLink is how the device was attached when it was saved.
type DeskLink struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // USB path
	// USB interface of the UART, if the USB device has several; nil: the board file's
	Interface *int   `json:"interface,omitempty"`
	USB       string `json:"usb,omitempty"`     // vendor and product of the UART's adapter, if that is not the probe
	Serial    string `json:"serial,omitempty"`  // serial of that adapter
	Address   string `json:"address,omitempty"` // host and port of a link over TCP; "", behind a probe: the board file's
}

// ReadDeskFile reads a desk.json. A missing file counts as empty. An invalid one is an error of class config.
func ReadDeskFile(path string) (*DeskFile, error) {
	b := &DeskFile{Format: deskFileFormat}
	f, err := plainfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, plainfile.Error("read", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDeskFileBytes+1))
	if err != nil {
		return nil, plainfile.Error("read", path, err)
	}
	if b, err = parseDeskFile(path, data); err != nil {
		return nil, failure.New(failure.Config, "fix it there: docs/devices.md describes the file", "%w", err)
	}
	return b, nil
}

var deskFileFields = jsonfile.Fields(reflect.TypeFor[DeskFile]())

// parseDeskFile reads the text of the file at path: *jsonfile.Error.
func parseDeskFile(path string, data []byte) (*DeskFile, error) {
	wrong := func(line int, err error) (*DeskFile, error) {
		return nil, &jsonfile.Error{File: path, Line: line, Err: err}
	}
	if len(data) > maxDeskFileBytes {
		return wrong(0, errors.New("larger than 1 MiB"))
	}
	keys, items, err := jsonfile.Scan(data)
	if err != nil {
		return wrong(jsonfile.Line(data, err), err)
	}
	if err := jsonfile.CheckFields(path, keys, deskFileFields); err != nil {
		return nil, err
	}
	b := &DeskFile{}
	if err := json.Unmarshal(data, b); err != nil {
		return wrong(jsonfile.Line(data, err), err)
	}
	if b.Format != deskFileFormat {
		return wrong(keys["format"], fmt.Errorf("unsupported format: not %d", deskFileFormat))
	}
	names := map[string]bool{}
	for i, d := range b.Devices {
		line := items[fmt.Sprintf("devices[%d]", i)]
		switch {
		case d.Name == "" || d.Board == "":
			return wrong(line, errors.New("a device has no name or no board"))
		case names[d.Name]:
			return wrong(line, fmt.Errorf("two devices are called %q", d.Name))
		}
		names[d.Name] = true
	}
	return b, nil
}

// Write replaces the file atomically.
func (b *DeskFile) Write(path string) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := atomicwriter.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return plainfile.Error("write", path, err)
	}
	return nil
}

// Find returns the device with a name, or nil. The pointer is valid until the next Note.
func (b *DeskFile) Find(name string) *DeskDevice {
	i := slices.IndexFunc(b.Devices, func(d DeskDevice) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &b.Devices[i]
}

// addresses are those of the devices of a board that have one.
func (b *DeskFile) addresses(board string) (list []string) {
	if b == nil {
		return nil
	}
	for _, d := range b.Devices {
		if a := d.Link.Address; d.Board == board && a != "" && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// Note adds a device or updates its entry: the one with the same chip, else with the same probe and board (and
// place, if the probe's serial is not unique). It keeps power command, notes and, unless d has one, the name. It
// returns the entry. A name of another device is an error of class config, and changes nothing.
func (b *DeskFile) Note(d DeskDevice) (DeskDevice, error) {
	i := slices.IndexFunc(b.Devices, func(o DeskDevice) bool { return d.Chip != "" && o.Chip == d.Chip })
	if i < 0 {
		i = slices.IndexFunc(b.Devices, func(o DeskDevice) bool {
			sameProbe := o.Probe == d.Probe && (!d.Shared || o.Link.Path == d.Link.Path)
			return sameProbe && o.Board == d.Board && (d.Probe != "" || o.Link.Address == d.Link.Address)
		})
	}
	if j := slices.IndexFunc(b.Devices, func(o DeskDevice) bool { return o.Name == d.Name }); j >= 0 && j != i {
		return DeskDevice{}, failure.Errorf(failure.Config, "another device is called %q", d.Name)
	}
	if i < 0 {
		if d.Name == "" {
			d.Name = b.newName(d.Board)
		}
		b.Devices = append(b.Devices, d)
		return d, nil
	}
	old := &b.Devices[i]
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

func (b *DeskFile) newName(board string) string {
	for n := 1; ; n++ {
		if name := fmt.Sprintf("%s-%d", strings.ReplaceAll(board, "_", "-"), n); b.Find(name) == nil {
			return name
		}
	}
}

// behind lists desk.json's devices at an address, or behind a probe if the address is "".
func (b *DeskFile) behind(address string, probe flasher.Probe) (list []DeskDevice) {
	if b == nil {
		return nil
	}
	for _, d := range b.Devices {
		if address != "" {
			if d.Link.Address == address {
				list = append(list, d)
			}
			continue
		}
		here := d.Link.Path != "" && d.Link.Path == probe.USBPath
		if d.Probe == probe.Serial && d.Probe != "" && (here || !probe.Shared) || d.Probe == "" && here {
			list = append(list, d)
		}
	}
	return list
}

// noted returns the device of a board that behind lists, or the zero value.
func (b *DeskFile) noted(board, address string, probe flasher.Probe) DeskDevice {
	for _, d := range b.behind(address, probe) {
		if d.Board == board {
			return d
		}
	}
	return DeskDevice{}
}
