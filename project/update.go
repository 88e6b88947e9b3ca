// This file changes project.json.

package project

import (
	"context"
	"reflect"

	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
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

	// state.Built takes its place.
	p.found = nil

	if reflect.DeepEqual(b.Tools, p.state.Tools) && reflect.DeepEqual(b.Edited, p.state.Edited) &&
		reflect.DeepEqual(board, p.state.Built) {
		return nil
	}
	return p.update(func(s *projectfile.State) { s.Tools, s.Edited, s.Built = b.Tools, b.Edited, board })
}
