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
	"runtime"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Spec is all Generate needs; only Board and Model must be set.
type Spec struct {
	Board    string         // a name, or the path of a board file
	Template string         // a name, or the path of a folder with a template.json; "" is the board's own
	Model    string         // the path of an archive
	Module   string         // which of the archive's models; "" is the only one
	Options  boards.Options // zero fields are the board's own
	Force    bool           // replace files that a person changed, keeping a copy of each
	Env
}

// An Env is what the steps need of the place they run in. The zero value is the normal case. Steps in several goroutines may have
// the same one: Progress and Tool must allow for that.
type Env struct {
	Path     []string     // folders whose boards/ and templates/ are looked into before the shipped ones
	Log      hclog.Logger // nil: nothing is logged
	Progress func(Event)  // told as steps go on, from any goroutine; nil: nobody is
	Cache    *cache.Cache // nil: the user's own, or none where the system has no place for it
	Jobs     int          // compilers at once; 0 means one per processor

	Flasher  string                                     // a programmer in place of the board's own: openocd, pyocd, west, none
	Reflash  bool                                       // write all of an image, whatever the board holds, and past its wear budget
	Wait     time.Duration                              // for a board that somebody else uses; 0: not at all
	Bench    *Bench                                     // devices that have names, and commands for their power; nil: none
	StateDir string                                     // folder of ledger and emulated chips with their leases; "" is the user's own
	Ledger   string                                     // folder of the ledger, which users or computers may share; "" is the one in StateDir
	LeaseDir string                                     // folder of the leases of real probes; "" is the one of all users of this computer
	Tool     func(name string) (path string, err error) // where programmers and boardsmith-keeper are; nil: on PATH, the latter also beside this executable
}

// An Event says how far a step is.
type Event struct {
	Step   string // generate, build, flash, open
	Detail string // what is being done, in a few words
	Done   int    // of Total
	Total  int    // 0: not known
}

func (e Env) log() hclog.Logger {
	if e.Log == nil {
		return hclog.NewNullLogger()
	}
	return e.Log.Named("project")
}

func (e Env) progress(ev Event) {
	if e.Progress != nil {
		e.Progress(ev)
	}
}

func (e Env) jobs() int {
	if e.Jobs > 0 {
		return e.Jobs
	}
	return runtime.NumCPU()
}

func (e Env) cache() *cache.Cache {
	if e.Cache != nil {
		return e.Cache
	}
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil
	}
	return cache.New(dir, cache.Options{})
}

// A Project is a folder made by Generate, held by this process until Close. One goroutine at a time may use it; several projects
// may be used at once, also with one Env, and an Image that one has built by anybody.
type Project struct {
	dir   string // absolute
	env   Env
	state state
	lock  *lock
	wrote []string
	model *mlf.Archive // nil until asked for

	devices []*Device // attached by Run
}

// Load takes up an earlier folder; it changes and rebuilds nothing. Errors: *LockedError; of class config for a folder
// that is not a project, whose project.json cannot be used, or which Generate did not finish (errors.Is ErrUnfinished).
func Load(dir string, e Env) (*Project, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("project: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err != nil {
		return nil, notAProject(dir, err)
	}
	l, err := takeLock(dir)
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
	return &Project{dir: dir, env: e, state: *s, lock: l}, nil
}

// ErrUnfinished is in the chain of Load's error for a folder in which Generate was interrupted.
var ErrUnfinished = errors.New("generating it was interrupted")

func notAProject(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "generate it first", "%s is not a project: it has no %s", dir, stateFile)
	}
	return fileError("project", dir, err)
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

// Module is which of the archive's models it is about, by its name.
func (p *Project) Module() string { return p.state.Model.Module }

// ModelName and ModelDigest say what archive it was generated from: the file's name, and the SHA-256 of its tar.
func (p *Project) ModelName() string { return p.state.Model.Name }

// ModelDigest is the SHA-256, in hexadecimal, of the archive's uncompressed tar.
func (p *Project) ModelDigest() string { return p.state.Model.Digest }

// Wrote lists the files that Generate wrote or removed, sorted; none means that all was up to date, or that the
// project was loaded.
func (p *Project) Wrote() []string { return slices.Clone(p.wrote) }

// Model reads the project's archive and returns it with the model the project is about.
func (p *Project) Model() (*mlf.Archive, *mlf.Module, error) {
	if p.model == nil {
		a, err := mlf.Open(filepath.Join(p.dir, modelTar))
		if err != nil {
			return nil, nil, err
		}
		p.model = a
	}
	m, err := p.model.Module(p.state.Model.Module)
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

// Run is the whole of it for one device: Build, Attach, Flash, Open. The device stays attached until p is closed.
func (p *Project) Run(ctx context.Context, which string) (*rpc.Session, error) {
	i, err := p.Build(ctx)
	if err != nil {
		return nil, err
	}
	d, err := Attach(ctx, p.Board(), which, p.env)
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
