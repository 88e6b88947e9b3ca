// Package buildenv finds and runs what building needs of this computer: variables, compilers and other programs, source
// trees outside of the project.
//
// It does not know projects: an Env is of a template and a folder.
package buildenv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// An Env is what the builds of a template need of this computer: variables, programs, source trees.
type Env struct {
	Template  *templatefile.Description
	Board     string            // the board's name, for errors
	Dir       string            // the project's folder: the template may look for folders above it
	Variables map[string]string // in place of the process's own
	Programs  []string          // folders in which programs are searched before PATH
	Tools     *Tools
}

// places returns the folders that a place of a template stands for, in the order in which they are looked into.
func (e Env) places(place string) (all []string) {
	first, below, _ := strings.Cut(place, "/")

	var roots []string
	switch name, isVariable := strings.CutPrefix(first, "$"); {
	case isVariable:
		if v := e.Variable(name); v != "" {
			roots = []string{v}
		}
	case first == templatefile.HomeWord:
		if home, err := os.UserHomeDir(); err == nil {
			roots = []string{home}
		}
	case first == "":
		roots = []string{"/"}
	case first == templatefile.AboveWord:
		roots = sourcetree.Around(e.Dir)
	}

	for _, r := range roots {
		all = append(all, filepath.Join(r, filepath.FromSlash(below)))
	}
	return all
}

// Variable returns the value of the builder's variable, of the user's or, if neither is set, the folder that the
// template finds for it; "" if there is none. A folder's path is absolute, since the build command runs elsewhere than
// this process, and has no links: a tool that goes up from it, as west and CMake do, is where places with ".." are.
func (e Env) Variable(name string) string {
	value := cmp.Or(e.Variables[name], os.Getenv(name), e.search(name))
	if e.Template.IsFolder(name) {
		return abspath.Resolved(value)
	}
	return value
}

// search returns the first folder that the template finds for a variable, or "".
func (e Env) search(name string) string {
	for _, s := range e.Template.Find {
		if s.Name != name {
			continue
		}
		for _, pattern := range s.In {
			for _, dir := range e.places(pattern) {
				if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(s.Has))); err == nil {
					return dir
				}
			}
		}
	}
	return ""
}

// Check returns an error for a variable that has no value, or one that is not what the template looks for.
func (e Env) Check(name string) error {
	value := e.Variable(name)
	if value == "" {
		return e.missing(name)
	}
	for _, s := range e.Template.Find {
		if s.Name != name {
			continue
		}
		if _, err := os.Stat(filepath.Join(value, filepath.FromSlash(s.Has))); err != nil {
			return failure.New(failure.Config, "set it to another folder, or do not set it and let the template look for one",
				"%s is %s, which has no %s", name, value, s.Has)
		}
	}
	return nil
}

// missing is the error for a variable that has no value.
func (e Env) missing(name string) error {
	for _, s := range e.Template.Find {
		if s.Name == name {
			return failure.New(failure.ToolMissing, strings.TrimSuffix("set it, or: "+s.Install, ", or: "),
				"the template needs the variable %s, which is not set, and %s is not in %s", name, s.Has, placesText(s.In))
		}
	}
	return failure.New(failure.Config, "set it", "the template needs the variable %s, which is not set", name)
}

// placesText names places in words.
func placesText(places []string) string {
	var all []string
	for _, place := range places {
		if below, ok := strings.CutPrefix(place, templatefile.AboveWord+"/"); ok {
			place = "a folder " + below + " beside the project or above it"
		}
		all = append(all, place)
	}
	return strings.Join(all, " or ")
}

// toolFolder returns the folder of one of the template's programs that is not on PATH, or "" if it is in none of the
// places where it is looked for.
func (e Env) toolFolder(tool templatefile.Tool) string {
	for _, pattern := range tool.In {
		for _, dir := range e.places(pattern) {
			if _, err := command.Find(filepath.Join(dir, tool.Name), ""); err == nil {
				return dir
			}
		}
	}
	return ""
}

