// This file finds the libraries of a project, plans their files, and checks what they define.

package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// A wantedLibrary is a library as in Spec, or a folder beside the board file that names it.
type wantedLibrary struct {
	text    string
	ofBoard bool
	source  boards.Source // in the board file
}

// wantedLibraries lists those of Spec, then the board's that are not among them.
func wantedLibraries(board *boards.Board, given []string) (all []wantedLibrary, err error) {
	for _, text := range given {
		all = append(all, wantedLibrary{text: text})
	}

	for _, l := range board.Libraries {
		text := l.Name
		if boardfile.IsPath(text) {
			if err := boardfile.CheckFolder(l.Dir, l.Name); err != nil {
				return nil, wrongOwn("libraries", l, err)
			}
			text = filepath.Join(l.Dir, filepath.FromSlash(text))
		}

		if !slices.Contains(given, text) {
			all = append(all, wantedLibrary{text, true, l})
		}
	}
	return all, nil
}

// addLibraries plans the files of the libraries in Spec, and of the board's.
func (pl *plan) addLibraries(
	ctx context.Context, b *Builder, dir string, given []string,
) ([]projectfile.Library, error) {
	board, t := pl.board, pl.template
	wanted, err := wantedLibraries(board, given)
	if err != nil || len(wanted) == 0 {
		return nil, err
	}

	if !slices.Contains(t.Generate, templatefile.LibrariesFile) {
		return nil, failure.New(failure.Config, "choose another template, or add "+templatefile.LibrariesFile+
			" to its generate", "template %s takes no libraries", t.Name)
	}

	var all []*library.Library
	var states []projectfile.Library
	for _, want := range wanted {
		l, state, err := b.findLibrary(ctx, want.text)
		if err != nil && want.ofBoard {
			// The user's words are in the board file, so the error names their line there.
			at := want.source.At
			return nil, failure.Errorf(failure.Of(err), "%w", &jsonfile.Error{
				File: at.File, Line: at.Line, Err: fmt.Errorf("libraries: %w", err),
			})
		}
		if err != nil {
			return nil, err
		}

		if state.Board = want.ofBoard; !state.Board && !b.namesLibrary(want.text) {
			state.From = fromOf(dir, want.text)
		}

		if slices.ContainsFunc(all, func(o *library.Library) bool { return o.Name == l.Name }) {
			return nil, failure.New(failure.Config, "leave one of them out", "library %s is given twice", l.Name)
		}
		if err := l.RunsOn(coreOf(board)); err != nil {
			return nil, err
		}

		to := path.Join(generator.Libraries, l.Name)
		if err := pl.addTree(l.Files, to, func(name string) bool {
			top, _, _ := strings.Cut(name, "/")
			return top != ".git" && isOfLibrary(l, name)
		}); err != nil {
			return nil, err
		}

		all, states = append(all, l), append(states, state)
	}

	pl.files[templatefile.LibrariesFile] = planned{data: generator.LibrariesMakefile(board, all), mode: 0o644}
	t.AddInput(generator.Libraries)
	return states, nil
}

// isOfLibrary reports whether a project gets a file of a library: a licence, or what a compiler may read, which is any
// file but a document in a folder of headers or beside a source. Tests and examples of a vendor lie elsewhere.
func isOfLibrary(l *library.Library, name string) bool {
	ext := strings.ToLower(path.Ext(name))
	switch {
	case name == library.File, library.IsLicence(name):
		return true
	case slices.Contains([]string{"", ".md", ".rst", ".txt", ".adoc", ".html", ".pdf", ".png", ".jpg", ".svg"}, ext):
		return false
	}

	dir := path.Dir(name)
	return slices.ContainsFunc(l.Headers, func(h string) bool {
		h = path.Clean(h)
		return h == "." || h == dir || strings.HasPrefix(dir, h+"/")
	}) || slices.ContainsFunc(l.Resolved, func(source string) bool { return path.Dir(source) == dir })
}

