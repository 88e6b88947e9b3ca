// This file plans the files of a project, from its board, its template and its model.

package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/templates"
)

// commonFolder is the folder of templates.FS with the C that firmware of several templates shares.
const commonFolder = "firmware"

func (b *Builder) makePlan(ctx context.Context, dir string, s Spec) (*plan, error) {
	board, err := boards.Find(s.Board, b.Path)
	if err != nil {
		return nil, err
	}
	settled, err := board.Settle(s.Options)
	if err != nil {
		return nil, optionsFit(board, s.Options, err)
	}
	board = board.Placed(s.Options)

	t, from, err := b.findTemplate(ctx, cmp.Or(s.Template, board.Templates[0]))
	if err != nil {
		return nil, err
	}
	t, app, err := t.ForBoard(board, s.Options)
	if err != nil {
		return nil, err
	}

	a, err := s.archive()
	if err != nil {
		return nil, err
	}
	m, err := a.Model(s.ModelName)
	if err != nil {
		return nil, err
	}
	if err := fit.CheckModel(board, a, m); err != nil {
		return nil, err
	}
	if err := fit.CheckPools(board, s.Options, m); err != nil {
		return nil, err
	}

	pl := &plan{
		board: board, options: settled, template: t, app: app, archive: a, model: m, samples: s.Samples,
		files: map[string]planned{},
	}
	libraries, err := pl.addLibraries(ctx, b, dir, s.Libraries)
	if err != nil {
		return nil, err
	}
	if err := pl.addRuntime(s.Runtime); err != nil {
		return nil, err
	}
	if err := pl.add(); err != nil {
		return nil, err
	}

	pl.state = projectfile.State{
		Format: projectfile.Format,
		Board:  projectfile.Board{Name: board.Name, From: fromOf(dir, board.Path), Own: board.Own, Board: *board},
		Template: projectfile.Template{
			Name: t.Name, From: b.templateFrom(dir, s.Template), Origin: from, Description: t.Description,
		},
		Model:   projectfile.Model{Name: filepath.Base(a.Path), ModelName: m.Name, Digest: a.Digest},
		Options: s.Options, Libraries: libraries,
	}

	pl.state.Board.Files, pl.state.Board.Origin = nil, nil
	return pl, pl.computeDigests()
}

// archive returns the archive to generate from.
func (s Spec) archive() (*mlf.Archive, error) {
	switch {
	case s.Archive != nil && s.Model != "":
		return nil, failure.New(failure.Config, "leave one of them out", "both a path and an opened archive are given")
	case s.Archive != nil:
		return s.Archive, nil
	case s.Model == "":
		return nil, failure.New(failure.Config, "give the path of an archive that TVM exported", "no model")
	}
	return mlf.Open(s.Model)
}

// isC reports whether a file is not one that a tool has left there.
func isC(name string) bool { return strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".h") }

// addRuntime plans the shipped runtime, or that of the user's folder dir.
func (pl *plan) addRuntime(dir string) error {
	to := pl.template.Landmarks.Folders.OfRuntime()
	isOurs := func(name string) bool { return isC(name) && (pl.app == nil || pl.app.TakesRuntime(name)) }
	if dir == "" {
		return pl.addTree(crt.Sources.Runtime, to, isOurs)
	}

	files := os.DirFS(dir)
	if _, err := fs.Stat(files, "src/runtime/crt"); err == nil {
		return failure.New(failure.Config, "use the shipped runtime: archives that TVM exported run with it",
			"%s is TVM's own runtime, whose RPC server is C++: the templates compile C only", dir)
	}

	for _, want := range []string{"include/boardsmith/boardsmith.h", "src/rpc", "src/runtime"} {
		if _, err := fs.Stat(files, want); err != nil {
			return failure.New(failure.Config, "use a copy of the folder crt of a project",
				"%s is no runtime: it has no %s", dir, want)
		}
	}

	return pl.addTree(files, to, func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return (top == "include" || top == "src") && isOurs(name)
	})
}

// add plans the files of the template, the board and the model.
func (pl *plan) add() error {
	t := pl.template
	notCopied := []string{templatefile.TemplateFile, boardfile.PortFolder, t.BuildFolder(), ".git"}
	isCopied := func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return !slices.Contains(notCopied, top)
	}

	if err := t.CheckNames(); err != nil {
		return err
	}

	if pl.app != nil {
		if err := pl.addShipped(); err != nil {
			return err
		}
	} else if t.Firmware != "" {
		common, err := fs.Sub(templates.FS, commonFolder)
		if err != nil {
			return fmt.Errorf("template %s: %w", t.Name, err)
		}
		if err := pl.addTree(common, t.Firmware, isC); err != nil {
			return err
		}
	}

	for to, files := range t.Copied {
		if err := pl.addTree(files, to, func(string) bool { return true }); err != nil {
			return err
		}
	}

	if err := pl.addTree(t.Files, "", isCopied); err != nil { // may replace files of those above
		return err
	}
	if err := pl.addBoard(); err != nil {
		return err
	}
	if err := pl.addGenerated(); err != nil {
		return err
	}

	folder := t.Landmarks.Folders.OfModel()
	pl.addModel(folder)
	if pl.app != nil {
		if err := pl.addEmbedded(folder); err != nil {
			return err
		}
	} else if len(pl.samples) > 0 {
		return failure.New(failure.Config, "leave the samples out", "only standalone firmware has samples")
	} else if err := pl.addCallable(folder); err != nil {
		return err
	}
	pl.files[templates.LaunchScript] = planned{files: templates.FS, name: templates.LaunchScript, mode: 0o755}

	// By now, all C files of the model are planned.
	for _, file := range pl.options.OperatorFiles() {
		if name := path.Join(folder, "codegen/host/src", file); pl.files[name].mode == 0 {
			return failure.Errorf(failure.Config, "option operator_flags: the model has no C file %s", file)
		}
	}

	return pl.addCompileCommands()
}

