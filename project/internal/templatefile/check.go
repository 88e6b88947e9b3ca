// This file checks that a template's fields agree with each other and that its paths stay in the project.

package templatefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// Check returns an error for a field with an invalid value, such as a path that leads out of the project's folder.
func (t *Description) Check() error {
	if faults := jsonfile.Check(t); len(faults) > 0 {
		return faults[0]
	}

	for _, check := range []func() error{
		t.checkCommands, t.checkELF, t.checkFolders, t.checkResults, t.checkGenerated, t.checkVariables,
		t.checkFind, t.checkIfs, t.checkWords, t.checkNames,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkCommands checks whether there are commands, and words that only one of them has.
func (t *Description) checkCommands() error {
	if len(t.Build) == 0 {
		return errors.New("build: no command")
	}

	for _, words := range t.Prepare {
		if len(words) == 0 {
			return errors.New("prepare: an empty command")
		}
		if slices.Contains(words, FormsWord) {
			return fmt.Errorf("prepare: only build replaces %s", FormsWord)
		}
	}
	return nil
}

// checkNames returns an error for an option that boards do not have.
func (t *Description) checkNames() error { return checkOptionNames("options", t.Options) }

func checkOptionNames(field string, names []string) error {
	var known []string
	for _, o := range new(boards.Board).Options() {
		known = append(known, o.Name)
	}

	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: option %q is not known%s", field, name, jsonfile.DidYouMean(name, known))
		}
	}
	return nil
}

// A pathField is a field with paths of files.
type pathField struct {
	name  string
	paths []string
}

// resultFields returns the fields with files that a build writes, but for the image.
func (t *Description) resultFields() []pathField {
	return []pathField{
		{"results", t.Results}, {"board", t.BoardFile()}, {"map", []string{t.Map}}, {"forms", t.Forms.Names("*")},
	}
}

// checkResults checks that a build writes its results into the build folder.
func (t *Description) checkResults() error {
	for _, field := range t.resultFields() {
		for _, p := range field.paths {
			if !strings.HasPrefix(p, t.BuildFolder()+"/") {
				return fmt.Errorf("%s: %q is not in the build folder %q of elf", field.name, p, t.BuildFolder())
			}
		}
	}

	if a := t.Forms.ExtraBin; a != "" && strings.Count(a, "*") != 1 {
		return fmt.Errorf("forms.apart: %q has not one * for the name of a memory region", a)
	}
	return nil
}

// checkGenerated checks the generated files and the fields that depend on the build folder.
func (t *Description) checkGenerated() error {
	for _, g := range t.Generate {
		if !slices.Contains(GeneratedFiles, g) {
			return fmt.Errorf("generate: %q is none of the generated files%s", g, jsonfile.DidYouMean(g, GeneratedFiles))
		}
	}

	if t.Board != "" && t.MakesForms() {
		return errors.New("board: what it describes is known too late for " + FormsWord)
	}

	if f := t.FolderForProgrammer(); !strings.HasPrefix(f+"/", t.BuildFolder()+"/") {
		return fmt.Errorf("programmer_folder: %q is not the build folder %q or in it", f, t.BuildFolder())
	}
	return nil
}

// checkELF returns an error for a result without a folder: the build folder is the first part of its path.
func (t *Description) checkELF() error {
	switch {
	case t.ELF == "":
		return errors.New("elf: missing")
	case t.Map == "":
		return errors.New("map: missing")
	case !strings.Contains(t.ELF, "/"):
		return fmt.Errorf("elf: %q is not in a build folder", t.ELF)
	}
	if err := checkReserved(t.ELF); err != nil {
		return fmt.Errorf("elf: %w", err)
	}
	return nil
}

// checkReserved returns an error for a path that begins with a name of boardsmith's own.
func checkReserved(path string) error {
	if top, _, _ := strings.Cut(path, "/"); reserved(top) {
		return fmt.Errorf("%q: the name is reserved for boardsmith's own files", top)
	}
	return nil
}

// CheckNames returns an error for a file or folder of the template that has a reserved name.
func (t *Template) CheckNames() error {
	entries, err := fs.ReadDir(t.Files, ".")
	if err != nil {
		return failure.Errorf(failure.Config, "template %s: %w", t.Name, err)
	}

	for _, e := range entries {
		if err := checkReserved(e.Name()); err != nil {
			return failure.New(failure.Config, "rename or remove it", "template %s: %w", t.Name, err)
		}
	}
	return nil
}

// checkCopies returns an error for folders of other files with a reserved name. The build folder is refused when its
// files are planned.
func (t *Template) checkCopies() error {
	if err := checkReserved(t.Firmware); err != nil {
		return fmt.Errorf("firmware: %w", err)
	}
	for to := range t.Copies {
		if err := checkReserved(to); err != nil {
			return fmt.Errorf("copies: %w", err)
		}
	}
	return nil
}

