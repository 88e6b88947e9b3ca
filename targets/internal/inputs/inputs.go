// Package inputs determines what a run of mage works on, and reads the files that these inputs name.
//
// Each input comes from the environment, else from PROJECT's project.json, else from boardsmith.json, else it has its
// default (docs/command-line.md). The package opens no project and prints nothing; variables that belong to one target
// alone are read there.
package inputs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

const (
	DefaultBoard   = "host"
	defaultTimeout = 60 * time.Second // of a call
)

// Library is the value of APP for a folder with the C of models and a library of them, which is no project.
const Library = "library"

// An Input is a value, and whether the user set it for this run: in the environment, directly or by TARGET, or as
// something from which the project's folder follows. The project takes precedence over other sources, but not over the
// user.
type Input struct {
	Value    string
	Explicit bool
}

// Inputs are the inputs of one call of a target. Those that boardsmith.json or a project completes are here again, or
// completed in Variables.
type Inputs struct {
	Variables
	Config   *boardsmithjson.Config
	Defaults boards.Options // boardsmith.json's

	Derived           bool // the folder follows from board and model
	Board             Input
	NamedBoard        string // that BOARD, TARGET or a device of desk.json names; "": none does
	Model             Input  // path of an archive; "" is the bundled sample
	ModelName         Input  // which of the archive's models; "" is the only one
	Template          Input
	LibrariesExplicit bool
	Options           boards.Options
	BoardOptions      map[string]boards.Options // explicit ones, as ParseBoardOptions returns
	OptionsExplicit   bool
	Library           bool // APP is Library; Project is then the library's folder

	Path     []string // folders with boards/ and templates/
	DeskFile *device.DeskFile
	Names    map[string]string // of arrays in Input: the model's tensor by the array's name
}

// Recorded are a project's inputs, from project.json.
type Recorded struct {
	Board, Template, Model, ModelName string // board and template: names, or absolute paths, or places of git
	Libraries                         []string
	Options                           boards.Options
}

// A Fetcher returns the path of a place in a git repository.
type Fetcher func(c *boardsmithjson.Config, place string) (string, error)

// A Source is where the inputs of a target come from.
type Source struct {
	Variables
	Shelf string                           // BOARDSMITH_PATH
	Dir   string                           // the working folder
	New   string                           // the app of a new project, unless the user chose one; "": none
	Uses  Uses                             // nil: the template makes all apps and uses all options
	Load  func(*Inputs) (*Recorded, error) // returns the inputs of the project in Inputs.Project, or nil if there is none
	Fetch Fetcher
}

// Uses returns the options that the inputs' template uses for an app; nil if board or template are not found, which
// generating reports. It returns an error if the template does not make the app.
type Uses func(in *Inputs, app string) (options []string, err error)

// Resolve determines the inputs.
func Resolve(s Source) (*Inputs, error) {
	c, err := boardsmithjson.Find(s.Dir)
	if err != nil {
		return nil, err
	}

	var named boardsmithjson.Choice
	if s.Target != "" {
		if named, err = c.Target(s.Target); err != nil {
			return nil, err
		}
	}

	in := &Inputs{Variables: s.Variables, Config: c}
	if in.Path, err = SearchPath(s.Shelf, c, s.Fetch); err != nil {
		return nil, err
	}
	if err := in.plain(named); err != nil {
		return nil, err
	}

	if in.DeskFile, err = device.ReadDeskFile(DeskFilePath(s.Dir)); err != nil {
		return nil, err
	}

	in.chosen(named)

	options, err := in.readOptions(s, named)
	if err != nil {
		return nil, err
	}

	// Load reads the project, so its folder must be determined first.
	if in.Project == "" {
		if err := in.deriveProject(); err != nil {
			return nil, err
		}
	}

	if in.Library {
		return in, in.completeLibrary()
	}

	if err := in.checkModel(); err != nil {
		return nil, err
	}

	r, err := s.Load(in)
	if err != nil {
		return nil, err
	}

	in.fill(r)
	in.useBoardOptions()
	// The user's APP and PLACE replace those of the project's options.
	if options.App != "" {
		in.Options.App, in.OptionsExplicit = options.App, true
	}
	if options.Place != "" {
		in.Options.Place, in.OptionsExplicit = options.Place, true
	}

	in.dropUnused(s, r != nil)
	return in, in.checkParams()
}

