// This file makes what targets call of the environment: a Builder, a Desk, the cache, and the paths of programs.

package targets

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/project"
)

// newLog returns a log on stderr, with all details if VERBOSE is set.
func newLog(c *console.Console) hclog.Logger {
	level := hclog.Warn
	if c.Env.On("VERBOSE") {
		level = hclog.Debug
	}
	return hclog.New(&hclog.LoggerOptions{Name: "boardsmith", Level: level, Output: c, DisableTime: true})
}

// newHost returns the log, the progress bar and the cache.
func newHost(c *console.Console) device.Host {
	progress := func(e device.ProgressEvent) { c.Update(e.Step+": "+e.Detail, e.Done, e.Total) }
	store, _, _ := openCache(c) // cache:gc reports an invalid CACHE_MIB
	return device.Host{Log: newLog(c), Progress: progress, Cache: store}
}

// builder returns a Builder with the boards, templates and libraries of the inputs.
func (j *job) builder() *project.Builder {
	b := newBuilder(j.Console, j.in.Config)
	b.Path, b.Forms, b.Fresh = j.in.Path, true, j.Env.On("FRESH")
	return b
}

// searchBuilder returns a Builder for targets without a project.
func searchBuilder(ctx context.Context, c *console.Console) (*project.Builder, error) {
	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return nil, err
	}
	b := newBuilder(c, config)
	b.Path, err = inputs.SearchPath(c.Env, config, fetcher(ctx, c))
	return b, err
}

func newBuilder(c *console.Console, config *boardsmithjson.Config) *project.Builder {
	return &project.Builder{
		Host: newHost(c), LockFile: inputs.LockFile(config, c.Dir), Templates: config.Templates, Libraries: config.Libraries,
	}
}

// fetcher returns a function that fetches places in git repositories.
func fetcher(ctx context.Context, c *console.Console) inputs.Fetcher {
	return func(config *boardsmithjson.Config, place string) (string, error) {
		return newBuilder(c, config).Fetch(ctx, place)
	}
}

// desk returns a Desk with the inputs.
func (j *job) desk() *device.Desk {
	host, env := newHost(j.Console), j.Env
	host.Path = j.in.Path
	return &device.Desk{
		Host: host, Programmer: env("PROGRAMMER"), Reflash: env.On("FORCE"), Wait: j.in.Wait, File: j.in.DeskFile,
		Ledger: env("BOARDSMITH_LEDGER"), Probes: emulated.Probes(),
		Tool: func(name string) (string, error) { return findProgram(env, name) },
	}
}

// images returns the images of earlier builds.
func images(c *console.Console) image.Store {
	host := newHost(c)
	return image.Store{Cache: host.Cache, Log: host.Log}
}

// openCache returns the cache, and its limit: CACHE_MIB in bytes. With an error for CACHE_MIB it returns one with the
// default limit.
func openCache(c *console.Console) (store *cache.Cache, limit int64, err error) {
	dir, err := cache.DefaultDir()
	if err != nil {
		return nil, 0, err
	}
	limit = cache.DefaultLimit
	if text := c.Env("CACHE_MIB"); text != "" {
		if n, parseErr := strconv.ParseInt(text, 10, 32); parseErr == nil && n >= 0 {
			limit = n << 20
		} else {
			err = failure.Errorf(failure.Config, "CACHE_MIB=%s is not a number of MiB", text)
		}
	}
	return cache.New(dir, cache.Options{Limit: limit}), limit, err
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
	path, err := ownKeeper()
	if err != nil {
		return "", err
	}
	return virtualprobe.Find(path)
}

// ownKeeper returns the path of setup's keeper, built or not.
func ownKeeper() (string, error) {
	dir, err := toolbox.Folder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "go", virtualprobe.Program), nil
}
