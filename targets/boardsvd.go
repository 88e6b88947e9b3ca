// This file compares a board's registers with a description of its chip.

package targets

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardlab/registers"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
)

// boardSVD compares the registers that the board's C uses with the file SVD, and prints what does not fit, with VERBOSE
// everything.
func (v *invocation) boardSVD(ctx context.Context, name string) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	trial := registers.Trial{Board: name, Template: v.Env("TEMPLATE"), SVD: v.Env("SVD"), Builder: builder}
	if trial.SVD == "" {
		return failure.New(failure.Config, "name the file that the chip's manufacturer publishes: SVD=STM32F746.svd",
			"SVD names no file")
	}
	if !filepath.IsAbs(trial.SVD) {
		trial.SVD = filepath.Join(v.Dir, trial.SVD)
	}
	for _, macro := range strings.Split(v.Env("EXCEPT"), ",") {
		if macro = strings.TrimSpace(macro); macro != "" {
			trial.Except = append(trial.Except, macro)
		}
	}
	bar := v.Start("comparing board "+name, 0)
	r, err := registers.Compare(ctx, trial)
	bar.End()
	if err != nil {
		return err
	}
	compared := v.printRegisters(r)
	v.JSONLine(jsonlines.BoardSVDCounts{
		Board: r.Board, Device: r.Device, Addresses: compared[registers.Address], Bits: compared[registers.Bits],
		Interrupts: compared[registers.Interrupt], Left: r.Left, Misfits: len(r.Misfits()), Doubts: len(r.Doubts()),
	})
	return r.Err()
}

// printRegisters prints a report, and returns how many numbers of each kind it has.
func (v *invocation) printRegisters(r *registers.Report) map[registers.Kind]int {
	compared := map[registers.Kind]int{}
	for _, f := range r.Findings {
		compared[f.Kind]++
		state := "ok"
		switch {
		case f.Except:
			state = "except"
		case f.Misfit != "":
			state = "misfit"
		case f.Doubt != "":
			state = "doubt"
		}
		if state != "ok" || v.Env.On("VERBOSE") {
			v.Printf("%-7s %s", state, f)
			v.JSONLine(jsonlines.BoardSVD{
				Board: r.Board, File: f.File, Line: f.Line, Macro: f.Name, Value: f.Value, Kind: string(f.Kind), At: f.At,
				Misfit: f.Misfit, Doubt: f.Doubt, Reason: f.Reason,
			})
		}
	}
	v.Printf("board %s: compared with %s: %d addresses, %d names of bits, %d interrupts; %d misfits, %d doubts; "+
		"%d other constants are not compared", r.Board, r.Device, compared[registers.Address], compared[registers.Bits],
		compared[registers.Interrupt], len(r.Misfits()), len(r.Doubts()), r.Left)
	return compared
}
