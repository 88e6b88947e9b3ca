// Package imagecheck checks a linked image against its board and its template, before it is flashed, and reads its
// build id and sizes.
package imagecheck

import (
	"bytes"
	"cmp"
	"debug/elf"
	"os"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// An Program is a file as a build linked it, and what it was built for.
type Program struct {
	Path, Map string // absolute
	Template  *templatefile.Description
	Board     *boards.Board
	Advice    string // the next step if the build command made something else
}

// Inspect checks that the image can run on the board, and reads its build id and sizes.
func (i Program) Inspect() (id [16]byte, size image.Size, err error) {
	data, err := os.ReadFile(i.Path)
	if os.IsNotExist(err) {
		return id, size, failure.New(failure.Link, i.Advice, "the build command succeeded but made no %s",
			i.Template.ELF)
	}
	if err != nil {
		return id, size, failure.New(failure.Link, i.Advice, "%w", err)
	}

	if err := i.checkTarget(data); err != nil {
		return id, size, err
	}

	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return id, size, failure.New(failure.Link, i.Advice, "%s: %w", i.Path, err)
	}
	if err := i.checkImage(f); err != nil {
		return id, size, err
	}

	id, _, err = firmware.BuildID(f, i.Template.ELF)
	return id, image.Size(firmware.SizeOf(f)), err
}

// checkImage returns an error for an image that cannot run on the board.
func (i Program) checkImage(f *elf.File) error {
	b := i.Board
	if len(b.Memory) == 0 {
		return nil // the operating system loads it
	}
	return cmp.Or(CheckReserved(f, i.Template.ELF, b), i.checkRegions(f), i.checkContract(f), i.CheckParts(f))
}

// checkTarget returns an error for an image that was compiled for another processor or calling convention than the
// board's.
func (i Program) checkTarget(linked []byte) error {
	name, b := i.Template.ELF, i.Board
	info, err := mlf.File{Name: name, Data: linked}.Target()
	if err != nil {
		return failure.New(failure.Link, i.Advice, "%s: %w", name, err)
	}

	if err := fit.CheckTarget(b, name, info); err != nil {
		return failure.New(failure.Config, "compare cflags and the compiler "+b.Toolchain.CC+" with elf in the board's file",
			"%w", err)
	}
	return nil
}

// CheckParts returns an error for an image without the parts of its checksum, or with data outside of them.
func (i Program) CheckParts(f *elf.File) error {
	b := i.Board
	parts, err := i.Template.Landmarks.FindParts(f, i.Template.ELF)
	if err != nil {
		return err
	}

	// Code in RAM needs no part.
	code, _ := b.Region(b.Place.Code)
	if len(parts) == 0 && len(i.Template.Landmarks.Parts) > 0 && code.Nonvolatile {
		return failure.Errorf(failure.Link, "%s has no part of the firmware in %s", i.Template.ELF, code.Name)
	}

	if err := firmware.CheckCovered(f, parts); err != nil {
		return failure.Errorf(failure.Link, "%s: %w", i.Template.ELF, err)
	}

	if _, err := firmware.ReadParts(f, i.Template.Landmarks, i.Template.ELF, firmware.Erased); err != nil {
		return failure.New(failure.Link, "the ranges of the firmware's checksum are longer than what is loaded", "%w", err)
	}
	return nil
}
