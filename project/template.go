// This file reads template.json, which describes how to build a template. No code depends on a template's name.

package project

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/jsonfile"
	"github.com/boardsmith/boardsmith/internal/plainfile"
	"github.com/boardsmith/boardsmith/templates"
)

const (
	templateFile = "template.json"
	portFolder   = "port" // the template's ports; a project gets its board's, in src/
)

// blueprint is template.json. Paths are slash paths in the project's folder.
type blueprint struct {
	Doc      string         `json:"doc"`             // one line for people
	Build    []string       `json:"build"`           // the one command that builds, see command
	Tools    []templateTool `json:"tools"`           // programs that it calls besides the board's compiler
	Generate []string       `json:"generate"`        // files of generators that it needs
	Inputs   []string       `json:"inputs"`          // files and folders that determine the firmware
	Reuse    []string       `json:"reuse"`           // patterns of results that do not depend on the model
	BuildID  string         `json:"build_id"`        // the file that gets the build id, in the build folder
	ELF      string         `json:"elf"`             // the result
	Map      string         `json:"map"`             // the linker's map
	Board    string         `json:"board,omitempty"` // the board file that the build command writes, see completed
	Options  []string       `json:"options"`         // the board's options that it uses
	Compile  []compileStep  `json:"compile"`         // for compile_commands.json; empty if its build command writes that

	Env map[string]string `json:"env,omitempty"` // of the build command, see environment
	// inputs outside the project, as $VARIABLE/PATH with a variable of Env
	Outside []string `json:"outside,omitempty"`
	// source trees outside the project, as $VARIABLE or $VARIABLE/PATTERN, see treeStates
	Trees  []string     `json:"trees,omitempty"`
	Find   []search     `json:"find,omitempty"`   // folders for variables of Env that the user has not set
	Checks []setupCheck `json:"checks,omitempty"` // of what else the build needs of this computer
	Boards []string     `json:"boards,omitempty"` // the command that lists the boards that the build command knows
	// builds in a folder of the cache, which is kept for the next ones; patterns of results that the project's build
	// folder gets, besides those that are named here
	Kept     bool     `json:"kept,omitempty"`
	Results  []string `json:"results,omitempty"`
	LinkedIn string   `json:"linked_in,omitempty"` // the folder to which the map's paths are relative; "" is the project's
	// what the board's programmer takes for the folder of the build; "" is the build folder
	ProgrammerFolder string `json:"programmer_folder,omitempty"`
	// the image in other forms, for a board with a memory map
	Forms        forms              `json:"forms,omitzero"`
	LinkerScript string             `json:"linker_script,omitempty"` // for a board with a memory map; board.mk names it
	Landmarks    firmware.Landmarks `json:"landmarks,omitzero"`      // how to find places in the ELF file
	// how operators for a device's RAM are compiled and linked
	Operators operatorSteps `json:"operators,omitzero"`
	Areas     fit.Areas     `json:"areas,omitzero"` // sections that are stacks or the arena
	// facts for computing the stacks' depth that are not in the machine code
	Calls fit.Calls `json:"calls,omitzero"`
}

// operatorSteps are the flags of the compiler and of the linker for operators that are uploaded. {cflags}, {ldflags},
// {runtime_opt}, {operator_opt} and {operator_flags} are as in compileStep; an -I is of a folder of the project.
type operatorSteps struct {
	Compile []string `json:"compile"`
	Link    []string `json:"link"`
}

// forms are the image as raw bytes and as Intel HEX.
type forms struct {
	Bin string `json:"bin,omitempty"`
	Hex string `json:"hex,omitempty"`
}

func (f forms) names() []string {
	return slices.DeleteFunc([]string{f.Bin, f.Hex}, func(name string) bool { return name == "" })
}

// Words of a template's build command and environment that are replaced.
const (
	jobsWord      = "{jobs}"         // the number of jobs
	formsWord     = "{forms}"        // must be a whole word: the requested forms of the image, one word each
	boardWord     = "{zephyr_board}" // Zephyr's name of the board
	toolchainWord = "{toolchain}"    // the folder whose bin/ holds the compiler
	ifWord        = "{if "           // {if $NAME/PATH}WORD is WORD if that is there, else nothing
)