// coreOf returns the name of the board's core: its file in cpu/.
func coreOf(b *boards.Board) string {
	for _, file := range b.Files {
		if dir, name := path.Split(filepath.ToSlash(file)); path.Base(dir) == "cpu" {
			return strings.TrimSuffix(name, ".json")
		}
	}
	return b.Name
}

// namesLibrary reports whether the text in Spec is a library's name, which has no dot.
func (b *Builder) namesLibrary(text string) bool {
	return b.Libraries[text] != "" || !gitfolder.IsRef(text) && !strings.ContainsAny(text, `/\.`)
}

// findLibrary finds a library by the text in Spec.
func (b *Builder) findLibrary(ctx context.Context, text string) (*library.Library, projectfile.Library, error) {
	name, place := "", text
	if named := b.Libraries[text]; named != "" {
		name, place = text, named
	} else if b.namesLibrary(text) {
		dir := b.shelf()[text]
		if dir == "" {
			names := slices.Sorted(maps.Keys(b.shelf()))
			next := "name its folder or its place in a git repository"
			if len(names) > 0 {
				next += ", or one of these: " + strings.Join(names, ", ")
			}
			return nil, projectfile.Library{}, failure.New(failure.Config, next, "library %q is not known%s", text,
				jsonfile.DidYouMean(text, names))
		}
		name, place = text, dir
	}

	var state projectfile.Library
	if gitfolder.IsRef(place) {
		r, err := gitfolder.Parse(place)
		if err != nil {
			return nil, state, err
		}
		f, err := b.fetch(ctx, r)
		if err != nil {
			return nil, state, err
		}
		state.URL, state.Commit = place, f.Commit
		name, place = cmp.Or(name, r.Name()), f.Path
	}

	// A fetched folder has its commit already.
	if top, isOwn := sourcetree.Top(place); state.URL == "" && isOwn {
		var err error
		if state.Commit, state.Changed, err = sourcetree.Commit(ctx, top); err != nil {
			return nil, state, err
		}
	}

	l, err := library.Read(place, cmp.Or(name, filepath.Base(filepath.Clean(place))))
	if err != nil {
		return nil, state, err
	}

	state.Name, state.Licence = l.Name, l.Licence
	return l, state, nil
}

// HeaderFolders returns the absolute paths of the folders in which #include finds the headers of libraries, for a
// board, and reasons why operators that use the libraries may need more memory than computed: cmodel.Compiler has both.
// Libraries are as in Spec. Errors: those of class config that Generate returns for them.
func (b *Builder) HeaderFolders(ctx context.Context, board *boards.Board, libraries []string) (
	all, unsure []string, err error,
) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "libraries")
	}

	for _, text := range libraries {
		l, _, err := b.findLibrary(ctx, text)
		if err != nil {
			return nil, nil, err
		}

		if err := l.RunsOn(coreOf(board)); err != nil {
			return nil, nil, err
		}
		doubt, err := l.Doubt()
		if err != nil {
			return nil, nil, err
		}
		if doubt != "" {
			unsure = append(unsure, doubt)
		}

		dir, err := filepath.Abs(l.Dir)
		if err != nil {
			return nil, nil, fmt.Errorf("library %s: %w", l.Name, err)
		}
		for _, h := range l.Headers {
			all = append(all, filepath.Join(dir, filepath.FromSlash(h)))
		}
	}
	return all, unsure, nil
}

// shelf returns the folders of libraries that have a name: those of Libraries that are on this computer, and those in
// libraries/ of the folders in Path, of which the first counts.
func (b *Builder) shelf() map[string]string {
	all := map[string]string{}
	// Earlier folders replace what later ones have.
	for _, folder := range slices.Backward(b.Path) {
		files, _ := filepath.Glob(filepath.Join(folder, "libraries", "*", library.File)) // the pattern is valid
		for _, file := range files {
			dir := filepath.Dir(file)
			all[filepath.Base(dir)] = dir
		}
	}

	// Places with a name come before folders on the search path.
	for name, place := range b.Libraries {
		if !gitfolder.IsRef(place) {
			all[name] = place
		}
	}
	return all
}

