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

// Inputs are the inputs of one call of a target: its variables, completed by a project and boardsmith.json.
type Inputs struct {
	Variables
	Config   *boardsmithjson.Config
	Defaults boards.Options // boardsmith.json's

	// The variables that the user set for this run: in the environment, directly or by TARGET, or as something from which
	// the project's folder follows. The project takes precedence over other sources, but not over the user.
	Set map[string]bool

	Derived      bool   // the folder follows from board and model
	NamedBoard   string // that BOARD, TARGET or a device of desk.json names; "": none does
	Options      boards.Options
	BoardOptions map[string]boards.Options // explicit ones, as ParseBoardOptions returns
	Library      bool                      // APP is Library; Project is then the library's folder

	Path     []string // folders with boards/ and templates/
	DeskFile *device.DeskFile
	Names    map[string]string // of arrays in Input: the model's tensor by the array's name
}

// A Fetcher returns the path of a place in a git repository.
type Fetcher func(c *boardsmithjson.Config, place string) (string, error)

// A Source is where the inputs of a target come from.
type Source struct {
	Variables
	Shelf string // BOARDSMITH_PATH
	Dir   string // the working folder

	Config *boardsmithjson.Config // nil: the file in Dir or above

	New   string // the app of a new project, unless the user chose one; "": none
	Uses  Uses   // nil: the template makes all apps and uses all options
	Load  Load
	Fetch Fetcher
}

// Uses returns the options that the inputs' template uses for an app; nil if board or template are not found, which
// generating reports. It returns an error if the template does not make the app.
type Uses func(in *Inputs, app string) (options []string, err error)

// Load opens the project in Inputs.Project, and replaces what it records in the defaults: board and template as names,
// absolute paths or places of git. It reports whether there is one.
type Load func(in *Inputs, defaults *boardsmithjson.Choice) (recorded bool, err error)

// Resolve determines the inputs: the first of the environment, TARGET, the project, boardsmith.json and the default
// that has a value.
func Resolve(s Source) (*Inputs, error) {
	c, err := s.Config, error(nil)
	if c == nil {
		c, err = boardsmithjson.Find(s.Dir)
	}
	if err != nil {
		return nil, err
	}

	var named boardsmithjson.Choice
	if s.Target != "" {
		if named, err = c.Target(s.Target); err != nil {
			return nil, err
		}
	}

	in := &Inputs{Variables: s.Variables, Config: c, Library: s.App == Library}
	if in.Path, err = SearchPath(s.Shelf, c, s.Fetch); err != nil {
		return nil, err
	}
	if err := console.Complete(&in.Variables, named); err != nil {
		return nil, err
	}

	if in.DeskFile, err = device.ReadDeskFile(DeskFilePath(s.Dir)); err != nil {
		return nil, err
	}
	in.choose()

	separate, err := in.readOptions(s)
	if err != nil {
		return nil, err
	}

	// Load reads the project, so its folder must be determined first.
	if in.Project == "" {
		if err := in.deriveProject(); err != nil {
			return nil, err
		}
	}

	recorded, err := in.complete(s)
	if err != nil {
		return nil, err
	}
	if in.Library {
		return in, nil
	}

	// The user's APP and PLACE replace those of the project's options.
	if separate.App != "" {
		in.Options.App, in.Set["OPTIONS"] = separate.App, true
	}
	if separate.Place != "" {
		in.Options.Place, in.Set["OPTIONS"] = separate.Place, true
	}

	in.dropUnused(s, recorded)
	return in, in.checkParams()
}

// choose determines what the user set for this run, and the device and the project's folder, which no project records.
func (in *Inputs) choose() {
	in.Project = cmp.Or(in.Project, in.Config.Project)
	if in.Board == "" || in.Board == in.Config.Board { // the file's device is of the file's board
		in.Device = cmp.Or(in.Device, in.Config.Device)
	}
	if d := in.DeskFile.Find(in.Device); d != nil && in.Board == "" {
		in.Board = d.Board
	}

	in.NamedBoard = in.Board
	in.Set = map[string]bool{
		"BOARD": in.Board != "", "MODEL": in.Model != "", "MODEL_NAME": in.ModelName != "", "TEMPLATE": in.Template != "",
		"LIBRARIES": len(in.Libraries) > 0, "OPTIONS": len(in.ownOptions()) > 0,
	}
}

// ownOptions returns the words of OPTIONS without those that are for other boards alone; all of them if only the
// project names the board.
func (in *Inputs) ownOptions() []string {
	var names []string
	for board := range strings.SplitSeq(cmp.Or(in.Board, in.Config.Board, DefaultBoard), ",") {
		board, _, _ = strings.Cut(board, "=") // NAME=DEVICE
		name, _ := boards.Locate(board, in.Path)
		names = append(names, name)
	}

	return slices.DeleteFunc(slices.Clone(in.Variables.Options), func(word string) bool {
		board, _ := boardOfOption(word)
		return board != "" && !slices.Contains(names, board) && (in.Board != "" || in.Project == "")
	})
}

