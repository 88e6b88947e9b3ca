// This file remembers what each board holds and how often its flash was erased. What it says is a belief: whoever flashes
// holds it against the board itself.

package ledger

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

// errDamaged is in the chain of what a file of the ledger is that cannot be understood.
var errDamaged = errors.New("damaged")

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
	entryEnd       = ".json" // of an entry's file
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
	Adopted  time.Time     `json:"adopted,omitzero"`   // Seen of the entry that was added to this one last
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

// End is the first address behind it.
func (s SectorEntry) End() uint64 { return s.Addr + s.Size }

// Sector returns the sector's entry, which it makes if need be. Where sectors were of other sizes, as by a board file that
// was wrong, what they were erased goes over to those that take their place: of several, the highest count. The pointer is
// good until the next call.
func (e *Entry) Sector(addr, size uint64) *SectorEntry {
	from, _ := slices.BinarySearchFunc(e.Sectors, addr, func(s SectorEntry, a uint64) int {
		if s.End() <= a {
			return -1
		}
		return 1
	})
	to := from
	now := SectorEntry{Addr: addr, Size: size}
	var parts []SectorEntry // of what lies there now
	for ; to < len(e.Sectors) && e.Sectors[to].Addr < addr+size; to++ {
		s := e.Sectors[to]
		if s.Addr == addr && s.Size == size {
			return &e.Sectors[to]
		}
		now.Erases = max(now.Erases, s.Erases)
		if s.Addr < addr {
			parts = append(parts, SectorEntry{Addr: s.Addr, Size: addr - s.Addr, Erases: s.Erases})
		}
		if s.End() > addr+size {
			parts = append(parts, SectorEntry{Addr: addr + size, Size: s.End() - addr - size, Erases: s.Erases})
		}
	}
	i := 0
	if len(parts) > 0 && parts[0].Addr < addr {
		i = 1
	}
	e.Sectors = slices.Replace(e.Sectors, from, to, slices.Insert(parts, i, now)...)
	return &e.Sectors[from+i]
}

// find is the entry of that very sector, nil if there is none.
func (e *Entry) find(addr, size uint64) *SectorEntry {
	i := slices.IndexFunc(e.Sectors, func(s SectorEntry) bool { return s.Addr == addr && s.Size == size })
	if i < 0 {
		return nil
	}
	return &e.Sectors[i]
}

// Adopt adds what was noted of the same device under another name, while nobody knew this one. Its erases are others
// than those of e; what the device holds, the later of both says, but for sectors that are in work by e and that old
// never erased. What was adopted before is not added again.
func (e *Entry) Adopt(old Entry) {
	if old.Seen.Equal(e.Adopted) && !old.Seen.IsZero() {
		return
	}
	later := old.Seen.After(e.Seen)
	for _, s := range old.Sectors {
		known := e.find(s.Addr, s.Size) != nil
		mine := e.Sector(s.Addr, s.Size)
		inWork := mine.Erases > 0 && mine.Digest == "" && s.Erases == 0 // and not written again since
		mine.Erases += s.Erases
		if !known || later && !inWork {
			mine.Digest = s.Digest
		}
	}
	e.Flashes += old.Flashes
	e.Failures += old.Failures
	if later {
		e.Image, e.BuildID, e.Dirty, e.Verified, e.LastWhy = old.Image, old.BuildID, old.Dirty, old.Verified, old.LastWhy
	}
	e.Adopted = old.Seen
}

// A Ledger is a folder with a file for each device. Whoever writes an entry holds the device's lease.
type Ledger struct {
	dir  string
	sync func(dir string) error // puts the names in a folder on the disk
}

// New returns the ledger in a folder, which need not exist yet.
func New(dir string) *Ledger { return &Ledger{dir, syncDir} }

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
	overlap := false
	for i, s := range e.Sectors {
		if s.Size == 0 || s.Erases < 0 || s.End() < s.Addr {
			return Entry{}, errDamaged
		}
		overlap = overlap || i > 0 && s.Addr < e.Sectors[i-1].End()
	}
	if overlap {
		e.Sectors = apart(e.Sectors)
	}
	return e, nil
}

// apart makes of sectors that overlap some that do not, each with the highest of their counts.
func apart(list []SectorEntry) []SectorEntry {
	var e Entry
	for _, s := range list {
		known := e.find(s.Addr, s.Size) != nil
		now := e.Sector(s.Addr, s.Size)
		if now.Erases == 0 && !known {
			now.Digest = s.Digest
		} else {
			now.Digest = ""
		}
		now.Erases = max(now.Erases, s.Erases)
	}
	return e.Sectors
}

// Save writes the entry: whole, and on the disk, or not at all.
func (l *Ledger) Save(e Entry) error {
	e.Format = ledgerFormat
	data, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	err = l.mkdir()
	if err == nil {
		err = atomicwriter.WriteFile(l.path(e.Device), append(data, '\n'), 0o644)
	}
	if err == nil {
		err = l.sync(l.dir)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// mkdir makes the folder where it is not there yet, on the disk, and those above it: a name is on the disk once the
// folder is synced that has it.
func (l *Ledger) mkdir() error {
	var parents []string // of the folders that are to be made, the nearest first
	for dir := l.dir; !exists(dir); dir = filepath.Dir(dir) {
		parents = append(parents, filepath.Dir(dir))
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	for _, dir := range slices.Backward(parents) {
		if err := l.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// exists is true of a root too, whatever its state: nothing is above it.
func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil || dir == filepath.Dir(dir)
}

// Remove forgets a device. One that is not known is no error.
func (l *Ledger) Remove(device string) error {
	err := os.Remove(l.path(device))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = l.sync(l.dir)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// List returns all entries, by device; those that are damaged it leaves for Load to put aside. A ledger that does not
// exist yet has none. Errors are those of the file system: a file that cannot be read at the moment may say the very
// thing that is asked.
func (l *Ledger) List() ([]Entry, error) {
	files, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	var list []Entry
	for _, f := range files {
		if filepath.Ext(f.Name()) != entryEnd {
			continue
		}
		data, err := readBounded(filepath.Join(l.dir, f.Name()))
		if errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) { // it may be removed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
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

func (l *Ledger) path(device string) string { return filepath.Join(l.dir, deviceFile(device)+entryEnd) }
