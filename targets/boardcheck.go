// This file validates board files without hardware.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Check checks the file of a board, by name or path, without hardware. It loads, its parts exist, and the sample builds
// for it.
func (Board) Check(ctx context.Context, nameOrFile string) error {
	return doBoardCheck(ctx, nameOrFile)
}

var doBoardCheck = namedTarget("board:check", checkBoard)

// checkBoard loads the board, generates a project of the bundled sample for each of its templates, and builds them
// if its compiler is installed. It reports missing tools last, after all other checks.
func checkBoard(ctx context.Context, c *console.Console, _ struct{}, name string) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return err
	}

	check := boardCheck{c, builder, b, name}
	c.Printf("board %s: loads from %s", b.Name, strings.Join(b.Files, ", "))

	compiler, emulator, err := device.MissingTools(ctx, b)
	if err != nil {
		return err
	}

	r := jsonlines.BoardCheck{Board: b.Name, Files: b.Files}
	if err := check.emulated(); err != nil {
		return err
	}

	if r.Unchecked, err = check.programmers(ctx); err != nil {
		return err
	}

	for _, t := range b.Templates {
		built, size, err := check.build(ctx, t, len(compiler) == 0)
		if err != nil {
			return fmt.Errorf("board %s with template %s: %w", b.Name, t, err)
		}
		r.Link, r.Programmer, r.Size = built.Link.Kind, built.Flash.Programmer, size
	}

	if err := lacking(compiler, emulator); err != nil {
		return err
	}

	c.Printf("board %s: good; link %s, programmer %s", b.Name, cmp.Or(r.Link, "unknown before a build"), r.Programmer)
	c.JSONLine(r)
	return nil
}

// A boardCheck is a check of one board.
type boardCheck struct {
	*console.Console
	builder *project.Builder
	board   *boards.Board
	name    string // as the user typed it: a name or a file
}

// programmers compares the board with what OpenOCD and pyOCD have for its chip. It returns a field that was not
// checked, "" if all were: then the program is not installed.
func (c boardCheck) programmers(ctx context.Context) (unchecked string, err error) {
	desk := &device.Desk{Tool: findProgram}
	for _, p := range []struct {
		field string
		given bool
		check func(context.Context, *device.Desk) error
	}{
		{"flash.scripts", c.board.Flash.Needs() == "scripts", c.openocd},
		{"flash.chip", c.board.Flash.Chip != "" && len(c.board.Memory) > 0, c.pyocd},
	} {
		if !p.given {
			continue
		}

		err := p.check(ctx, desk)
		switch {
		case failure.Of(err) == failure.ToolMissing:
			c.Printf("board %s: %s is not checked: %v", c.board.Name, p.field, err)
			unchecked = p.field
		case err != nil:
			return "", err
		}
	}

	return unchecked, nil
}

// openocd returns an error for a configuration file that OpenOCD does not find, and for files of another chip: a
// shipped board with the same chip has flash banks or targets that this one lacks.
func (c boardCheck) openocd(ctx context.Context, desk *device.Desk) error {
	b := c.board
	const field = "flash.scripts"
	chip, missing, err := desk.ChipOf(ctx, b)
	switch {
	case failure.Of(err) == failure.ToolMissing || ctx.Err() != nil:
		return err
	case err != nil:
		return b.Contradiction(field, fmt.Sprintf("OpenOCD cannot read them: %v", err))
	case len(missing) > 0:
		return b.Contradiction(field, fmt.Sprintf("OpenOCD does not find %s", strings.Join(missing, ", ")))
	}

	hasName := slices.ContainsFunc(chip, func(part string) bool { return strings.HasPrefix(part, "target ") })
	for _, name := range boards.List(nil) {
		like, err := boards.Find(name, nil)
		// Boards of one chip inherit from the same file.
		if err != nil || b.Inherits == "" || like.Inherits != b.Inherits || like.Flash.Needs() != "scripts" {
			continue
		}

		there, _, err := desk.ChipOf(ctx, like)
		if err != nil {
			return err
		}
		for _, part := range there {
			if !slices.Contains(chip, part) && (hasName || !strings.HasPrefix(part, "target ")) {
				return b.Contradiction(field, fmt.Sprintf("OpenOCD has %s, without the %s of board %s, which has the "+
					"same chip", strings.Join(chip, ", "), part, like.Name))
			}
		}
	}
	return nil
}

