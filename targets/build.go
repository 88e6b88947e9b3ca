// This file builds projects, and finds the image to use.

package targets

import (
	"context"
	"errors"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Build compiles the firmware of MODEL for BOARD. It generates the project first if there is none. BOARD, MODEL and the
// other inputs of generate choose the project; VERBOSE=1 shows the compiler's output, DRYRUN=1 lists the steps:
// docs/command-line.md.
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
//	PARAMS       ram makes the parameters of graph models variables [flash]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	OUTPUT       with APP=library, the library's [the project's folder]
//	FORCE=1      replaces edited files and keeps a copy, with APP=library another library
//	DRYRUN=1     prints what would be done, without doing it
//	FRESH=1      build also builds from nothing, in a temporary folder, and fails if the image is another one …
func Build(ctx context.Context) error { return doBuild(ctx) }

var doBuild = jobTarget("build", "", buildFirmware)

// buildInputs are the variables of build.
type buildInputs struct {
	inputs.OfBuild
	Params string `var:"PARAMS"`
	Output string `var:"OUTPUT"`
	Force  bool   `var:"FORCE"`
	Fresh  bool   `var:"FRESH"`
}

func buildFirmware(ctx context.Context, j *job, _ buildInputs) error {
	if j.in.Library {
		return buildLibrary(ctx, j)
	}

	if j.DryRun {
		return j.would(ctx, "build the firmware of %s for board %s", j.in.Project, j.in.Board)
	}

	if err := j.ready(ctx); err != nil {
		return err
	}
	return j.build(ctx)
}

// build builds the project and prints the image's size.
func (j *job) build(ctx context.Context) error {
	bar := j.Start("build", 0)

	image, err := j.project.Build(ctx)
	bar.End()

	// Options with which the model does not fit must not stay in the project.
	if failure.Of(err) == failure.DoesNotFit {
		return errors.Join(err, j.dropOptions(ctx))
	}
	if err != nil {
		return err
	}

	j.image = image
	if len(image.Edited) > 0 {
		j.Notef("note: built with files that were changed by hand: %s", strings.Join(image.Edited, ", "))
	}

	r := jsonlines.Build{
		Project: j.projectLine(), Step: "build", Image: j.Shown(image.Path), SHA256: image.Digest, BuildID: image.ID(),
		Edited: append([]string{}, image.Edited...), Size: image.Size,
	}

	if image.UpToDate {
		j.Printf("build: %s is up to date", j.Shown(image.Path))
		r.Status = jsonlines.StatusUpToDate
	} else {
		z := image.Size
		j.Printf("build: %s, text %d, data %d, bss %d bytes", j.Shown(image.Path), z.Text, z.Data, z.BSS)
	}

	j.JSONLine(r)
	return nil
}

// ready generates the project unless it is to be used as it is.
func (j *job) ready(ctx context.Context) error {
	if renew, err := j.renews(); err != nil || !renew {
		return err
	}
	return j.generate(ctx)
}

// check makes the checks of ready, and of IMAGE, for a dry run.
func (j *job) check(ctx context.Context) error {
	if j.generates {
		return nil // an earlier target of this run checked it
	}

	renew, err := j.renews()
	if err == nil && renew {
		err = j.checkGenerate(ctx)
	}
	if name := j.in.Image; err == nil && name != "" && name != imageOnBoard {
		_, err = j.storedImage(name)
	}
	return err
}

// would prints what a step that builds would do, after the checks.
func (j *job) would(ctx context.Context, format string, args ...any) error {
	if err := j.check(ctx); err != nil {
		return err
	}
	return j.Would(format, args...)
}

// renews reports whether a build generates the project: if there is none, or if anything is requested, of which the
// files may have changed. Without requests the project is used as it is.
func (j *job) renews() (bool, error) {
	in := j.in
	if j.project == nil {
		if j.unfinished != nil && !in.Derived {
			return false, j.unfinished // generating it again replaces files
		}
		return true, nil
	}

	if err := j.matches(); err != nil {
		return false, err
	}

	if !in.Set["MODEL"] && !in.Set["MODEL_NAME"] && !in.Set["BOARD"] && !in.Set["OPTIONS"] &&
		!in.Set["LIBRARIES"] && !in.Set["TEMPLATE"] && in.FixedInput == "" {
		return false, nil
	}
	return true, nil // the user's changes stay, or are an error
}

// built returns the image to use: the one named by IMAGE, else the project's, which it builds if this run has not.
func (j *job) built(ctx context.Context) (*image.Image, error) {
	// An earlier target of this run may have chosen it, also for a target that does not read IMAGE.
	switch name := j.in.Image; {
	case name == "" && j.chosen:
		j.image, j.chosen = nil, false
	case name != "" && !j.chosen:
		if err := j.choose(ctx, name); err != nil {
			return nil, err
		}
	}

	if j.image == nil {
		if err := j.ready(ctx); err != nil {
			return nil, err
		}
		if err := j.build(ctx); err != nil {
			return nil, err
		}
	}

	return j.image, nil
}

// imageOnBoard is IMAGE's value for the image that the board holds.
const imageOnBoard = "running"

// storedImage returns an image of an earlier build: of several, that of the inputs' board.
func (j *job) storedImage(name string) (*image.Image, error) {
	board := j.in.BoardName()
	i, err := images(j.Console).FindWhich(name, func(i *image.Image) bool { return i.Board == board })
	if err != nil {
		return images(j.Console).Find(name) // which lists those of other boards
	}
	return i, nil
}

// choose finds an image of an earlier build.
func (j *job) choose(ctx context.Context, name string) error {
	// The project has the board, which the image must fit.
	if err := j.ready(ctx); err != nil {
		return err
	}

	find := func() (*image.Image, error) { return j.storedImage(name) }
	if name == imageOnBoard {
		d, err := j.attached(ctx)
		if err != nil {
			return err
		}
		find = func() (*image.Image, error) { return d.CurrentImage(ctx) }
	}

	image, err := find()
	if err != nil {
		return err
	}

	j.Notef("using %v, SHA-256 %s", image, image.Digest)
	j.image, j.chosen = image, true
	return nil
}

// planned returns the image of a dry run, or nil if there is none. It does not query the board.
func planned(j *job) (*image.Image, error) {
	if j.project == nil {
		return nil, nil
	}

	if name := j.in.Image; name != "" && name != imageOnBoard {
		return j.storedImage(name)
	}

	return j.project.Built()
}
