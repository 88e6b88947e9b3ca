// This file remembers what each board holds and how often its flash was erased. What it says is a belief: whoever flashes
// holds it against the board itself.

package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"
)

// StateDir is the folder of what must outlast any cache, besides the tools: ledger, emulated chips and their leases:
// BOARDSMITH_HOME/state where that is set, else boardsmith in XDG_STATE_HOME or in ~/.local/state.
func StateDir() (string, error) {
	if home := os.Getenv("BOARDSMITH_HOME"); home != "" {
		return filepath.Abs(filepath.Join(home, "state"))
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "boardsmith"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", "boardsmith"), nil
}

const (
	ledgerFormat   = 1
	maxLedgerBytes = 64 << 20
)

// An Entry is what the ledger says of one device. The zero value but for Device says nothing.
type Entry struct {
	Format   int           `json:"format"`
	Device   string        `json:"device"`             // "chip:" and the chip's unique id, else "probe:" and the probe's serial
	Probe    string        `json:"probe,omitempty"`    // serial of the probe it was last seen behind
	Board    string        `json:"board,omitempty"`    // the kind
	Image    string        `json:"image,omitempty"`    // SHA-256 of the image that it holds, in hexadecimal
	BuildID  string        `json:"build_id,omitempty"` // of that image
	Dirty    bool          `json:"dirty"`              // a programmer was started, and nobody verified what came of it
	Verified time.Time     `json:"verified,omitzero"`  // when all of the image was last read back, or confirmed by the firmware
	Seen     time.Time     `json:"seen,omitzero"`      // when this was written
	Flashes  int           `json:"flashes"`            // that wrote something
	Failures int           `json:"failures"`           // that did not end in a verified image
	LastWhy  string        `json:"last_why,omitempty"` // the last decision, in words
	Sectors  []SectorEntry `json:"sectors,omitempty"`  // by address; those that were ever erased or verified by us

	Lost string `json:"-"` // where the file was put that could not be read; its counts are unknown
}

// A SectorEntry is what the ledger says of one erase unit.
type SectorEntry struct {
	Addr   uint64 `json:"addr"`
	Size   uint64 `json:"size"`             // bytes
	Digest string `json:"digest,omitempty"` // SHA-256 of what it holds, in hexadecimal; "" means unknown
	Erases int    `json:"erases"`           // by us, since the ledger began
}

// Sector returns the sector's entry, which it makes if need be. The pointer is good until the next call.
func (e *Entry) Sector(addr, size uint64) *SectorEntry {
	i, ok := slices.BinarySearchFunc(e.Sectors, addr, func(s SectorEntry, a uint64) int {
		switch {
		case s.Addr < a:
			return -1
		case s.Addr > a:
			return 1
		}
		return 0
	})
	if !ok {
		e.Sectors = slices.Insert(e.Sectors, i, SectorEntry{Addr: addr, Size: size})
	}
	return &e.Sectors[i]
}

// A Ledger is a folder with a file for each device. Whoever writes an entry holds the device's lease.
type Ledger struct{ dir string }

// NewLedger returns the ledger in a folder, which need not exist yet.
func NewLedger(dir string) *Ledger { return &Ledger{dir} }

// Load reads a device's entry. There is always one: that of a device never seen says nothing, and a file that cannot be
// understood is put aside, named in Lost. Errors are those of the file system.
func (l *Ledger) Load(device string) (Entry, error) {
	fresh := Entry{Format: ledgerFormat, Device: device}
	path := l.path(device)
	data, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil && !errors.Is(err, errDamaged) {
		return Entry{}, fmt.Errorf("ledger: %w", err)
	}
	e, err := parseLedger(data)
	if err == nil && e.Device == device {
		return e, nil
	}
	fresh.Lost = path + ".unreadable"
	if err := os.Rename(path, fresh.Lost); err != nil {
		return Entry{}, fmt.Errorf("ledger: %w", err)
	}
	return fresh, nil
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxLedgerBytes {
		return nil, errDamaged
	}
	return os.ReadFile(path)
}

// parseLedger understands a file whole or not at all.
func parseLedger(data []byte) (Entry, error) {
	var e Entry
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return Entry{}, err
	}
	if e.Format != ledgerFormat || dec.More() {
		return Entry{}, errDamaged
	}
	for i, s := range e.Sectors {
		if s.Size == 0 || s.Erases < 0 || s.Addr+s.Size < s.Addr || i > 0 && s.Addr < e.Sectors[i-1].Addr+e.Sectors[i-1].Size {
			return Entry{}, errDamaged
		}
	}
	return e, nil
}

// Save writes the entry: whole, and on the disk, or not at all.
func (l *Ledger) Save(e Entry) error {
	e.Format = ledgerFormat
	data, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := atomicwriter.WriteFile(l.path(e.Device), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Remove forgets a device. One that is not known is no error.
func (l *Ledger) Remove(device string) error {
	if err := os.Remove(l.path(device)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// List returns all entries that can be read, by device.
func (l *Ledger) List() ([]Entry, error) {
	paths, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var list []Entry
	for _, p := range paths {
		data, err := readBounded(p)
		if err != nil {
			continue
		}
		if e, err := parseLedger(data); err == nil {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Device, b.Device) })
	return list, nil
}

var unsafeName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// maxDeviceFile leaves room for endings: most file systems have names of 255 bytes.
const maxDeviceFile = 200

// deviceFile is a file name for a device, whatever its serial consists of; a long one ends in a digest.
func deviceFile(device string) string {
	name := unsafeName.ReplaceAllStringFunc(device, func(s string) string { return fmt.Sprintf("%%%02X", []byte(s)) })
	if len(name) > maxDeviceFile {
		sum := sha256.Sum256([]byte(device))
		name = name[:maxDeviceFile-2*len(sum)] + hex.EncodeToString(sum[:])
	}
	return name
}

func (l *Ledger) path(device string) string { return filepath.Join(l.dir, deviceFile(device)+".json") }