// pyocd returns an error for a chip that pyOCD does not have, for flash that it cannot write, and for RAM of the user's
// where it has none. Its maps lack some RAM of shipped chips: that is noted.
func (c boardCheck) pyocd(ctx context.Context, desk *device.Desk) error {
	b := c.board
	memory, err := desk.MemoryMap(ctx, b)
	if failure.Of(err) == failure.Config {
		return b.Contradiction("flash.chip", fmt.Sprintf("pyOCD does not have %q: pyocd list --targets lists "+
			"its chips, pyocd pack install adds more", b.Flash.Chip))
	}
	if err != nil {
		return err
	}
	for i, r := range b.Memory {
		err := r.Compare(memory)
		writer := b.Flash
		if r.Name != b.Place.Code {
			writer.Programmer = r.Programmer
		}
		isWritten := r.Nonvolatile && writer.Needs() == "chip"
		isNowhere := !slices.ContainsFunc(memory, func(q boards.Region) bool { return r.Origin-q.Origin < q.Size })
		switch text := fmt.Sprintf("region %q is not in pyOCD's memory map of %s: %v", r.Name, b.Flash.Chip, err); {
		case err == nil || r.Reserved:
		case isWritten || !r.Nonvolatile && isNowhere && b.HasOwnMemory():
			return b.Contradiction(fmt.Sprintf("memory[%d]", i), text)
		case !r.Nonvolatile:
			c.Notef("note: board %s: %s", b.Name, text)
		}
	}

	return nil
}

// emulated returns an error for a board of an emulated chip that this program does not have.
func (c boardCheck) emulated() error {
	b := c.board
	if slices.Contains(chipkeeper.Chips, b.Flash.Chip) || !b.Flash.Emulated {
		return nil
	}
	return b.Contradiction("flash.emulated", fmt.Sprintf("%q is not an emulated chip: %s", b.Flash.Chip,
		strings.Join(chipkeeper.Chips, ", ")))
}

// macroName matches the name of a define.
var macroName = regexp.MustCompile(`\b[A-Z][A-Z0-9_]+\b`)

// assertion returns an error about the board's file for an assertion in the port's C, whose text begins with the name
// of a field or define; nil for any other text.
func (c boardCheck) assertion(text string) error {
	name, reason, ok := strings.Cut(text, ": ")
	if !ok || strings.ContainsAny(name, " ") {
		return nil
	}

	// Of the defines that the text names, the one to correct is that of the file nearest to the board: a port may derive
	// the first one from others, and a chip's file may be right.
	b := c.board
	nearest := slices.Index(b.Files, b.Origin["defines."+name].File)
	for _, word := range macroName.FindAllString(reason, -1) {
		if at := slices.Index(b.Files, b.Origin["defines."+word].File); macroName.MatchString(name) && at > nearest {
			name, reason, nearest = word, text, at
		}
	}
	return b.Contradiction(name, reason)
}

// build makes a project of the sample in a temporary folder, and compiles it if the compiler is installed. It returns
// the project's board, as the build completed it.
func (c boardCheck) build(ctx context.Context, template string, installed bool) (*boards.Board, *image.Size, error) {
	folder, err := scratch.Make("boardsmith-check-")
	if err != nil {
		return nil, nil, err
	}
	defer folder.Remove()

	model, err := mlf.Parse(samples.Name, samples.Archive())
	if err != nil {
		return nil, nil, err
	}

	bar := c.Start("building the sample", 0)
	defer bar.End()
	p, err := c.builder.Generate(ctx, filepath.Join(folder.Dir, "project"), project.Spec{
		Board: c.name, Template: template, Archive: model,
	})
	if err != nil {
		return nil, nil, err
	}

	defer p.Close()
	c.Printf("board %s: template %s makes a project of the sample", p.Board().Name, template)
	if !installed {
		return p.Board(), nil, nil
	}

	image, err := p.Build(ctx)
	if tool := (*project.ToolError)(nil); errors.As(err, &tool) { // its command is for the temporary folder
		if err := c.assertion(tool.Assertion()); err != nil {
			return nil, nil, err
		}
		return nil, nil, failure.New(failure.Of(err), fmt.Sprintf("to see it again: BOARD=%s TEMPLATE=%s %s",
			command.Quote(c.name), command.Quote(template), nextstep.Target("build")), "%w", err)
	}

	if err == nil {
		err = c.core(ctx, image.Path)
	}
	if errors.Is(err, fit.ErrTarget) {
		field := "elf"
		if b := c.board; b.Origin["cflags"].File == b.Files[len(b.Files)-1] { // its own file has the flags
			field = "cflags"
		}
		return nil, nil, c.board.Contradiction(field, err.Error())
	}
	if err != nil {
		return nil, nil, err
	}

	c.Printf("board %s: the sample builds: text %d, data %d, bss %d bytes", p.Board().Name, image.Size.Text,
		image.Size.Data, image.Size.BSS)
	return p.Board(), &image.Size, c.noteUnread(ctx, p)
}

