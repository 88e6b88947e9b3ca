// This file decides what flashing has to do. It is one pure function of what is known; nothing here touches a board.

package device

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/internal/ledger"
)

// A firmwareAnswer is what the running firmware says of itself (boardsmith.build_id). The CRC was computed over the nonce
// and the flash as it is, so that it is no answer to an earlier question.
type firmwareAnswer struct {
	buildID [16]byte
	nonce   []byte // that it was asked with; nil: it is of an older boardsmith and takes none
	crc     uint32
	chip    string // the chip's id in hexadecimal, "" if it has none
}

// flashFacts are what a decision follows from.
type flashFacts struct {
	image  *flashImage
	answer *firmwareAnswer   // nil: it did not answer
	entry  ledger.Entry      // the ledger's
	held   map[uint64]string // digests of the image's sectors by address, just read back; nil: they were not
	inWork map[uint64]bool   // addresses of sectors that no answer and no reading proves: sectorsInWork
	force  bool              // write all of it in any case
}

type flashAction int

const (
	flashNothing flashAction = iota // the board holds the image; that was proven
	flashRead                       // read the image's sectors back, and decide again
	flashWrite                      // write some sectors and verify the whole image
)

// A flashDecision is what to do, and why in words.
type flashDecision struct {
	action  flashAction
	sectors []imageSector // to write
	why     string
}

// sectorsInWork are the sectors whose erasing was begun and which nobody has verified since. An interrupted erase or write
// leaves cells near their threshold, which may read right once and wrong later: such a sector is written again, whatever
// it reads as.
func sectorsInWork(e ledger.Entry) map[uint64]bool {
	list := map[uint64]bool{}
	for _, s := range e.Sectors {
		if s.Erases > 0 && s.Digest == "" {
			list[s.Addr] = true
		}
	}
	return list
}

// decideFlash never takes the ledger's word that the board holds the image: only the firmware's answer or reading back
// proves that. The ledger may only say which sectors to write before the whole is verified.
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

// withInWork decides to write the sectors that differ and those that were in work; nothing where there are none.
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
		why = fmt.Sprintf("%s; %d of %d sectors were being written when a flash was interrupted", why, begun, len(f.image.sectors))
	}
	return flashDecision{flashWrite, list, why}
}

// doubt says why the firmware's answer does not prove that the board holds the image; "" if it does.
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
		return "the firmware is of an older boardsmith, whose answer may be an old one"
	}
	return ""
}

// ledgerDoubt says why the ledger does not say what the board holds; "" if it does.
func (f flashFacts) ledgerDoubt() string {
	switch e := f.entry; {
	case e.Lost != "":
		return "the ledger's file was damaged"
	case e.Dirty:
		return "the last flash did not end well"
	case len(e.Sectors) == 0:
		return "the ledger does not know this board"
	case f.answer == nil:
		return "nobody knows what it holds" // nor whether it is the chip that the entry was written for
	case f.answer != nil && fmt.Sprintf("%x", f.answer.buildID) != e.BuildID:
		return "that is not what we flashed"
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
