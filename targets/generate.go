// This file generates projects.

package targets

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Generate makes or renews the firmware project of BOARD and MODEL in PROJECT. OPTIONS, APP, TEMPLATE, LIBRARIES, PLACE
// and FIXED_INPUT choose what is in it; FORCE=1 replaces edited files, DRYRUN=1 lists the steps: docs/command-line.md.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	FORCE=1      replaces edited files and keeps a copy
//	DRYRUN=1     prints what would be done, without doing it
func Generate(ctx context.Context) error { return doGenerate(ctx) }

var doGenerate = jobTarget("generate", "", generateProject)

// generateInputs are the variables of generate.
type generateInputs struct {
	inputs.OfBuild
	Force bool `var:"FORCE"`
}

func generateProject(ctx context.Context, j *job, _ generateInputs) error {
	in := j.in
	if j.DryRun {
		if err := j.checkGenerate(ctx); err != nil {
			return err
		}
		return j.Would("generate %s for board %s from %s", in.Project, in.Board, inputs.ArchiveName(in.Model))
	}

	if err := j.generate(ctx); err != nil {
		return err
	}

	j.noteKept()
	return nil
}

// noteKept names what the project keeps although boardsmith.json has another value.
func (j *job) noteKept() {
	in, p := j.in, j.project

	named := j.builder().Absolute(project.Spec{Template: in.Config.Template, Libraries: in.Config.Uses})

	for _, kept := range []struct {
		field, variable string
		differs         bool
	}{
		{"options", "OPTIONS", !in.Set["OPTIONS"] && in.Config.File != "" && in.Defaults != p.Options()},
		{"template", "TEMPLATE", !in.Set["TEMPLATE"] && named.Template != "" && named.Template != p.TemplateFrom()},
		{"uses", "LIBRARIES", !in.Set["LIBRARIES"] && len(named.Libraries) > 0 &&
			!slices.Equal(named.Libraries, p.Libraries())},
	} {
		if kept.differs {
			j.Notef("note: the project keeps its own value of %s, which differs from that in %s; %s sets it", kept.field,
				j.Shown(in.Config.File), kept.variable)
		}
	}
}

// checkGenerate makes the checks of generate for a dry run. Later targets of this run then expect that project.
func (j *job) checkGenerate(ctx context.Context) error {
	spec, err := j.spec(j.in.Options)
	if err != nil {
		return err
	}

	j.generates = true
	return j.builder().Check(ctx, j.in.Project, spec)
}

// generate generates the project of the inputs and prints what changed.
func (j *job) generate(ctx context.Context) error {
	in := j.in
	spec, err := j.spec(in.Options)
	if err != nil {
		return err
	}

	bar := j.Start("generate", 0)

	p := j.project
	// dropOptions returns to these if the model does not fit.
	if j.former = in.Defaults; p != nil {
		j.former = p.Options()
	}

	if p != nil { // keep the lock since it was loaded
		err = p.Generate(ctx, spec)
	} else {
		p, err = j.builder().Generate(ctx, in.Project, spec)
	}
	bar.End()
	if err != nil {
		return err
	}

	replaced := j.project != nil
	j.project, j.image, j.unfinished = p, nil, nil

	r := jsonlines.Generate{Project: j.projectLine(), Step: "generate"} // build generates too

	if n := len(p.Wrote()); n > 0 {
		j.Printf("generate: %s for board %s from %s, %d files", in.Project, p.Board().Name,
			inputs.ArchiveName(p.ArchiveName()), n)
		r.Files = n
	} else {
		j.Printf("generate: %s is up to date", in.Project)
		r.Status = jsonlines.StatusUpToDate
	}

	if edited := p.Preserved(); len(edited) > 0 {
		j.Notef("note: left as they were changed by hand: %s", strings.Join(edited, ", "))
		r.Edited = edited
	}

	if replaced && in.Set["OPTIONS"] {
		j.noteDropped()
	}

	j.JSONLine(r)
	return nil
}

