// This file determines each input of a run: from the environment, else PROJECT's project.json, else
// boardsmith.json, else its default (docs/inputs.md).

package targets

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/console"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/samples"
)

const (
	defaultBoard   = "host"
	defaultTimeout = 60 * time.Second
	defaultRepeat  = 10
	maxRepeat      = 1_000_000
)

// An input is a value, and whether the user set it for this run: in the environment, directly or by TARGET, or as
// something from which the project's folder follows. The project takes precedence over other sources, but not over the
// user.
type input struct {
	value string
	asked bool
}

// inputs are what one mage run works on.
type inputs struct {
	config *boardsmithjson.Config
	usual  boards.Options // boardsmith.json's

	project   string // folder
	derived   bool   // the folder follows from board and model
	board     input
	named     string // the board that BOARD, TARGET or a device of desk.json names; "": none does
	model     input  // path of an archive; "" is the bundled sample
	modelName input  // which of the archive's models; "" is the only one
	template  input
	libraries []string
	use       bool // the libraries were asked for
	options   boards.Options
	optioned  bool // the options were asked for

	path         []string // folders with boards/ and templates/
	device       string   // which one of the board: a name in desk.json, a probe's serial, a USB path, a port
	deskFile     *device.DeskFile
	deskFileMade string        // note if it was made from the former file; else ""
	timeout      time.Duration // of one call
	wait         time.Duration // how long to wait for a device that another process uses
	input        string
	output       string
	repeat       int
}

// made holds a project's inputs, from project.json.
type made struct {
	board, template, model, modelName string
	from                              string // the template's place in a git repository, else its name
	libraries                         []string
	options                           boards.Options
}

// A fetcher returns the path of a place in a git repository.
type fetcher func(c *boardsmithjson.Config, place string) (string, error)

// resolve determines the inputs. load returns the inputs of the project in a folder, or nil if there is none.
func resolve(env console.Environ, dir string, load func(dir string) (*made, error), fetch fetcher) (*inputs, error) {
	c, err := boardsmithjson.Find(dir)
	if err != nil {
		return nil, err
	}
	var named boardsmithjson.Choice
	if t := env("TARGET"); t != "" {
		if named, err = c.Target(t); err != nil {
			return nil, err
		}
	}
	in := &inputs{config: c, device: cmp.Or(env("DEVICE"), named.Device, c.Device)}
	if in.path, err = searchPath(env, c, fetch); err != nil {
		return nil, err
	}
	if err := in.plain(env, named); err != nil {
		return nil, err
	}
	if in.deskFile, in.deskFileMade, err = readDeskFile(deskFilePath(dir)); err != nil {
		return nil, err
	}
	in.board = asked(env("BOARD"), named.Board)
	if d := in.deskFile.Find(in.device); d != nil && !in.board.asked {
		in.board = input{d.Board, true} // a named device determines its board
	}
	in.named = in.board.value
	in.model = asked(env("MODEL"), named.Model)
	in.modelName = asked(env("MODEL_NAME"), named.ModelName)
	in.template = asked(env("TEMPLATE"), named.Template)
	in.libraries = strings.FieldsFunc(env("LIBRARIES"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(in.libraries) == 0 {
		in.libraries = named.Uses
	}
	in.use = len(in.libraries) > 0
	words := strings.Fields(env("OPTIONS"))
	if len(words) == 0 {
		words = named.Options
	}
	in.optioned = len(words) > 0
	if in.options, err = boards.ParseOptions(words); err != nil {
		return nil, err
	}
	if in.usual, err = boards.ParseOptions(c.Options); err != nil {
		return nil, failure.New(failure.Config, "", "%s: %w", c.File, err)
	}

	in.project = cmp.Or(env("PROJECT"), named.Project, c.Project)
	if in.project == "" {
		if !in.model.asked {
			in.modelName.value = cmp.Or(in.modelName.value, c.ModelName) // of boardsmith.json's model
		}
		// The folder's name contains board and model, so that both count as set by the user.
		in.board = input{cmp.Or(in.board.value, c.Board, defaultBoard), true}
		in.model = input{cmp.Or(in.model.value, c.Model), true}
		in.derived = true
		in.project = filepath.Join("build", boards.FileName(in.boardName()), projectName(in.model.value, in.modelName.value))
	}
	m, err := load(in.project)
	if err != nil {
		return nil, err
	}
	in.fill(m)
	return in, nil
}

// fill sets inputs that the user did not set: the project's, else boardsmith.json's, else the default.
func (in *inputs) fill(m *made) {
	c := in.config
	if m == nil {
		m = &made{
			board: cmp.Or(c.Board, defaultBoard), model: c.Model, modelName: c.ModelName, template: c.Template,
			libraries: c.Uses, options: in.usual,
		}
	}
	if !in.board.asked {
		in.board.value = m.board
	}
	if !in.model.asked {
		in.model.value = m.model
	}
	if !in.modelName.asked && !in.model.asked { // another archive has other models
		in.modelName.value = m.modelName
	}
	if !in.template.asked {
		in.template.value = m.template
		if c.Templates[m.template] == "" && m.from != "" {
			in.template.value = m.from
		}
	}
	if !in.use {
		in.libraries = m.libraries
	}
	if !in.optioned {
		in.options = m.options
	}
}

// plain reads the inputs that are not in project.json.
func (in *inputs) plain(env console.Environ, named boardsmithjson.Choice) error {
	in.input = cmp.Or(env("INPUT"), named.Input, in.config.Input)
	in.output = env("OUTPUT")
	in.timeout, in.repeat = defaultTimeout, defaultRepeat
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"TIMEOUT", cmp.Or(env("TIMEOUT"), named.Timeout, in.config.Timeout), &in.timeout},
		{"WAIT", env("WAIT"), &in.wait},
	} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = duration(d.name, d.text); err != nil {
			return err
		}
	}
	if r := env("REPEAT"); r != "" {
		n, err := strconv.Atoi(r)
		if err != nil || n < 1 || n > maxRepeat {
			return failure.New(failure.Config, "", "REPEAT=%s is not a number of runs from 1 to %d", r, maxRepeat)
		}
		in.repeat = n
	}
	return nil
}

