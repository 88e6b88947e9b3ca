// This file holds the state that the targets of one mage run share: the inputs, and the project with its lock.

package targets

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/console"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/internal/toolbox"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/progress"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/samples"
)

// An invocation is one run of mage.
type invocation struct {
	*console.Console
	log hclog.Logger

	in      *inputs          // nil until a target needs them
	making  *project.Builder // nil until builder
	project *project.Project // nil until loaded or generated; its lock is held until the process ends
	image   *image.Image     // nil until built, or found built
	picked  bool             // IMAGE names the image
	device  *device.Device   // nil until attached
	// why an existing project could not be loaded, if generating it again helps
	stale *project.StaleError
}

// current returns the invocation that the targets of one mage run share. It holds the project's lock from the first
// step to the end of the process. It is global because mage's targets are plain functions.
var current = sync.OnceValue(func() *invocation { return newInvocation(console.Current()) })

func newInvocation(c *console.Console) *invocation {
	level := hclog.Warn
	if c.Env.On("VERBOSE") {
		level = hclog.Debug
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "boardsmith", Level: level, Output: c, DisableTime: true})
	return &invocation{Console: c, log: log}
}

// fields are the fields of one JSON line.
type fields = console.Fields

// do runs one target.
func do(ctx context.Context, step string, f func(*invocation, context.Context) error) error {
	v := current()
	return v.Do(ctx, step, func(ctx context.Context) error { return f(v, ctx) })
}

// inputs returns the inputs, which it reads once.
func (v *invocation) inputs(ctx context.Context) (*inputs, error) {
	if v.in != nil {
		return v.in, nil
	}
	in, err := resolve(v.Env, v.Dir, v.load, func(c *boardsmithjson.Config, place string) (string, error) {
		return (&project.Builder{Cache: v.usableCache(), LockFile: lockFile(c, v.Dir)}).Fetch(ctx, place)
	})
	if err != nil {
		return nil, err
	}
	if in.deskFileMade != "" {
		v.Notef("%s", in.deskFileMade)
	}
	v.in = in
	return in, nil
}

// forget closes the project, for a target that uses another one.
func (v *invocation) forget() error {
	p := v.project
	v.in, v.project, v.image, v.picked, v.stale = nil, nil, nil, false, nil
	if p == nil {
		return nil
	}
	return p.Close()
}