// checkFolders refuses folders of the model and the runtime that lie in one another or in the build folder.
func (t *Description) checkFolders() error {
	all := []string{t.Landmarks.Folders.OfModel(), t.Landmarks.Folders.OfRuntime(), t.BuildFolder()}
	for i, a := range all {
		if err := checkReserved(a); err != nil {
			return fmt.Errorf("landmarks.folders: %w", err)
		}
		for j, b := range all {
			if i != j && strings.HasPrefix(a+"/", b+"/") {
				return fmt.Errorf("landmarks.folders: folder %q is in folder %q", a, b)
			}
		}
	}
	return nil
}

// CheckOptions returns an error if the user has set an option that the template does not use.
func (t *Description) CheckOptions(o boards.Options) error {
	for _, name := range o.Set() {
		if !slices.Contains(t.Options, name) && !(name == "app" && o.App == boards.RPC) { // which every template makes
			return failure.New(failure.Config, "leave it out; this template's options are: "+
				cmp.Or(strings.Join(t.Options, ", "), "none"), "option %s has no effect with this template", name)
		}
	}
	return nil
}

// checkBoard returns an error if the board brings something that the template does not use, for no value of the option
// app.
func (t *Template) checkBoard(b *boards.Board) error {
	hasMakefile, hasConfig := slices.Contains(t.Generate, MakeFile), slices.Contains(t.Generate, ConfigFile)
	only := len(b.Templates) == 1 // else it may be for another template

	type field struct {
		name      string
		given, ok bool
	}
	fields := []field{
		{"linker_script", b.LinkerScript.Name != "", t.LinkerScript != "" && hasMakefile},
		{"startup", b.Startup.Name != "", len(t.Startup) > 0},
		{"place of operators, parameters, packet or pools", b.Place.Moves(), slices.Contains(t.Options, "place")},
		{"init, cacheable or dma of memory", b.HasRules(), slices.Contains(t.Options, "place")},
		{
			"sources", t.HasPorts() && len(b.Sources) > 0 || hasOwn(b.Sources),
			t.HasPorts() || t.Sources || slices.ContainsFunc(t.Inputs, inSources),
		},
		{"include", len(b.Include) > 0, hasMakefile},
		{"settings", len(b.Settings) > 0, t.readsAll(b.Settings)},
		{"measure_pin", b.MeasurePin != "", t.Firmware != "" && hasMakefile}, // the shipped port
		{"libraries", len(b.Libraries) > 0, slices.Contains(t.Generate, LibrariesFile)},
		{"model_at", only && b.SetByUser("model_at"), slices.Contains(t.Generate, MemoryFile)},
		{"zephyr_board", only && b.SetByUser("zephyr_board"), t.TakesZephyrBoard()},
		{"defines", b.SetByUser("defines"), hasConfig},
		{"functions", b.SetByUser("functions"), hasConfig},
		{"budget_ms", b.SetByUser("budget_ms"), hasConfig},
		// the shipped ports have one, as have operating systems, whose build chooses flags and compiler
		{"watchdog_ms", b.SetByUser("watchdog_ms"), t.HasPorts() || t.Board != ""},
		{"cflags", b.SetByUser("cflags"), t.Board == ""},
		{"ldflags", b.SetByUser("ldflags"), t.Board == ""},
		{"toolchain", b.SetByUser("toolchain"), t.Board == ""},
	}
	for _, o := range b.Options() {
		isRequired := o.Name == "arena_kib" || o.Name == "place"
		fields = append(fields, field{o.Name, b.SetByUser(o.Name), isRequired || slices.Contains(t.Options, o.Name)})
	}

	for _, f := range fields {
		if f.given && !f.ok {
			return failure.New(failure.Config, "choose another template, or leave "+f.name+" out of the board file",
				"template %s does not use %s of board %s", t.Name, f.name, b.Name)
		}
	}
	return nil
}

// TakesZephyrBoard reports whether a command contains Zephyr's name of the board.
func (t *Description) TakesZephyrBoard() bool {
	return slices.ContainsFunc(slices.Concat(append(slices.Clone(t.Prepare), t.Build)...), func(word string) bool {
		return strings.Contains(word, BoardWord)
	})
}

// HasPorts reports whether the template has sources that boards name. One without takes a board of a shipped chip or
// core without the sources that these name.
func (t *Template) HasPorts() bool {
	_, err := fs.Stat(t.Files, boardfile.PortFolder)
	return err == nil
}

