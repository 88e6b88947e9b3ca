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
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/imagecheck"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
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

	for _, step := range c.found.Compile {
		if !slices.ContainsFunc(step.Files, c.matchesFile) {
			return "", fmt.Errorf("compile: the project has no file %s", strings.Join(step.Files, " or "))
		}
	}

	return fmt.Sprintf("%d files", len(c.state.Files)), nil
}

// at returns the path of a file of the project.
func (c *checking) at(name string) string { return inProject(c.p, name) }

func inProject(p *project.Project, name string) string {
	return filepath.Join(p.Dir(), filepath.FromSlash(name))
}

func (c *checking) matchesFile(pattern string) bool {
	for name := range c.state.Files {
		if ok, _ := path.Match(pattern, name); ok { // check has validated the pattern
			return true
		}
	}
	return false
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
		return "", skipped(c.lacking.Error())
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
	// The next check reports wrong parts.
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

// checkResults returns an error for results that the build command has not made. A build checks the image and its map.
func (c *checking) checkResults() error {
	t := c.found
	for _, name := range append(t.BoardFile(), builddir.OtherForms(c.state)...) {
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
	return imagecheck.Program{Template: &c.state.Template.Description, Board: c.p.Board()}.CheckParts(f)
}

// needsMemory returns an error for skipping a check that is only for a board with a memory map.
func (c *checking) needsMemory() error {
	if err := c.needsBuild(); err != nil {
		return err
	}
	if len(c.p.Board().Memory) == 0 {
		return skipped("board " + c.Board + " has no memory map")
	}
	return nil
}

func (c *checking) parts(context.Context) (string, error) {
	if err := c.needsMemory(); err != nil {
		return "", err
	}
	if len(c.found.Landmarks.Parts) == 0 {
		return "", skipped("the template names no parts")
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

	// A process reads its note without a symbol.
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

	// All firmware has these.
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

		// with has added the last line.
		line := bytes.Count(source, []byte("\n"))
		if tool.Class != failure.Compile {
			return fmt.Errorf("%s has an error, and the class of the error is %s: %s", name, tool.Class, tool.Message)
		}
		at := fmt.Sprintf("%s:%d:", path.Base(name), line)

		// The project's file is to be named, not its copy in the cache.
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
	if !board.Link.OnHost() || board.Flash.Emulated {
		return "", skipped("board " + c.Board + " is not a process or an emulator that loads the image")
	}
	if c.Run == nil {
		return "", skipped("it was not requested")
	}

	_, emulator, err := device.MissingTools(ctx, board)
	if err != nil {
		return "", err
	}
	if len(emulator) > 0 {
		c.lacking = emulator[0]
		return "", skipped(c.lacking.Error())
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

	// After a cancel, too, the session ends the process or the emulator.
	return board.Link.Kind, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

const stackOption = "stack_bytes"

// optionProbe is C that depends on an option that otherwise only a user's C depends on.
const optionProbe = "#include <tvm/runtime/crt/logging.h>\nconst int boardsmith_log_level = TVM_CRT_LOG_LEVEL;"

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

		// Of variables without contents, only the size counts.
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
