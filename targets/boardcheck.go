// This file validates board files and templates without a board.

package targets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/templatecheck"
	"github.com/boardsmith/boardsmith/rpc"
)

// boardCheck loads the board, generates a project of the bundled sample for each of its templates, and builds them
// if its compiler is installed. It reports missing tools last, after all other checks.
func (v *invocation) boardCheck(ctx context.Context, name string) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return err
	}
	v.Printf("board %s: loads from %s", b.Name, strings.Join(b.Files, ", "))
	compiler, emulator, err := device.MissingTools(ctx, b)
	if err != nil {
		return err
	}
	r := jsonlines.BoardCheck{
		Board: b.Name, Files: b.Files, Link: b.Link.Kind, Programmer: b.Flash.Programmer,
	}
	if r.Unchecked, err = v.checkScripts(ctx, b); err != nil {
		return err
	}
	if err := checkEmulated(b); err != nil {
		return err
	}
	for _, t := range b.Templates {
		size, err := v.tryBoard(ctx, builder, b, name, t, len(compiler) == 0)
		if err != nil {
			return fmt.Errorf("board %s with template %s: %w", b.Name, t, err)
		}
		if size != nil {
			r.Text, r.Data, r.BSS = &size.Text, &size.Data, &size.BSS
		}
	}
	if err := lacking(compiler, emulator); err != nil {
		return err
	}
	v.Printf("board %s: good; link %s, programmer %s", b.Name, b.Link.Kind, b.Flash.Programmer)
	v.JSONLine(r)
	return nil
}

// checkScripts returns an error for a configuration file that OpenOCD does not find. It returns a field that was not
// checked, "" if all were: then OpenOCD is not installed.
func (v *invocation) checkScripts(ctx context.Context, b *boards.Board) (unchecked string, err error) {
	const field = "flash.scripts"
	if b.Flash.Needs() != "scripts" {
		return "", nil
	}
	path, err := findProgram(v.Env, b.Flash.Programmer)
	if failure.Of(err) == failure.ToolMissing {
		v.Printf("board %s: %s is not checked: %v", b.Name, field, err)
		return field, nil
	}
	if err != nil {
		return "", err
	}
	missing, err := device.MissingScripts(ctx, path, b)
	if err != nil {
		return "", fmt.Errorf("board %s: %w", b.Name, err)
	}
	if len(missing) > 0 {
		return "", b.Contradiction(field, fmt.Sprintf("OpenOCD does not find %s", strings.Join(missing, ", ")))
	}
	return "", nil
}

// checkEmulated returns an error for a board of an emulated chip that this program does not have.
func checkEmulated(b *boards.Board) error {
	if _, ok := virtualprobe.Models[b.Flash.Chip]; ok || !b.Flash.Emulated {
		return nil
	}
	return b.Contradiction("flash.emulated", fmt.Sprintf("%q is not an emulated chip: %s", b.Flash.Chip,
		strings.Join(slices.Sorted(maps.Keys(virtualprobe.Models)), ", ")))
}

// broken returns an error about the board's file for an assertion in the port's C, whose text begins with the name of
// a field or define; nil for any other text.
func broken(b *boards.Board, assertion string) error {
	name, text, ok := strings.Cut(assertion, ": ")
	if !ok || strings.ContainsAny(name, " ") {
		return nil
	}
	return b.Contradiction(name, text)
}

