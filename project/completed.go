// This file completes a partial board by what the project's build found out.

package project

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
)

// completed returns the board with what the build command wrote about it into its folder; nil if the template names no
// such file.
func (p *Project) completed(in *tree) (*boardState, error) {
	name := p.state.Template.Board
	if name == "" {
		return nil, nil
	}
	data, err := in.readSome(name, boards.MaxFileBytes+1)
	if notThere(err) {
		// The folder may be a kept one.
		return nil, failure.New(failure.Config, p.correctBuild()+", or the part of the project that writes this file",
			"the build command succeeded but made no %s", name)
	}
	if err != nil {
		return nil, failure.New(failure.Config, p.correctBuild(), "%w", in.error("read", name, err))
	}
	return p.completedBy(name, data) // its folder may be one that the next build empties
}

// completedBy returns the board with what the build command's file says about it.
func (p *Project) completedBy(name string, data []byte) (*boardState, error) {
	b, err := p.state.Board.Complete(name, data)
	if err != nil {
		how := fmt.Sprintf("set it in the board's own file, boards/%s.json, and generate again; or %s",
			p.state.Board.Name, p.correctBuild())
		return nil, failure.New(failure.Config, how, "what the build found out about the board: %w", err)
	}
	b.Files, b.Origin = nil, nil
	return &boardState{Name: b.Name, Board: *b}, nil
}

// correctBuild is the next step after an error in what the build command made.
func (p *Project) correctBuild() string {
	return "correct the build command of template " + p.state.Template.Name
}

// readSome returns the first bytes of a plain file.
func (t *tree) readSome(name string, limit int64) ([]byte, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|plainfile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, plainfile.ErrSpecial)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

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