// explained adds the cause and the next step to an error of a compiler or linker that lacks a header, a function or an
// instruction. a is the archive of the code, nil for operators of none; with lists the libraries that were used, of the
// project in dir. The next step names a known library that has what is missing.
func (b *Builder) explained(err error, a *mlf.Archive, dir string, with []projectfile.Library) error {
	var tool *ToolError
	if !errors.As(err, &tool) {
		return err
	}

	text := tool.Message + "\n" + string(tool.Tail)
	if header, includer := diagnostics.MissingHeader(text); header != "" {
		if next := b.libraryWith(func(l *library.Library) bool { return l.HasHeader(header) }, dir, with); next != "" {
			return failure.New(failure.Of(err), next, "%w", err)
		}

		var files []mlf.File
		if a != nil && strings.Contains(includer, "codegen/host/") {
			files = a.Files
		}

		cause, next := fit.ExplainHeader(header, includer, files,
			"name its library with "+nextstep.Option("Spec.Libraries", strings.Join(append(chosen(dir, with), "FOLDER"), ",")))
		return failure.New(failure.Of(err), next, "%w\n%s", err, cause)
	}

	if symbol, _ := diagnostics.MissingSymbol(text); symbol != "" {
		if next := b.libraryWith(func(l *library.Library) bool { return l.Mentions(symbol) }, dir, with); next != "" {
			return failure.New(failure.Of(err), next, "%w", err)
		}
		if strings.HasPrefix(symbol, "TVMBackend") {
			return failure.New(failure.Of(err), `export the model with Runtime("crt")`,
				"%w\n%s is a function of TVM's C++ runtime, which firmware does not have", err, symbol)
		}
		if a != nil && len(fit.CXX(a)) > 0 {
			return failure.New(failure.Of(err), `export the model for a target that generates C, such as "c"`,
				"%w\nthe archive's C++ files are not compiled: %s", err, strings.Join(fit.CXX(a), ", "))
		}
	}

	if symbol, files := diagnostics.TwiceDefined(text); symbol != "" {
		if a == nil {
			files = ""
		}
		return failure.New(failure.Of(err), fit.NextTwice(symbol, files), "%w", err)
	}

	if diagnostics.LacksInstruction(tool.Message) {
		return failure.New(failure.Of(err), fit.NextProcessor, "%w", err)
	}
	return err
}

// libraryWith returns as an advice the first known library, besides those that were used, that has something; or "".
func (b *Builder) libraryWith(has func(*library.Library) bool, dir string, with []projectfile.Library) string {
	shelf := b.shelf()
	for _, name := range slices.Sorted(maps.Keys(shelf)) {
		if slices.ContainsFunc(with, func(s projectfile.Library) bool { return s.Name == name }) {
			continue
		}
		if l, unreadable := library.Read(shelf[name], name); unreadable == nil && has(l) {
			return "library " + name + " has it: generate with " +
				nextstep.Option("Spec.Libraries", strings.Join(append(chosen(dir, with), name), ","))
		}
	}
	return ""
}

// libraryCopies returns the project's libraries as in Spec, without those that the board file names. A library that is
// in no git repository is the project's copy.
func (p *Project) libraryCopies() (all []string) {
	for _, l := range p.state.Libraries {
		if !l.Board {
			all = append(all, cmp.Or(l.URL, filepath.Join(p.dir, generator.Libraries, l.Name)))
		}
	}
	return all
}

// Libraries returns the project's libraries as in Spec, without those that the board file names. Paths are absolute.
func (p *Project) Libraries() []string { return chosen(p.dir, p.state.Libraries) }

// chosen returns, as in Spec, the libraries of the project in dir that the board file does not name.
func chosen(dir string, libraries []projectfile.Library) (all []string) {
	for _, l := range libraries {
		if !l.Board {
			all = append(all, inSpec(dir, l.From, l.Name))
		}
	}
	return all
}

// archiveOf returns where a build in dir puts a library.
func (p *Project) archiveOf(dir string, s projectfile.Library) string {
	return filepath.Join(dir, filepath.FromSlash(path.Dir(p.state.Template.LibraryArchives())), s.Name+".a")
}
