// Package flashplan decides what to write to a device's flash: from an image, the firmware's answer and the ledger to
// sectors and a programmer's job.
//
// Its functions are pure. It does not ask devices, run programmers or write the ledger: that is package device.
package flashplan

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/internal/ledger"
)

// An Answer is the running firmware's answer to boardsmith.build_id. Its CRC covers the nonce and the
// current flash, so that an earlier answer cannot match.
type Answer struct {
	BuildID [16]byte
	Nonce   []byte // of the request
	CRC     uint32
	Chip    string // the chip's id in hexadecimal, "" if it has none
}

// Facts are the input of a decision.
type Facts struct {
	Image  *Image
	Answer *Answer           // nil: no answer
	Entry  ledger.Entry      // the ledger's
	Held   map[uint64]string // digests of the image's sectors by address, just read back; nil: not read
	InWork map[uint64]bool   // addresses of sectors that must be written whatever they read as: as InWork returns
	Force  bool              // write the whole image
}

// An Action is what to do next.
type Action int

const (
	Nothing Action = iota // the board holds the image, as was verified
	Read                  // read the image's sectors back, and decide again
	Write                 // write some sectors and verify the whole image
)

// A Decision is what to do, and the reason in words.
type Decision struct {
	Action  Action
	Sectors []Sector // to write
	Why     string
}

// InWork returns the sectors whose erasing was begun and which were not verified since. An interrupted erase
// or write leaves cells near their threshold, which may read correctly once and wrong later: such a sector is
// always written again.
func InWork(e ledger.Entry) map[uint64]bool {
	list := map[uint64]bool{}
	for _, s := range e.Sectors {
		if s.Erases > 0 && s.Digest == "" {
			list[s.Addr] = true
		}
	}
	return list
}

// Decide never relies on the ledger to conclude that the board holds the image: only the firmware's answer or
// reading back proves that. The ledger only selects the sectors to write before the whole image is verified. An image
// of which nothing can be read back is written as a whole.
func Decide(f Facts) Decision {
	d := f.decide()
	if d.Action != Nothing && len(f.Image.read()) == 0 {
		return Decision{Write, f.Image.Sectors, d.Why + "; its programmer writes whole images"}
	}
	return d
}

func (f Facts) decide() Decision {
	all := f.Image.Sectors
	if f.Force {
		return Decision{Write, all, "all of it, as asked"}
	}
	why := f.doubt()
	if why == "" {
		return f.withInWork("firmware answered with build "+f.Image.ID(), nil)
	}
	if f.Held != nil {
		differ := differingFrom(all, f.Held)
		if len(differ) == 0 {
			return f.withInWork(why+"; read back, and it holds the image", nil)
		}
		return f.withInWork(fmt.Sprintf("%s; read back, %s", why, sectorsDiffer(differ, all)), differ)
	}
	if doubt := f.ledgerDoubt(); doubt != "" {
		return Decision{Read, nil, why + "; " + doubt}
	}
	known := map[uint64]string{}
	for _, s := range f.Entry.Sectors {
		known[s.Addr] = s.Digest
	}
	differ := differingFrom(all, known)
	if len(differ) == 0 {
		return Decision{Read, nil, why + "; by the ledger it holds the image"}
	}
	return Decision{Write, differ, fmt.Sprintf("%s; by the ledger, %s", why, sectorsDiffer(differ, all))}
}

// withInWork decides to write the sectors that differ and those whose write was interrupted, or nothing if there
// are none.
func (f Facts) withInWork(why string, differ []Sector) Decision {
	var list []Sector
	begun := 0
	for _, s := range f.Image.Sectors {
		differs := slices.ContainsFunc(differ, func(d Sector) bool { return d.Addr == s.Addr })
		if f.InWork[s.Addr] {
			begun++
		}
		if differs || f.InWork[s.Addr] {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return Decision{Nothing, nil, why}
	}
	if begun > 0 {
		why = fmt.Sprintf("%s; %d of %d sectors were being written when a flash was interrupted", why, begun,
			len(f.Image.Sectors))
	}
	return Decision{Write, list, why}
}

// doubt returns why the firmware's answer does not prove that the board holds the image, or "".
func (f Facts) doubt() string {
	a := f.Answer
	switch {
	case a == nil:
		return "the firmware did not answer"
	case !bytes.Equal(a.BuildID[:], f.Image.BuildID[:]):
		return fmt.Sprintf("firmware answered with build %x", a.BuildID)
	case a.CRC != f.Image.Parts.CRC(a.Nonce):
		return "the firmware's flash has changed since it was built"
	}
	return ""
}

// ledgerDoubt returns why the ledger does not show what the board holds, or "".
func (f Facts) ledgerDoubt() string {
	switch e := f.Entry; {
	case e.Lost != "":
		return "the ledger's file was damaged"
	case e.Dirty:
		return "the last flash failed"
	case len(e.Sectors) == 0:
		return "the ledger has no entry for this board"
	case f.Answer == nil:
		return "its contents are unverified" // it may not be the chip of the entry
	case f.Answer.BuildID == f.Image.BuildID:
		return "its contents are unverified" // another image of this build id, or a changed one
	case fmt.Sprintf("%x", f.Answer.BuildID) != e.BuildID:
		return "that is not the last flashed image"
	}
	return ""
}

// Differing returns the sectors that were read back and differ, and those whose write was interrupted.
func (f Facts) Differing() []Sector {
	return f.withInWork("", differingFrom(f.Image.Sectors, f.Held)).Sectors
}

// differingFrom returns the sectors whose digest is not the one at their address.
func differingFrom(all []Sector, digests map[uint64]string) (list []Sector) {
	for _, s := range all {
		if digests[s.Addr] != s.Digest {
			list = append(list, s)
		}
	}
	return list
}

func sectorsDiffer(differ, all []Sector) string {
	if len(differ) == len(all) {
		return fmt.Sprintf("all %d sectors differ", len(all))
	}
	return fmt.Sprintf("%d of %d sectors differ", len(differ), len(all))
}