// complete sets the variables that the user did not set to those that the project records, else to those of
// boardsmith.json or the default. It reports whether there is a project.
func (in *Inputs) complete(s Source) (recorded bool, err error) {
	defaults := in.Config.Choice
	defaults.Device = "" // choose has taken it if it is of this board
	if in.Library {
		defaults.Uses = nil // those of projects
	} else {
		if err := in.checkModel(); err != nil {
			return false, err
		}
		if recorded, err = s.Load(in, &defaults); err != nil {
			return false, err
		}
		// Another archive has other models; "" is the bundled sample.
		if in.Set["MODEL"] {
			defaults.Model, defaults.ModelName = in.Model, ""
		}
	}

	if err := console.Complete(&in.Variables, defaults); err != nil {
		return false, err
	}
	in.Board = cmp.Or(in.Board, DefaultBoard)
	if in.Input, in.Names, err = SplitNames(in.Input); err != nil {
		return false, err
	}

	if !in.Set["OPTIONS"] {
		if in.Options, err = boards.ParseOptions(defaults.Options); err != nil {
			return false, err
		}
	}
	in.Options = in.OptionsOf(in.Board)
	if in.Library {
		return false, in.completeLibrary(s.Variables)
	}
	return recorded, nil
}

// dropUnused drops options that nobody has set for this run and that this firmware does not use: of boardsmith.json,
// those for another app of the template; of a project, those that its template used before.
func (in *Inputs) dropUnused(s Source, recorded bool) {
	if s.Variables.Options != nil || s.Uses == nil {
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

// readOptions reads the options that the user set for this run. It returns those of them that are set beside the
// project's own: app and place.
func (in *Inputs) readOptions(s Source) (separate boards.Options, err error) {
	// These are parsed even if none of them counts, so that an error in the file is always reported.
	if in.Defaults, err = boards.ParseOptions(in.Config.Options); err != nil {
		return separate, failure.Errorf(failure.Config, "%s: %w", in.Config.File, err)
	}
	if in.Set["OPTIONS"] { // which replaces all of the file's
		in.Defaults = boards.Options{}
	}

	words := slices.Clone(in.Variables.Options)
	if !in.Library {
		separate.App = s.App
	}

	// APP and PLACE override what the options of TARGET say.
	if s.Variables.Options == nil {
		words = slices.DeleteFunc(words, func(w string) bool {
			return separate.App != "" && isOption(w, "app") || s.Place != "" && isOption(w, "place")
		})
	}

	// A new project gets the target's app if nothing chose another one.
	namesApp := func(word string) bool { return isOption(word, "app") }
	if s.New != "" && s.App == "" && in.Defaults.App == "" && !slices.ContainsFunc(in.ownOptions(), namesApp) &&
		(in.Project == "" || !project.Exists(in.Project)) && s.makes(in) {
		separate.App = s.New
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

// deriveProject sets the project's folder. Its name contains board and model, so that both count as set by the user.
func (in *Inputs) deriveProject() (err error) {
	c := in.Config
	if !in.Set["MODEL"] {
		in.ModelName = cmp.Or(in.ModelName, c.ModelName) // of boardsmith.json's model
	}

	in.Board, in.Model = cmp.Or(in.Board, c.Board, DefaultBoard), cmp.Or(in.Model, c.Model)
	in.Set["BOARD"], in.Set["MODEL"] = true, true

	// The app, which may be an option of the board alone, is part of the folder's name.
	in.Options = in.OptionsOf(in.Board)

	in.Derived = true
	in.Project, err = in.folder()
	return err
}

// checkModel returns an error for several archives. A comma may also be part of a file's name.
func (in *Inputs) checkModel() error {
	paths := strings.Split(in.Model, ",")
	if _, err := os.Stat(in.Model); len(paths) == 1 || err == nil {
		return nil
	}
	return failure.New(failure.Config, "name one archive, or make a library of all these models: APP="+Library,
		"MODEL=%s names %d archives, but firmware runs one model", in.Model, len(paths))
}

// OptionsOf returns the options of a board, by its name or file: those that are for it alone, if there are any.
func (in *Inputs) OptionsOf(board string) boards.Options {
	name, _ := boards.Locate(board, in.Path)
	if o, ok := in.BoardOptions[name]; ok && name != "" {
		return o
	}
	return in.Options
}

// folder returns the folder that follows from board and model; a library's, from all its archives.
func (in *Inputs) folder() (string, error) {
	name := ProjectName(in.Model, in.ModelName)
	switch {
	case in.Library:
		paths, err := Archives(in.Model)
		if err != nil {
			return "", err
		}
		var names []string
		for _, path := range paths {
			names = append(names, ProjectName(path, in.ModelName))
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

// CallTimeout returns the limit of one call on the device.
func (in *Inputs) CallTimeout() time.Duration { return cmp.Or(in.Timeout, defaultTimeout) }

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
	name, _ := boards.Locate(in.Board, in.Path)
	return name
}