// addGenerated plans the files that are computed from the board, once those of its port are planned.
func (pl *plan) addGenerated() error {
	for _, g := range pl.template.Generate {
		if data := generator.ForBoard(g, &pl.template.Description, pl.board, pl.options); data != nil {
			pl.files[g] = planned{data: data, mode: 0o644}
		}
	}

	// Rules can exclude each other on a memory protection unit whose regions overlap.
	if _, ok := pl.files[boardfile.InProject(generator.UnitV7)]; ok {
		return generator.CheckOverlaps(pl.board)
	}
	return nil
}

// addModel plans the archive itself and the extracted files of this model, without TVM's runtime and other models'
// code.
func (pl *plan) addModel(folder string) {
	a, m := pl.archive, pl.model
	others := map[string]bool{}
	for _, o := range append(slices.Clone(a.Models), m) { // the last one counts: models have headers together
		for _, f := range slices.Concat(o.Sources, o.Objects, o.Headers) {
			others[f.Name] = o != m
		}
	}

	for _, f := range a.Files {
		if others[f.Name] || strings.HasPrefix(f.Name, "runtime/") || strings.HasPrefix(f.Name, "templates/") {
			continue
		}
		pl.files[path.Join(folder, f.Name)] = planned{data: f.Data, mode: 0o644}
	}

	pl.files[templatefile.ModelTar] = planned{data: a.Raw, mode: 0o644}
}

// addCallable plans the C that makes a model with the C interface callable over RPC, and that by which the runtime
// refuses calls of functions of other models with wrong arguments.
func (pl *plan) addCallable(folder string) error {
	adapter, err := generator.Adapter(pl.board.Place.Pools, pl.model)
	if err != nil {
		return err
	}

	for file, c := range map[string][]byte{
		generator.AdapterFile: adapter, generator.SignaturesFile: generator.Signatures(pl.model),
	} {
		if c != nil {
			pl.files[path.Join(folder, file)] = planned{data: c, mode: 0o644}
		}
	}
	return nil
}

// computeDigests sets the digests of the files.
func (pl *plan) computeDigests() error {
	pl.state.Files = make(map[string]string, len(pl.files))
	built := pl.state.Template.BuildFolder() + "/"
	for name, f := range pl.files {
		if strings.HasPrefix(name, built) {
			return failure.Errorf(failure.Config, "template %s: its file %q is in its build folder",
				pl.state.Template.Name, name)
		}

		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, isFile := pl.files[folder]; isFile {
				return failure.New(failure.Config, "correct the fields firmware and copies, or rename a file",
					"template %s: %q is a file, and the folder of %q", pl.state.Template.Name, folder, name)
			}
		}

		data, err := f.read()
		if err != nil {
			return failure.Errorf(failure.Config, "template: %w", err)
		}
		if gitfolder.IsPointer(data) {
			return failure.New(failure.Config, "run git lfs pull in its repository",
				"%s, which becomes %s, is a Git LFS pointer: its content was not fetched", f.from(), name)
		}
		pl.state.Files[name] = cachekey.Digest(data)
	}

	without := pl.state
	facts, err := json.Marshal(without) // the files' digests and all that was chosen
	if err != nil {
		return fmt.Errorf("%s: %w", templatefile.StateFile, err)
	}
	pl.state.Inputs = fmt.Sprintf("%x", cachekey.New("generate v1").Add("state", string(facts)).Key())
	return nil
}

// FindTemplate finds the template of a specification, for a board or, if that is nil, for any. Errors: class config if
// the board does not build with it, or if it does not use an option.
func (b *Builder) FindTemplate(ctx context.Context, s Spec, board *boards.Board) (*templatefile.Template, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "template %s", s.Template)
	}
	b.anchor()

	if board == nil {
		t, _, err := b.findTemplate(ctx, s.Template)
		return t, err
	}

	t, _, err := b.findTemplate(ctx, cmp.Or(s.Template, board.Templates[0]))
	if err != nil {
		return nil, err
	}
	t, _, err = t.ForBoard(board, s.Options)
	return t, err
}

// addCompileCommands plans the file, once all others are planned.
func (pl *plan) addCompileCommands() error {
	if len(pl.template.Compile) == 0 || pl.board.Toolchain.CC == "" {
		return nil // its build command makes one, or finds the compiler
	}

	var names []string
	for name := range pl.files {
		names = append(names, name)
	}

	data, err := generator.CompileCommands(pl.template.Compile, pl.board, pl.options, names)
	pl.files[generator.CompileDatabase] = planned{data: data, mode: 0o644}
	return err
}
