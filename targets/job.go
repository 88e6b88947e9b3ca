// This file holds what the targets of a process share: the inputs, the project with its lock, its image, and a device.

package targets

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// A job is one use of a project: a target's inputs, and the project, image and device that they choose.
type job struct {
	*console.Console
	in        *inputs.Inputs
	variables map[string]string // of the environment, when it was opened

	project    *project.Project         // nil until opened or generated; its lock is held until close
	unfinished *project.UnfinishedError // of a folder that must be generated again; else nil
	image      *image.Image             // nil until built, or chosen by IMAGE
	chosen     bool                     // by IMAGE
	device     *device.Device           // nil until attached
	generates  bool                     // a dry run would have generated it
	former     boards.Options           // of the project before its last generation, or the defaults
	trace      *recording               // TRACE of a step that uses a device; nil: none
}

// open completes a target's variables, and opens their project if there is one. After a change of a variable it first
// closes what an earlier target has opened. app is the APP of new projects unless the user chose one; "": the default.
func (j *job) open(ctx context.Context, app string, v inputs.Variables) error {
	return j.openBy(ctx, nil, app, v)
}

// openBy is open with another configuration than boardsmith.json's, unless config is nil.
func (j *job) openBy(ctx context.Context, config *boardsmithjson.Config, app string, v inputs.Variables) error {
	c, variables := j.Console, map[string]string{}
	for _, name := range console.Variables() {
		variables[name] = c.Env(name)
	}

	// A variable may change which project, image or device is meant.
	if !maps.Equal(j.variables, variables) {
		if err := j.close(); err != nil {
			return err
		}
	}

	j.variables = variables
	var err error
	uses := func(in *inputs.Inputs, app string) ([]string, error) { return usedOptions(ctx, c, in, app) }

	j.in, err = inputs.Resolve(inputs.Source{
		Variables: v, Shelf: c.Env("BOARDSMITH_PATH"), Dir: c.Dir, New: app, Uses: uses, Load: j.load, Fetch: fetcher(ctx, c),
		Config: config,
	})
	if err != nil {
		return err
	}
	return j.CheckReplaced(&j.in.Variables)
}

// usedOptions returns the options that the inputs' template uses for an app, as inputs.Uses.
func usedOptions(ctx context.Context, c *console.Console, in *inputs.Inputs, app string) ([]string, error) {
	b, err := boards.Find(cmp.Or(in.Board, in.Config.Board, inputs.DefaultBoard), in.Path)
	if err != nil {
		return nil, nil
	}

	builder := newBuilder(c, in.Config)
	builder.Path = in.Path
	t, err := builder.FindTemplate(ctx, project.Spec{Template: cmp.Or(in.Template, in.Config.Template)}, b)
	if err != nil {
		return nil, nil
	}

	t, _, err = t.For(app)
	if err != nil {
		return nil, err
	}

	return t.Options, nil
}