type templateTool struct {
	Name    string   `json:"name"`
	Install string   `json:"install"`      // one command that installs it on Debian
	In      []string `json:"in,omitempty"` // folders where it may be if it is not on PATH, see places
}

// foundTemplate is a template and its folder.
type foundTemplate struct {
	blueprint
	Renamed  map[string]string `json:"renamed"`  // the new name of a source that board files may name by its old one
	Firmware string            `json:"firmware"` // the project's folder for the firmware's common C; "": not needed
	// folders of other templates that a project gets: the project's folder to TEMPLATE/FOLDER
	Copies map[string]string `json:"copies"`
	copied map[string]fs.FS  // their files
	name   string
	files  fs.FS // rooted in the template's folder
}

// findTemplate finds a template by its path, else in each folder's templates/, else among the shipped ones; with the
// folders that it has from others.
func findTemplate(name string, folders []string) (*foundTemplate, error) {
	t, err := findAlone(name, folders)
	if err != nil {
		return nil, err
	}
	t.copied = map[string]fs.FS{}
	for to, from := range t.Copies {
		of, folder, _ := strings.Cut(from, "/")
		other, err := findAlone(of, folders)
		if err == nil {
			t.copied[to], err = fs.Sub(other.files, folder)
		}
		if err == nil {
			_, err = fs.ReadDir(t.copied[to], ".")
		}
		if err != nil {
			return nil, failure.New(failure.Config, "", "template %s: copies: %s: %w", t.name, from, err)
		}
	}
	return t, nil
}

func findAlone(name string, folders []string) (*foundTemplate, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return readTemplate(filepath.Base(filepath.Clean(name)), os.DirFS(name))
	}
	for _, f := range folders {
		t, err := readTemplate(name, os.DirFS(filepath.Join(f, "templates", name)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	known := templateNames(folders)
	if !slices.Contains(known, name) {
		return nil, failure.New(failure.Config, "choose one of: "+strings.Join(known, ", "), "template %q is not known%s",
			name, jsonfile.DidYouMean(name, known))
	}
	files, err := fs.Sub(templates.FS, name)
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	return readTemplate(name, files)
}

func templateNames(folders []string) []string {
	found, _ := fs.Glob(templates.FS, "*/"+templateFile) // the pattern is valid
	for _, f := range folders {
		more, _ := fs.Glob(os.DirFS(f), "templates/*/"+templateFile)
		found = append(found, more...)
	}
	var names []string
	for _, f := range found {
		names = append(names, path.Base(path.Dir(f)))
	}
	sort.Strings(names)
	return slices.Compact(names)
}

func readTemplate(name string, files fs.FS) (*foundTemplate, error) {
	t := &foundTemplate{name: name, files: files}
	if info, err := fs.Stat(files, templateFile); err == nil && !info.Mode().IsRegular() {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, plainfile.ErrSpecial)
	}
	data, err := fs.ReadFile(files, templateFile)
	if err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(t); err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, err)
	}
	if err := cmp.Or(t.check(), t.checkFirmware(), t.checkCopies()); err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, err)
	}
	return t, nil
}

