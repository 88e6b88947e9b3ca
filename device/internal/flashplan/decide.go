// Package flashplan decides what to write to a device's flash: from an image, the firmware's answer and the ledger to
// sectors and a programmer's job.
//
// Its functions are pure. Package device queries devices, runs programmers and writes the ledger.
package flashplan

import (
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// An Answer is the running firmware's answer to boardsmith.build_id. Its CRC covers the nonce and the
// current flash, so that an earlier answer cannot match.
type Answer struct {
	BuildID [16]byte
	Nonce   []byte // of the request
	CRC     uint32
	Chip    string // the chip's id in hexadecimal, "" if it has none
}

// Doubt returns the reason for which the answer, nil if there was none, does not prove that the board holds the build
// with these parts, or "". Nil parts are not compared.
func (a *Answer) Doubt(buildID [16]byte, parts firmware.Parts) string {
	switch {
	case a == nil:
		return "the firmware did not answer"
	case a.BuildID != buildID:
		return fmt.Sprintf("firmware answered with build %x", a.BuildID)
	case parts != nil && a.CRC != parts.CRC(a.Nonce):
		return "the firmware's flash has changed since it was built"
	}
	return ""
}

// Facts are the input of a decision.
type Facts struct {
	Image  *Content
	Answer *Answer      // nil: no answer
	Entry  ledger.Entry // the ledger's
	Force  bool         // write all sectors
	// digests of the image's sectors by address, just read back; nil: not read
	ReadBack map[uint64]string
	// addresses of sectors that must be written even if they read back right: as Interrupted returns
	Interrupted map[uint64]bool
}

// An Action is the next step of a flash.
type Action int

const (
	Nothing Action = iota // the board holds the image, as was verified
	Read                  // read the image's sectors back, and decide again
	Write                 // write some sectors and verify the whole image
)

// A Decision is the next step, with its reason in words.
type Decision struct {
	Action  Action
	Sectors []Sector // to write
	Reason  string
}

// Interrupted returns the sectors whose erasing was begun and which were not verified since. An interrupted erase
// or write leaves cells near their threshold, which may read correctly once and wrong later: such a sector is
// always written again.
func Interrupted(e ledger.Entry) map[uint64]bool {
	list := map[uint64]bool{}
	for _, s := range e.Sectors {
		if s.Erases > 0 && s.Digest == "" {
			list[s.Addr] = true
		}
	}
	return list
}

// Decide determines the next step. It never relies on the ledger to conclude that the board holds the image: only the
// firmware's answer or reading back proves that. The ledger only selects the sectors to write before all of the image
// is verified. An image of which nothing can be read back is written completely.
func Decide(f Facts) Decision {
	d := f.decide()
	if d.Action != Nothing && len(f.Image.readable()) == 0 {
		return Decision{Write, f.Image.Sectors, d.Reason + "; its programmer writes whole images"}
	}
	return d
}

func (f Facts) decide() Decision {
	all := f.Image.Sectors
	if f.Force {
		return Decision{Write, all, "all of it, as asked"}
	}

	reason := f.Answer.Doubt(f.Image.BuildID, f.Image.Parts)
	if reason == "" {
		return f.withInterrupted("firmware answered with build "+f.Image.ID(), nil)
	}

	if f.ReadBack != nil {
		differ := differingFrom(all, f.ReadBack)
		if len(differ) == 0 {
			return f.withInterrupted(reason+"; read back, and it holds the image", nil)
		}
		return f.withInterrupted(fmt.Sprintf("%s; read back, %s", reason, countDiffering(differ, all)), differ)
	}

	if doubt := f.ledgerDoubt(); doubt != "" {
		return Decision{Read, nil, reason + "; " + doubt}
	}

	recorded := map[uint64]string{}
	for _, s := range f.Entry.Sectors {
		recorded[s.Addr] = s.Digest
	}
	differ := differingFrom(all, recorded)
	if len(differ) == 0 {
		return Decision{Read, nil, reason + "; by the ledger it holds the image"}
	}
	return Decision{Write, differ, fmt.Sprintf("%s; by the ledger, %s", reason, countDiffering(differ, all))}
}

// withInterrupted decides to write the sectors that differ and those whose write was interrupted, or nothing if there
// are none.
func (f Facts) withInterrupted(reason string, differ []Sector) Decision {
	var list []Sector
	interrupted := 0
	for _, s := range f.Image.Sectors {
		differs := slices.ContainsFunc(differ, func(d Sector) bool { return d.Addr == s.Addr })
		if f.Interrupted[s.Addr] {
			interrupted++
		}
		if differs || f.Interrupted[s.Addr] {
			list = append(list, s)
		}
	}

	if len(list) == 0 {
		return Decision{Nothing, nil, reason}
	}

	if interrupted > 0 {
		reason = fmt.Sprintf("%s; %d of %d sectors were being written when a flash was interrupted", reason, interrupted,
			len(f.Image.Sectors))
	}
	return Decision{Write, list, reason}
}

// ledgerDoubt returns the reason for which the ledger does not prove what the board holds, or "".
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
	return f.withInterrupted("", differingFrom(f.Image.Sectors, f.ReadBack)).Sectors
}

// differingFrom returns the sectors whose digest is not the one at their address.
func differingFrom(all []Sector, digests map[uint64]string) (list []Sector) {
	for _, s := range all {
		// A missing digest differs, too.
		if digests[s.Addr] != s.Digest {
			list = append(list, s)
		}
	}
	return list
}

func countDiffering(differ, all []Sector) string {
	if len(differ) == len(all) {
		return fmt.Sprintf("all %d sectors differ", len(all))
	}
	return fmt.Sprintf("%d of %d sectors differ", len(differ), len(all))
}
