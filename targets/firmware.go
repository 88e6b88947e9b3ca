// This file makes a firmware: generate, build, flash, size, clean.

package targets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/samples"
)

func (s *invocation) generate(ctx context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	if s.Env.On("DRYRUN") {
		return s.Would("generate %s for board %s from %s", in.project, in.board.value, archiveName(in.model.value))
	}
	if err := s.makeProject(ctx, in); err != nil {
		return err
	}
	if !in.optioned && in.usual != s.project.Options() && in.config.file != "" {
		s.Notef("note: the project keeps its own options, which differ from those in %s; OPTIONS sets them", shown(s.Dir, in.config.file))
	}
	return nil
}

// makeProject generates the project that the inputs describe and tells what that changed.
func (s *invocation) makeProject(ctx context.Context, in *inputs) error {
	spec := project.Spec{
		Board: in.board.value, ModelName: in.modelName.value, Template: in.template.value, Options: in.options,
		Force: s.forced(),
	}
	if err := runsHere(runtime.GOOS, in); err != nil {
		return err
	}
	archive, err := s.archive(in)
	if err != nil {
		return err
	}
	spec.Archive = archive
	bar := s.Start("generate", 0)
	builder, p := s.builder(in), s.project
	if p != nil { // held since it was loaded: nobody may come between
		err = p.Generate(ctx, spec)
	} else {
		p, err = builder.Generate(ctx, in.project, spec)
	}
	bar.End()
	if err != nil {
		return err
	}
	s.project, s.image, s.unfinished = p, nil, nil
	r := s.projectFields()
	if n := len(p.Wrote()); n > 0 {
		s.Printf("generate: %s for board %s from %s, %d files", in.project, p.Board().Name, archiveName(p.ArchiveName()), n)
		r["files"] = n
	} else {
		s.Printf("generate: %s is up to date", in.project)
		r["status"] = "up-to-date"
	}
	r["step"] = "generate" // build generates too
	s.JSONLine(r)
	return nil
}

// runsHere refuses a board that is a process where such a firmware cannot be built and run. An unknown board is left to
// Generate, which says more.
func runsHere(system string, in *inputs) error {
	b, err := boards.Find(in.board.value, in.path)
	if err != nil || b.Link.Kind != "process" || system == "linux" {
		return nil
	}
	return failure.New(failure.Config, "use an emulated (QEMU) or a hardware board: go tool mage boards lists them",
		"board %s is a process of Linux, and this is %s", b.Name, system)
}

// projectFields begins a JSON line about the project.
func (s *invocation) projectFields() fields {
	p := s.project
	return fields{
		"status": "done", "project": shown(s.Dir, p.Dir()), "board": p.Board().Name, "model": archiveName(p.ArchiveName()),
		"model_sha256": p.ArchiveDigest(),
	}
}

// imageFields begins a JSON line about the image that is flashed or run. Of one that IMAGE names it is not known which model
// it was built from.
func (s *invocation) imageFields(image *image.Image) fields {
	r := s.projectFields()
	if s.picked {
		delete(r, "model")
		delete(r, "model_sha256")
	}
	r["build_id"] = image.ID()
	return r
}

// archive is the one to generate from: what was asked for, else the project's own, else the bundled sample.
func (s *invocation) archive(in *inputs) (*mlf.Archive, error) {
	switch {
	case in.model.value != "" && (in.model.asked || s.project == nil):
		return mlf.Open(in.model.value)
	case in.model.asked || s.project == nil:
		return mlf.Parse(samples.Name, samples.Archive())
	}
	a, _, err := s.project.Model()
	if err != nil {
		return nil, err
	}
	return mlf.Parse(s.project.ArchiveName(), a.Raw)
}

// ready makes the project what was asked for: it generates one where there is none, and renews what depends on a
// changed archive, option or board file. A project that nobody asked anything of is used as it is.
func (s *invocation) ready(ctx context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	if s.project == nil {
		if s.unfinished != nil && !in.derived {
			return s.unfinished // what it was to be, only the user knows
		}
		return s.makeProject(ctx, in)
	}
	if err := s.matches(in); err != nil {
		return err
	}
	if !in.model.asked && !in.modelName.asked && !in.board.asked && !in.optioned && !in.template.asked {
		return nil
	}
	current, err := s.isCurrent(in)
	if err != nil {
		return err
	}
	edited, err := s.project.Edited()
	if err != nil {
		return err
	}
	if current && len(edited) > 0 && !s.forced() {
		return nil // generating would want to replace a person's work
	}
	return s.makeProject(ctx, in)
}

func (s *invocation) build(ctx context.Context) error {
	if s.Env.On("DRYRUN") {
		in, err := s.inputs()
		if err != nil {
			return err
		}
		return s.Would("build the firmware of %s for board %s", in.project, in.board.value)
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	return s.makeImage(ctx)
}

// makeImage builds the project that is ready and tells what that took.
func (s *invocation) makeImage(ctx context.Context) error {
	bar := s.Start("build", 0)
	image, err := s.project.Build(ctx)
	bar.End()
	if err != nil {
		return err
	}
	s.image = image
	if len(image.Edited) > 0 {
		s.Notef("note: built with files that were changed by hand: %s", strings.Join(image.Edited, ", "))
	}
	r := s.projectFields()
	r["step"], r["image"], r["sha256"], r["build_id"], r["edited"] = "build", shown(s.Dir, image.Path), image.Digest, image.ID(), append([]string{}, image.Edited...)
	r["text"], r["data"], r["bss"] = image.Size.Text, image.Size.Data, image.Size.BSS
	if image.UpToDate {
		s.Printf("build: %s is up to date", shown(s.Dir, image.Path))
		r["status"] = "up-to-date"
	} else {
		z := image.Size
		s.Printf("build: %s, text %d, data %d, bss %d bytes", shown(s.Dir, image.Path), z.Text, z.Data, z.BSS)
	}
	s.JSONLine(r)
	return nil
}

func (s *invocation) clean(ctx context.Context) error {
	in, err := s.inputs()
	if err != nil {
		return err
	}
	if s.project != nil {
		if err := s.matches(in); err != nil {
			return err
		}
	}
	if _, err := os.Stat(in.project); errors.Is(err, fs.ErrNotExist) {
		s.Printf("clean: there is no %s", in.project)
		s.JSONLine(fields{"status": "up-to-date", "project": in.project})
		return nil
	}
	if s.Env.On("DRYRUN") {
		return s.Would("remove %s", in.project)
	}
	if err := s.forget(); err != nil { // Clean takes the lock itself
		return err
	}
	if err := s.builder(in).Clean(ctx, in.project, s.Env.On("FORCE")); err != nil {
		var edited *project.EditedError
		if errors.As(err, &edited) {
			return failure.New(failure.Config, "FORCE=1 removes them too", "%w", err)
		}
		return err
	}
	s.Printf("clean: removed %s", in.project)
	s.JSONLine(fields{"status": "done", "project": in.project})
	return nil
}