// hasOwn reports whether one of the sources is named by a file of the user's.
func hasOwn(sources []boards.Source) bool {
	return slices.ContainsFunc(sources, func(s boards.Source) bool { return s.Dir != "" })
}

// readsAll reports whether the build reads a board's files of settings.
func (t *Description) readsAll(settings []boards.Source) bool {
	for _, s := range settings {
		if !slices.ContainsFunc(t.Settings, func(pattern string) bool {
			ok, _ := path.Match(pattern, path.Base(s.Name)) // check has validated the pattern
			return ok
		}) {
			return false
		}
	}
	return true
}

// inSources reports whether an input is the folder of sources or in it.
func inSources(input string) bool { return strings.HasPrefix(input+"/", boardfile.SourceFolder+"/") }

// checkIfs returns an error for a word that depends on a place that is not below a user's variable.
func (t *Description) checkIfs() error {
	for _, word := range slices.Concat(append(slices.Clone(t.Prepare), t.Build)...) {
		place, then, conditional := CutIf(word)
		if !conditional {
			continue
		}

		name, below, _ := strings.Cut(strings.TrimPrefix(place, "$"), "/")
		if t.Env[name] != "$"+name || jsonfile.CheckValue(below, "inside") != nil || then == "" {
			return fmt.Errorf("build: %q is not %s$NAME/PATH}WORD with a user's variable of env", word, ifWord)
		}
	}
	return nil
}

// braced matches what could be a word that is replaced.
var braced = regexp.MustCompile(`\{[a-z_]+\}`)

// checkWords returns an error for a word that resembles one of those that are replaced: a command would get it as it
// is.
func (t *Description) checkWords() error {
	words := []string{JobsWord, FormsWord, BoardWord}
	for _, word := range slices.Concat(append(slices.Clone(t.Prepare), t.Build)...) {
		for _, name := range braced.FindAllString(word, -1) {
			if similar := jsonfile.DidYouMean(name, words); similar != "" && !slices.Contains(words, name) {
				return fmt.Errorf("build: %s is not replaced by anything%s", name, similar)
			}
		}
	}
	return nil
}

// Completes returns an error for a board that only its build completes if the build command writes no board file.
func (t *Description) Completes(b *boards.Board) error {
	if b.Partial && t.Board == "" {
		return fmt.Errorf("the build completes board %s, but writes no board file", b.Name)
	}
	return nil
}

// checkFind returns an error for a search for what is no user's variable.
func (t *Description) checkFind() error {
	for _, s := range t.Find {
		// An optional variable may be looked for, too.
		isUsers := func(v string) bool { return strings.TrimSuffix(v, "?") == "$"+s.Name }
		if !slices.ContainsFunc(slices.Collect(maps.Values(t.Env)), isUsers) {
			return fmt.Errorf("find: %q is no user's variable of env", s.Name)
		}
	}
	return nil
}

// checkVariables returns an error for an outside input, a source tree, or a word of a command that begins with $, for
// which Env has no user's variable.
func (t *Description) checkVariables() error {
	isLiteral := func(word string) bool { return !strings.HasPrefix(word, "$") }
	fields := map[string][]string{
		"trees": t.Trees, "outside": t.Outside, "boards": slices.DeleteFunc(slices.Clone(t.Boards), isLiteral),
	}
	for _, c := range t.Checks {
		fields["checks: "+c.Name] = slices.DeleteFunc(slices.Clone(c.Command), isLiteral)
	}

	for _, field := range slices.Sorted(maps.Keys(fields)) {
		for _, word := range fields[field] {
			name, below, _ := strings.Cut(strings.TrimPrefix(word, "$"), "/")
			value := t.Env[name]
			if field == "outside" { // then there is no input
				value = strings.TrimSuffix(value, "?")
			}
			_, _, pattern := SplitTree(word)
			switch {
			case isLiteral(word) || value != "$"+name:
				return fmt.Errorf("%s: %q does not begin with a user's variable of env", field, word)
			case field == "trees" && pattern != "" && !fs.ValidPath(pattern):
				return fmt.Errorf("trees: invalid pattern %q", word)
			case field == "outside" && jsonfile.CheckValue(below, "inside") != nil:
				return fmt.Errorf("outside: %q is not a path below $%s", word, name)
			}
		}
	}
	return nil
}

// reserved reports whether a file or folder of that name in a project is boardsmith's own, on any file system.
func reserved(name string) bool {
	name = strings.ToLower(name)
	if written, temporary := strings.CutPrefix(name, TemporaryPrefix); temporary {
		return strings.HasPrefix(written, StateFile) || strings.HasPrefix(written, OwnPrefix)
	}
	return strings.HasPrefix(name, OwnPrefix) || name == StateFile || name == ModelTar
}