// core returns fit.ErrTarget for firmware that needs more than the core of the board's CPU file has. That core is what
// the compiler makes objects for if it gets the flags of that file alone.
func (c boardCheck) core(ctx context.Context, firmware string) error {
	b := c.board
	var flags []string
	for i, flag := range b.CFlags {
		if b.Origin[fmt.Sprintf("cflags[%d]", i)].File == b.Files[0] {
			flags = append(flags, flag)
		}
	}

	// If all flags or none are of that file, there is nothing to compare.
	if len(flags) == 0 || len(flags) == len(b.CFlags) {
		return nil
	}

	cc, err := findProgram(b.Toolchain.CC)
	if err != nil {
		return err
	}
	empty, err := command.CompileEmpty(ctx, cc, flags)
	if err != nil {
		return err
	}
	linked, err := os.ReadFile(firmware)
	if err != nil {
		return err
	}
	if err := fit.CheckCore(b.Name, empty, mlf.File{Name: filepath.Base(firmware), Data: linked}); err != nil {
		return err
	}

	// No attribute of an object tells two cores of one instruction set apart.
	if own, last := coreName(flags), coreName(b.CFlags); last != own {
		return fmt.Errorf("-mcpu is %s, but the CPU's file is for %s%.0w", last, own, fit.ErrTarget)
	}
	return nil
}

// coreName returns the core that flags of a compiler name last, without its extensions; "" if they name none.
func coreName(flags []string) (name string) {
	for _, flag := range flags {
		if text, ok := strings.CutPrefix(flag, "-mcpu="); ok {
			name, _, _ = strings.Cut(text, "+")
		}
	}
	return name
}

// noteUnread notes the board's defines of which no file of the project has the name, and which no source of the board
// reads, be it by headers outside of the project or by a name that macros compose. It notes none if that is unknown.
func (c boardCheck) noteUnread(ctx context.Context, p *project.Project) error {
	unread := maps.Clone(c.board.Defines)
	remove := func(text []byte, before string) {
		maps.DeleteFunc(unread, func(name, _ string) bool {
			return regexp.MustCompile(before + `\b` + name + `\b`).Match(text)
		})
	}

	err := filepath.WalkDir(p.Dir(), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || len(unread) == 0:
			return err
		case d.IsDir() && d.Name() == "build":
			return fs.SkipDir
		// These files have all defines, whether anything reads them or not.
		case !d.Type().IsRegular() || slices.Contains([]string{"crt_config.h", "project.json", "board.json"}, d.Name()):
			return nil
		}

		text, err := os.ReadFile(file)
		remove(text, "")
		return err
	})

	// A header outside of the project, or a name that macros compose, shows only in what the preprocessor has read.
	for _, s := range c.board.Sources {
		if err != nil || len(unread) == 0 {
			return err
		}
		if extension := filepath.Ext(s.Name); extension == ".c" || extension == ".S" {
			text, err := p.Preprocess(ctx, s.Name, "", "-dU")
			if err != nil {
				return nil // the template does not state how it is compiled
			}
			remove([]byte(text), `(?m)^#(define|undef) `)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(unread)) {
		c.Notef("note: %v", c.board.Contradiction(name, "no source reads it"))
	}
	return err
}

// lacking returns one error for all missing tools, with the commands that install them.
func lacking(compiler, emulator []*failure.MissingToolError) error {
	var problems, installs []string

	for _, e := range slices.Concat(compiler, emulator) {
		problems = append(problems, e.Error())
		if !slices.Contains(installs, e.Install) && e.Install != "" {
			installs = append(installs, e.Install)
		}
	}

	if len(problems) == 0 {
		return nil
	}
	return failure.New(failure.ToolMissing, "on Debian: "+strings.Join(installs, "; "), "%s", strings.Join(problems, "; "))
}