// noteDropped names the options that the project has lost because OPTIONS replaces all of them.
func (j *job) noteDropped() {
	set, dropped := j.project.Options().Set(), []string(nil)

	for _, word := range j.former.Words() {
		name, _, _ := strings.Cut(word, "=")
		if !slices.Contains(set, name) {
			dropped = append(dropped, word)
		}
	}

	if len(dropped) > 0 {
		all := strings.Join(append(j.project.Options().Words(), dropped...), " ")
		j.Notef("note: the project had %s; OPTIONS replaces all options. To keep it: OPTIONS='%s'",
			strings.Join(dropped, " "), all)
	}
}

// spec returns what the project is generated from.
func (j *job) spec(o boards.Options) (project.Spec, error) {
	in := j.in
	if in.Library {
		return project.Spec{}, noFirmware()
	}

	if err := runsHere(runtime.GOOS, in); err != nil {
		return project.Spec{}, err
	}

	archive, err := j.archive()
	if err != nil {
		return project.Spec{}, err
	}

	// Of other targets, FORCE is about the device.
	replaces := slices.Contains([]string{"generate", "build", "clean"}, j.Step())
	spec := project.Spec{
		Board: in.Board, ModelName: in.ModelName, Template: in.Template, Options: o,
		Libraries: in.Libraries, Force: in.Force && replaces, Archive: archive,
	}

	spec.Samples, err = j.samples(archive)
	return spec, err
}

// dropOptions gives the project the options that it had before those of this run, with which the model does not fit: a
// later run must not have them without naming them.
func (j *job) dropOptions(ctx context.Context) error {
	former := j.former
	former.App = j.project.Options().App // which is in the project's name

	if !j.in.Set["OPTIONS"] || former == j.project.Options() {
		return nil
	}

	spec, err := j.spec(former)
	if err != nil {
		return err
	}
	return j.project.Generate(ctx, spec)
}

// samples returns the inputs that are compiled into standalone firmware: those of FIXED_INPUT, else the project's.
func (j *job) samples(a *mlf.Archive) ([]ndarray.Named, error) {
	in := j.in
	if in.FixedInput == "" {
		// Only standalone firmware has inputs compiled in.
		if j.project == nil || in.Options.App != boards.Standalone {
			return nil, nil
		}
		return j.project.Samples()
	}

	m, err := a.Model(in.ModelName)
	if err != nil {
		return nil, err
	}
	return inputs.ReadArrays("FIXED_INPUT", in.FixedInput, nil, m)
}

// runsHere returns an error for a board that is a process, except on Linux. It accepts an unknown board, for which
// Generate returns a better error.
func runsHere(system string, in *inputs.Inputs) error {
	b, err := boards.Find(in.Board, in.Path)
	if err != nil || !b.Link.IsProcess() || system == "linux" {
		return nil
	}
	return failure.New(failure.Config, "use an emulated (QEMU) or a hardware board: "+nextstep.Target("boards")+
		" lists them",
		"board %s is a process of Linux, and this is %s", b.Name, system)
}

// archive returns the archive to generate from: the requested one, else the project's, else the bundled sample.
func (j *job) archive() (*mlf.Archive, error) {
	in := j.in
	switch {
	case j.unfinished != nil && !in.Set["MODEL"]:
		return formerArchive(in.Project, j.unfinished)
	case in.Model != "" && (in.Set["MODEL"] || j.project == nil):
		return mlf.Open(in.Model)
	case in.Set["MODEL"] || j.project == nil:
		return mlf.Parse(samples.Name, samples.Archive())
	}

	a, _, err := j.project.Model()
	if err != nil {
		return nil, err
	}
	named := *a
	named.Path = j.project.ArchiveName()
	return &named, nil
}

// formerArchive returns the archive in the folder of a project that cannot be opened, which is to be generated again.
func formerArchive(dir string, unfinished *project.UnfinishedError) (*mlf.Archive, error) {
	a, err := mlf.Open(filepath.Join(dir, "model.tar"))
	// The folder's archive is that of the project only if it has the recorded digest.
	if err == nil && a.Digest != unfinished.ArchiveDigest {
		err = errors.New("it was not yet written")
	}

	if err != nil {
		return nil, failure.New(failure.Config, "name the archive: MODEL=PATH", "%w; its archive: %w", unfinished, err)
	}

	a.Path = cmp.Or(unfinished.Archive, a.Path)
	return a, nil
}
