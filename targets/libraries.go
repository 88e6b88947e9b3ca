// This file makes what targets call from the environment: Builders, the cache, and programs. If no keeper of emulated
// chips is installed, Go builds that of the boardsmith version in the user's module.

package targets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// newLog returns a log on stderr, with all details if VERBOSE is set.
func newLog(c *console.Console) hclog.Logger {
	level := hclog.Warn
	if c.Verbose {
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

// searchBuilder returns a Builder for targets without a project.
func searchBuilder(ctx context.Context, c *console.Console) (*project.Builder, error) {
	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return nil, err
	}

	b := newBuilder(c, config)
	b.Path, err = inputs.SearchPath(c.Env("BOARDSMITH_PATH"), config, fetcher(ctx, c))
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
		path, err := newBuilder(c, config).Fetch(ctx, place)
		if err == nil {
			c.NamePlace(path, place)
		}
		return path, err
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

	var v struct {
		MiB int `var:"CACHE_MIB" default:"2048" range:"0 2147483647" else:" is not a number of MiB"`
	}
	if err = c.Read(&v); err == nil {
		limit = max(int64(v.MiB)<<20, 1) // a cache takes 0 for its default
	}

	return cache.New(dir, cache.Options{Limit: limit}), limit, err
}

// findProgram returns the path of a program that boardsmith calls, the keeper among them.
func findProgram(name string) (string, error) {
	if name == chipkeeper.Program {
		return findKeeper()
	}
	return toolbox.Find(os.Getenv, name)
}

// findKeeper returns the path of the keeper: an installed one, else setup's.
func findKeeper() (string, error) {
	path, err := ownKeeper()
	if err != nil {
		return "", err
	}
	return chipkeeper.Find(path)
}

// ownKeeper returns the path of setup's keeper, built or not.
func ownKeeper() (string, error) {
	dir, err := toolbox.Folder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "go", chipkeeper.Program), nil
}

const (
	programs       = "github.com/boardsmith/boardsmith/cmd/" // packages of boardsmith's programs
	programTimeout = 5 * time.Minute                         // limit for compiling one, on a slow computer
)

// attach builds the keeper of an emulated board if necessary, then calls Desk.Attach.
func attach(ctx context.Context, c *console.Console, b *boards.Board, which string, desk *device.Desk) (*device.Device,
	error,
) {
	if desk.Programmer != boards.NoProgrammer {
		if err := needKeeper(ctx, c, b); err != nil {
			return nil, err
		}
	}
	return desk.Attach(ctx, b, which)
}

// needKeeper builds the keeper of an emulated board, unless one is installed or setup's is up to date.
func needKeeper(ctx context.Context, c *console.Console, b *boards.Board) error {
	var missing *failure.MissingToolError
	if _, err := chipkeeper.Find(""); !errors.As(err, &missing) || !b.Flash.Emulated {
		return nil // its use reports an invalid BOARDSMITH_KEEPER
	}
	return buildKeeper(ctx, c)
}

// buildKeeper runs Go to build setup's keeper, which is quick if it is up to date.
func buildKeeper(ctx context.Context, c *console.Console) error {
	path, err := ownKeeper()
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failure.Errorf(failure.Config, "tools: %w", err)
	}

	return buildProgram(ctx, c, chipkeeper.Program, path)
}

// buildProgram runs Go to build one of boardsmith's programs at a path.
func buildProgram(ctx context.Context, c *console.Console, name, path string) error {
	install := chipkeeper.WhereToInstall + "go install -mod=readonly " + programs + name

	compiler, err := exec.LookPath("go")
	if err != nil {
		return failure.New(failure.ToolMissing, install,
			"%s is not installed, and Go, which could build it, is not either", name)
	}

	bar := c.Start("building "+name, 0)
	defer bar.End()
	err = command.Command{
		// readonly: a vendor folder of the user's module lacks the program
		Path: compiler, Args: []string{"build", "-mod=readonly", "-o", path, programs + name}, Dir: c.Dir,
		Timeout: programTimeout,
		// Go builds it without a C compiler; renaming it from GOTMPDIR is atomic.
		Env: append(console.ToolEnv(), "CGO_ENABLED=0", "GOTMPDIR="+filepath.Dir(path)),
	}.Run(ctx)

	if err != nil && ctx.Err() == nil {
		return failure.New(failure.ToolMissing, install, "%s is not installed and could not be built: %w", name, err)
	}

	return err
}
