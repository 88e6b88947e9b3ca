// Package imagecheck checks a linked image against its board and its template, before it is flashed, and reads its
// build id and sizes.
package imagecheck

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"os"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
)

// An Image is a file as a build linked it, and what it was built for.
type Image struct {
	Path, Map string // absolute
	Template  *blueprint.Blueprint
	Board     *boards.Board
	Advice    string // the next step if the build command made something else
}

// Inspect checks that the image can run on the board, and reads its build id and sizes.
func (i Image) Inspect() (id [16]byte, size image.Size, err error) {
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
	return id, image.SizeOf(f), err
}

// checkImage returns an error for an image that cannot run on the board.
func (i Image) checkImage(f *elf.File) error {
	b := i.Board
	if len(b.Memory) == 0 { // the operating system loads it
		return i.checkReplaced(f)
	}
	return cmp.Or(CheckReserved(f, i.Template.ELF, b), i.checkRegions(f), i.checkContract(f), i.CheckParts(f))
}

// checkReplaced returns an error for a program that defines what a library of the system has: the whole program would
// use it in place of the library's. The linker exports such a definition, for the library.
func (i Image) checkReplaced(f *elf.File) error {
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return failure.New(failure.Link, i.Advice, "%s: %w", i.Template.ELF, err)
	}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || !replaces(f, s) {
			continue
		}
		libraries, _ := f.ImportedLibraries() // for the message only
		return failure.New(failure.Link, "rename it, for a model in C by defines in its description: "+s.Name+"=own_"+s.Name,
			"%s: %s is also in a library of the system (%s), and would replace it in the whole program",
			cmp.Or(definer(f, s.Value), i.Template.ELF), s.Name, strings.Join(libraries, ", "))
	}
	return nil
}

// replaces reports whether a definition that the program exports is one of its sources' that is not there on purpose.
// Purpose has a name that C reserves (C11, 7.1.3), such as __assert_fail. A variable with a library is that library's,
// which the program has a copy of; a library without versions does not tell them. Weak code without a source is of the
// compiler's libraries.
func replaces(f *elf.File, s elf.Symbol) bool {
	isStrong, isReserved := elf.ST_BIND(s.Info) == elf.STB_GLOBAL, strings.HasPrefix(s.Name, "_")
	switch elf.ST_TYPE(s.Info) {
	case elf.STT_FUNC:
		return isStrong || !isReserved && definer(f, s.Value) != ""
	case elf.STT_OBJECT:
		return !isReserved && s.HasVersion && s.Library == ""
	}
	return false
}

// definer returns the source with the code at an address, "" if debug information does not have it.
func definer(f *elf.File, address uint64) string {
	data, err := f.DWARF()
	if err != nil {
		return ""
	}
	unit, err := data.Reader().SeekPC(address)
	if err != nil {
		return ""
	}
	name, _ := unit.Val(dwarf.AttrName).(string)
	return name
}

// checkTarget returns an error for an image that was compiled for another processor or calling convention than the
// board's.
func (i Image) checkTarget(linked []byte) error {
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
func (i Image) CheckParts(f *elf.File) error {
	b := i.Board
	parts, err := i.Template.Landmarks.FindParts(f, i.Template.ELF)
	if err != nil {
		return err
	}
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
