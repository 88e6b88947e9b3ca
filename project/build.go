// This file builds a project, or determines that it is up to date.

package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/imagecheck"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// Build makes the firmware from the files as they are, with the user's changes. If nothing has changed since the last
// build, it only checks that. It runs the template's build command in a folder of the cache, which has what earlier
// builds compiled, and copies the results into the project. A cancelled or failed build leaves no result. Errors:
// *FitError, *ToolError, *failure.MissingToolError, those of mlf and of the file system; class config if
// a file changed during the build.
func (p *Project) Build(ctx context.Context) (*image.Image, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := workdir.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()

	p.builder.Report(device.ProgressEvent{Step: "build", Detail: "looking what has changed"})
	b := p.newBuild(t)
	if err := b.ReadInputs(ctx); err != nil {
		return nil, err
	}

	last := builddir.Last(t, &p.state)
	if !p.builder.Fresh && b.IsUpToDate(ctx, last) {
		// The record lacks the completed board, but its file is among the results.
		if p.found, err = b.Complete(t); err != nil {
			return nil, err
		}
		return p.image(last, true), p.noteBuild(last)
	}

	build, err := p.carryOutBuild(ctx, b)
	if err != nil {
		p.found = nil
		return nil, p.checkBoard(ctx, err)
	}

	i := p.image(build, false)
	image.Store{Cache: p.builder.Cache, Log: p.builder.log()}.Keep(i)
	return i, p.noteBuild(build)
}

func (p *Project) image(r *builddir.Record, upToDate bool) *image.Image {
	i := &image.Image{
		Path:   filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)),
		Map:    filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)),
		Digest: r.Digest, Board: p.state.Board.Name, Size: r.Size, UpToDate: upToDate, Edited: slices.Clone(r.Edited),
		BuildDir:  filepath.Join(p.dir, filepath.FromSlash(p.state.Template.FolderForProgrammer())),
		Landmarks: p.state.Template.Landmarks,
	}

	forms := p.state.Template.Forms
	apart, _ := p.state.Board.ExtraRegion()
	i.Bin, i.Hex, i.ExtraBin = p.formOf(r, forms.Bin), p.formOf(r, forms.Hex), p.formOf(r, forms.ExtraBinOf(apart.Name))
	_, _ = hex.Decode(i.BuildID[:], []byte(r.BuildID)) // it was validated when it was read or written
	return i
}

// formOf returns the path of another form of the image, or "" if the build wrote none.
func (p *Project) formOf(r *builddir.Record, name string) string {
	if r.Others[name] == "" {
		return ""
	}
	return filepath.Join(p.dir, filepath.FromSlash(name))
}

// newBuild returns a build of the project in t.
func (p *Project) newBuild(t *workdir.Tree) *builddir.Build {
	b := &builddir.Build{
		State: &p.state, Tree: t, Env: p.env(), Cache: p.builder.Cache, Log: p.builder.log(), Jobs: p.builder.jobs(),
		Forms: p.builder.Forms, Fresh: p.builder.Fresh, Check: p.checkLibraries,
	}

	b.Progress = func(detail string, done, total int) {
		p.builder.Report(device.ProgressEvent{Step: "build", Detail: detail, Done: done, Total: total})
	}

	b.Explain = func(err error, folder string) error {
		p.found = b.Board // for advice about what does not fit
		a, m, failed := p.Model()
		if failed != nil {
			return errors.Join(err, failed)
		}

		if misplaced := p.misplacedHeader(err); misplaced != nil {
			return misplaced
		}
		err = p.builder.explained(p.linkFits(err, folder, a, m), a, p.dir, p.state.Libraries)
		return p.missingSystem(err, folder)
	}
	return b
}

// misplacedHeader explains the error of a compiler that does not find a header which the project has, for a file that
// is not the model's; nil for any other error.
func (p *Project) misplacedHeader(err error) error {
	tool := (*ToolError)(nil)
	if !errors.As(err, &tool) {
		return nil
	}
	header, includer := diagnostics.MissingHeader(tool.Message + "\n" + string(tool.Tail))

	// Headers that the model's files lack are explained elsewhere: see explained.
	if header == "" || strings.Contains(includer, p.folders().OfModel()+"/") {
		return nil
	}

	for _, name := range slices.Sorted(maps.Keys(p.state.Files)) {
		folder, ok := strings.CutSuffix("/"+name, "/"+header)
		if !ok {
			continue
		}

		folder = strings.TrimPrefix(folder, "/")
		next := "add it to the folders of headers in the build file; boardsmith.mk has its own in BOARDSMITH_INCLUDES, and " +
			"CMake's target boardsmith passes them on to what is linked with it"
		if p.state.Template.TakesZephyrBoard() {
			next = "add it in CMakeLists.txt: target_include_directories(app PRIVATE " + command.Quote(cmp.Or(folder, ".")) + ")"
		}

		return failure.New(failure.Of(err), next,
			"%w\nthe header is in folder %q of the project, where the compiler does not look for it", err, folder)
	}
	return nil
}

// carryOutBuild checks the model, and builds with exclusive use of the folder.
func (p *Project) carryOutBuild(ctx context.Context, b *builddir.Build) (*builddir.Record, error) {
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}

	// A partial board is checked once the build has completed it.
	if !p.state.Board.Partial {
		if err := p.checkRuns(ctx, a, m); err != nil {
			return nil, err
		}
	}

	if err := p.lock.Change(ctx); err != nil {
		return nil, err
	}
	build, err := p.buildAndCheck(ctx, b)
	if err := errors.Join(err, p.lock.ShareAgain()); err != nil {
		return nil, err
	}
	return build, nil
}

// buildAndCheck replaces the results of the last build, and records them if they can run on the board.
func (p *Project) buildAndCheck(ctx context.Context, b *builddir.Build) (*builddir.Record, error) {
	results, err := b.Run(ctx)
	if err != nil {
		return nil, err
	}

	if p.found = b.Board; p.found != nil {
		if err := p.checkCompleted(ctx); err != nil {
			return nil, err
		}
	}

	id, size, err := p.linked().Inspect()
	if err != nil {
		return nil, err
	}

	if t := p.state.Template; !slices.Contains(results, t.Map) {
		return nil, failure.New(failure.Link, "correct the build command of template "+t.Name+", or map in its template.json",
			"the build command succeeded but made no %s, the linker's map", t.Map)
	}

	// The stack is read from the map, so this comes after the check that there is one.
	if err := p.checkStack(); err != nil {
		return nil, err
	}
	return b.Finish(results, id, size)
}

// linked returns the image in the project's folder.
func (p *Project) linked() imagecheck.Program {
	return imagecheck.Program{
		Path: filepath.Join(p.dir, filepath.FromSlash(p.state.Template.ELF)), Template: &p.state.Template.Description,
		Map:   filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)),
		Board: p.Board(), Advice: builddir.Advice(&p.state),
	}
}
