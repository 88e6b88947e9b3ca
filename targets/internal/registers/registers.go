// Package registers compares the registers, bits and interrupts that a board's C uses with the description of the chip
// by its manufacturer, an SVD file.
//
// It needs the board's compiler, and no board. It compares numbers only: it does not know whether the code uses a
// register as the manual requires.
package registers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/svd"
)

// A Trial is what is compared. Board and SVD must be set.
type Trial struct {
	Board    string           // name or file, as in project.Spec
	Template string           // "" means the board's first
	SVD      string           // the SVD file of the board's chip
	Except   []string         // macros that need not fit, besides those of the board's svd_except
	Builder  *project.Builder // nil means the zero value
}

// A Kind is what a number in the C stands for.
type Kind string

// The kinds.
const (
	Address   Kind = "address"
	Interrupt Kind = "interrupt"
	Bits      Kind = "bits" // of a register
)

// A Finding is one number in the C, compared with the description.
type Finding struct {
	Kind   Kind   `json:"kind"`  // what the number stands for: address, bits or interrupt
	Name   string `json:"macro"` // of the macro; of an access without one, its address as it is written
	File   string `json:"file"`  // the source, as the board file names it
	Line   int    `json:"line"`  // from 1
	Value  uint64 `json:"value"`
	At     string `json:"at"`     // what the description has there: "UART0.UARTDR", "RCC.CR.HSION"; "" if nothing
	Misfit string `json:"misfit"` // in what it contradicts the description; "" if it does not
	Doubt  string `json:"doubt"`  // what the description cannot confirm; "" if it confirms the number
	Except bool   `json:"-"`      // a misfit or doubt that Trial.Except or the board's svd_except names
	Reason string `json:"reason"` // of svd_except; "" if none
}

// A Report is the result of a comparison.
type Report struct {
	Board    string
	Device   string    // name in the SVD file
	Findings []Finding // by file and line
	Left     int       // constants in the C that are neither addresses nor recognised as bits or interrupts
}

// Misfits returns the findings that contradict the description.
func (r *Report) Misfits() []Finding {
	return r.where(func(f Finding) bool { return f.Misfit != "" && !f.Except })
}

// Doubts returns the findings that the description neither confirms nor contradicts.
func (r *Report) Doubts() []Finding {
	return r.where(func(f Finding) bool { return f.Misfit == "" && f.Doubt != "" && !f.Except })
}

func (r *Report) where(wanted func(Finding) bool) (list []Finding) {
	for _, f := range r.Findings {
		if wanted(f) {
			list = append(list, f)
		}
	}
	return list
}

// Err returns nil without misfits, else an error of class config that names the first.
func (r *Report) Err() error {
	m := r.Misfits()
	if len(m) == 0 {
		return nil
	}
	return failure.New(failure.Config, "compare these lines with the reference manual; is the SVD file of this chip?",
		"board %s: %d of %d numbers do not fit %s; the first is %s", r.Board, len(m), len(r.Findings),
		r.Device, m[0])
}

func (f Finding) String() string {
	text := fmt.Sprintf("%s:%d: %s is 0x%x: ", f.File, f.Line, f.Name, f.Value)
	if f.Kind == Interrupt {
		text = fmt.Sprintf("%s:%d: %s is %d: ", f.File, f.Line, f.Name, f.Value)
	}

	var parts []string
	for _, s := range []string{f.At, f.Misfit, f.Doubt, f.Reason} {
		if s != "" {
			parts = append(parts, s)
		}
	}

	return text + strings.Join(parts, "; ")
}

// Compare generates a project of the board in a temporary folder, has the board's compiler compute the numbers in the C
// of its chip and board, and compares addresses, bits and interrupt numbers with the SVD file. Errors: those of boards
// and project, of class config for the SVD file, and of class compile for C that does not compile; numbers that do not
// fit are findings of the report.
func Compare(ctx context.Context, t Trial) (*Report, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "comparison of board %s with its SVD file", t.Board)
	}
	if t.Builder == nil {
		t.Builder = &project.Builder{}
	}

	b, err := boards.Find(t.Board, t.Builder.Path)
	if err != nil {
		return nil, err
	}
	device, err := svd.ReadFile(t.SVD)
	if err != nil {
		return nil, err
	}

	uses, err := t.read(ctx, b)
	if err != nil {
		return nil, err
	}

	c := newComparison(device, b)
	r := c.report(uses)
	if len(r.Findings) == 0 {
		return nil, failure.Errorf(failure.Config, "board %s has no C of its own with registers", b.Name)
	}

	if err := r.exceptBoards(b); err != nil {
		return r, err
	}
	return r, r.except(t.Except)
}

// exceptBoards marks the findings that the board's files except. SVD files of other versions may describe what one
// lacks, so an exception may fit; one that the C does not have is an error.
func (r *Report) exceptBoards(b *boards.Board) error {
	for _, e := range b.SVDExcept {
		for _, name := range e.Names {
			matched := false
			for i := range r.Findings {
				if f := &r.Findings[i]; f.Name == name {
					f.Except, f.Reason, matched = f.Misfit != "" || f.Doubt != "", e.Reason, true
				}
			}

			if !matched {
				return b.Contradiction("svd_except", fmt.Sprintf("%s is no number of this board's C%s", name,
					jsonfile.DidYouMean(name, r.names())))
			}
		}
	}
	return nil
}

func (r *Report) names() (list []string) {
	for _, f := range r.Findings {
		list = append(list, f.Name)
	}
	return list
}

// except marks the findings that need not fit. It returns an error for a name without a misfit or doubt, which may be
// misspelt, or of a line that was corrected.
func (r *Report) except(names []string) error {
	for _, name := range names {
		matched := false
		var open []string
		for i := range r.Findings {
			f := &r.Findings[i]
			if f.Misfit == "" && f.Doubt == "" {
				continue
			}
			open = append(open, f.Name)
			if f.Name == name {
				f.Except, matched = true, true
			}
		}

		if !matched {
			return failure.New(failure.Config, "leave it out", "exception %s: no such macro misfits%s", name,
				jsonfile.DidYouMean(name, open))
		}
	}
	return nil
}

// read generates the project and reads its sources.
func (t Trial) read(ctx context.Context, b *boards.Board) ([]use, error) {
	folder, err := scratch.Make("boardsmith-registers-")
	if err != nil {
		return nil, fmt.Errorf("registers: %w", err)
	}
	defer folder.Remove()

	model, err := mlf.Parse(samples.Name, samples.Archive()) // a project needs one
	if err != nil {
		return nil, err
	}

	p, err := t.Builder.Generate(ctx, filepath.Join(folder.Dir, "project"), project.Spec{
		Board: t.Board, Template: t.Template, Archive: model,
	})
	if err != nil {
		return nil, err
	}

	defer p.Close()
	r := newReader(p, b)
	if err := r.all(ctx); err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}

	return r.uses, nil
}