// check returns an error if a path of the template is missing or leads out of the project's folder.
func (t *blueprint) check() error {
	if len(t.Build) == 0 || t.Build[0] == "" {
		return errors.New("no build command")
	}
	if len(t.Inputs) == 0 {
		return errors.New("no inputs")
	}
	for _, p := range slices.Concat(t.Inputs, t.Reuse, t.Results, t.boardFile(), []string{t.BuildID, t.Map},
		t.Forms.names()) {
		if err := checkPath(p); err != nil {
			return err
		}
	}
	if err := cmp.Or(t.checkELF(), t.checkFolders()); err != nil {
		return err
	}
	for _, p := range slices.Concat(t.Reuse, t.Results, t.boardFile(), []string{t.BuildID, t.Map}, t.Forms.names()) {
		if !strings.HasPrefix(p, t.buildFolder()+"/") {
			return fmt.Errorf("%q is not in the build folder %q", p, t.buildFolder())
		}
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("invalid pattern %q", p)
		}
	}
	for _, s := range t.Compile {
		for _, p := range s.Files {
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("invalid pattern %q", p)
			}
		}
	}
	for _, g := range t.Generate {
		if generators[g] == nil {
			return fmt.Errorf("no generator for %q", g)
		}
	}
	if t.Board != "" && t.makesForms() {
		return errors.New("board: what it describes is known too late for " + formsWord)
	}
	for _, p := range t.Areas.Own {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("areas: invalid pattern %q", p)
		}
	}
	if t.LinkedIn != "" && checkPath(t.LinkedIn) != nil {
		return fmt.Errorf("linked_in: %q is not a folder of the project", t.LinkedIn)
	}
	if f := t.programmerFolder(); checkPath(f) != nil || !strings.HasPrefix(f+"/", t.buildFolder()+"/") {
		return fmt.Errorf("programmer_folder: %q is not the build folder %q or in it", f, t.buildFolder())
	}
	if t.Kept && len(t.Reuse) > 0 {
		return errors.New("reuse has no effect with kept")
	}
	if !t.Kept && len(t.Results) > 0 {
		return errors.New("results have no effect without kept")
	}
	return cmp.Or(t.checkOutside(), t.checkFind(), t.checkSetup(), t.checkIfs(), t.Landmarks.Check())
}

func (t *blueprint) programmerFolder() string { return cmp.Or(t.ProgrammerFolder, t.buildFolder()) }

// boardFile returns Board as a list of at most one name.
func (t *blueprint) boardFile() []string {
	return slices.DeleteFunc([]string{t.Board}, func(name string) bool { return name == "" })
}

// checkPath returns an error for a path that is or leads out of the project's folder.
func checkPath(p string) error {
	if !filepath.IsLocal(filepath.FromSlash(p)) || path.Clean(p) != p || p == "." {
		return fmt.Errorf("%q is not a path inside the project", p)
	}
	return nil
}

// checkELF returns an error for a result without a folder: the build folder is the first part of its path.
func (t *blueprint) checkELF() error {
	if err := checkPath(t.ELF); err != nil {
		return err
	}
	if !strings.Contains(t.ELF, "/") {
		return fmt.Errorf("elf %q is not in a build folder", t.ELF)
	}
	return checkBuildFolder(t.buildFolder())
}

// checkBuildFolder returns an error for a name that is not of a folder in the project, or reserved.
func checkBuildFolder(name string) error {
	if strings.Contains(name, "/") {
		return fmt.Errorf("%q is not one folder", name)
	}
	return cmp.Or(checkPath(name), checkReserved(name))
}

// checkReserved returns an error for a path that begins with a name of boardsmith's own.
func checkReserved(path string) error {
	if top, _, _ := strings.Cut(path, "/"); reserved(top) {
		return fmt.Errorf("%q: the name is reserved for boardsmith's own files", top)
	}
	return nil
}

// checkNames returns an error for a file or folder of the template that has a reserved name.
func (t *foundTemplate) checkNames() error {
	entries, err := fs.ReadDir(t.files, ".")
	if err != nil {
		return failure.New(failure.Config, "", "template %s: %w", t.name, err)
	}
	for _, e := range entries {
		if err := checkReserved(e.Name()); err != nil {
			return failure.New(failure.Config, "rename or remove it", "template %s: %w", t.name, err)
		}
	}
	return nil
}

// checkFirmware refuses a folder for the firmware's C outside of the project, or with a reserved name. The build folder
// is refused when its files are planned.
func (t *foundTemplate) checkFirmware() error {
	if t.Firmware == "" {
		return nil
	}
	return cmp.Or(checkPath(t.Firmware), checkReserved(t.Firmware))
}

