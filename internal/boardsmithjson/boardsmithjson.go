// Package boardsmithjson reads boardsmith.json, a repository's own defaults and named targets.
//
// It does not know the environment or projects: package targets decides which input counts.
package boardsmithjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
)

// Name is searched for in the working folder and its parents.
const Name = "boardsmith.json"

// LockName is the file beside it with the commits of branches and tags.
const LockName = "boardsmith.lock.json"

// A Choice holds the inputs that boardsmith.json can set, for all targets and for each named one. "" means not set.
type Choice struct {
	// a board's name, or the path of its file relative to this file's folder
	Board string `json:"board" var:"BOARD"`
	// a model's archive or description, relative to this file's folder; several are separated by commas
	Model     string `json:"model" var:"MODEL"`
	ModelName string `json:"model_name" var:"MODEL_NAME"` // which model of an archive with several
	// a name, a path relative to this file's folder, or a place in a git repository
	Template string   `json:"template" var:"TEMPLATE"`
	Uses     []string `json:"uses" var:"LIBRARIES"`  // the libraries of new projects
	Project  string   `json:"project" var:"PROJECT"` // the project's folder, relative to this file's folder
	// the board's options as an object; those for another app of the template have no effect
	Options OptionList `json:"options" var:"OPTIONS"`
	Timeout string     `json:"timeout" var:"TIMEOUT"` // limit for one call on the device: 60 (seconds), 2m30s
	// the input's file, relative to this file's folder; of several models, one for each, separated by commas
	Input   string `json:"input" var:"INPUT"`
	Device  string `json:"device" var:"DEVICE"`   // which device of the board: its name in desk.json or its probe's serial
	Product string `json:"product" var:"PRODUCT"` // name of the product in releases
	Version string `json:"version" var:"VERSION"` // version of the product
}

// A Config is boardsmith.json. The zero value is that of a repository without one.
type Config struct {
	Choice
	// folders with boards/, templates/ and libraries/, relative to this file's folder, or in git repositories
	Path []string `json:"path"`
	// further templates by name, each with its folder relative to this file's, or in a git repository
	Templates map[string]string `json:"templates"`
	Libraries map[string]string `json:"libraries"` // further libraries by name, each with its folder, as templates
	// by name, what TARGET chooses: an object with any of the fields from board to version
	Targets map[string]Choice `json:"targets"`

	File string // where it was read from; "" without one
}

// An OptionList holds options as in OPTIONS; the file has them as an object.
type OptionList []string

// UnmarshalJSON reads {"arena_kib": 64} as ["arena_kib=64"], in the order of the names.
func (o *OptionList) UnmarshalJSON(data []byte) error {
	var values map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&values); err != nil {
		return errors.New(`options are an object, as in {"arena_kib": 64}`)
	}
	*o = nil
	for name, v := range values {
		switch v.(type) {
		case string, json.Number, bool:
			*o = append(*o, fmt.Sprintf("%s=%v", name, v))
		default:
			return fmt.Errorf("option %q is neither a number nor a text", name)
		}
	}
	sort.Strings(*o)
	return nil
}

// Find reads the boardsmith.json of dir or of the nearest folder above it that has one.
func Find(dir string) (*Config, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	for {
		file := filepath.Join(dir, Name)
		data, err := jsonfile.Read(os.DirFS(dir), Name)
		switch {
		case err == nil:
			return parse(file, data)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, failure.Errorf(failure.Config, "%s: %w", file, err)
		}
		up := filepath.Dir(dir)
		if up == dir {
			return &Config{}, nil
		}
		dir = up
	}
}

// parse reads the file's text; its relative paths become paths below the file's folder.
func parse(file string, data []byte) (*Config, error) {
	c := Config{File: file}
	lines, err := jsonfile.Decode(file, data, &c)
	if err != nil {
		return nil, failure.New(failure.Config, "docs/command-line.md lists the fields", "%w", err)
	}
	dir := filepath.Dir(file)
	c.Choice.resolve(dir)
	for name, t := range c.Targets {
		t.resolve(dir)
		c.Targets[name] = t
	}
	for i, written := range c.Path {
		c.Path[i] = below(dir, written)
		if info, err := os.Stat(c.Path[i]); !gitfolder.IsRef(written) && (err != nil || !info.IsDir()) {
			at := lines[fmt.Sprintf("path[%d]", i)]
			return nil, failure.New(failure.Config, "correct it, or make the folder", "%s:%d: path: %q is no folder", file, at,
				written)
		}
	}
	for _, places := range []map[string]string{c.Templates, c.Libraries} {
		for name, place := range places {
			places[name] = below(dir, place)
		}
	}
	c.nameTemplates()
	return &c, nil
}

// nameTemplates makes templates known by name that the file chooses by the path of their folder, which then has the
// name: a board file lists its templates by name.
func (c *Config) nameTemplates() {
	paths := []string{c.Template}
	for _, name := range slices.Sorted(maps.Keys(c.Targets)) {
		paths = append(paths, c.Targets[name].Template)
	}
	for _, template := range paths {
		name := filepath.Base(template)
		if name == template || template == "" || gitfolder.IsRef(template) || c.Templates[name] != "" {
			continue
		}
		if c.Templates == nil {
			c.Templates = map[string]string{}
		}
		c.Templates[name] = template
	}
}

// Refs lists the branches and tags of git repositories that the file names, each once: URL@REVISION.
func (c *Config) Refs() (refs []string) {
	places := slices.Concat(c.Path, slices.Collect(maps.Values(c.Templates)), slices.Collect(maps.Values(c.Libraries)))
	for _, choice := range append(slices.Collect(maps.Values(c.Targets)), c.Choice) {
		places = append(append(places, choice.Template), choice.Uses...)
	}
	for _, place := range places {
		if r, err := gitfolder.Parse(place); err == nil && gitfolder.IsRef(place) {
			refs = append(refs, r.Key())
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

func (c *Choice) resolve(dir string) {
	c.Model = belowEach(dir, c.Model)
	c.Project = below(dir, c.Project)
	c.Input = belowEach(dir, c.Input)
	if strings.ContainsAny(c.Template, `/\`) {
		c.Template = below(dir, c.Template)
	}
	for i, library := range c.Uses {
		if strings.ContainsAny(library, `/\`) {
			c.Uses[i] = below(dir, library)
		}
	}
	if strings.HasSuffix(c.Board, ".json") || strings.HasPrefix(c.Board, ".") { // else a name, which may have a slash
		c.Board = below(dir, c.Board)
	}
}

// below returns path relative to dir; "", absolute paths and places in git repositories stay unchanged.
func below(dir, path string) string {
	if path == "" || filepath.IsAbs(path) || gitfolder.IsRef(path) {
		return path
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

// belowEach is below for paths separated by commas.
func belowEach(dir, list string) string {
	paths := strings.Split(list, ",")
	for i, p := range paths {
		paths[i] = below(dir, p)
	}
	return strings.Join(paths, ",")
}

// Target returns the named target's choices.
func (c *Config) Target(name string) (Choice, error) {
	if t, ok := c.Targets[name]; ok {
		return t, nil
	}
	names := slices.Sorted(maps.Keys(c.Targets))
	return Choice{}, failure.New(failure.Config,
		"the targets are: "+strings.Join(names, ", ")+"; without TARGET, the defaults are built",
		"target %q: %s has no such target%s", name, cmp.Or(c.File, Name), jsonfile.DidYouMean(name, names))
}
