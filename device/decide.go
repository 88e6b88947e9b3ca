// This file decides what to flash. The decision is a pure function of known facts.

package device

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/internal/ledger"
)

// A firmwareAnswer is the running firmware's answer to boardsmith.build_id. Its CRC covers the nonce and the
// current flash, so that an earlier answer cannot match.
type firmwareAnswer struct {
	buildID [16]byte
	nonce   []byte // of the request; nil: firmware of an older boardsmith, which accepts none
	crc     uint32
	chip    string // the chip's id in hexadecimal, "" if it has none
}

// flashFacts are the input of a decision.
type flashFacts struct {
	image  *flashImage
	answer *firmwareAnswer   // nil: no answer
	entry  ledger.Entry      // the ledger's
	held   map[uint64]string // digests of the image's sectors by address, just read back; nil: not read
	inWork map[uint64]bool   // addresses of sectors that must be written whatever they read as: sectorsInWork
	force  bool              // write the whole image
}

type flashAction int

const (
	flashNothing flashAction = iota // the board holds the image, as was verified
	flashRead                       // read the image's sectors back, and decide again
	flashWrite                      // write some sectors and verify the whole image
)

// A flashDecision is what to do, and the reason in words.
type flashDecision struct {
	action  flashAction
	sectors []imageSector // to write
	why     string
}

// sectorsInWork returns the sectors whose erasing was begun and which were not verified since. An interrupted erase
// or write leaves cells near their threshold, which may read correctly once and wrong later: such a sector is
// always written again.
func sectorsInWork(e ledger.Entry) map[uint64]bool {
	list := map[uint64]bool{}
	for _, s := range e.Sectors {
		if s.Erases > 0 && s.Digest == "" {
			list[s.Addr] = true
		}
	}
	return list
}

// decideFlash never relies on the ledger to conclude that the board holds the image: only the firmware's answer or
// reading back proves that. The ledger only selects the sectors to write before the whole image is verified.
func decideFlash(f flashFacts) flashDecision {
	all := f.image.sectors
	if f.force {
		return flashDecision{flashWrite, all, "all of it, as asked"}
	}
	why := f.doubt()
	if why == "" {
		return f.withInWork("firmware answered with build "+f.image.ID(), nil)
	}
	if f.held != nil {
		differ := differing(all, func(s imageSector) string { return f.held[s.Addr] })
		if len(differ) == 0 {
			return f.withInWork(why+"; read back, and it holds the image", nil)
		}
		return f.withInWork(fmt.Sprintf("%s; read back, %s", why, sectorsDiffer(differ, all)), differ)
	}
	if doubt := f.ledgerDoubt(); doubt != "" {
		return flashDecision{flashRead, nil, why + "; " + doubt}
	}
	known := map[uint64]string{}
	for _, s := range f.entry.Sectors {
		known[s.Addr] = s.Digest
	}
	differ := differing(all, func(s imageSector) string { return known[s.Addr] })
	if len(differ) == 0 {
		return flashDecision{flashRead, nil, why + "; by the ledger it holds the image"}
	}
	return flashDecision{flashWrite, differ, fmt.Sprintf("%s; by the ledger, %s", why, sectorsDiffer(differ, all))}
}

// withInWork decides to write the sectors that differ and those whose write was interrupted, or nothing if there
// are none.
func (f flashFacts) withInWork(why string, differ []imageSector) flashDecision {
	var list []imageSector
	begun := 0
	for _, s := range f.image.sectors {
		differs := slices.ContainsFunc(differ, func(d imageSector) bool { return d.Addr == s.Addr })
		if f.inWork[s.Addr] {
			begun++
		}
		if differs || f.inWork[s.Addr] {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return flashDecision{flashNothing, nil, why}
	}
	if begun > 0 {
		why = fmt.Sprintf("%s; %d of %d sectors were being written when a flash was interrupted", why, begun,
			len(f.image.sectors))
	}
	return flashDecision{flashWrite, list, why}
}

// doubt returns why the firmware's answer does not prove that the board holds the image, or "".
func (f flashFacts) doubt() string {
	a := f.answer
	switch {
	case a == nil:
		return "the firmware did not answer"
	case !bytes.Equal(a.buildID[:], f.image.BuildID[:]):
		return fmt.Sprintf("firmware answered with build %x", a.buildID)
	case a.crc != f.image.parts.CRC(a.nonce):
		return "the firmware's flash has changed since it was built"
	case a.nonce == nil:
		return "the firmware is of an older boardsmith, whose answer may be outdated"
	}
	return ""
}

// ledgerDoubt returns why the ledger does not show what the board holds, or "".
func (f flashFacts) ledgerDoubt() string {
	switch e := f.entry; {
	case e.Lost != "":
		return "the ledger's file was damaged"
	case e.Dirty:
		return "the last flash failed"
	case len(e.Sectors) == 0:
		return "the ledger has no entry for this board"
	case f.answer == nil:
		return "its contents are unverified" // it may not be the chip of the entry
	case f.answer != nil && fmt.Sprintf("%x", f.answer.buildID) != e.BuildID:
		return "that is not the last flashed image"
	}
	return ""
}

func differing(all []imageSector, held func(imageSector) string) (list []imageSector) {
	for _, s := range all {
		if held(s) != s.digest {
			list = append(list, s)
		}
	}
	return list
}

func sectorsDiffer(differ, all []imageSector) string {
	if len(differ) == len(all) {
		return fmt.Sprintf("all %d sectors differ", len(all))
	}
	return fmt.Sprintf("%d of %d sectors differ", len(differ), len(all))
}
