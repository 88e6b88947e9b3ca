// This file validates a board file without the board.

package targets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/samples"
)

// boardCheck loads the board, generates a project of the bundled sample for each of its templates, and builds them
// if its compiler is installed. It reports missing tools last, after all other checks.
func (v *invocation) boardCheck(ctx context.Context, name string) error {
	search, err := v.search()
	if err != nil {
		return err
	}
	b, err := boards.Find(name, search)
	if err != nil {
		return err
	}
	v.Printf("board %s: loads from %s", b.Name, strings.Join(b.Files, ", "))
	compiler, emulator, err := device.MissingTools(ctx, b)
	if err != nil {
		return err
	}
	r := fields{"status": "done", "board": b.Name, "files": b.Files, "link": b.Link.Kind, "programmer": b.Flash.Programmer}
	for _, t := range b.Templates {
		size, err := v.tryBoard(ctx, name, t, search, len(compiler) == 0)
		if err != nil {
			return fmt.Errorf("board %s with template %s: %w", b.Name, t, err)
		}
		if size != nil {
			r["text"], r["data"], r["bss"] = size.Text, size.Data, size.BSS
		}
	}
	if err := lacking(compiler, emulator); err != nil {
		return err
	}
	v.Printf("board %s: good; link %s, programmer %s", b.Name, b.Link.Kind, b.Flash.Programmer)
	v.JSONLine(r)
	return nil
}

// tryBoard makes a project of the sample in a temporary folder, and builds it if build is set.
func (v *invocation) tryBoard(ctx context.Context, board, template string, search []string, build bool) (*image.Size,
	error,
) {
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
	builder := &project.Builder{Path: search, Log: v.log, Progress: v.progressed}
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
		return nil, failure.New(failure.Of(err), fmt.Sprintf("to see it again: BOARD=%s TEMPLATE=%s %s", board,
			template, failure.Target("build")), "%w", err)
	}
	if err != nil {
		return nil, err
	}
	v.Printf("board %s: the sample builds: text %d, data %d, bss %d bytes", p.Board().Name, image.Size.Text,
		image.Size.Data, image.Size.BSS)
	return &image.Size, nil
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
