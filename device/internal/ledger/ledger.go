// This file records what each device holds and how often its flash was erased. The record may be outdated: flashing
// verifies it against the device.

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

	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// errDamaged is wrapped by errors about a ledger file that cannot be parsed.
var errDamaged = errors.New("damaged")

// Shared returns the folder of the ledger that users share, from BOARDSMITH_LEDGER; "" for none.
func Shared() string { return os.Getenv("BOARDSMITH_LEDGER") }

const (
	ledgerFormat   = 1
	maxLedgerBytes = 64 << 20
	entryExtension = ".json"
)

// An Entry is the ledger's record of one device. With only Device set it is the entry of an unknown device.
type Entry struct {
	Format int `json:"format"`
	// "chip:" and the chip's unique id, else "probe:" and the probe's serial
	Device  string `json:"device"`
	Probe   string `json:"probe,omitempty"`    // serial of the probe it was last seen behind
	Board   string `json:"board,omitempty"`    // the kind
	Image   string `json:"image,omitempty"`    // SHA-256 of the image that it holds, in hexadecimal
	BuildID string `json:"build_id,omitempty"` // of that image
	Dirty   bool   `json:"dirty"`              // a programmer was started and its result was not verified
	// when the whole image was last read back or confirmed by the firmware
	Verified   time.Time     `json:"verified,omitzero"`
	Seen       time.Time     `json:"seen,omitzero"`      // when this was written
	Flashes    int           `json:"flashes"`            // number of flashes that wrote something
	Failures   int           `json:"failures"`           // number of flashes without a verified image
	LastReason string        `json:"last_why,omitempty"` // of the last decision, in words
	Adopted    time.Time     `json:"adopted,omitzero"`   // Seen of the entry that was adopted last
	Sectors    []SectorEntry `json:"sectors,omitempty"`  // by address; sectors that boardsmith erased or verified

	Lost string `json:"-"` // path of an unreadable file that was put aside; its counts are unknown
}

// A SectorEntry is the ledger's record of one erase unit.
type SectorEntry struct {
	Addr   uint64 `json:"addr"`
	Size   uint64 `json:"size"`             // bytes
	Digest string `json:"digest,omitempty"` // SHA-256 of its content, in hexadecimal; "" means unknown
	Erases int    `json:"erases"`           // erases by boardsmith since the ledger began
}

// End returns the first address after it.
func (s SectorEntry) End() uint64 { return s.Addr + s.Size }

// Sector returns the sector's entry, and creates it if necessary. If an earlier, wrong board file gave other sector
// sizes, the new sectors take over the erase counts; of several, the highest. The pointer is valid until the next
// call.
func (e *Entry) Sector(addr, size uint64) *SectorEntry {
	from, _ := slices.BinarySearchFunc(e.Sectors, addr, func(s SectorEntry, a uint64) int {
		if s.End() <= a {
			return -1
		}
		return 1
	})

	to := from
	entry := SectorEntry{Addr: addr, Size: size}
	var parts []SectorEntry // entries that overlap it
	for ; to < len(e.Sectors) && e.Sectors[to].Addr < addr+size; to++ {
		s := e.Sectors[to]
		if s.Addr == addr && s.Size == size {
			return &e.Sectors[to]
		}
		entry.Erases = max(entry.Erases, s.Erases)

		// What is left of an entry on either side keeps its count, but its content is unknown.
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

	e.Sectors = slices.Replace(e.Sectors, from, to, slices.Insert(parts, i, entry)...)
	return &e.Sectors[from+i]
}

// find returns the entry of exactly that sector, or nil.
func (e *Entry) find(addr, size uint64) *SectorEntry {
	i := slices.IndexFunc(e.Sectors, func(s SectorEntry) bool { return s.Addr == addr && s.Size == size })
	if i < 0 {
		return nil
	}
	return &e.Sectors[i]
}

// Adopt merges an entry of the same device that was recorded under another name before the device was identified. It
// adds the erase counts, once. The contents come from the later entry, except for sectors that e is changing and old
// never erased.
func (e *Entry) Adopt(old Entry) {
	// A crash may have left the old entry after it was adopted.
	if old.Seen.Equal(e.Adopted) && !old.Seen.IsZero() {
		return
	}

	later := old.Seen.After(e.Seen)
	for _, s := range old.Sectors {
		recorded := e.find(s.Addr, s.Size) != nil
		own := e.Sector(s.Addr, s.Size)
		interrupted := own.Erases > 0 && own.Digest == "" && s.Erases == 0 // and not written since
		own.Erases += s.Erases
		if !recorded || later && !interrupted {
			own.Digest = s.Digest
		}
	}

	e.Flashes += old.Flashes
	e.Failures += old.Failures

	if later {
		e.Image, e.BuildID, e.Dirty = old.Image, old.BuildID, old.Dirty
		e.Verified, e.LastReason = old.Verified, old.LastReason
	}
	e.Adopted = old.Seen
}

// A Ledger is a folder with a file for each device. Writing an entry requires the device's lease.
type Ledger struct {
	dir  string
	sync func(dir string) error // syncs a folder's names to the disk
}

// New returns the ledger in a folder, which Save creates.
func New(dir string) *Ledger { return &Ledger{abspath.Of(dir), syncDir} }

// Load reads a device's entry, or returns an empty one for a new device. It puts aside a file that cannot be parsed
// and names it in Lost. Errors: those of the file system.
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

	// The file is kept for the user: the log of a flash names it.
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

// parseLedger parses a whole file or returns an error.
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

	// Old files may have overlapping sectors.
	if overlap {
		e.Sectors = splitOverlaps(e.Sectors)
	}
	return e, nil
}

