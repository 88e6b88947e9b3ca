// This file opens an existing project, and explains one that is unfinished.

package project

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// Open opens an existing project without changing it. Errors: *LockedError while another one changes the folder;
// *UnfinishedError; class config for a folder that is not a project or has an invalid project.json.
func (b *Builder) Open(dir string) (*Project, error) {
	dir = abspath.Of(dir)
	b.anchor()

	if _, err := os.Stat(filepath.Join(dir, templatefile.StateFile)); err != nil {
		return nil, projectfile.NotAProject(dir, err)
	}
	l, err := workdir.Share(dir)
	if err != nil {
		return nil, err
	}

	s, err := projectfile.Read(dir)
	if err == nil && s.Pending != nil {
		err = unfinished(s, dir)
	}
	if err != nil {
		l.Release()
		return nil, err
	}

	return &Project{dir: dir, builder: b, state: *s, lock: l}, nil
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
	p := &Project{dir: dir, state: *s}
	return &UnfinishedError{
		Dir: dir, Board: p.BoardFrom(), Template: p.TemplateFrom(), ModelName: s.Model.ModelName, Options: s.Options,
		Libraries: p.Libraries(), Archive: s.Model.Name, ArchiveDigest: s.Model.Digest,
	}
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("project %s: generating it was interrupted", e.Dir)
}

// FailureClass returns failure.Config.
func (e *UnfinishedError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to go on.
func (e *UnfinishedError) NextStep() string {
	return fmt.Sprintf("generate it again, for board %s from %s: %s %s", workdir.Printable(e.Board),
		workdir.Printable(e.Archive), nextstep.Option("dir", e.Dir), nextstep.Target("generate"))
}
