// This file has the checks.

package templatecheck

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/builddir"
	"github.com/boardsmith/boardsmith/internal/buildenv"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/imagecheck"
	"github.com/boardsmith/boardsmith/internal/projectfile"
	"github.com/boardsmith/boardsmith/internal/workdir"
	"github.com/boardsmith/boardsmith/project"
)

func (c *checking) fields(ctx context.Context) (string, error) {
	var err error
	c.found, err = c.builder.FindTemplate(ctx, c.Spec, nil)
	if err != nil {
		return "", err
	}
	return c.found.Doc, nil
}

func (c *checking) board(ctx context.Context) (string, error) {
	if c.Board == "" {
		name, err := c.chooseBoard()
		if err != nil {
			return "", err
		}
		c.Board = name
	}
	board, err := boards.Find(c.Board, c.builder.Path)
	if err != nil {
		return "", err
	}
	if _, err := c.builder.FindTemplate(ctx, c.Spec, board); err != nil {
		return "", err
	}
	return c.Board, nil
}

func (c *checking) files(ctx context.Context) (string, error) {
	var err error
	if c.p, err = c.builder.Generate(ctx, filepath.Join(c.home, "project"), c.Spec); err != nil {
		return "", err
	}
	if c.state, err = projectfile.Read(c.p.Dir()); err != nil {
		return "", err
	}
	t := c.found
	for _, input := range t.Inputs {
		if input == blueprint.SourceFolder && len(c.state.Board.Sources) == 0 {
			continue // it is for sources of boards
		}
		if _, err := os.Stat(c.at(input)); err != nil {
			return "", fmt.Errorf("inputs: the project has no %s", input)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.state.Files)) {
		if c.mustBeInput(name) && !below(name, t.Inputs) {
			return "", fmt.Errorf("%s is not below inputs: a change of it would go unnoticed", name)
		}
	}
	if script := t.LinkerScript; script != "" && !c.has(script) {
		return "", fmt.Errorf("linker_script: the project has no %s", script)
	}
	for _, step := range t.Compile {
		if !slices.ContainsFunc(step.Files, c.matchesFile) {
			return "", fmt.Errorf("compile: the project has no file %s", strings.Join(step.Files, " or "))
		}
	}
	for _, flag := range t.Operators.Compile {
		if dir, isFolder := strings.CutPrefix(flag, "-I"); isFolder && !c.hasBelow(dir) {
			return "", fmt.Errorf("operators: the project has no folder %s", dir)
		}
	}
	return fmt.Sprintf("%d files", len(c.state.Files)), nil
}

// at returns the path of a file of the project.
func (c *checking) at(name string) string { return filepath.Join(c.p.Dir(), filepath.FromSlash(name)) }

func (c *checking) has(name string) bool { return c.state.Files[name] != "" }

func (c *checking) hasBelow(dir string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.state.Files)), func(name string) bool {
		return strings.HasPrefix(name, dir+"/")
	})
}

func (c *checking) matchesFile(pattern string) bool {
	for name := range c.state.Files {
		if ok, _ := path.Match(pattern, name); ok { // check has validated the pattern
			return true
		}
	}
	return false
}

// mustBeInput reports whether the firmware is built from a file whatever the build command is: it is generated, or is
// C of the runtime, of the model or of the firmware's folder.
func (c *checking) mustBeInput(name string) bool {
	if slices.Contains(c.found.Generate, name) {
		return true
	}
	common := c.found.Firmware != "" && strings.HasPrefix(name, c.found.Firmware+"/")
	folders := c.state.Template.Landmarks.Folders
	return workdir.IsSource(name) && (common || folders.InModel(name) || folders.InRuntime(name))
}

func below(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return name == f || strings.HasPrefix(name, f+"/") })
}