// splitOverlaps splits overlapping sectors into disjoint ones, each with the highest of the counts.
func splitOverlaps(list []SectorEntry) []SectorEntry {
	var e Entry
	for _, s := range list {
		recorded := e.find(s.Addr, s.Size) != nil
		entry := e.Sector(s.Addr, s.Size)
		if entry.Erases == 0 && !recorded {
			entry.Digest = s.Digest
		} else {
			entry.Digest = ""
		}
		entry.Erases = max(entry.Erases, s.Erases)
	}
	return e.Sectors
}

// Save writes the entry atomically and syncs it to the disk.
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
		return fmt.Errorf("ledger: %w", regularfile.Error("write", l.path(e.Device), err))
	}
	return nil
}

// mkdir creates the folder and its parents, and syncs them: a name is on the disk once its folder is synced.
func (l *Ledger) mkdir() error {
	var parents []string // folders to create, the innermost first
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

// exists returns true for a root, which has no parent.
func exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil || dir == filepath.Dir(dir)
}

// Remove removes a device's entry. Removing an unknown device is no error.
func (l *Ledger) Remove(device string) error {
	err := os.Remove(l.path(device))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = l.sync(l.dir)
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", regularfile.Error("remove", l.path(device), err))
	}
	return nil
}

// List returns all entries, by device. It skips damaged ones, which Load puts aside. A ledger that does not exist
// is empty. Errors: those of the file system, also for a single file, so that the list is complete.
func (l *Ledger) List() ([]Entry, error) {
	files, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("ledger: %w", err)
	}

	var list []Entry
	for _, f := range files {
		if filepath.Ext(f.Name()) != entryExtension {
			continue
		}

		data, err := readBounded(filepath.Join(l.dir, f.Name()))
		if errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) { // removed meanwhile
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

// maxDeviceFile leaves room for extensions: most file systems allow names of 255 bytes.
const maxDeviceFile = 200

// deviceFile returns a file name for a device with any serial; a long name ends in a digest.
func deviceFile(device string) string {
	name := unsafeName.ReplaceAllStringFunc(device, func(s string) string { return fmt.Sprintf("%%%02X", []byte(s)) })
	if len(name) > maxDeviceFile {
		sum := sha256.Sum256([]byte(device))
		name = name[:maxDeviceFile-2*len(sum)] + hex.EncodeToString(sum[:])
	}
	return name
}

func (l *Ledger) path(device string) string {
	return filepath.Join(l.dir, deviceFile(device)+entryExtension)
}
