// This file completes a partial board by what the project's build found out.

package project

import (
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
)

// checkCompleted checks what could not be checked before the board was known.
func (p *Project) checkCompleted() error {
	b := p.Board()
	if _, err := b.Settle(p.state.Options); err != nil {
		return optionsFit(b, p.state.Options, err)
	}
	a, m, err := p.Model()
	if err != nil {
		return err
	}
	return p.checkRuns(a, m)
}

// checkRuns returns an error for a model that the board cannot run.
func (p *Project) checkRuns(a *mlf.Archive, m *mlf.Model) error {
	if err := fit.CheckModel(p.Board(), a, m); err != nil {
		return err
	}
	return p.checkModelFits(a, m)
}