// tools finds out whether an image can be built. What is not installed is no error of the template.
func (c *checking) tools(ctx context.Context) (string, error) {
	compiler, _, err := device.MissingTools(ctx, c.p.Board())
	if err != nil {
		return "", err
	}
	t, err := workdir.Open(c.p.Dir())
	if err != nil {
		return "", err
	}
	defer t.Close()
	b := c.newBuild(c.state, t)
	switch {
	case len(compiler) > 0:
		c.lacking = compiler[0]
	default:
		if err = b.ReadInputs(ctx); err == nil {
			_, err = b.Env.Builder()
		}
		for _, check := range c.found.Checks {
			if err == nil {
				_, err = b.Env.Ask(ctx, check.Command)
			}
		}
		c.lacking = err
	}
	if c.lacking != nil {
		return "", &skipError{c.lacking.Error()}
	}
	var names []string
	for _, tool := range b.Tools() {
		names = append(names, tool.Version)
	}
	return strings.Join(names, "; "), nil
}

// build builds the image. What is wrong with it is reported by the check that it is about.
func (c *checking) build(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	i, err := c.p.Build(ctx)
	if err != nil && c.checkELFParts() == nil {
		return "", err
	}
	if err == nil {
		c.image = i
	}
	if err := c.checkResults(); err != nil || c.image == nil {
		return "", err
	}
	return fmt.Sprintf("text %d, data %d, bss %d bytes", i.Size.Text, i.Size.Data, i.Size.BSS), nil
}

// checkResults returns an error for results that the build command has not made.
func (c *checking) checkResults() error {
	t := c.found
	for _, name := range slices.Concat([]string{t.ELF, t.Map}, t.BoardFile(), builddir.OtherForms(c.state)) {
		if info, err := os.Stat(c.at(name)); err != nil || info.Size() == 0 {
			return fmt.Errorf("the build command succeeded but made no %s", name)
		}
	}
	return nil
}

// checkELFParts returns an error for an image whose parts are wrong.
func (c *checking) checkELFParts() error {
	f, err := elf.Open(c.at(c.found.ELF))
	if err != nil || len(c.p.Board().Memory) == 0 {
		return nil // there is no image, or none with parts
	}
	defer f.Close()
	return imagecheck.Image{Template: &c.state.Template.Blueprint, Board: c.p.Board()}.CheckParts(f)
}

// needsMemory returns an error for skipping a check that is only for a board with a memory map.
func (c *checking) needsMemory() error {
	if err := c.needsBuild(); err != nil {
		return err
	}
	if len(c.p.Board().Memory) == 0 {
		return &skipError{"board " + c.Board + " has no memory map"}
	}
	return nil
}

