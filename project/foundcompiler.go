// This file finds the compiler of a board whose compiler only the build knows. A build id covers the compiler, and
// comes into the image. So the recipe expects the compiler that the last build with the same settings found. If there
// was none, or another one is found, the build id is written again as soon as the command names the compiler, which it
// should do before it compiles. If that was too late, the command runs again.

package project

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

const compilerFile = "compiler" // its path, in the cache

// expect completes a recipe whose compiler the build finds.
func (p *Project) expect(ctx context.Context, r *recipe) error {
	if path := p.lastCompiler(r.settled); path != "" {
		if found, err := p.identifyFound(ctx, path); err == nil {
			r.found = found
		} else if ctx.Err() != nil {
			return err
		}
	}
	p.setKeys(r)
	return nil
}

// lastCompiler returns the path of the compiler that a build with these settings found, or "".
func (p *Project) lastCompiler(settled cache.Key) string {
	if c := cache.OrUsers(p.builder.Cache); c != nil {
		if files, ok := c.Get(settled); ok && len(files) == 1 && files[0].Name == compilerFile {
			return string(files[0].Data)
		}
	}
	if p.state.Built != nil {
		return p.state.Built.Toolchain.CC
	}
	return ""
}

// identifyFound identifies a compiler by its path or name. Its folder does not determine what it makes.
func (p *Project) identifyFound(ctx context.Context, cc string) (toolState, error) {
	path, err := p.findProgram(cc, "")
	if err != nil {
		return toolState{}, err
	}
	name := command.Name(path)
	return askOnce(ctx, p.builder, path, name, func() (toolState, error) { return identify(ctx, name, path) })
}

// allTools lists the compiler first.
func (r *recipe) allTools() []toolState {
	if r.found == (toolState{}) {
		return r.tools
	}
	return slices.Concat([]toolState{r.found}, r.tools)
}

// runBuilds writes the build id and runs the build command in a folder, and notes the board that the command
// completed. It does this again if the image has not the build id of the compiler that the command used.
func (p *Project) runBuilds(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) error {
	for range 2 {
		if err := in.writeBuildID(p.state.Template.BuildID, r.id); err != nil {
			return err
		}
		if p.state.Board.Toolchain.CC != "" {
			return p.runAndComplete(ctx, in, build, held, r, reused)
		}
		done, err := p.runAndFind(ctx, in, build, held, r, reused)
		if done || err != nil {
			return err
		}
		if err := in.remove(p.state.Template.BuildID); err != nil { // a build system must see that it is another one
			return err
		}
	}
	return failure.New(failure.Config, "build again", "the build used another compiler each time, at last %s",
		r.found.Name)
}

// runAndComplete runs the build command, and notes the board that it completed.
func (p *Project) runAndComplete(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool,
) error {
	if err := p.runBuild(ctx, in, build, held, r, reused); err != nil {
		return err
	}
	board, err := p.completed(in)
	p.found = board
	return err
}

// runAndFind does the same, and completes the recipe by the compiler that the command used. It reports whether the
// image has the build id of that.
func (p *Project) runAndFind(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) (bool,
	error,
) {
	expected := r.found
	ended := p.followCompiler(ctx, in, *r)
	err := p.runAndComplete(ctx, in, build, held, r, reused)
	now, rewritten := ended()
	if *r = now; err != nil {
		return false, err
	}
	cc := p.found.Board.Toolchain.CC
	found, err := p.identifyFound(ctx, cc)
	if err != nil {
		return false, err
	}
	if found != expected {
		p.noteCompiler(r.settled, cc)
	}
	if found == r.found && (!rewritten || in.hasID(p.state.Template.ELF, r.id)) {
		return true, nil
	}
	r.found = found
	p.setKeys(r)
	return false, nil
}

// followCompiler looks for the compiler that a running build command names. If it is not the one that the recipe
// expects, it completes the recipe by it, and writes the build id that follows. When the command has ended, the caller
// must call the function that this returns, which returns the recipe and whether a build id was written.
func (p *Project) followCompiler(ctx context.Context, in *tree, r recipe) func() (recipe, bool) {
	rewritten := false
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		var seen fs.FileInfo
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
			}
			info, err := in.root.Stat(filepath.FromSlash(p.state.Template.Board))
			if err != nil || seen != nil && seen.Size() == info.Size() && seen.ModTime().Equal(info.ModTime()) {
				continue
			}
			found, err := p.namedCompiler(ctx, in)
			if err != nil {
				continue // the file is being written; runAndFind tells of an error that stays
			}
			seen = info
			if found == r.found {
				continue
			}
			r.found = found
			p.setKeys(&r)
			rewritten = true
			if err := in.writeBuildID(p.state.Template.BuildID, r.id); err != nil {
				p.builder.log().Debug("the build id could not be written during the build", "error", err)
			}
		}
	}()
	return func() (recipe, bool) {
		close(ended)
		<-stopped
		return r, rewritten
	}
}

// namedCompiler identifies the compiler that the build command named.
func (p *Project) namedCompiler(ctx context.Context, in *tree) (toolState, error) {
	board, err := p.completed(in)
	if err != nil {
		return toolState{}, err
	}
	return p.identifyFound(ctx, board.Toolchain.CC)
}

// hasID reports whether an image has that build id.
func (t *tree) hasID(name string, id [16]byte) bool {
	data, err := t.root.ReadFile(filepath.FromSlash(name))
	return err == nil && bytes.Contains(data, id[:])
}

// writeBuildID writes the file unless it has that build id. Its time is later than that of results with another one,
// also where the file system's own clock is behind.
func (t *tree) writeBuildID(name string, id [16]byte) error {
	data := buildIDBytes(id)
	if was, err := t.readSome(name, int64(len(data))+1); err == nil && bytes.Equal(was, data) {
		return nil
	}
	if err := t.writeFile(name, data); err != nil {
		return err
	}
	now := time.Now()
	return t.error("touch", name, t.root.Chtimes(filepath.FromSlash(name), now, now))
}

// noteCompiler records the compiler that a build found for these settings.
func (p *Project) noteCompiler(settled cache.Key, cc string) {
	c := cache.OrUsers(p.builder.Cache)
	if c == nil {
		return
	}
	if err := c.Put(settled, []cache.File{{Name: compilerFile, Data: []byte(cc)}}); err != nil {
		p.builder.log().Warn("the compiler's path could not be stored in the cache", "error", fmt.Sprint(err))
	}
}
