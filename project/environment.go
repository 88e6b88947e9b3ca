// This file makes the environment of a template's build command: variables of the user's, or folders that the template
// says where to look for, and programs in them. It also digests the inputs there.

package project

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
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
)

// places returns the folders that a place of a template stands for, in the order in which they are looked into.
func (p *Project) places(place string) (all []string) {
	first, below, _ := strings.Cut(place, "/")
	var roots []string
	switch name, isVariable := strings.CutPrefix(first, "$"); {
	case isVariable:
		if v := p.variable(name); v != "" {
			roots = []string{v}
		}
	case first == blueprint.HomeWord:
		if home, err := os.UserHomeDir(); err == nil {
			roots = []string{home}
		}
	case first == blueprint.AboveWord:
		roots = sourcetree.Around(p.dir)
	}
	for _, r := range roots {
		all = append(all, filepath.Join(r, filepath.FromSlash(below)))
	}
	return all
}

// variable returns the value of the builder's variable, of the user's or, if neither is set, the folder that the
// template finds for it; "" if there is none. A folder's path is absolute: the build command runs elsewhere than this
// process.
func (p *Project) variable(name string) string {
	if v := cmp.Or(p.builder.Variables[name], os.Getenv(name)); v != "" {
		if p.state.Template.IsFolder(name) {
			return abspath.Of(v)
		}
		return v
	}
	for _, s := range p.state.Template.Find {
		if s.Name != name {
			continue
		}
		for _, place := range s.In {
			for _, dir := range p.places(place) {
				if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(s.Has))); err == nil {
					return dir
				}
			}
		}
	}
	return ""
}