func (c *checking) parts(context.Context) (string, error) {
	if err := c.needsMemory(); err != nil {
		return "", err
	}
	if len(c.found.Landmarks.Parts) == 0 {
		return "", &skipError{"the template names no parts"}
	}
	if err := c.checkELFParts(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d parts", len(c.found.Landmarks.Parts)), nil
}

func (c *checking) landmarks(context.Context) (string, error) {
	if err := c.needsMemory(); err != nil {
		return "", err
	}
	f, err := elf.Open(c.image.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	l := c.found.Landmarks
	all := map[string]firmware.Place{"kept": l.Kept, "reset_cause": l.ResetCause}
	for n, region := range l.Stacks {
		all[fmt.Sprintf("stacks[%d]", n)] = region
	}
	maps.DeleteFunc(all, func(_ string, region firmware.Place) bool { return region == firmware.Place{} })
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if r, ok := all[name].Find(f); !ok || r.Size() == 0 {
			return "", fmt.Errorf("%s: the image has no %v, or it is empty", name, all[name])
		}
	}
	return fmt.Sprintf("%d landmarks", len(all)), nil
}

func (c *checking) buildID(context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	f, err := elf.Open(c.image.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	id, at, err := firmware.BuildID(f, c.found.ELF)
	if err != nil {
		return "", err
	}
	symbols, err := firmware.Symbols(f, c.found.ELF)
	if err != nil || len(c.p.Board().Memory) == 0 {
		return fmt.Sprintf("%x", id), err
	}
	if symbol, ok := symbols[buildIDSymbol]; ok &&
		symbol != f.Section(firmware.BuildIDSection).Addr+firmware.BuildIDOffset {
		return "", fmt.Errorf("%s is 0x%08x, which is not %d bytes behind the start of %s", buildIDSymbol, symbol,
			firmware.BuildIDOffset, firmware.BuildIDSection)
	}
	return fmt.Sprintf("%x at 0x%08x", id, at.Start), nil
}

// buildIDSymbol is the symbol of templates/firmware/port.h, which a port may name as its build id.
const buildIDSymbol = "boardsmith_build_id"

func (c *checking) sizes(context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	u, err := c.p.Usage(c.image)
	if err != nil {
		return "", err
	}
	bytes := map[string]int64{}
	var words []string
	for _, part := range u.Parts {
		bytes[part.Name] = part.Text + part.Data + part.BSS
		words = append(words, fmt.Sprintf("%s %d", part.Name, bytes[part.Name]))
	}
	needed := []string{"runtime", "operators"}
	if len(c.found.Areas.Arena) > 0 {
		needed = append(needed, "arena")
	}
	if len(c.found.Areas.Stacks) > 0 && len(c.p.Board().Memory) > 0 {
		needed = append(needed, "stack")
	}
	for _, name := range needed {
		if bytes[name] == 0 {
			return "", fmt.Errorf("the image has no %s: its parts are %s", name, strings.Join(words, ", "))
		}
	}
	return strings.Join(words, ", ") + " bytes", nil
}

func (c *checking) again(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	second, err := c.p.Build(ctx)
	if err != nil {
		return "", err
	}
	if !second.UpToDate || second.Digest != c.image.Digest {
		return "", errors.New("nothing was changed, but the image was built again")
	}
	return "", nil
}

// modelSource returns a C file of the model.
func (c *checking) modelSource() (string, error) {
	var all []string
	folders := c.state.Template.Landmarks.Folders
	for name := range c.state.Files {
		generated := name == path.Join(folders.OfModel(), generator.AdapterFile) ||
			name == path.Join(folders.OfModel(), generator.SignaturesFile)
		if folders.InModel(name) && strings.HasSuffix(name, ".c") && !generated {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return "", &skipError{"the archive has no C file"}
	}
	slices.Sort(all)
	return all[0], nil
}

// with builds the project with a line at the end of a C file of the model, calls check, and restores the file.
func (c *checking) with(ctx context.Context, line string, check func(name string, err error) error) error {
	if err := c.needsBuild(); err != nil {
		return err
	}
	name, err := c.modelSource()
	if err != nil {
		return err
	}
	source, err := os.ReadFile(c.at(name))
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.at(name), slices.Concat(source, []byte("\n"+line+"\n")), 0o644); err != nil {
		return err
	}
	_, failed := c.p.Build(ctx)
	if err := errors.Join(check(name, failed), os.WriteFile(c.at(name), source, 0o644)); err != nil {
		return err
	}
	restored, err := c.p.Build(ctx)
	if err == nil && restored.Digest != c.image.Digest {
		err = fmt.Errorf("%s has its former content, but the image is another one", name)
	}
	return err
}

func (c *checking) operator(ctx context.Context) (result string, err error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	before, err := c.objects()
	if err != nil {
		return "", err
	}
	err = c.with(ctx, "int boardsmith_changed;", func(name string, err error) error {
		if err != nil {
			return err
		}
		i, err := c.p.Built()
		if err != nil {
			return err
		}
		current, err := c.objects()
		if err == nil && len(current) > 0 {
			result, err = recompiled(before, current, name)
		}
		if err == nil && i.BuildID == c.image.BuildID {
			err = fmt.Errorf("%s was changed, but the build id is the same: it must be a hash, as of -Wl,--build-id=md5", name)
		}
		return err
	})
	if err == nil && result == "" {
		err = &skipError{"the build folder has no objects"}
	}
	return result, err
}

// An objectState is what is known about an object file.
type objectState struct {
	modified time.Time
	digest   string
}

// objects returns the objects of the project's sources, by their paths, in its build folder and in kept folders, with
// those that CMake makes of several sources.
func (c *checking) objects() (map[string]objectState, error) {
	sources := map[string]bool{}
	for name := range c.state.Files {
		if workdir.IsSource(name) {
			base := path.Base(name)
			sources[base], sources[strings.TrimSuffix(base, path.Ext(base))] = true, true
		}
	}
	all := map[string]objectState{}
	err := filepath.WalkDir(c.home, func(at string, d fs.DirEntry, err error) error {
		stem := strings.TrimSuffix(d.Name(), filepath.Ext(at))
		if err != nil || !slices.Contains([]string{".o", ".obj"}, filepath.Ext(at)) ||
			!sources[stem] && !unityObject.MatchString(stem) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := buildenv.DigestOfFile(at)
		all[at] = objectState{info.ModTime(), sum}
		return err
	})
	return all, err
}

// unityObject matches CMake's names of sources that include others (its property UNITY_BUILD), and the Makefile's.
var unityObject = regexp.MustCompile(`^unity_.+_(c|c\.c|cxx\.cxx)$`)

// recompiled returns an error if the object of a changed source is the same, or if another one was compiled again to
// the same bytes: then nothing that it depends on was changed.
func recompiled(before, after map[string]objectState, source string) (string, error) {
	var compiled, needless []string
	changed := false
	for path, object := range after {
		old := before[path]
		if object.modified.Equal(old.modified) && object.digest == old.digest {
			continue
		}
		name := filepath.Base(path)
		compiled = append(compiled, name)
		if object.digest == old.digest {
			needless = append(needless, name)
		}
		changed = changed || strings.HasPrefix(name, strings.TrimSuffix(filepath.Base(source), "c"))
	}
	slices.Sort(compiled)
	slices.Sort(needless)
	switch {
	case !changed:
		return "", fmt.Errorf("%s was changed, but it was not compiled again", source)
	case len(needless) > 0:
		return "", fmt.Errorf("only %s was changed, but these were compiled again: %s", source, strings.Join(needless, ", "))
	}
	return "compiled: " + strings.Join(compiled, ", "), nil
}

// inFolder compares builds in the folder of the first one with builds from nothing.
func (c *checking) inFolder(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	source, err := c.modelSource()
	if err != nil {
		return "", err
	}
	c.builder.Fresh = true
	defer func() { c.builder.Fresh = false }()
	if err := c.withNewLines(ctx, c.lineable()); err != nil {
		return "", c.blamed(ctx, err)
	}
	more := path.Join(path.Dir(source), "boardsmith_more.c")
	renamed := path.Join(path.Dir(source), "boardsmith_renamed.c")
	const text = "const int boardsmith_more = 1;\n"
	for _, step := range []struct{ change, write, remove string }{
		{"there is a file more, " + more, more, ""},
		{more + " has another name, " + renamed, renamed, more},
		{renamed + " was removed", "", renamed},
	} {
		if step.write != "" {
			err = os.WriteFile(c.at(step.write), []byte(text), 0o644)
		}
		if step.remove != "" {
			err = errors.Join(err, os.Remove(c.at(step.remove)))
		}
		if err == nil {
			_, err = c.p.Build(ctx)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", step.change, err)
		}
	}
	return "4 changes", nil
}

// lineable lists the inputs that get a line in a check of the build's folder: those whose contents do not choose it,
// but for objects.
func (c *checking) lineable() (names []string) {
	b := builddir.Build{State: c.state}
	for name := range c.state.Files {
		if below(name, c.found.Inputs) && !b.Configures(name) && path.Ext(name) != ".o" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// withNewLines builds the project with an empty line at the end of files, and restores them.
func (c *checking) withNewLines(ctx context.Context, names []string) error {
	former := map[string][]byte{}
	defer func() {
		for name, text := range former {
			_ = os.WriteFile(c.at(name), text, 0o644) // the next check finds that it has changed
		}
	}()
	for _, name := range names {
		text, err := os.ReadFile(c.at(name))
		if err != nil {
			return err
		}
		former[name] = text
		if err := os.WriteFile(c.at(name), slices.Concat(text, []byte("\n")), 0o644); err != nil {
			return err
		}
	}
	_, err := c.p.Build(ctx)
	return err
}

// blamed returns the error for the one file that a build after changes of all files misses, else err.
func (c *checking) blamed(ctx context.Context, err error) error {
	for _, name := range c.lineable() {
		if _, failed := c.p.Build(ctx); failed != nil {
			return err // also without a change
		}
		if failed := c.withNewLines(ctx, []string{name}); failed != nil {
			return failed
		}
	}
	return err
}

func (c *checking) byHand(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	p, err := c.builder.Generate(ctx, filepath.Join(c.home, "another-folder", "by-hand"), c.Spec)
	if err != nil {
		return "", err
	}
	defer p.Close()
	t, err := workdir.Open(p.Dir())
	if err != nil {
		return "", err
	}
	defer t.Close()
	s, err := projectfile.Read(p.Dir())
	if err != nil {
		return "", err
	}
	words, err := c.newBuild(s, t).ByHand(ctx)
	if err != nil {
		return "", err
	}
	digest, err := t.Digest(s.Template.ELF)
	if err == nil && digest != c.image.Digest {
		err = c.otherFile(c.at(s.Template.ELF), filepath.Join(p.Dir(), filepath.FromSlash(s.Template.ELF)))
	}
	return strings.Join(words, " "), err
}

// otherFile returns the error for images of two folders that differ, perhaps in the build id alone.
func (c *checking) otherFile(paths ...string) error {
	digests := map[string]bool{}
	for _, path := range paths {
		digest, err := loadedDigest(path)
		if err != nil {
			return err
		}
		digests[digest] = true
	}
	if len(digests) == 1 {
		return fmt.Errorf("%s: another folder gives another build id or other debugging information: the id must be a hash "+
			"of the file, not uuid", c.found.ELF)
	}
	return fmt.Errorf("%s: another folder gives another file", c.found.ELF)
}

var errSucceeded = errors.New("it succeeded")

func (c *checking) errors(ctx context.Context) (result string, err error) {
	err = c.with(ctx, "#error of this check", func(name string, err error) error {
		var tool *buildenv.ToolError
		if !errors.As(err, &tool) {
			return fmt.Errorf("%s has an error, but the build returned no error of the compiler: %w", name,
				cmp.Or(err, errSucceeded))
		}
		source, readErr := os.ReadFile(c.at(name))
		if readErr != nil {
			return readErr
		}
		line := bytes.Count(source, []byte("\n"))
		if tool.Class != failure.Compile {
			return fmt.Errorf("%s has an error, and the class of the error is %s: %s", name, tool.Class, tool.Message)
		}
		at := fmt.Sprintf("%s:%d:", path.Base(name), line)
		if !strings.Contains(tool.Message, at) || strings.Contains(tool.Message, filepath.Join(c.home, "cache")) {
			return fmt.Errorf("the error is in %s:%d, and the build reported: %s", c.at(name), line, tool.Message)
		}
		result, _, _ = strings.Cut(tool.Message, "\n")
		result = strings.ReplaceAll(result, c.p.Dir()+string(filepath.Separator), "")
		return nil
	})
	return result, err
}

func (c *checking) runs(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	board := c.p.Board()
	if kind := board.Link.Kind; kind != "process" && kind != "qemu" || board.Flash.Emulated {
		return "", &skipError{"board " + c.Board + " is not a process or an emulator that loads the image"}
	}
	if c.Run == nil {
		return "", &skipError{"it was not requested"}
	}
	_, emulator, err := device.MissingTools(ctx, board)
	if err != nil {
		return "", err
	}
	if len(emulator) > 0 {
		c.lacking = emulator[0]
		return "", &skipError{c.lacking.Error()}
	}
	desk := c.Desk
	if desk == nil {
		desk = &device.Desk{Host: device.Host{Path: c.builder.Path}}
	}
	s, err := c.p.Run(ctx, desk, "")
	if err != nil {
		return "", err
	}
	_, m, err := c.p.Model()
	if err == nil {
		err = c.Run(ctx, s, m)
	}
	return board.Link.Kind, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

const stackOption = "stack_bytes"

// optionProbe is C that depends on an option that otherwise only a user's C depends on.
const optionProbe = "#include <tvm/runtime/crt/logging.h>\nconst int boardsmith_log_level = TVM_CRT_LOG_LEVEL;"

func (c *checking) options(ctx context.Context) (string, error) {
	if err := c.needsBuild(); err != nil {
		return "", err
	}
	usual, err := c.compiledWith(ctx, c.Spec, nil)
	if err != nil {
		return "", err
	}
	var words []string
	for _, o := range c.p.Board().Options() {
		if !slices.Contains(c.found.Options, o.Name) {
			continue
		}
		if o.Name == stackOption && len(c.p.Board().Memory) == 0 {
			words = append(words, o.Name+" (not tried: the stack is the operating system's)")
			continue
		}
		word, err := c.option(ctx, o, usual)
		if err != nil {
			return "", err
		}
		words = append(words, word)
	}
	return strings.Join(words, " "), nil
}

// option builds with other values of an option until what was compiled differs, and returns that value.
func (c *checking) option(ctx context.Context, o boards.Option, usual map[string][]string) (string, error) {
	var tried []string
	var refused error
	for _, value := range otherValues(o) {
		word := o.Name + "=" + value
		spec := c.Spec
		var err error
		if spec.Options, err = boards.ParseOptions([]string{word}); err != nil {
			continue // not between its limits
		}
		before, err := c.objects()
		if err != nil {
			return "", err
		}
		c.trying = word
		rebuilt, err := c.compiledWith(ctx, spec, before)
		if class := failure.Of(err); class == failure.Config || class == failure.DoesNotFit {
			refused = err
			continue
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", word, err)
		}
		for name, digests := range rebuilt {
			for _, digest := range digests {
				if !slices.Contains(usual[name], digest) {
					return word, nil
				}
			}
		}
		tried = append(tried, word)
	}
	if len(tried) == 0 {
		return o.Name + " (not tried)", refused
	}
	return "", fmt.Errorf("option %s is listed but has no effect: with %s, image and objects differ only by the build id",
		o.Name, strings.Join(tried, " or "))
}

// compiledWith builds a project of a specification, with optionProbe in the model. It returns digests of the loaded
// data of the image and of the objects except those before, by the files' names.
func (c *checking) compiledWith(ctx context.Context, s project.Spec, before map[string]objectState) (
	map[string][]string, error,
) {
	restore, err := c.generateWithProbe(ctx, s)
	if err != nil {
		return nil, err
	}
	i, err := c.p.Build(ctx)
	if err := errors.Join(err, restore()); err != nil {
		return nil, err
	}
	objects, err := c.objects()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(objects, func(at string, object objectState) bool { return object == before[at] })
	all := map[string][]string{}
	for _, at := range append(slices.Collect(maps.Keys(objects)), i.Path) {
		digest, err := loadedDigest(at)
		if err != nil {
			return nil, err
		}
		all[filepath.Base(at)] = append(all[filepath.Base(at)], digest)
	}
	return all, nil
}

// generateWithProbe generates the project of a specification, and appends optionProbe to a C file of the model. restore
// restores that file.
func (c *checking) generateWithProbe(ctx context.Context, s project.Spec) (restore func() error, err error) {
	if err := c.p.Generate(ctx, s); err != nil {
		return nil, err
	}
	if c.state, err = projectfile.Read(c.p.Dir()); err != nil {
		return nil, err
	}
	name, err := c.modelSource()
	if err != nil {
		return nil, err
	}
	source, err := os.ReadFile(c.at(name)) // app=standalone has a file of the archive's name with other contents
	if err != nil {
		return nil, err
	}
	err = os.WriteFile(c.at(name), slices.Concat(source, []byte("\n"+optionProbe+"\n")), 0o644)
	return func() error { return os.WriteFile(c.at(name), source, 0o644) }, err
}

// otherValues returns values of an option to try in place of its default; some may be out of its limits.
func otherValues(o boards.Option) (values []string) {
	n, err := strconv.Atoi(o.Default)
	switch {
	case o.Choices != nil:
		values = slices.Clone(o.Choices)
	case o.Type == "string":
		values = []string{"-O0", "-O3"}
	case err == nil:
		for _, other := range []int{2 * n, n / 2, n + 4, 8, 64 << 10} {
			values = append(values, strconv.Itoa(other))
		}
	}
	return slices.DeleteFunc(values, func(value string) bool { return value == o.Default || value == "0" })
}

// loadedDigest returns a digest of everything that an image or an object loads, and of its variables' sizes, without
// the build id.
func loadedDigest(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	h := sha256.New()
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Name == firmware.BuildIDSection {
			continue
		}
		fmt.Fprintf(h, "%q %d %d\n", s.Name, s.Addr, s.Size)
		if s.Type == elf.SHT_NOBITS {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