// checkCopies returns an error for folders outside of the project or of the other template, or with a reserved name.
func (t *foundTemplate) checkCopies() error {
	for to, from := range t.Copies {
		if err := cmp.Or(checkPath(to), checkReserved(to)); err != nil {
			return fmt.Errorf("copies: %w", err)
		}
		if checkPath(from) != nil || !strings.Contains(from, "/") {
			return fmt.Errorf("copies: %q is not a template's name and its folder", from)
		}
	}
	return nil
}

// checkFolders refuses folders of the model and the runtime that lie in one another or in the build folder.
func (t *blueprint) checkFolders() error {
	all := []string{t.Landmarks.Folders.OfModel(), t.Landmarks.Folders.OfRuntime(), t.buildFolder()}
	for i, a := range all {
		if err := cmp.Or(checkPath(a), checkReserved(a)); err != nil {
			return err
		}
		for j, b := range all {
			if i != j && strings.HasPrefix(a+"/", b+"/") {
				return fmt.Errorf("folder %q is in folder %q", a, b)
			}
		}
	}
	return nil
}

// buildFolder returns the folder that holds all results of the build command, and nothing else.
func (t *blueprint) buildFolder() string {
	first, _, _ := strings.Cut(t.ELF, "/")
	return first
}

// heeds returns an error if the user has set an option that the template does not use.
func (t *blueprint) heeds(o boards.Options) error {
	for _, name := range o.Set() {
		if !slices.Contains(t.Options, name) {
			return failure.New(failure.Config, "leave it out", "option %s has no effect with this template", name)
		}
	}
	return nil
}

// command returns the build command with a number of jobs and the forms to make.
func (p *Project) command(b *boards.Board, jobs int, forms []string) (args []string) {
	words := strings.NewReplacer(jobsWord, fmt.Sprint(jobs), boardWord, b.Zephyr())
	for _, word := range p.state.Template.Build {
		if word == formsWord {
			args = append(args, forms...)
			continue
		}
		if place, then, conditional := cutIf(word); conditional {
			name, below, _ := strings.Cut(strings.TrimPrefix(place, "$"), "/")
			if _, err := os.Stat(filepath.Join(p.variable(name), filepath.FromSlash(below))); err != nil {
				continue
			}
			word = then
		}
		args = append(args, words.Replace(word))
	}
	return args
}

// cutIf splits a word of the build command that depends on a place.
func cutIf(word string) (place, then string, ok bool) {
	after, ok := strings.CutPrefix(word, ifWord)
	place, then, closed := strings.Cut(after, "}")
	return place, then, ok && closed
}

// checkIfs returns an error for a word that depends on a place that is not below a user's variable.
func (t *blueprint) checkIfs() error {
	for _, word := range t.Build {
		place, then, conditional := cutIf(word)
		if !conditional {
			continue
		}
		name, below, _ := strings.Cut(strings.TrimPrefix(place, "$"), "/")
		if t.Env[name] != "$"+name || checkPath(below) != nil || then == "" {
			return fmt.Errorf("build: %q is not %s$NAME/PATH}WORD with a user's variable of env", word, ifWord)
		}
	}
	return nil
}

// makesForms reports whether the build command makes the image's other forms only on request.
func (t *blueprint) makesForms() bool { return slices.Contains(t.Build, formsWord) }

func (b *Builder) chooseTemplate(board *boards.Board, s Spec) (*foundTemplate, error) {
	name := s.Template
	if name == "" {
		name = board.Templates[0]
	}
	t, err := findTemplate(name, b.Path)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(board.Templates, t.name) {
		return nil, failure.New(failure.Config, "choose one of: "+strings.Join(board.Templates, ", "),
			"board %s does not build with template %s", board.Name, t.name)
	}
	if err := t.completes(board); err != nil {
		return nil, failure.New(failure.Config, "choose another template", "template %s: %w", t.name, err)
	}
	return t, t.heeds(s.Options)
}

// completes returns an error for a board that only its build completes if the build command writes no board file.
func (t *blueprint) completes(b *boards.Board) error {
	if b.Partial && t.Board == "" {
		return fmt.Errorf("the build completes board %s, but writes no board file", b.Name)
	}
	return nil
}
