// This file completes a partial board by what the project's build found out.

package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/plainfile"
	"github.com/boardsmith/boardsmith/mlf"
)

// completed returns the board with what the build command wrote about it into its folder; nil if the template names no
// such file.
func (p *Project) completed(in *tree) (*boardState, error) {
	name := p.state.Template.Board
	if name == "" {
		return nil, nil
	}
	at := filepath.Join(in.dir, filepath.FromSlash(name))
	data, err := in.readSome(name, boards.MaxFileBytes+1)
	if notThere(err) {
		return nil, failure.New(failure.Config, p.correctBuild(), "the build command succeeded but made no %s", at)
	}
	if err != nil {
		return nil, failure.New(failure.Config, p.correctBuild(), "%w", in.error("read", name, err))
	}
	b, err := p.state.Board.Complete(at, data)
	if err != nil {
		return nil, failure.New(failure.Config, p.correctBuild(), "%w", err)
	}
	b.Files, b.Origin = nil, nil
	return &boardState{Name: b.Name, Board: *b}, nil
}

// correctBuild is the next step after an error in what the build command made.
func (p *Project) correctBuild() string {
	return "correct the build command of template " + p.state.Template.Name
}

// readSome returns the first bytes of a plain file.
func (t *tree) readSome(name string, limit int64) ([]byte, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|plainfile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, plainfile.ErrSpecial)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// checkCompleted checks what could not be checked before the board was known.
func (p *Project) checkCompleted() error {
	b := p.Board()
	if _, err := b.Settle(p.state.Options); err != nil {
		return optionsFit(b, p.state.Options, err)
	}
	a, m, err := p.Model()
	if err != nil {
		return err
	}
	return p.checkRuns(a, m)
}

// checkRuns returns an error for a model that the board cannot run.
func (p *Project) checkRuns(a *mlf.Archive, m *mlf.Model) error {
	if err := fit.CheckModel(p.Board(), a, m); err != nil {
		return err
	}
	return p.checkModelFits(a, m)
}

// A build id covers the compiler, and comes into the image. If only the build finds the compiler, the recipe expects
// the one that the last build with the same settings found. If there was none, or another one is found, the build
// command runs again, with the right build id.

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
// completed. It does this again if the command used another compiler than the recipe expects. If none is expected, the
// first run makes only the board file, if the template has words for that.
func (p *Project) runBuilds(ctx context.Context, in *tree, build string, held *os.File, r *recipe, reused bool) error {
	var words []string
	if p.state.Board.Toolchain.CC == "" && r.found == (toolState{}) {
		words = p.state.Template.Configure
	}
	for range 2 {
		if err := in.writeBuildID(p.state.Template.BuildID, r.id); err != nil {
			return err
		}
		if err := p.runBuild(ctx, in, build, words, held, r, reused); err != nil {
			return err
		}
		board, err := p.completed(in)
		if err != nil {
			return err
		}
		p.found = board
		if p.state.Board.Toolchain.CC != "" {
			return nil
		}
		found, err := p.identifyFound(ctx, board.Toolchain.CC)
		if err != nil || found == r.found {
			return err
		}
		p.noteCompiler(r.settled, board.Toolchain.CC)
		r.found, words = found, nil
		p.setKeys(r)
	}
	return failure.New(failure.Config, "build again", "the build used another compiler each time, at last %s",
		r.found.Name)
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