// dropUnused drops options that nobody has set for this run and that this firmware does not use: of boardsmith.json,
// those for another app of the template; of a project, those that its template used before.
func (in *Inputs) dropUnused(s Source, recorded bool) {
	if s.Variables.Options != "" || s.Uses == nil {
		return
	}

	used, err := s.Uses(in, in.Options.App)
	others, failed := s.Uses(in, boards.RPC)
	if err != nil || failed != nil || used == nil {
		return
	}

	// An option of boardsmith.json that neither app uses stays, so that its error is reported.
	words := slices.DeleteFunc(in.Options.Words(), func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		isSet := name == "app" || name == "place" && s.Place != ""
		return !isSet && !slices.Contains(used, name) && (recorded || slices.Contains(others, name))
	})

	if kept, err := boards.ParseOptions(words); err == nil {
		in.Options = kept
	}
}

// chosen reads the inputs of a project that the user set for this run, but the options.
func (in *Inputs) chosen(named boardsmithjson.Choice) {
	v := in.Variables
	in.Board = explicit(v.Board, named.Board)
	if d := in.DeskFile.Find(in.Device); d != nil && !in.Board.Explicit {
		in.Board = Input{d.Board, true} // a named device determines its board
	}

	in.NamedBoard = in.Board.Value
	in.Model = explicit(v.Model, named.Model)
	in.ModelName = explicit(v.ModelName, named.ModelName)
	in.Template = explicit(v.Template, named.Template)

	if len(in.Libraries) == 0 {
		in.Libraries = named.Uses
	}

	in.LibrariesExplicit = len(in.Libraries) > 0
}

// readOptions reads the options that the user set for this run. It returns those of them that are set beside the
// project's own: app and place.
func (in *Inputs) readOptions(s Source, named boardsmithjson.Choice) (separate boards.Options, err error) {
	words := strings.Fields(s.Variables.Options)
	if len(words) == 0 {
		words = named.Options
	}

	in.OptionsExplicit = len(words) > 0

	// These are parsed even if none of them counts, so that an error in the file is always reported.
	if in.Defaults, err = boards.ParseOptions(in.Config.Options); err != nil {
		return separate, failure.Errorf(failure.Config, "%s: %w", in.Config.File, err)
	}

	if in.Library = s.App == Library; !in.Library {
		separate.App = s.App
	}

	// A new project gets the target's app if nothing chose another one.
	if separate.App == "" && !in.Library && in.Defaults.App == "" && !namesApp(words) &&
		(in.Project == "" || !project.Exists(in.Project)) {
		if s.New != "" && s.makes(in) {
			separate.App = s.New
		}
	}

	if separate.App != "" {
		words = append(words, "app="+separate.App)
	}

	places := strings.FieldsFunc(s.Place, func(r rune) bool { return r == ',' || r == ' ' })
	if separate.Place = strings.Join(places, ","); separate.Place != "" {
		words = append(words, "place="+separate.Place)
	}

	in.BoardOptions, err = ParseBoardOptions(words)
	in.Options = in.BoardOptions[""]
	return separate, err
}

// makes reports whether the template makes the app of a new project.
func (s Source) makes(in *Inputs) bool {
	if s.Uses == nil {
		return true
	}
	_, err := s.Uses(in, s.New)
	return err == nil
}

// namesApp reports whether options have an app.
func namesApp(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return name == "app" || strings.HasSuffix(name, ":app")
	})
}

// deriveProject sets the project's folder. Its name contains board and model, so that both count as set by the user.
func (in *Inputs) deriveProject() (err error) {
	c := in.Config
	if !in.Model.Explicit {
		in.ModelName.Value = cmp.Or(in.ModelName.Value, c.ModelName) // of boardsmith.json's model
	}

	in.Board = Input{cmp.Or(in.Board.Value, c.Board, DefaultBoard), true}

	// The app, which may be an option of the board alone, is part of the folder's name.
	in.useBoardOptions()

	in.Model = Input{cmp.Or(in.Model.Value, c.Model), true}

	in.Derived = true
	in.Project, err = in.folder()
	return err
}

// checkModel returns an error for several archives. A comma may also be part of a file's name.
func (in *Inputs) checkModel() error {
	paths := strings.Split(in.Model.Value, ",")
	if _, err := os.Stat(in.Model.Value); len(paths) == 1 || err == nil {
		return nil
	}
	return failure.New(failure.Config, "name one archive, or make a library of all these models: APP="+Library,
		"MODEL=%s names %d archives, but firmware runs one model", in.Model.Value, len(paths))
}

// useBoardOptions sets Options to those that are for the board alone, if there are any.
func (in *Inputs) useBoardOptions() {
	if o, ok := in.BoardOptions[in.BoardName()]; ok && in.BoardName() != "" {
		in.Options = o
	}
}

