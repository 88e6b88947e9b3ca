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
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/internal/jsonfile"
	"github.com/boardsmith/boardsmith/internal/library"
)

// A libraryState is a library in project.json.
type libraryState struct {
	Name    string `json:"name"`
	Licence string `json:"licence"`
	URL     string `json:"url,omitempty"` // as in Spec.Libraries, of one in a git repository
	Commit  string `json:"commit,omitempty"`
	Board   bool   `json:"board,omitempty"` // named by the board file
}

// from returns the library as in Spec.
func (l libraryState) from() string { return cmp.Or(l.URL, l.Name) }

// A wantedLibrary is a library as in Spec, or a folder beside the board file that names it.
type wantedLibrary struct {
	text    string
	ofBoard bool
	source  boards.Source // in the board file
}

// wantedLibraries lists those of Spec, then the board's that are not among them.
func wantedLibraries(board *boards.Board, s Spec) (all []wantedLibrary, err error) {
	for _, text := range s.Libraries {
		all = append(all, wantedLibrary{text: text})
	}
	for _, l := range board.Libraries {
		text := l.Name
		if boards.IsPath(text) {
			if err := besideBoard(l); err != nil {
				return nil, err
			}
			text = filepath.Join(l.Dir, filepath.FromSlash(text))
			if !strings.ContainsAny(text, `/\`) {
				text = "." + string(filepath.Separator) + text // not a name
			}
		}
		if !slices.Contains(s.Libraries, text) {
			all = append(all, wantedLibrary{text, true, l})
		}
	}
	return all, nil
}

// addLibraries plans the files of the libraries in Spec, and of the board's.
func (pl *plan) addLibraries(ctx context.Context, b *Builder, board *boards.Board, t *blueprint.Template, s Spec) (
	[]libraryState, error,
) {
	wanted, err := wantedLibraries(board, s)
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	if !slices.Contains(t.Generate, blueprint.LibrariesFile) {
		return nil, failure.New(failure.Config, "choose another template, or add "+blueprint.LibrariesFile+
			" to its generate", "template %s takes no libraries", t.Name)
	}
	var all []*library.Library
	var states []libraryState
	for _, want := range wanted {
		l, state, err := b.findLibrary(ctx, want.text)
		if err != nil && want.ofBoard {
			at := want.source.At
			return nil, failure.New(failure.Of(err), "", "%w", &boards.FileError{
				File: at.File, Line: at.Line, Err: fmt.Errorf("libraries: %w", err),
			})
		}
		if err != nil {
			return nil, err
		}
		state.Board = want.ofBoard
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
	pl.files[blueprint.LibrariesFile] = planned{data: generator.LibrariesMakefile(board, all), mode: 0o644}
	t.Inputs = append(slices.Clip(t.Inputs), generator.Libraries)
	return states, nil
}

// isOfLibrary reports whether a project gets a file of a library: a source or header, a licence, or any file but a
// document in a folder of headers or beside a source.
func isOfLibrary(l *library.Library, name string) bool {
	ext := strings.ToLower(path.Ext(name))
	switch {
	case isLicence(name):
		return true
	case name == library.File, slices.Contains([]string{".c", ".h", ".cpp", ".hpp", ".cc", ".hh", ".inc", ".s"}, ext):
		return true
	case slices.Contains([]string{"", ".md", ".rst", ".txt", ".adoc", ".html", ".pdf", ".png", ".jpg", ".svg"}, ext):
		return false
	}
	dir := path.Dir(name)
	return slices.ContainsFunc(l.Headers, func(h string) bool {
		h = path.Clean(h)
		return h == "." || h == dir || strings.HasPrefix(dir, h+"/")
	}) || slices.ContainsFunc(l.Found, func(source string) bool { return path.Dir(source) == dir })
}

// isLicence reports whether LicenceTexts returns a file of a library, or of a project, by its path there.
func isLicence(name string) bool {
	return slices.ContainsFunc(licenceFiles, func(pattern string) bool {
		match, _ := path.Match(pattern, name)
		return match
	})
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

// findLibrary finds a library by the text in Spec.
func (b *Builder) findLibrary(ctx context.Context, text string) (*library.Library, libraryState, error) {
	name, place := "", text
	if named := b.Libraries[text]; named != "" {
		name, place = text, named
	} else if !gitfolder.IsRef(text) && !strings.ContainsAny(text, `/\`) {
		dir := b.shelf()[text]
		if dir == "" {
			known := slices.Sorted(maps.Keys(b.shelf()))
			return nil, libraryState{}, failure.New(failure.Config, "known ones: "+strings.Join(known, ", "),
				"library %q is not known%s", text, jsonfile.DidYouMean(text, known))
		}
		name, place = text, dir
	}
	var state libraryState
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
	l, err := library.Read(place, cmp.Or(name, filepath.Base(filepath.Clean(place))))
	if err != nil {
		return nil, state, err
	}
	state.Name, state.Licence = l.Name, l.Licence
	return l, state, nil
}

// shelf returns the folders of libraries that have a name: those of Libraries that are on this computer, and those in
// libraries/ of the folders in Path, of which the first counts.
func (b *Builder) shelf() map[string]string {
	all := map[string]string{}
	for _, folder := range slices.Backward(b.Path) {
		found, _ := filepath.Glob(filepath.Join(folder, "libraries", "*", library.File)) // the pattern is valid
		for _, file := range found {
			dir := filepath.Dir(file)
			all[filepath.Base(dir)] = dir
		}
	}
	for name, place := range b.Libraries {
		if !gitfolder.IsRef(place) {
			all[name] = place
		}
	}
	return all
}

// checkLibraries returns an error if two libraries define one symbol.
func (p *Project) checkLibraries() error {
	archives := map[string]string{}
	for _, l := range p.state.Libraries {
		archives[l.Name] = p.archiveOf(l)
	}
	if len(archives) < 2 {
		return nil
	}
	return library.CheckArchives(archives)
}

var (
	missingHeader = regexp.MustCompile(`fatal error: '?([^:' ]+)'?(?:: No such file| file not found)`)
	missingSymbol = regexp.MustCompile("undefined reference to [`'‘]([^'’]+)['’]")
)

// missingLibrary adds to an error of a compiler or linker the known library that has the missing header or function.
// with are the libraries that were used.
func (b *Builder) missingLibrary(err error, with []libraryState) error {
	var tool *ToolError
	if !errors.As(err, &tool) {
		return err
	}
	text := tool.Message + "\n" + string(tool.Tail)
	var has func(*library.Library) bool
	if m := missingHeader.FindStringSubmatch(text); m != nil {
		has = func(l *library.Library) bool { return l.HasHeader(m[1]) }
	} else if m := missingSymbol.FindStringSubmatch(text); m != nil {
		has = func(l *library.Library) bool { return l.Mentions(m[1]) }
	} else {
		return err
	}
	shelf := b.shelf()
	for _, name := range slices.Sorted(maps.Keys(shelf)) {
		l, unreadable := library.Read(shelf[name], name)
		if unreadable == nil && has(l) && !slices.ContainsFunc(with, func(s libraryState) bool {
			return s.Name == name
		}) {
			names := append(chosen(with), name)
			return failure.New(failure.Of(err), "library "+name+" has it: generate with "+
				failure.Option("Spec.Libraries", strings.Join(names, ",")), "%w", err)
		}
	}
	return err
}

// Libraries returns the project's libraries as in Spec, without those that the board file names.
func (p *Project) Libraries() []string { return chosen(p.state.Libraries) }

// chosen names the libraries that the board file does not.
func chosen(libraries []libraryState) (all []string) {
	for _, l := range libraries {
		if !l.Board {
			all = append(all, l.from())
		}
	}
	return all
}