// toolFolders returns the builder's folders of programs, and those of the template's programs that are not on PATH. The
// build command's PATH begins with them: see toolPath.
func (e Env) toolFolders() []string {
	all := slices.Clone(e.Programs)
	for _, tool := range e.Template.Tools {
		// A program that is on PATH, or that is given by its path, needs no folder.
		if _, err := command.Find(tool.Name, ""); err == nil || filepath.Base(tool.Name) != tool.Name {
			continue
		}
		if dir := e.toolFolder(tool); dir != "" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// Program returns the path of the program that the build command runs by this name. Errors:
// *failure.MissingToolError, with how to install it.
func (e Env) Program(name, install string) (string, error) {
	if filepath.Base(name) == name {
		for _, dir := range e.toolFolders() {
			if path, err := command.Find(filepath.Join(dir, name), ""); err == nil {
				return path, nil
			}
		}
	}
	return command.Find(name, install)
}

func (e Env) Tool(tool templatefile.Tool) (string, error) {
	return e.Program(tool.Name, tool.Install)
}

// Builder returns the path of the program that builds.
func (e Env) Builder() (string, error) { return e.ProgramOf(e.Template.Build) }

// ProgramOf returns the path of the program of a command of the template.
func (e Env) ProgramOf(words []string) (string, error) {
	name := words[0]
	for _, tool := range e.Template.Tools {
		if tool.Name == name {
			return e.Tool(tool)
		}
	}
	return e.Program(name, "")
}

// Path returns the variable PATH with toolFolders, if there are any.
func (e Env) Path() []string {
	folders := e.toolFolders()
	if len(folders) == 0 {
		return nil
	}

	if path := os.Getenv("PATH"); path != "" { // an empty word at the end is the working folder
		folders = append(folders, path)
	}
	return []string{"PATH=" + strings.Join(folders, string(os.PathListSeparator))}
}

// Environ returns the build command's variables in addition to those of every tool. A value $NAME is the user's
// variable of that name, and with a question mark behind it may be unset; others are literal. cc is the path of the
// board's compiler. values are those of the user's variables, the date of the build among them, except paths of outside
// inputs and of source trees, whose contents count instead.
func (e Env) Environ(cc string) (env, values []string, err error) {
	t := e.Template
	env = e.Path()

	if date := e.Variable(command.DateVariable); date != "" {
		values = append(values, command.DateVariable+"="+date)
		env = append(env, values...)
	}

	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		value := t.Env[name]
		if strings.Contains(value, templatefile.ToolchainWord) {
			if cc == "" {
				return nil, nil, failure.New(failure.Config, "choose another template, or leave "+templatefile.ToolchainWord+
					" out of its env",
					"the template needs the compiler's folder for %s, but only the build finds the compiler of board %s", name,
					e.Board)
			}
			value = strings.ReplaceAll(value, templatefile.ToolchainWord, filepath.Dir(filepath.Dir(cc)))
		}

		if from, optional, isVariable := t.UsersVariable(name); isVariable {
			if value = e.Variable(from); value == "" {
				if optional {
					continue
				}
				return nil, nil, e.missing(from)
			}
			if err := e.Check(from); err != nil {
				return nil, nil, err
			}
			// Of the others, the contents count instead of the values.
			if !slices.ContainsFunc(slices.Concat(t.Outside, t.Trees), templatefile.BeginsWith(from)) {
				values = append(values, name+"="+value)
			}
		}

		env = append(env, name+"="+value)
	}
	return env, values, nil
}

// Outside returns the digests of the inputs outside the project, by their names in the template, without those below a
// variable that may be unset and is.
func (e Env) Outside() (map[string]string, error) {
	sums := map[string]string{}
	for _, input := range e.Template.Outside {
		name, below, _ := strings.Cut(strings.TrimPrefix(input, "$"), "/")

		folder := e.Variable(name)
		if folder == "" && e.Template.Env[name] == "$"+name+"?" {
			continue
		}

		at := filepath.Join(folder, filepath.FromSlash(below))
		if err := digestsBelow(at, input, sums); err != nil {
			return nil, failure.New(failure.Config, "check the variable "+name, "input %s: %w", input, err)
		}
	}
	return sums, nil
}

// digestsBelow adds the digest of a file, or of all files in a folder, under a name.
func digestsBelow(at, name string, sums map[string]string) error {
	return filepath.WalkDir(at, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		f, err := regularfile.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()

		h := sha256.New()
		if _, err := io.Copy(h, f); err != nil {
			return err
		}

		below, err := filepath.Rel(at, file)
		sums[path.Join(name, filepath.ToSlash(below))] = hex.EncodeToString(h.Sum(nil))
		return err
	})
}

// Trees returns the state of each of the template's source trees, by its name in the template with what a pattern
// stands for. A pattern may stand for none; a tree without a pattern must be there.
func (e Env) Trees(ctx context.Context) (map[string]string, error) {
	dirs := map[string]string{}
	for _, tree := range e.Template.Trees {
		name, above, pattern := templatefile.SplitTree(tree)
		base := e.Variable(name)
		if base == "" {
			return nil, e.missing(name)
		}

		for range above {
			base = filepath.Dir(base)
		}

		if !strings.ContainsAny(pattern, `*?[\`) {
			dirs[tree] = filepath.Join(base, filepath.FromSlash(pattern))
			continue
		}

		matches, _ := fs.Glob(os.DirFS(base), pattern) // checkOutside has validated the pattern
		for _, match := range matches {
			if info, err := os.Stat(filepath.Join(base, match)); err == nil && info.IsDir() {
				dirs[strings.TrimSuffix(tree, pattern)+match] = filepath.Join(base, match)
			}
		}
	}
	return sourcetree.States(ctx, dirs)
}

// Command returns the build command with a number of jobs and the forms to make.
func (e Env) Command(b *boards.Board, jobs int, forms []string) (args []string) {
	return e.Words(e.Template.Build, b, jobs, forms)
}

// Words returns a command of the template with its words replaced.
func (e Env) Words(of []string, b *boards.Board, jobs int, forms []string) (args []string) {
	words := strings.NewReplacer(templatefile.JobsWord, fmt.Sprint(jobs), templatefile.BoardWord, b.Zephyr())

	for _, word := range of {
		if word == templatefile.FormsWord {
			args = append(args, forms...)
			continue
		}

		if place, then, conditional := templatefile.CutIf(word); conditional {
			name, below, _ := strings.Cut(strings.TrimPrefix(place, "$"), "/")
			if _, err := os.Stat(filepath.Join(e.Variable(name), filepath.FromSlash(below))); err != nil {
				continue
			}
			word = then
		}

		args = append(args, words.Replace(word))
	}
	return args
}
