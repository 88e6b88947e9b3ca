// This file completes a partial board by what the project's build found out.

package project

import (
	"context"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// checkCompleted checks what could not be checked before the board was known.
func (p *Project) checkCompleted(ctx context.Context) error {
	b := p.Board()

	// The build may have found less RAM than the options need.
	if _, err := b.Settle(p.state.Options); err != nil {
		return optionsFit(b, p.state.Options, err)
	}

	a, m, err := p.Model()
	if err != nil {
		return err
	}
	return p.checkRuns(ctx, a, m)
}

// checkRuns returns an error for a model that the board cannot run.
func (p *Project) checkRuns(ctx context.Context, a *mlf.Archive, m *mlf.Model) error {
	if err := fit.CheckModel(p.Board(), a, m); err != nil {
		return err
	}

	// Objects of the archive are compared with what the board's compiler makes.
	if p.Board().Toolchain.CC != "" && len(p.state.Template.Operators.Compile) > 0 {
		err := fit.CheckFPU(p.Board(), m.Objects, func() ([]byte, error) { return p.compileEmpty(ctx) })
		if err != nil {
			return err
		}
	}
	return p.checkModelFits(a, m)
}

// compileEmpty returns the object that the board's compiler makes of an empty file, with the flags of operators.
func (p *Project) compileEmpty(ctx context.Context) ([]byte, error) {
	b := p.Board()
	o, err := b.Settle(p.state.Options)
	if err != nil {
		return nil, err
	}
	cc, err := p.env().Program(b.Toolchain.CC, b.Toolchain.Install)
	if err != nil {
		return nil, err
	}

	step := templatefile.CompileStep{Flags: p.state.Template.Operators.Compile}
	return command.CompileEmpty(ctx, cc, step.FlagsFor(b, o, ""))
}
