// This file holds the state that the targets of one mage run share: the inputs, and the project with its lock.

package targets

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/project"
)

// An invocation is one run of mage.
type invocation struct {
	*console.Console
	log hclog.Logger

	in      *inputs.Inputs   // nil until a target needs them
	making  *project.Builder // nil until builder
	project *project.Project // nil until loaded or generated; its lock is held until the process ends
	image   *image.Image     // nil until built, or found built
	picked  bool             // IMAGE names the image
	device  *device.Device   // nil until attached
	// unfinished is the error of a project that must be generated again.
	unfinished *project.UnfinishedError
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

// do runs one target.
func do(ctx context.Context, step string, f func(*invocation, context.Context) error) error {
	v := current()
	return v.Do(ctx, step, func(ctx context.Context) error { return f(v, ctx) })
}

// forget closes the project, for a target that uses another one.
func (v *invocation) forget() error {
	p := v.project
	v.in, v.project, v.image, v.picked, v.unfinished = nil, nil, nil, false, nil
	if p == nil {
		return nil
	}
	return p.Close()
}

// builder returns the run's Builder; in is nil before the inputs are known.
func (v *invocation) builder(in *inputs.Inputs) *project.Builder {
	if v.making == nil {
		v.making = &project.Builder{
			Host:  device.Host{Log: v.log, Progress: v.progressed, Cache: v.usableCache()},
			Forms: true,
			Fresh: v.Env.On("FRESH"),
		}
	}
	if in != nil {
		v.making.Path, v.making.LockFile = in.Path, inputs.LockFile(in.Config, v.Dir)
		v.making.Templates, v.making.Libraries = in.Config.Templates, in.Config.Libraries
	}
	return v.making
}

// desk returns a Desk with the run's inputs.
func (v *invocation) desk(in *inputs.Inputs) *device.Desk {
	return &device.Desk{
		Host:       device.Host{Path: in.Path, Log: v.log, Progress: v.progressed, Cache: v.usableCache()},
		Programmer: v.Env("PROGRAMMER"),
		Reflash:    v.Env.On("FORCE"), Wait: in.Wait, File: in.DeskFile, Ledger: v.Env("BOARDSMITH_LEDGER"),
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
		return cache.DefaultLimit, failure.Errorf(failure.Config, "CACHE_MIB=%s is not a number of MiB", text)
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
func (v *invocation) progressed(e device.ProgressEvent) {
	v.Update(e.Step+": "+e.Detail, e.Done, e.Total)
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
