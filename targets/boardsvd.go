// This file compares a board's registers with a description of its chip.

package targets

import (
	"context"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/registers"
)

// SVD compares the registers that a board's C uses with the chip manufacturer's file. SVD is that file. Bits and
// interrupts are compared, too, without hardware; EXCEPT names macros that may differ, VERBOSE=1 shows all that was
// compared.
//
// Variables:
//
//	TEMPLATE     a template's name, path or git place [the board's own]
//	SVD          the chip manufacturer's SVD file
//	EXCEPT       macros that may differ from the file, separated by commas
func (Board) SVD(ctx context.Context, name string) error { return doSvd(ctx, name) }

var doSvd = namedTarget("board:svd", compareRegisters)

// svdInputs are the variables of board:svd.
type svdInputs struct {
	Template string   `var:"TEMPLATE"`
	SVD      string   `var:"SVD"`
	Except   []string `var:"EXCEPT"`
}

func compareRegisters(ctx context.Context, c *console.Console, v svdInputs, name string) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	trial := registers.Trial{Board: name, Template: v.Template, SVD: v.SVD, Builder: builder}
	if trial.SVD == "" {
		return failure.New(failure.Config, "name the file that the chip's manufacturer publishes: SVD=STM32F746.svd",
			"SVD names no file")
	}
	trial.SVD = c.Abs(trial.SVD)

	for _, macro := range v.Except {
		trial.Except = append(trial.Except, strings.TrimSpace(macro))
	}

	bar := c.Start("comparing board "+name, 0)
	r, err := registers.Compare(ctx, trial)
	bar.End()
	if err != nil {
		return err
	}

	compared := printRegisters(c, r)
	c.JSONLine(jsonlines.BoardSVDCounts{
		Board: r.Board, Device: r.Device, Addresses: compared[registers.Address], Bits: compared[registers.Bits],
		Interrupts: compared[registers.Interrupt], Left: r.Left, Misfits: len(r.Misfits()), Doubts: len(r.Doubts()),
	})

	return r.Err()
}

// printRegisters prints a report, and returns how many numbers of each kind it has.
func printRegisters(c *console.Console, r *registers.Report) map[registers.Kind]int {
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

		if state != "ok" || c.Verbose {
			c.Printf("%-7s %s", state, f)
			c.JSONLine(jsonlines.BoardSVD{Board: r.Board, Finding: f})
		}
	}

	c.Printf("board %s: compared with %s: %d addresses, %d names of bits, %d interrupts; %d misfits, %d doubts; "+
		"%d other constants are not compared", r.Board, r.Device, compared[registers.Address], compared[registers.Bits],
		compared[registers.Interrupt], len(r.Misfits()), len(r.Doubts()), r.Left)
	return compared
}
