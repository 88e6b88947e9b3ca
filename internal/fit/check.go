// This file finds out, before anything is generated or compiled, that a model cannot run on a board.

package fit

import (
	"debug/elf"
	"errors"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// CheckModel returns an error for a model that cannot be called, or that has an object for another processor.
func CheckModel(b *boards.Board, a *mlf.Archive, m *mlf.Model) error {
	if err := a.CheckModel(m); err != nil {
		return err
	}

	for _, f := range m.Objects {
		if err := CheckObject(b, f); err != nil {
			return err
		}
	}
	return nil
}

// machineNames maps ELF's machines to the names in board files.
var machineNames = map[elf.Machine]string{
	elf.EM_386: "386", elf.EM_X86_64: "x86-64", elf.EM_ARM: "arm", elf.EM_AARCH64: "aarch64", elf.EM_RISCV: "riscv",
	elf.EM_LOONGARCH: "loongarch", elf.EM_PPC64: "ppc64", elf.EM_S390: "s390", elf.EM_XTENSA: "xtensa",
	elf.EM_ARC_COMPACT: "arc",
}

func machineName(m elf.Machine) string {
	if n, ok := machineNames[m]; ok {
		return n
	}
	return m.String()
}

// CheckObject returns ErrTarget for an object that cannot be linked for the board. Errors have class config.
func CheckObject(b *boards.Board, f mlf.File) error {
	info, err := f.Info()
	if err != nil {
		return failure.New(failure.Config, "export the model again", "%s: %w", f.Name, err)
	}
	return CheckTarget(b, f.Name, info)
}

// CheckTarget returns ErrTarget for an object or a program of another processor or calling convention than the
// board's.
func CheckTarget(b *boards.Board, name string, o mlf.ObjectInfo) error {
	elf := ELFOf(o)
	if b.ELF.Accepts(elf) {
		return nil
	}

	words := elf.String()
	if o.CPU != "" && elf.Arch == "" {
		words += " (" + o.CPU + ")"
	}
	return otherTarget(name, words, b.Name, b.ELF.String())
}

// armArch are the names of Tag_CPU_arch's values for microcontrollers (Arm's ABI addenda, build attributes).
var armArch = map[int]string{
	11: "v6-m", 12: "v6-m", 10: "v7-m", 13: "v7e-m", 16: "v8-m.base", 17: "v8-m.main",
	21: "v8.1-m",
}

// instructionSet returns an object's instruction set as named in board files, or "" if unknown.
func instructionSet(o mlf.ObjectInfo) string {
	if o.Machine == elf.EM_ARM {
		return armArch[o.Arch]
	}
	if o.Machine == elf.EM_RISCV {
		return o.CPU
	}
	return ""
}

// ELFOf returns the target of an object or a program by its header and attributes.
func ELFOf(o mlf.ObjectInfo) boards.ELF {
	e := boards.ELF{
		Machine: machineName(o.Machine), Endian: "little", Class: 32, FloatABI: o.FloatABI, Arch: instructionSet(o),
	}

	if o.Class == elf.ELFCLASS64 {
		e.Class = 64
	}
	if o.Data == elf.ELFDATA2MSB {
		e.Endian = "big"
	}
	return e
}

// ErrTarget is wrapped by the error, of class config, of an object in the archive, or an image, that was compiled for
// another processor or calling convention than the board's.
var ErrTarget = errors.New("another target")

// otherTarget returns ErrTarget for an object, named as in the archive or in the project.
func otherTarget(object, target, board, accepted string) error {
	return failure.New(failure.Config, "compile the model for this board's processor, or choose a board that has the "+
		"object's", "%s is for %s, but board %s needs %s%.0w", object, target, board, accepted, ErrTarget)
}