// load opens the inputs' project, unless it is open, as inputs.Load.
func (j *job) load(in *inputs.Inputs, defaults *boardsmithjson.Choice) (recorded bool, err error) {
	j.in = in
	if j.project == nil || j.project.Dir() != abspath.Of(in.Project) {
		if err := j.close(); err != nil {
			return false, err
		}

		if !project.Exists(in.Project) {
			return false, nil
		}

		j.project, err = j.builder().Open(in.Project)
		// A generation that was interrupted has recorded its inputs, with which it can be done again.
		if u := (*project.UnfinishedError)(nil); errors.As(err, &u) {
			j.unfinished = u
			defaults.Board, defaults.Template, defaults.Model, defaults.ModelName = u.Board, u.Template, u.Archive, u.ModelName
			defaults.Options, defaults.Uses = u.Options.Words(), u.Libraries
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}

	p := j.project
	defaults.Board, defaults.Template = p.BoardFrom(), p.TemplateFrom()
	defaults.Model, defaults.ModelName = p.ArchiveName(), p.ModelName()
	defaults.Options, defaults.Uses = p.Options().Words(), p.Libraries()
	return true, nil
}

// close closes the device and the project, for a target that uses other ones.
func (j *job) close() error {
	p, err := j.project, j.detach()
	if j.trace != nil && j.trace.file != nil {
		err = errors.Join(err, j.trace.file.Close())
	}
	j.trace = nil

	j.project, j.unfinished, j.image, j.chosen, j.generates = nil, nil, nil, false, false

	if p != nil {
		err = errors.Join(err, p.Close())
	}

	return err
}

// attached returns the board's device, leased until detach or the end of the process.
func (j *job) attached(ctx context.Context) (d *device.Device, err error) {
	if j.device == nil {
		j.device, err = attach(ctx, j.Console, j.project.Board(), j.in.Device, j.desk())
	}
	return j.device, err
}

func (j *job) detach() error {
	d := j.device
	j.device = nil
	if d == nil {
		return nil
	}
	return d.Close()
}

// board returns the board named by BOARD, for targets that need no project. A partial board, whose link only a build
// determines, is completed from the project once that is built.
func (j *job) board() (*boards.Board, error) {
	b, err := boards.Find(j.in.Board, j.in.Path)
	if err != nil {
		return nil, err
	}

	if b.Partial && j.project != nil && j.project.Board().Name == b.Name {
		b = j.project.Board()
	}

	if d := j.in.DeskFile.Find(j.in.Device); d != nil && d.Board != b.Name {
		return nil, failure.New(failure.Config, "leave BOARD out", "%s in desk.json is a %s, not a %s", d.Name, d.Board,
			b.Name)
	}

	return b, nil
}

// matches returns an error unless the project is for the requested board and model.
func (j *job) matches() error {
	in, p := j.in, j.project
	archive := inputs.ArchiveName(p.ArchiveName())

	if in.Set["BOARD"] && in.BoardName() != p.Board().Name {
		return j.otherProject("board", p.Board().Name, in.BoardName())
	}
	if in.Set["MODEL"] && inputs.ArchiveName(in.Model) != archive {
		return j.otherProject("model", archive, inputs.ArchiveName(in.Model))
	}
	if in.Set["MODEL_NAME"] && in.ModelName != p.ModelName() {
		return j.otherProject("model", p.ModelName(), in.ModelName+" of "+archive)
	}
	return nil
}

func (j *job) otherProject(subject, recorded, requested string) error {
	in, dir := j.in, j.Shown(j.project.Dir())
	next := "choose another PROJECT, or generate it again: " + nextstep.Option("dir", dir)
	if in.Set["BOARD"] {
		next += " " + nextstep.Option("Spec.Board", in.Board)
	}
	if in.Set["MODEL"] && in.Model != "" {
		next += " " + nextstep.Option("Spec.Model", in.Model)
	}
	if in.Set["MODEL_NAME"] {
		next += " " + nextstep.Option("Spec.ModelName", in.ModelName)
	}
	return failure.New(failure.Config, next+" "+nextstep.Target("generate"), "project %s was made for %s %s, not for %s",
		dir, subject, recorded, requested)
}

// projectLine begins a JSON line about the project.
func (j *job) projectLine() jsonlines.Project {
	p := j.project
	return jsonlines.Project{
		Project: j.Shown(p.Dir()), Board: p.Board().Name, Model: inputs.ArchiveName(p.ArchiveName()),
		ModelSHA256: p.ArchiveDigest(),
	}
}

// imageLine begins a JSON line about the image that is flashed or run. The model of an image named by IMAGE is unknown.
func (j *job) imageLine(image *image.Image) jsonlines.Firmware {
	r := jsonlines.Firmware{Project: j.projectLine(), BuildID: image.ID()}
	if j.chosen {
		r.Model, r.ModelSHA256 = "", ""
	}
	return r
}

// builder returns a Builder with the boards, templates and libraries of the inputs.
func (j *job) builder() *project.Builder {
	b := newBuilder(j.Console, j.in.Config)
	b.Path, b.Forms, b.Fresh = j.in.Path, true, j.in.Fresh
	return b
}

// desk returns a Desk with the inputs.
func (j *job) desk() *device.Desk {
	host, in := newHost(j.Console), j.in
	host.Path = in.Path
	desk := &device.Desk{
		Host: host, Programmer: in.Programmer, Reflash: in.Force, Wait: in.Wait, File: in.DeskFile,
		Probes: emulated.Probes(),
		Tool:   findProgram,
	}

	if in.Trace != "" {
		// The steps of one project have one recording.
		j.trace = cmp.Or(j.trace, &recording{path: j.Abs(in.Trace)})
		desk.Trace = j.trace
	}

	return desk
}

// A recording is a file that the first traffic of a link creates: a run that fails earlier keeps the former one.
type recording struct {
	path string
	file *os.File
}

// Write implements io.Writer.
func (r *recording) Write(p []byte) (n int, err error) {
	if r.file == nil {
		if r.file, err = os.Create(r.path); err != nil {
			return 0, failure.New(failure.Config, "choose a file that can be written", "TRACE: %w", err)
		}
	}
	return r.file.Write(p)
}