// tryBoard makes a project of the sample in a temporary folder, and builds it if build is set.
func (v *invocation) tryBoard(ctx context.Context, builder *project.Builder, b *boards.Board, board, template string,
	build bool,
) (*image.Size, error) {
	dir, err := os.MkdirTemp("", "boardsmith-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	model, err := mlf.Parse(samples.Name, samples.Archive())
	if err != nil {
		return nil, err
	}
	bar := v.Start("building the sample", 0)
	defer bar.End()
	p, err := builder.Generate(ctx, filepath.Join(dir, "project"), project.Spec{
		Board: board, Template: template, Archive: model,
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	v.Printf("board %s: template %s has all %d sources", p.Board().Name, template, len(p.Board().Sources))
	if !build {
		return nil, nil
	}
	image, err := p.Build(ctx)
	if tool := (*project.ToolError)(nil); errors.As(err, &tool) { // its command is for the temporary folder
		if err := broken(b, tool.Assertion()); err != nil {
			return nil, err
		}
		return nil, failure.New(failure.Of(err), fmt.Sprintf("to see it again: BOARD=%s TEMPLATE=%s %s", board,
			template, failure.Target("build")), "%w", err)
	}
	if other := (*project.ObjectError)(nil); errors.As(err, &other) {
		return nil, b.Contradiction(flagsField(b), other.Error())
	}
	if err != nil {
		return nil, err
	}
	v.Printf("board %s: the sample builds: text %d, data %d, bss %d bytes", p.Board().Name, image.Size.Text,
		image.Size.Data, image.Size.BSS)
	return &image.Size, nil
}

// flagsField returns the field that made an image another processor's than elf's: cflags, if the board's own file has
// them.
func flagsField(b *boards.Board) string {
	if b.Origin["cflags"].File == b.Files[len(b.Files)-1] {
		return "cflags"
	}
	return "elf"
}

// lacking returns one error for all missing tools, with the commands that install them.
func lacking(compiler, emulator []*project.MissingToolError) error {
	var what, how []string
	for _, e := range slices.Concat(compiler, emulator) {
		what = append(what, e.Error())
		if !slices.Contains(how, e.Install) && e.Install != "" {
			how = append(how, e.Install)
		}
	}
	if len(what) == 0 {
		return nil
	}
	return failure.New(failure.ToolMissing, "on Debian: "+strings.Join(how, "; "), "%s", strings.Join(what, "; "))
}

// templateCheck checks a template with projects of the bundled sample.
func (v *invocation) templateCheck(ctx context.Context, template string) error {
	if v.Env.On("DRYRUN") {
		var names []string
		for _, c := range templatecheck.List() {
			v.Printf("%-10s %s", c.Name, c.Doc)
			names = append(names, c.Name)
		}
		return v.Would("check template %s: %s", template, strings.Join(names, ", "))
	}
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	model, err := mlf.Parse(samples.Name, samples.Archive())
	if err != nil {
		return err
	}
	bar := v.Start("checking template "+template, 0)
	defer bar.End()
	trial := templatecheck.Trial{
		Spec: project.Spec{Board: v.Env("BOARD"), Template: template, Archive: model}, Run: runsSample,
	}
	checked, skipped := 0, 0
	err = templatecheck.Run(ctx, builder, trial, func(r templatecheck.Check) {
		state, detail := "ok", r.Found
		if checked++; r.Skipped != "" {
			skipped++
			state, detail = "skipped", r.Skipped
		}
		v.Printf("%-8s %-10s %s: %s", state, r.Name, r.Doc, detail)
		v.JSONLine(jsonlines.Check{Check: r.Name, Doc: r.Doc, Found: r.Found, Skipped: r.Skipped})
	})
	if err != nil {
		return fmt.Errorf("template %s: %w", filepath.Base(template), err)
	}
	v.Printf("template %s: good; %d checks, %d of them skipped", filepath.Base(template), checked, skipped)
	v.JSONLine(jsonlines.Checked{Template: template, Passed: checked - skipped, Skipped: skipped})
	return nil
}

// runsSample runs the bundled model on its input, and compares the outputs.
func runsSample(ctx context.Context, s *rpc.Session, m *mlf.Model) error {
	inputs, err := samples.Inputs()
	if err != nil {
		return err
	}
	want, err := samples.Outputs()
	if err != nil {
		return err
	}
	e, err := executor.Open(ctx, s, m)
	if err != nil {
		return err
	}
	for _, in := range inputs {
		if err := e.SetInput(ctx, in.Name, in.Array); err != nil {
			return err
		}
	}
	if err := e.Run(ctx); err != nil {
		return err
	}
	for i, w := range want {
		got, err := e.Output(ctx, i)
		if err != nil {
			return err
		}
		if !got.Equal(w.Array) {
			return failure.Errorf(failure.WrongAnswer, "%s is %v %s, %s instead of %s", w.Name, got.DType,
				ndarray.ShapeString(got.Shape), valuetext.First(got), valuetext.First(w.Array))
		}
	}
	return e.Close(ctx)
}