// load opens the project in dir and returns its inputs, or nil if there is none.
func (v *invocation) load(dir string) (*made, error) {
	if !project.Exists(dir) {
		return nil, nil
	}
	p, err := v.builder(nil).Open(dir)
	if errors.As(err, &v.stale) {
		if v.stale.Board == "" {
			return nil, nil
		}
		return &made{
			board: v.stale.Board, template: v.stale.Template, from: v.stale.Template, model: v.stale.Archive,
			modelName: v.stale.ModelName,
			options:   v.stale.Options, libraries: v.stale.Libraries,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	v.project = p
	return &made{
		board: p.Board().Name, template: p.Template(), from: p.TemplateFrom(), model: p.ArchiveName(),
		modelName: p.ModelName(),
		options:   p.Options(), libraries: p.Libraries(),
	}, nil
}

// builder returns the run's Builder; in is nil before the inputs are known.
func (v *invocation) builder(in *inputs) *project.Builder {
	if v.making == nil {
		v.making = &project.Builder{Log: v.log, Progress: v.progressed, Cache: v.usableCache(), Forms: true}
	}
	if in != nil {
		v.making.Path, v.making.LockFile = in.path, lockFile(in.config, v.Dir)
		v.making.Templates, v.making.Libraries = in.config.Templates, in.config.Libraries
	}
	return v.making
}

// desk returns a Desk with the run's inputs.
func (v *invocation) desk(in *inputs) *device.Desk {
	return &device.Desk{
		Path: in.path, Log: v.log, Progress: v.progressed, Cache: v.usableCache(), Programmer: v.Env("PROGRAMMER"),
		Reflash: v.Env.On("FORCE"), Wait: in.wait, File: in.deskFile, Ledger: v.Env("BOARDSMITH_LEDGER"),
		Tool: func(name string) (string, error) { return findProgram(v.Env, name) }, Probes: emulated.Probes(),
	}
}

// images returns the images of earlier builds.
func (v *invocation) images() image.Store { return image.Store{Cache: v.usableCache(), Log: v.log} }

// usableCache returns the cache, or nil if CACHE_MIB is invalid, which cache:gc reports.
func (v *invocation) usableCache() *cache.Cache {
	c, err := v.cache()
	if err != nil {
		return nil
	}
	return c
}

// cache returns the cache, limited to CACHE_MIB.
func (v *invocation) cache() (*cache.Cache, error) {
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil, err
	}
	limit, err := v.cacheLimit()
	return cache.New(dir, cache.Options{Limit: limit}), err
}

// cacheLimit returns CACHE_MIB in bytes.
func (v *invocation) cacheLimit() (int64, error) {
	text := v.Env("CACHE_MIB")
	if text == "" {
		return cache.DefaultLimit, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return cache.DefaultLimit, failure.New(failure.Config, "", "CACHE_MIB=%s is not a number of MiB", text)
	}
	return n << 20, nil
}

// forced reports whether FORCE applies to files: only in the steps that may replace or remove them.
func (v *invocation) forced() bool {
	switch v.Step() {
	case "generate", "build", "clean":
		return v.Env.On("FORCE")
	}
	return false
}

// progressed shows the progress of a step.
func (v *invocation) progressed(e progress.Event) {
	v.Update(e.Step+": "+e.Detail, e.Done, e.Total)
}

// matches returns an error unless the project is for the requested board and model.
func (v *invocation) matches(in *inputs) error {
	p := v.project
	if in.board.asked && in.boardName() != p.Board().Name {
		return v.madeFor("board", p.Board().Name, in.boardName())
	}
	if in.model.asked && archiveName(in.model.value) != archiveName(p.ArchiveName()) {
		return v.madeFor("model", archiveName(p.ArchiveName()), archiveName(in.model.value))
	}
	if in.modelName.asked && in.modelName.value != p.ModelName() {
		return v.madeFor("model", p.ModelName(), in.modelName.value+" of "+archiveName(p.ArchiveName()))
	}
	return nil
}

func (v *invocation) madeFor(what, is, asked string) error {
	return failure.New(failure.Config, "choose another PROJECT, or generate it again: "+failure.Target("generate"),
		"project %s was made for %s %s, not for %s", shown(v.Dir, v.project.Dir()), what, is, asked)
}

// isCurrent reports whether the project matches the requested inputs and its own are up to date.
func (v *invocation) isCurrent(in *inputs) (bool, error) {
	p := v.project
	if in.optioned && in.options != p.Options() {
		return false, nil
	}
	if in.use && !slices.Equal(in.libraries, p.Libraries()) {
		return false, nil
	}
	if in.template.asked && !isTemplate(in, p) {
		return false, nil
	}
	if !in.model.asked {
		return true, nil
	}
	digest := samples.Digest()
	if in.model.value != "" {
		a, err := mlf.Open(in.model.value)
		if err != nil {
			return false, err
		}
		digest = a.Digest
	}
	return digest == p.ArchiveDigest(), nil
}

// isTemplate reports whether a project has the requested template.
func isTemplate(in *inputs, p *project.Project) bool {
	place := cmp.Or(in.config.Templates[in.template.value], in.template.value)
	if gitfolder.IsRef(place) {
		return place == p.TemplateFrom()
	}
	return filepath.Base(in.template.value) == p.Template() && !gitfolder.IsRef(p.TemplateFrom())
}

// boardOf returns the board named by BOARD, for targets that need no project.
func (v *invocation) boardOf(ctx context.Context) (*inputs, *boards.Board, error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := boards.Find(in.board.value, in.path)
	if err != nil {
		return nil, nil, err
	}
	if d := in.deskFile.Find(in.device); d != nil && d.Board != b.Name {
		return nil, nil, failure.New(failure.Config, "leave BOARD out", "%s in desk.json is a %s, not a %s", d.Name,
			d.Board, b.Name)
	}
	return in, b, nil
}

// findProgram returns the path of a program that boardsmith calls, the keeper among them.
func findProgram(env console.Environ, name string) (string, error) {
	if name == virtualprobe.Program {
		return findKeeper()
	}
	return toolbox.Find(env, name)
}

// findKeeper returns the path of the keeper: an installed one, else setup's.
func findKeeper() (string, error) {
	own, err := ownKeeper()
	if err != nil {
		return "", err
	}
	return virtualprobe.Find(own)
}

// ownKeeper returns the path of setup's keeper, built or not.
func ownKeeper() (string, error) {
	dir, err := toolbox.Folder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "go", virtualprobe.Program), nil
}
