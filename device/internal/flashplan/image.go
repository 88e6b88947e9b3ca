// This file splits an image into the sectors of the board's flash.

package flashplan

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// An Content is the content of the flash for an image, in whole sectors.
type Content struct {
	*image.Image
	Sectors []Sector // by address
	Parts   firmware.Parts
}

// A Sector is one sector with all its bytes; bytes outside the image are as erased.
type Sector struct {
	boards.Sector
	Data       []byte
	Digest     string // SHA-256 of data, in hexadecimal
	HasBuildID bool   // the build id lies in it
	Rated      int    // erase cycles; 0: not limited
	Unreadable bool   // no programmer can read it: only the firmware's checksum verifies it
}

// Segment returns the sector as data to write or verify.
func (s Sector) Segment() flasher.Segment { return flasher.Segment{Addr: s.Addr, Data: s.Data} }

// Erased is the value of an erased byte.
const Erased = firmware.Erased

// ContentOf reads the ELF file. It returns an error for bytes outside the board's flash or in a reserved region.
func ContentOf(b *boards.Board, i *image.Image) (*Content, error) {
	f, err := i.ELF()
	if err != nil {
		return nil, err
	}
	loads, err := firmware.Loads(f, i.Path)
	if err != nil {
		return nil, err
	}

	img := &Content{Image: i}
	for _, l := range loads {
		if err := img.put(b, l.Addr, l.Data); err != nil {
			return nil, err
		}
	}

	slices.SortFunc(img.Sectors, func(a, b Sector) int { return cmp.Compare(a.Addr, b.Addr) })
	return img, img.identify(f, loads)
}

// put copies data into the sectors that it overlaps.
func (img *Content) put(b *boards.Board, addr uint64, data []byte) error {
	for len(data) > 0 {
		s, err := img.sectorAt(b, addr)
		if err != nil {
			return err
		}
		n := copy(s.Data[addr-s.Addr:], data)
		addr, data = addr+uint64(n), data[n:]
	}
	return nil
}

func (img *Content) sectorAt(b *boards.Board, addr uint64) (*Sector, error) {
	for i := range img.Sectors {
		// Below the sector the difference wraps to a large number.
		if s := &img.Sectors[i]; addr-s.Addr < s.Size {
			return s, nil
		}
	}

	// Each sector begins as erased: what the image does not fill keeps that value.
	at, rated, err := b.SectorAt(addr)
	if err != nil {
		return nil, err
	}
	region, _ := b.FlashAt(addr)
	img.Sectors = append(img.Sectors, Sector{
		Sector: at, Data: bytes.Repeat([]byte{Erased}, int(at.Size)), Rated: rated,
		Unreadable: region.VerifiedByFirmware(),
	})
	return &img.Sectors[len(img.Sectors)-1], nil
}

// identify computes the digests, and finds the image's parts and the sector with the build id.
func (img *Content) identify(f *elf.File, loads []firmware.Segment) error {
	ranges, err := img.Landmarks.FindParts(f, img.Path)
	if err == nil && len(ranges) == 0 {
		err = failure.New(failure.Config, "add them to its template.json",
			"%s: the template does not define the ranges of the firmware's checksum", img.Path)
	}
	if err != nil {
		return err
	}

	_, id, err := firmware.BuildID(f, img.Path)
	if err != nil {
		return err
	}

	for i := range img.Sectors {
		s := &img.Sectors[i]
		s.Digest = cachekey.Digest(s.Data)
		s.HasBuildID = id.Start-s.Addr < s.Size
	}

	// Every byte must be under the checksum, else a changed one could go unnoticed.
	if err := firmware.CheckCovered(f, ranges); err != nil {
		return failure.New(failure.Config, "build again", "%s: %w", img.Path, err)
	}
	img.Parts, err = firmware.PartsOf(ranges, loads, img.Path, Erased)
	return err
}

