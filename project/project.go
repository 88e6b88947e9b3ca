// Package project makes one firmware of a board, a template and a model, in a folder that can be loaded again, and
// opens it.
//
// It neither compares boards nor repeats measurements, prints nothing, and reads no environment but what tools need to
// run. What a board, a template or an archive is, the packages of those names say.
package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/plainfile"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Spec is all Generate needs; only Board and Model, or Archive in its place, must be set.
type Spec struct {
	Board     string         // a name, or the path of a board file
	Template  string         // a name, or the path of a folder with a template.json; "" is the board's own
	Model     string         // the path of an archive
	Archive   *mlf.Archive   // in place of Model: an archive that was opened, or parsed from bytes; its Path names it
	ModelName string         // which of the archive's models; "" is the only one
	Options   boards.Options // zero fields are the board's own
	Force     bool           // replace files that a person changed, keeping a copy of each
}

// A Project is a folder made by Generate, open until Close. One goroutine at a time may use it; several projects may be used at
// once, also of one folder and of one Builder, and an Image that one has built by anybody.
//
// While a Project is open nobody else changes the folder's files; others may open it too, in this process and in others. Methods
// that change files (Generate and Build, where something differs) let nobody else have the folder open meanwhile: they wait two
// seconds for others to close it, then they are a *LockedError. The locks are flock's, on Windows LockFileEx's.
type Project struct {
	dir     string // absolute
	builder *Builder
	state   state
	lock    *lock
	wrote   []string
	model   *mlf.Archive // nil until asked for

	devices []*device.Device // attached by Run
}

// Open opens an existing folder; it changes and rebuilds nothing. Errors: *LockedError while someone changes the folder, *EarlierError; of class config for a
// folder that is not a project, whose project.json cannot be used, or which Generate did not finish (errors.Is ErrUnfinished).
func (b *Builder) Open(dir string) (*Project, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err != nil {
		return nil, notAProject(dir, err)
	}
	l, err := shareLock(dir)
	if err != nil {
		return nil, err
	}
	s, err := readState(dir)
	if err == nil && s.Pending != nil {
		err = failure.New(failure.Config, "generate the project again", "project %s: %w", dir, ErrUnfinished)
	}
	if err != nil {
		l.release()
		return nil, err
	}
	return b.open.Add(&Project{dir: dir, builder: b, state: *s, lock: l}), nil
}

// ErrUnfinished is in the chain of Open's error for a folder in which Generate was interrupted.
var ErrUnfinished = errors.New("generating it was interrupted")

func notAProject(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "generate it first", "%s is not a project: it has no %s", dir, stateFile)
	}
	return plainfile.Error("project", dir, err)
}

// Exists reports whether the folder is a project, finished or not.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, stateFile))
	return err == nil
}

// Close detaches what Run attached and lets others use the folder. Later calls do nothing.
func (p *Project) Close() error {
	var errs []error
	for _, d := range p.devices {
		errs = append(errs, d.Close())
	}
	p.devices = nil
	p.lock.release()
	p.builder.open.Remove(p)
	return errors.Join(errs...)
}

// Dir is the project's folder, absolute.
func (p *Project) Dir() string { return p.dir }

// Board is the board it was generated for, as its file said then.
func (p *Project) Board() *boards.Board { return &p.state.Board.Board }

// Template is the name of its template.
func (p *Project) Template() string { return p.state.Template.Name }

// Options are the user's choices it was generated with; zero fields are the board's own.
func (p *Project) Options() boards.Options { return p.state.Options }

// ModelName is which of the archive's models it is about, by its name.
func (p *Project) ModelName() string { return p.state.Model.ModelName }

// ArchiveName and ArchiveDigest say what archive it was generated from: the file's name, and the SHA-256 of its tar.
func (p *Project) ArchiveName() string { return p.state.Model.Name }

// ArchiveDigest is the SHA-256, in hexadecimal, of the archive's uncompressed tar.
func (p *Project) ArchiveDigest() string { return p.state.Model.Digest }

// Wrote lists the files that Generate wrote or removed, sorted; none means that all was up to date, or that the
// project was loaded.
func (p *Project) Wrote() []string { return slices.Clone(p.wrote) }

// Model reads the project's archive and returns it with the model the project is about.
func (p *Project) Model() (*mlf.Archive, *mlf.Model, error) {
	if p.model == nil {
		a, err := mlf.Open(filepath.Join(p.dir, modelTar))
		if err != nil {
			return nil, nil, err
		}
		p.model = a
	}
	m, err := p.model.Model(p.state.Model.ModelName)
	return p.model, m, err
}

// Edited lists the generated files that a person has changed or removed since, sorted.
func (p *Project) Edited() ([]string, error) {
	t, err := openTree(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.edited(p.state.Files, nil)
}

// Run is the whole of it for one device: Build, and the desk's Attach, Flash, Open. The device stays attached until p is
// closed. A nil desk is the zero value.
func (p *Project) Run(ctx context.Context, desk *device.Desk, which string) (*rpc.Session, error) {
	if desk == nil {
		desk = &device.Desk{}
	}
	i, err := p.Build(ctx)
	if err != nil {
		return nil, err
	}
	d, err := desk.Attach(ctx, p.Board(), which)
	if err != nil {
		return nil, err
	}
	p.devices = append(p.devices, d)
	r, err := d.Flash(ctx, i)
	if err := errors.Join(err, p.RecordFlash(i, r, err)); err != nil {
		return nil, err
	}
	return d.Open(ctx, i)
}
