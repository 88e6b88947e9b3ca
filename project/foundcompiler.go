// This file finds the compiler of a board whose compiler only the build knows. A build id covers the compiler and its
// libraries, and comes into the image. So the recipe expects the compiler that the last build with the same settings
// found. If there was none, the build id is written again as soon as the command names a compiler, which it should do
// before it compiles. If that was too late, or it found another compiler than the expected one, the command runs again.

package project

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/internal/command"
)

// expect completes a recipe whose compiler the build finds.
func (p *Project) expect(ctx context.Context, r *recipe) error {
	if board := p.lastFound(r); board != nil {
		if found, err := p.identifyFound(ctx, board); err == nil {
			r.found = found
		} else if ctx.Err() != nil {
			return err
		}
	}
	p.setKeys(r)
	return nil
}

// foundKey is where the cache has the board file of the last build with these settings.
func (r *recipe) foundKey() cache.Key {
	key := cache.NewSentence("found v1").Say("settings", fmt.Sprintf("%x", r.toolKey))
	for _, name := range slices.Sorted(maps.Keys(r.configures)) {
		if r.configures[name] {
			key.Say("configured by", name, r.inputs[name])
		}
	}
	return key.Key()
}

// lastFound returns the board as a build with these settings found it, else as this project's last build did, or nil.
func (p *Project) lastFound(r *recipe) *boards.Board {
	if c := cache.OrUsers(p.builder.Cache); c != nil {
		if files, ok := c.Get(r.foundKey()); ok && len(files) == 1 {
			if board, err := p.completedBy(files[0].Name, files[0].Data); err == nil {
				return &board.Board
			}
		}
	}
	if p.state.Built != nil {
		return &p.state.Built.Board
	}
	return nil
}

// noteFound records the board file that a build wrote with these settings.
func (p *Project) noteFound(in *tree, r *recipe) {
	c := cache.OrUsers(p.builder.Cache)
	if c == nil {
		return
	}
	name := p.state.Template.Board
	data, err := in.readSome(name, boards.MaxFileBytes+1)
	if err == nil {
		err = c.Put(r.foundKey(), []cache.File{{Name: path.Base(name), Data: data}})
	}
	if err != nil {
		p.builder.log().Warn("what the build found out could not be stored in the cache", "error", fmt.Sprint(err))
	}
}

// identifyFound identifies a board's compiler, whose folder does not determine what it makes, and its libraries. Not
// every compiler that a build may find names its libraries as GCC does.
func (p *Project) identifyFound(ctx context.Context, b *boards.Board) ([]toolState, error) {
	path, err := p.findProgram(b.Toolchain.CC, "")
	if err != nil {
		return nil, err
	}
	compiler, err := p.builder.identify(ctx, command.Name(path), path)
	if err != nil {
		return nil, err
	}
	library, err := p.libraries(ctx, path, b)
	if err != nil && ctx.Err() == nil {
		p.builder.log().Warn("the build id does not cover the compiler's libraries", "error", err)
		err = nil
	}
	return append([]toolState{compiler}, library...), err
}

// allTools lists the compiler first.
func (r *recipe) allTools() []toolState {
	return slices.Concat(r.found, r.tools)
}

// runAndFind runs the build command as runAndComplete does, and completes the recipe by the compiler that the command
// used. It reports whether the image has the build id of that.
func (p *Project) runAndFind(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) (bool,
	error,
) {
	var f follower
	expected := r.found
	if len(expected) == 0 {
		f.start(ctx, p, in, *r)
	}
	err := p.runAndComplete(ctx, in, build, held, r, reused)
	if f.stop(); len(f.former) > 0 {
		*r = f.recipe
	}
	if err != nil {
		return false, err
	}
	found, err := p.identifyFound(ctx, &p.found.Board)
	if err != nil {
		return false, err
	}
	if !slices.Equal(found, expected) {
		p.noteFound(in, r)
	}
	if slices.Equal(found, r.found) && in.isOf(p.state.Template.ELF, r.id, f.former) {
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
	found, err := p.identifyFound(ctx, &board.Board)
	if err != nil || slices.Equal(found, f.recipe.found) {
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
