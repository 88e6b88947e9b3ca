// This file lists how worn the flash of each device is, from the ledger.

package device

import (
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
)

// A DeviceWear is the ledger's record of one device.
type DeviceWear struct {
	Device   string       `json:"device"` // "chip:" and its id, else "probe:" and its serial
	Probe    string       `json:"probe"`  // serial of the probe that it was last seen behind
	Board    string       `json:"board"`
	BuildID  string       `json:"build_id"`          // build id of the image that it holds; "" if unknown
	Dirty    bool         `json:"dirty"`             // a flash was begun but not verified: its contents are unverified
	Flashes  int          `json:"flashes"`           // number of flashes that wrote something
	Failures int          `json:"failures"`          // number of those that failed
	Verified time.Time    `json:"verified,omitzero"` // time of the last; zero: never
	Reason   string       `json:"reason"`            // reason of the last decision
	Sectors  []SectorWear `json:"sectors"`
}

// A SectorWear is one erase unit that was written or verified at least once.
type SectorWear struct {
	Region string `json:"region"` // "" if the board file no longer has it
	Index  int    `json:"sector"` // in its region
	Addr   uint64 `json:"addr"`
	Size   uint64 `json:"size"`
	Erases int    `json:"erases"`
	Rated  int    `json:"rated,omitzero"` // 0: unlimited or unknown
}

// wornPercent of its rated erases make a sector a worn one.
const wornPercent = 80

// Worn reports whether a sector is near the end of its rated life, so that Flash warns of it.
func (s SectorWear) Worn() bool { return s.Rated > 0 && 100*s.Erases >= wornPercent*s.Rated }

// Wear lists the devices of the ledger.
func (k *Desk) Wear() ([]DeviceWear, error) {
	ledger, err := k.ledger()
	if err != nil {
		return nil, err
	}

	entries, err := ledger.List()
	if err != nil {
		return nil, err
	}

	var list []DeviceWear
	for _, entry := range entries {
		w := DeviceWear{
			Device: entry.Device, Probe: entry.Probe, Board: entry.Board, BuildID: entry.BuildID, Dirty: entry.Dirty,
			Flashes: entry.Flashes, Failures: entry.Failures, Verified: entry.Verified, Reason: entry.LastReason,
		}

		b, err := boards.Find(entry.Board, k.Path)
		if err != nil {
			b = &boards.Board{} // unknown board: leave its fields empty
		}

		for _, s := range entry.Sectors {
			w.Sectors = append(w.Sectors, sectorWear(b, s))
		}
		list = append(list, w)
	}
	return list, nil
}

func sectorWear(b *boards.Board, s ledger.SectorEntry) SectorWear {
	w := SectorWear{Addr: s.Addr, Size: s.Size, Erases: s.Erases}
	for _, r := range b.Memory {
		// Below the origin the difference wraps to a large number.
		if s.Addr-uint64(r.Origin) < uint64(r.Size) {
			w.Region = r.Name
		}
	}

	if at, rated, err := b.SectorAt(s.Addr); err == nil {
		w.Index, w.Rated = at.Index, rated
	}
	return w
}
