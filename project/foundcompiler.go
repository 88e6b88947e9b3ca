// This file finds the compiler of a board whose compiler only the build knows. A build id covers the compiler, and
// comes into the image. So the recipe expects the compiler that the last build with the same settings found. If there
// was none, the build id is written again as soon as the command names a compiler, which it should do before it
// compiles. If that was too late, or another compiler than the expected one was found, the command runs again.

package project

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
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

// runAndFind runs the build command as runAndComplete does, and completes the recipe by the compiler that the command
// used. It reports whether the image has the build id of that.
func (p *Project) runAndFind(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) (bool,
	error,
) {
	var f follower
	expected := r.found
	if expected == (toolState{}) {
		f.start(ctx, p, in, *r)
	}
	err := p.runAndComplete(ctx, in, build, held, r, reused)
	if f.stop(); len(f.former) > 0 {
		*r = f.recipe
	}
	if err != nil {
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
	if found == r.found && in.isOf(p.state.Template.ELF, r.id, f.former) {
		return true, nil
	}
	r.found = found
	p.setKeys(r)
	return false, nil
}

// A follower looks for the compiler that a running build command names. It completes the recipe by it, and writes the
// build id that follows.
type follower struct {
	recipe  recipe
	former  [][16]byte // the build ids that were written before that of recipe
	cancel  context.CancelFunc
	stopped chan struct{}
}

// start follows a command that is about to run. The caller must call stop.
func (f *follower) start(ctx context.Context, p *Project, in *tree, r recipe) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.recipe, f.stopped = r, make(chan struct{})
	go func() {
		defer close(f.stopped)
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		var seen []byte
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			data, err := in.readSome(p.state.Template.Board, boards.MaxFileBytes+1)
			if err != nil || bytes.Equal(data, seen) {
				continue // it is not there yet
			}
			seen = data
			f.look(ctx, p, in, data)
		}
	}()
}

// look completes the recipe by a board file. Of errors nobody is told here: the file may be half written, and for a
// whole one runAndFind returns them.
func (f *follower) look(ctx context.Context, p *Project, in *tree, data []byte) {
	board, err := p.completedBy(p.state.Template.Board, data)
	if err != nil {
		return
	}
	found, err := p.identifyFound(ctx, board.Toolchain.CC)
	if err != nil || found == f.recipe.found {
		return
	}
	f.former = append(f.former, f.recipe.id)
	f.recipe.found = found
	p.setKeys(&f.recipe)
	if err := in.writeBuildID(p.state.Template.BuildID, f.recipe.id); err != nil {
		p.builder.log().Debug("the build id could not be written during the build", "error", err)
	}
}

// stop ends a follower that was started. Its results may be used then.
func (f *follower) stop() {
	if f.cancel != nil {
		f.cancel()
		<-f.stopped
	}
}

// isOf reports whether an image has a build id and, of those that were written before it, none.
func (t *tree) isOf(name string, id [16]byte, former [][16]byte) bool {
	if len(former) == 0 {
		return true // there was no other
	}
	data, err := t.readSome(name, 1<<30)
	return err == nil && bytes.Contains(data, id[:]) &&
		!slices.ContainsFunc(former, func(f [16]byte) bool { return f != id && bytes.Contains(data, f[:]) })
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