// duration parses 2m30s, or a plain number of seconds.
func duration(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && seconds > 0 && seconds < 1e6 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, failure.New(failure.Config, fmt.Sprintf("write %[1]s=60 or %[1]s=2m30s", name),
			"%s=%s is not a positive duration", name, text)
	}
	return d, nil
}

func asked(fromEnv, fromTarget string) input {
	v := cmp.Or(fromEnv, fromTarget)
	return input{v, v != ""}
}

// searchPath returns the folders of the user's boards and templates: BOARDSMITH_PATH, then boardsmith.json's path.
func searchPath(env console.Environ, c *boardsmithjson.Config, fetch fetcher) ([]string, error) {
	var path []string
	for _, p := range filepath.SplitList(env("BOARDSMITH_PATH")) {
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

// lockFile returns the path of the file with the commits of branches and tags: beside boardsmith.json, else in dir.
func lockFile(c *boardsmithjson.Config, dir string) string {
	if c.File != "" {
		dir = filepath.Dir(c.File)
	}
	return filepath.Join(dir, "boardsmith.lock.json")
}

// deskFileName is searched for like boardsmith.json, but describes this computer's desk, not a repository.
const deskFileName = "desk.json"

// formerDeskFileName is the former name of desk.json.
const formerDeskFileName = "bench.json"

// readDeskFile reads the desk.json at path. If there is only one of the former name, it converts that and returns a
// note.
func readDeskFile(path string) (f *device.DeskFile, made string, err error) {
	former := filepath.Join(filepath.Dir(path), formerDeskFileName)
	if exists(path) || !exists(former) {
		f, err = device.ReadDeskFile(path)
		return f, "", err
	}
	if f, err = device.ReadDeskFile(former); err == nil {
		err = f.Write(path)
	}
	return f, fmt.Sprintf("made %s from %s, which is no longer read", path, former), err
}

// deskFilePath returns the path of the nearest desk.json, or one of the former name, in dir and its parents; else
// that of a new one in dir.
func deskFilePath(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		path := filepath.Join(d, deskFileName)
		if exists(path) || exists(filepath.Join(d, formerDeskFileName)) {
			return path
		}
		if d == filepath.Dir(d) {
			return filepath.Join(dir, deskFileName)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// means reports whether DEVICE names an attached device; all are the attached devices.
func (in *inputs) means(d device.Attached, all []device.Attached) bool {
	if noted := in.deskFile.Find(in.device); noted != nil {
		return isNoted(*noted, d, all)
	}
	return in.device == d.Probe || in.device == d.Port || in.device == d.Path
}

// archiveName returns the archive's file name without extension, the bundled sample's for "".
func archiveName(model string) string {
	if model == "" {
		model = samples.Name
	}
	name := filepath.Base(model)
	for _, end := range []string{".gz", ".tgz", ".tar"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}

// projectName returns the folder name for an archive, or for one of several models in it.
func projectName(model, modelName string) string {
	if modelName == "" {
		return archiveName(model)
	}
	return archiveName(model) + "." + modelName
}

// boardName returns the board's name, also from a board file's path.
func (in *inputs) boardName() string { return boards.NameOf(in.board.value, in.path) }

// shown returns a path for display: relative to the working folder if it is below.
func shown(dir, path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(dir, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(os.PathSeparator)) {
		return path
	}
	return rel
}

// isNoted reports whether an attached device is the one in desk.json; all are the attached devices.
func isNoted(noted device.DeskDevice, d device.Attached, all []device.Attached) bool {
	if noted.Probe == "" && noted.Link.Address != "" {
		return noted.Link.Address == d.Port
	}
	shared := slices.ContainsFunc(all, func(o device.Attached) bool { return o.Probe == d.Probe && o.Path != d.Path })
	return noted.Probe == d.Probe && (noted.Link.Path == d.Path || noted.Probe != "" && !shared)
}
