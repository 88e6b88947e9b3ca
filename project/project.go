// Package project generates and builds the firmware of a board, a template and a model, in a folder that can be
// opened again, and runs it on a device.
//
// It does not print anything, and reads no environment variables except those that tools need.
package project

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// A Project is a folder written by Generate, open until Close. Only one goroutine at a time may use it. Several
// projects may be used at once, also of one folder and one Builder. An Image that it has built may be used from any
// goroutine.
//
// While a Project is open no one else can change the folder's files; others may open it too, in this process and in
// others. Methods that change files (Generate and Build, if something differs) need exclusive use of the folder:
// they wait two seconds for others to close it, then return a *LockedError. The locks are flock's, on Windows
// LockFileEx's.
type Project struct {
	dir     string // absolute
	builder *Builder
	state   projectfile.State
	lock    *workdir.Lock
	closed  bool
	wrote   []string
	stayed  []string
	model   *mlf.Archive       // nil until asked for
	found   *projectfile.Board // state.Built of a build that is under way

	devices []*device.Device // attached by Run
}

// Exists reports whether the folder is a project, finished or not.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, templatefile.StateFile))
	return err == nil
}

// Close closes the device that Run attached and releases the folder. Later calls do nothing. The other methods of a
// closed project that return an error return one of class internal.
func (p *Project) Close() error {
	p.closed = true
	var errs []error
	for _, d := range p.devices {
		errs = append(errs, d.Close())
	}
	p.devices = nil
	p.lock.Release()
	return errors.Join(errs...)
}

// errIfClosed returns an error for a project whose folder others may have changed since Close.
func (p *Project) errIfClosed() error {
	if p.closed {
		return failure.New(failure.Internal, "open it again", "project %s: it was closed", p.dir)
	}
	return nil
}

// Dir returns the project's folder, absolute.
func (p *Project) Dir() string { return p.dir }

// Board returns the board that the project was generated for, as its file was then. A partial board is complete once
// the project is built: until then, what only a build finds out is missing. The board is a copy, its slices and maps
// are the project's own.
func (p *Project) Board() *boards.Board {
	b := p.state.Board.Board
	if built := cmp.Or(p.found, p.state.Built); built != nil {
		b = built.Board
	}

	// Generate has copied the files that link.args names to this folder.
	b.Link.Dir = filepath.Join(p.dir, generator.Board)
	return &b
}

// Template returns the name of its template.
func (p *Project) Template() string { return p.state.Template.Name }

// TemplateFrom returns the template as in Spec: its name if it was chosen by that, else its absolute path or its place
// in a git repository.
func (p *Project) TemplateFrom() string {
	return inSpec(p.dir, p.state.Template.From, p.state.Template.Name)
}

// BoardFrom returns the board as in Spec: its name if it was chosen by that, else the absolute path of its file.
func (p *Project) BoardFrom() string { return inSpec(p.dir, p.state.Board.From, p.state.Board.Name) }

// Options returns the user's choices that it was generated with; zero fields mean the board's defaults.
func (p *Project) Options() boards.Options { return p.state.Options }

// ModelName returns the name of its model in the archive.
func (p *Project) ModelName() string { return p.state.Model.ModelName }

// ArchiveName returns the file name of the archive that it was generated from.
func (p *Project) ArchiveName() string { return p.state.Model.Name }

// ArchiveDigest returns the SHA-256, in hexadecimal, of the archive's uncompressed tar.
func (p *Project) ArchiveDigest() string { return p.state.Model.Digest }

// Wrote lists the files that Generate wrote or removed, sorted. It is empty if all were up to date or the project
// was opened.
func (p *Project) Wrote() []string { return slices.Clone(p.wrote) }

// Preserved lists the files, sorted, that a user has changed and that Generate left as they are, because it would make
// them as before. It is empty if the project was opened.
func (p *Project) Preserved() []string { return slices.Clone(p.stayed) }

// Model reads the project's archive and returns it with the project's model.
func (p *Project) Model() (*mlf.Archive, *mlf.Model, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, nil, err
	}
	if p.model == nil {
		a, err := mlf.Open(filepath.Join(p.dir, templatefile.ModelTar))
		if err != nil {
			return nil, nil, err
		}
		p.model = a
	}
	m, err := p.model.Model(p.state.Model.ModelName)
	return p.model, m, err
}

// Edited lists the generated files that the user has changed or removed, sorted.
func (p *Project) Edited() ([]string, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := workdir.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.Edited(p.state.Files, nil)
}

// A FitError reports a firmware or a model that does not fit the board.
type FitError = fit.Error

// A ToolError reports an external command that failed.
type ToolError = buildenv.ToolError

// A LockedError reports a project folder that is in use.
type LockedError = workdir.LockedError

func (p *Project) folders() firmware.Folders { return p.state.Template.Landmarks.Folders }