// CheckProgrammer returns an error if the image has bytes in flash that the programmer of that name cannot write: each
// region but that of the code names its programmer.
func (img *Content) CheckProgrammer(b *boards.Board, name string) error {
	for _, s := range img.Sectors {
		r, _ := b.FlashAt(s.Addr)
		switch {
		case r.Name == b.Place.Code || r.Programmer == name:
		case r.Programmer == "":
			return failure.New(failure.Config, "name one in that region of the board file, or write it with a tool of its own",
				"the image has bytes in region %s, for which board %s names no programmer", r.Name, b.Name)
		default:
			return failure.New(failure.Config, "use that programmer", "region %s of board %s is written by %s, not by %s",
				r.Name, b.Name, r.Programmer, name)
		}
	}
	return nil
}

// Blank returns blank flash contents, without reserved regions and those that no programmer can read back.
func Blank(b *boards.Board) *Content {
	img := &Content{Image: &image.Image{Board: b.Name}}
	for _, r := range b.Memory {
		if !r.Nonvolatile || r.Reserved || r.VerifiedByFirmware() {
			continue
		}

		at, index := uint64(r.Origin), 0
		for _, run := range r.Sectors {
			data := bytes.Repeat([]byte{Erased}, int(run.Size))
			digest := cachekey.Digest(data)
			for range run.Count {
				// All sectors of a run share their data, which nothing changes.
				s := boards.Sector{Index: index, Addr: at, Size: uint64(run.Size)}
				img.Sectors = append(img.Sectors,
					Sector{Sector: s, Data: data, Digest: digest, Rated: r.EraseCycles})
				at, index = at+s.Size, index+1
			}
		}
	}
	return img
}

// Job returns the job that writes these sectors and verifies all of the image. It erases the sector with the build
// id first and writes it last, even if that sector is unchanged.
func (img *Content) Job(sectors []Sector) flasher.Job {
	job := flasher.Job{Restart: true}
	var id *Sector
	for k := range sectors {
		s := &sectors[k]
		if s.HasBuildID {
			id = s
			job.Erase = slices.Insert(job.Erase, 0, s.Sector)
			continue
		}
		job.Erase = append(job.Erase, s.Sector)
		job.Write = append(job.Write, s.Segment())
	}

	if id == nil { // even if unchanged: the build id must not be valid while the rest changes
		for _, s := range img.Sectors {
			if s.HasBuildID {
				job.Erase = slices.Insert(job.Erase, 0, s.Sector)
				id = &s
			}
		}
	}

	if id != nil {
		job.Write = append(job.Write, id.Segment())
	}

	for _, s := range img.readable() {
		job.Verify = append(job.Verify, s.Segment())
	}
	return job
}

// SetUnreadable marks all sectors as unreadable, for a programmer that only writes complete images.
func (img *Content) SetUnreadable() {
	for i := range img.Sectors {
		img.Sectors[i].Unreadable = true
	}
}

// readable returns the sectors that the programmer can read back.
func (img *Content) readable() []Sector {
	return slices.DeleteFunc(slices.Clone(img.Sectors), func(s Sector) bool { return s.Unreadable })
}

// HasUnreadable reports whether the programmer cannot read back all of the image.
func (img *Content) HasUnreadable() bool {
	return slices.ContainsFunc(img.Sectors, func(s Sector) bool { return s.Unreadable })
}

// Ranges returns the image's sectors as ranges to read, adjacent sectors together, without those that cannot be read.
func (img *Content) Ranges() (list []flasher.Range) {
	for _, s := range img.readable() {
		if n := len(list); n > 0 && list[n-1].Addr+list[n-1].Size == s.Addr {
			list[n-1].Size += s.Size
		} else {
			list = append(list, flasher.Range{Addr: s.Addr, Size: s.Size})
		}
	}
	return list
}

// DigestsOf returns the digests of the image's readable sectors, by address, in the data of its ranges.
func (img *Content) DigestsOf(got []flasher.Segment) map[uint64]string {
	digests := map[uint64]string{}
	all := img.readable()
	for _, part := range got {
		for len(part.Data) > 0 {
			s := all[len(digests)] // the next one: the data are in the same order
			digests[s.Addr], part.Data = cachekey.Digest(part.Data[:s.Size]), part.Data[s.Size:]
		}
	}
	return digests
}