// folder returns the folder that follows from board and model; a library's, from all its archives.
func (in *Inputs) folder() (string, error) {
	name := ProjectName(in.Model.Value, in.ModelName.Value)
	switch {
	case in.Library:
		paths, err := Archives(in.Model.Value)
		if err != nil {
			return "", err
		}
		var names []string
		for _, path := range paths {
			names = append(names, ProjectName(path, in.ModelName.Value))
		}
		name = strings.Join(names, "+") + "." + Library
	case cmp.Or(in.Options.App, in.Defaults.App) == boards.Standalone:
		name += "." + boards.Standalone
	}

	return filepath.Join("build", boardfile.FileName(in.BoardName()), name), nil
}

// Archives returns the paths of the archives whose models become one folder: those of MODEL, which commas separate, or
// "" for the bundled sample alone.
func Archives(model string) ([]string, error) {
	// A single empty path is the bundled sample.
	paths := strings.Split(model, ",")
	if len(paths) > 1 && slices.Contains(paths, "") {
		return nil, failure.New(failure.Config, "write one comma between two archives", "MODEL=%s has an empty name", model)
	}

	return paths, nil
}

// fill sets inputs that the user did not set: the project's, else boardsmith.json's, else the default.
func (in *Inputs) fill(m *Recorded) {
	c := in.Config
	// Without a project, boardsmith.json and the defaults are what a project would have recorded.
	if m == nil {
		m = &Recorded{
			Board: cmp.Or(c.Board, DefaultBoard), Model: c.Model, ModelName: c.ModelName, Template: c.Template,
			Libraries: c.Uses, Options: in.Defaults,
		}
	}

	if !in.Board.Explicit {
		in.Board.Value = m.Board
	}

	if !in.Model.Explicit {
		in.Model.Value = m.Model
	}

	if !in.ModelName.Explicit && !in.Model.Explicit { // another archive has other models
		in.ModelName.Value = m.ModelName
	}

	if !in.Template.Explicit {
		in.Template.Value = m.Template
	}

	if !in.LibrariesExplicit {
		in.Libraries = m.Libraries
	}
	if !in.OptionsExplicit {
		in.Options = m.Options
	}
}

// plain completes the inputs that are not in project.json.
func (in *Inputs) plain(named boardsmithjson.Choice) (err error) {
	c := in.Config

	in.Device = cmp.Or(in.Device, named.Device, c.Device)
	in.Project = cmp.Or(in.Project, named.Project, c.Project)
	in.Input, in.Names = SplitNames(cmp.Or(in.Input, named.Input, c.Input))
	in.Product = cmp.Or(in.Product, named.Product, c.Product)
	in.Version = cmp.Or(in.Version, named.Version, c.Version)

	if text := cmp.Or(named.Timeout, c.Timeout); text != "" && in.Timeout == 0 {
		in.Timeout, err = console.Duration("TIMEOUT", text)
	}

	return err
}

// CallTimeout returns the limit of one call on the device.
func (in *Inputs) CallTimeout() time.Duration { return cmp.Or(in.Timeout, defaultTimeout) }

func explicit(fromEnv, fromTarget string) Input {
	v := cmp.Or(fromEnv, fromTarget)
	return Input{v, v != ""}
}

// SearchPath returns the folders of the user's boards and templates: shelf is BOARDSMITH_PATH, then comes
// boardsmith.json's path.
func SearchPath(shelf string, c *boardsmithjson.Config, fetch Fetcher) ([]string, error) {
	var path []string
	for _, p := range filepath.SplitList(shelf) {
		if p != "" {
			path = append(path, p)
		}
	}

	for _, p := range c.Path {
		if gitfolder.IsRef(p) {
			var err error
			if p, err = fetch(c, p); err != nil {
				return nil, fmt.Errorf("%s: path: %w", c.File, err)
			}
		}

		path = append(path, p)
	}
	return path, nil
}

// LockFile returns the path of the file with the commits of branches and tags: beside boardsmith.json, else in dir.
func LockFile(c *boardsmithjson.Config, dir string) string {
	if c.File != "" {
		dir = filepath.Dir(c.File)
	}
	return filepath.Join(dir, boardsmithjson.LockName)
}

// ArchiveName returns the archive's file name without extension, the bundled sample's for "".
func ArchiveName(model string) string {
	if model == "" {
		model = samples.Name
	}
	return format.ArchiveName(model)
}

// ProjectName returns the folder name for an archive, or for one of several models in it.
func ProjectName(model, modelName string) string {
	if modelName == "" {
		return ArchiveName(model)
	}
	return ArchiveName(model) + "." + modelName
}

// BoardName returns the board's name, also from a board file's path.
func (in *Inputs) BoardName() string {
	name, _ := boards.Locate(in.Board.Value, in.Path)
	return name
}
