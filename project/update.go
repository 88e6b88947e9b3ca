// This file changes project.json, and explains one that is unfinished.

package project

import (
	"context"
	"fmt"
	"reflect"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/builddir"
	"github.com/boardsmith/boardsmith/internal/projectfile"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

// update changes project.json after reading it again, because others that have the folder open may have changed it.
func (p *Project) update(change func(*projectfile.State)) error {
	if err := p.lock.TakeTurn(context.Background()); err != nil { // record what was done, also after a cancel
		return err
	}
	defer p.lock.EndTurn()
	s, err := projectfile.Read(p.dir)
	if err != nil {
		return err
	}
	change(s)
	if err := s.Write(p.dir); err != nil {
		return err
	}
	p.state = *s
	return nil
}

// noteBuild records a build's findings if they are new.
func (p *Project) noteBuild(b *builddir.Record) error {
	board := p.found
	p.found = nil
	if reflect.DeepEqual(b.Tools, p.state.Tools) && reflect.DeepEqual(b.Edited, p.state.Edited) &&
		reflect.DeepEqual(board, p.state.Built) {
		return nil
	}
	return p.update(func(s *projectfile.State) { s.Tools, s.Edited, s.Built = b.Tools, b.Edited, board })
}

// An UnfinishedError reports a project folder that must be generated again, because Generate was interrupted. Generate
// and Clean accept it. The folder's model.tar is the archive if it has ArchiveDigest.
type UnfinishedError struct {
	Dir string

	// what was being generated, as in Spec
	Board, Template, ModelName string
	Options                    boards.Options
	Libraries                  []string
	Archive                    string // the archive's file name
	ArchiveDigest              string // SHA-256 of the archive's uncompressed tar, in hexadecimal
}

func unfinished(s *projectfile.State, dir string) *UnfinishedError {
	return &UnfinishedError{
		Dir: dir, Board: s.Board.Name, Template: s.Template.Text(), ModelName: s.Model.ModelName, Options: s.Options,
		Libraries: (&Project{state: *s}).Libraries(), Archive: s.Model.Name, ArchiveDigest: s.Model.Digest,
	}
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("project %s: generating it was interrupted", e.Dir)
}

// FailureClass returns failure.Config.
func (e *UnfinishedError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to go on.
func (e *UnfinishedError) NextStep() string {
	return fmt.Sprintf("generate it again, for board %s from %s", workdir.Printable(e.Board), workdir.Printable(e.Archive))
}
