// This file compares the floating-point instructions of objects with those of the board's compiler.

package fit

import (
	"fmt"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// CheckFPU returns ErrTarget for an object with floating-point or vector instructions that the board's own objects
// do not have: linkers accept it, and the processor would stop at them. own returns an object that the board's compiler
// makes of an empty file; it is called only if there is something to compare.
func CheckFPU(b *boards.Board, objects []mlf.File, own func() ([]byte, error)) error {
	var board *mlf.ObjectInfo
	for _, f := range objects {
		o, err := f.Target()
		if err != nil || o.FPArch == 0 && o.MVE == 0 { // errors are those of CheckObject
			continue
		}
		if board == nil {
			data, err := own()
			if err != nil {
				return err
			}
			info, err := mlf.File{Name: "the compiler's object", Data: data}.Target()
			if err != nil {
				return failure.Errorf(failure.Host, "compiler of board %s: %w", b.Name, err)
			}
			board = &info
		}

		if !runsFPU(*board, o) {
			return otherTarget(f.Name, fpuName(o), b.Name, fpuName(*board)+", the unit of its CPU")
		}
	}
	return nil
}

// CheckCore returns ErrTarget for a program that needs more than a core has: the one for which a compiler made the
// object core. The program may have another calling convention.
func CheckCore(board string, core []byte, program mlf.File) error {
	info, err := mlf.File{Name: "the core's object", Data: core}.Target()
	if err != nil {
		return err
	}
	of := &boards.Board{Name: board, ELF: ELFOf(info)}
	of.ELF.FloatABI = ""

	target, err := program.Target()
	if err != nil {
		return err
	}
	if err := CheckTarget(of, program.Name, target); err != nil {
		return err
	}
	return CheckFPU(of, []mlf.File{program}, func() ([]byte, error) { return core, nil })
}

// Of Tag_FP_arch, 3 and 4 are VFPv3 with 32 and 16 registers, 5 and 6 VFPv4, 7 and 8 FPv5 (Arm's ABI addenda, build
// attributes).
func runsFPU(board, o mlf.ObjectInfo) bool {
	version := func(arch int) int { return (arch + 1) / 2 }
	allRegisters := func(arch int) bool { return arch >= 3 && arch%2 == 1 }

	return version(board.FPArch) >= version(o.FPArch) && (allRegisters(board.FPArch) || !allRegisters(o.FPArch)) &&
		(o.FPArch == 0 || o.FPSingle || !board.FPSingle) && board.MVE >= o.MVE
}

func fpuName(o mlf.ObjectInfo) string {
	names := map[int]string{
		0: "no FPU", 1: "VFPv1", 2: "VFPv2", 3: "VFPv3", 4: "VFPv3-D16", 5: "VFPv4", 6: "VFPv4-D16", 7: "FPv5", 8: "FPv5-D16",
	}

	name := names[o.FPArch]
	if name == "" {
		name = fmt.Sprintf("FP architecture %d", o.FPArch)
	}

	switch {
	case o.FPArch == 0:
	case o.FPSingle:
		name += " of single precision"
	default:
		name += " of double precision"
	}

	if o.MVE > 0 {
		name += " and vectors (MVE)"
	}

	return name
}