// checkVariable returns an error for a variable that has no value, or one that is not what the template looks for.
func (p *Project) checkVariable(name string) error {
	value := p.variable(name)
	if value == "" {
		return p.variableMissing(name)
	}
	for _, s := range p.state.Template.Find {
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

// variableMissing is the error for a variable that has no value.
func (p *Project) variableMissing(name string) error {
	for _, s := range p.state.Template.Find {
		if s.Name == name {
			return failure.New(failure.Config, strings.TrimSuffix("set it, or: "+s.Install, ", or: "),
				"the template needs the variable %s, which is not set, and %s has no %s", name, strings.Join(s.In, " or "), s.Has)
		}
	}
	return failure.New(failure.Config, "set it", "the template needs the variable %s, which is not set", name)
}

// toolFolder returns the folder of one of the template's programs that is not on PATH, or "" if it is in none of the
// places where it is looked for.
func (p *Project) toolFolder(tool blueprint.Tool) string {
	for _, place := range tool.In {
		for _, dir := range p.places(place) {
			if _, err := command.Find(filepath.Join(dir, tool.Name), ""); err == nil {
				return dir
			}
		}
	}
	return ""
}

// toolFolders returns the builder's folders of programs, and those of the template's programs that are not on PATH. The
// build command's PATH begins with them: see toolPath.
func (p *Project) toolFolders() []string {
	all := slices.Clone(p.builder.Programs)
	for _, tool := range p.state.Template.Tools {
		if _, err := command.Find(tool.Name, ""); err == nil || filepath.Base(tool.Name) != tool.Name {
			continue
		}
		if dir := p.toolFolder(tool); dir != "" && !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// findProgram returns the path of the program that the build command runs by this name. Errors: *MissingToolError, with
// how to install it.
func (p *Project) findProgram(name, install string) (string, error) {
	if filepath.Base(name) == name {
		for _, dir := range p.toolFolders() {
			if path, err := command.Find(filepath.Join(dir, name), ""); err == nil {
				return path, nil
			}
		}
	}
	return command.Find(name, install)
}

func (p *Project) findTool(tool blueprint.Tool) (string, error) {
	return p.findProgram(tool.Name, tool.Install)
}

// findBuilder returns the path of the program that builds.
func (p *Project) findBuilder() (string, error) {
	name := p.state.Template.Build[0]
	for _, tool := range p.state.Template.Tools {
		if tool.Name == name {
			return p.findTool(tool)
		}
	}
	return p.findProgram(name, "")
}

// toolPath returns the variable PATH with toolFolders, if there are any.
func (p *Project) toolPath() []string {
	folders := p.toolFolders()
	if len(folders) == 0 {
		return nil
	}
	if path := os.Getenv("PATH"); path != "" { // an empty word at the end is the working folder
		folders = append(folders, path)
	}
	return []string{"PATH=" + strings.Join(folders, string(os.PathListSeparator))}
}

// environment returns the build command's variables in addition to those of every tool. A value $NAME is the user's
// variable of that name, and with a question mark behind it may be unset; others are literal. cc is the path of the
// board's compiler. values are those of the user's variables, except paths of outside inputs and of source trees, whose
// contents count instead.
func (p *Project) environment(cc string) (env, values []string, err error) {
	t := &p.state.Template.Blueprint
	env = p.toolPath()
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		value := t.Env[name]
		if strings.Contains(value, blueprint.ToolchainWord) {
			if cc == "" {
				return nil, nil, failure.New(failure.Config, "choose another template, or leave "+blueprint.ToolchainWord+
					" out of its env",
					"the template needs the compiler's folder for %s, but only the build finds the compiler of board %s", name,
					p.state.Board.Name)
			}
			value = strings.ReplaceAll(value, blueprint.ToolchainWord, filepath.Dir(filepath.Dir(cc)))
		}
		if from, optional, isVariable := t.UsersVariable(name); isVariable {
			if value = p.variable(from); value == "" {
				if optional {
					continue
				}
				return nil, nil, p.variableMissing(from)
			}
			if err := p.checkVariable(from); err != nil {
				return nil, nil, err
			}
			if !slices.ContainsFunc(slices.Concat(t.Outside, t.Trees), blueprint.BeginsWith(from)) {
				values = append(values, name+"="+value)
			}
		}
		env = append(env, name+"="+value)
	}
	return env, values, nil
}

// outside returns the digests of the inputs outside the project, by their names in the template, without those below a
// variable that may be unset and is.
func (p *Project) outside() (map[string]string, error) {
	sums := map[string]string{}
	for _, input := range p.state.Template.Outside {
		name, below, _ := strings.Cut(strings.TrimPrefix(input, "$"), "/")
		folder := p.variable(name)
		if folder == "" && p.state.Template.Env[name] == "$"+name+"?" {
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
		f, err := plainfile.Open(file)
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

// treeStates returns the state of each of the template's source trees, by its name in the template with what a pattern
// stands for. A pattern may stand for none; a tree without a pattern must be there.
func (p *Project) treeStates(ctx context.Context) (map[string]string, error) {
	dirs := map[string]string{}
	for _, tree := range p.state.Template.Trees {
		name, above, pattern := blueprint.SplitTree(tree)
		base := p.variable(name)
		if base == "" {
			return nil, p.variableMissing(name)
		}
		for range above {
			base = filepath.Dir(base)
		}
		if !strings.ContainsAny(pattern, `*?[\`) {
			dirs[tree] = filepath.Join(base, filepath.FromSlash(pattern))
			continue
		}
		found, _ := fs.Glob(os.DirFS(base), pattern) // checkOutside has validated the pattern
		for _, match := range found {
			if info, err := os.Stat(filepath.Join(base, match)); err == nil && info.IsDir() {
				dirs[strings.TrimSuffix(tree, pattern)+match] = filepath.Join(base, match)
			}
		}
	}
	return sourcetree.States(ctx, dirs)
}

// command returns the build command with a number of jobs and the forms to make.
func (p *Project) command(b *boards.Board, jobs int, forms []string) (args []string) {
	words := strings.NewReplacer(blueprint.JobsWord, fmt.Sprint(jobs), blueprint.BoardWord, b.Zephyr())
	for _, word := range p.state.Template.Build {
		if word == blueprint.FormsWord {
			args = append(args, forms...)
			continue
		}
		if place, then, conditional := blueprint.CutIf(word); conditional {
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
