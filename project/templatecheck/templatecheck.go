// Package templatecheck checks, without hardware, that a template agrees with its template.json.
package templatecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Check is one of the checks of a template, and its result unless it failed.
type Check struct {
	Name    string
	Doc     string // what is checked
	Result  string // what was found, in a few words
	Skipped string // why the check was not made; "" if it was
	Failed  error  // what is wrong, with the next step; nil if nothing is
}

// A Trial is how a template is checked.
type Trial struct {
	// Board, Template and the archive are as for Generate, except that without Board an emulated one is chosen. Options
	// must be zero.
	project.Spec
	Desk *device.Desk // for boards that are not hardware; nil means the zero value
	// Run runs the model in a session and returns an error if its outputs are wrong; nil: it is not run
	Run func(context.Context, *rpc.Session, *mlf.Model) error
}

// List lists the checks in their order.
func List() (list []Check) {
	for _, c := range templateChecks {
		list = append(list, Check{Name: c.name, Doc: c.doc})
	}
	return list
}

// Run checks, without hardware, that a template agrees with its template.json, in projects in a temporary
// folder, with a cache of its own. It calls done after each check, and goes on after one that fails unless all others
// need it; at the end it returns the first error. If something is not installed that building or emulating needs, it
// skips the checks that need it and returns the reason at the end.
// Errors: *failure.MissingToolError, those of boards and mlf, and what the check found.
func Run(ctx context.Context, b *project.Builder, trial Trial, done func(Check)) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "template %s", trial.Template)
	}

	home, err := scratch.Make("boardsmith-template-")
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	defer home.Remove()
	trial.Spec = b.Absolute(trial.Spec)

	// With an empty cache, nothing that was compiled before hides a fault.
	host := device.Host{
		Path: b.Path, Log: b.Log, Progress: b.Progress, Cache: cache.New(filepath.Join(home.Dir, "cache"), cache.Options{}),
	}

	builder := func(fresh bool) *project.Builder {
		return &project.Builder{
			Host: host, Templates: b.Templates, Libraries: b.Libraries, LockFile: b.LockFile, Jobs: b.Jobs,
			Variables: b.Variables, Programs: b.Programs, Forms: true, Fresh: fresh,
		}
	}

	c := &checking{Trial: trial, home: home.Dir, builder: builder(false), fresh: builder(true)}
	err = c.all(ctx, done)

	if c.p != nil {
		err = errors.Join(err, c.p.Close())
	}
	return err
}

// A checking is one run of the checks.
type checking struct {
	Trial
	home    string // a temporary folder
	builder *project.Builder
	fresh   *project.Builder // builds once more from nothing, and compares
	found   *templatefile.Template
	p       *project.Project
	state   *projectfile.State // of p, as generated
	image   *image.Image       // of the first build
	lacking error              // what is not installed
	trying  string             // the option that is being tried, as NAME=VALUE
}

type check struct {
	name, doc string

	run  func(*checking, context.Context) (found string, err error)
	next string // what to do if it fails
}

const fieldsAdvice = "correct template.json: docs/templates.md describes its fields"

var templateChecks = []check{
	{
		"fields", "template.json is read, and its fields agree with each other",
		(*checking).fields,
		fieldsAdvice,
	},
	{
		"board", "a board builds with the template",
		(*checking).board,
		"name the template in the field templates " +
			"of a board file, or choose a board: " + nextstep.Option("Spec.Board", "NAME"),
	},
	{
		"files", "a project is generated, with sources for the compile commands",
		(*checking).files, fieldsAdvice,
	},
	{"tools", "programs, variables and source trees are there", (*checking).tools, ""},
	{
		"build", "the build command makes the image, its map and other forms, and the board's file",
		(*checking).build,
		"correct what the command makes, or the fields elf, map, forms and board",
	},
	{
		"checksum", "landmarks.parts contain every byte that is loaded",
		(*checking).parts,
		"correct landmarks.parts, or the linker script",
	},
	{"landmarks", "the image has the other landmarks", (*checking).landmarks, "correct landmarks"},
	{
		"build id", "the image has the linker's build id",
		(*checking).buildID,
		"define boardsmith_build_id in the output section of the build id, as docs/templates.md shows",
	},
	{
		"sizes", "the image's sizes by part are known",
		(*checking).sizes,
		"correct areas, linked_in and landmarks.folders",
	},
	{"no change", "a second build does nothing", (*checking).again, "the build must not change inputs"},
	{
		"by hand", "the command alone, in another folder, makes the same bytes",
		(*checking).byHand,
		"keep the folder's path out of the image (-ffile-prefix-map), and list in inputs all files that the build reads",
	},
	{
		"operator", "a changed operator changes the build id, and compiles nothing else",
		(*checking).operator,
		"correct the dependencies of the build command",
	},
	{
		"folder", "after changes of all files, with one of the model more, renamed and removed, a build is as from nothing",
		(*checking).inFolder,
		"name the file in configure_reads, or let the build command depend on it",
	},
	{
		"errors", "an error of the compiler is reported with the project's file and line",
		(*checking).errors,
		"the build command must print the compiler's messages and then fail",
	},
	{"run", "the firmware answers, and the model's outputs are right", (*checking).runs, ""},
	{
		"options", "each option changes the image",
		(*checking).options,
		"use the option, or remove it from the field options",
	},
}

// A skipped check has this error: the reason.
type skipped string

func (s skipped) Error() string { return string(s) }

func (c *checking) all(ctx context.Context, done func(Check)) (first error) {
	for _, check := range templateChecks {
		result := Check{Name: check.name, Doc: check.doc}
		detail, err := check.run(c, ctx)
		reason, isSkipped := errors.AsType[skipped](err)

		switch {
		case ctx.Err() != nil:
			return failure.Stopped(ctx, "template %s: check %s", c.Template, check.name)
		case isSkipped:
			result.Skipped = string(reason)
		case err != nil:
			class := failure.Of(err)
			if class == failure.Internal { // template.json is wrong
				class = failure.Config
			}
			result.Failed = failure.New(class, c.advice(check, err), "check %s: %w", check.name, err)
			first = cmp.Or(first, result.Failed)
		default:
			result.Result = detail
		}

		done(result)
		if result.Failed != nil && c.image == nil {
			return first // all further checks need the image
		}
		c.trying = ""
	}
	return cmp.Or(first, c.lacking)
}

// advice returns the next step after a failed check: the error's own, else the check's. The command of a tool's error
// is for the temporary folder.
func (c *checking) advice(of check, err error) string {
	var tool *buildenv.ToolError
	if errors.As(err, &tool) && !strings.Contains(tool.NextStep(), templatefile.TemplateFile) {
		words := []string{nextstep.Option("Spec.Board", c.Board), nextstep.Option("Spec.Template", c.Template)}
		if c.trying != "" {
			words = append(words, nextstep.Option("Spec.Options", c.trying))
		}
		return "to see it again: " + strings.Join(append(words, nextstep.Target("build")), " ")
	}

	if failure.Next(err) != "" {
		return ""
	}
	return of.next
}

// needsBuild returns an error for skipping a check of an image if none can be built.
func (c *checking) needsBuild() error {
	if c.lacking != nil {
		return skipped("nothing can be built here")
	}
	return nil
}

// chooseBoard returns the name of a board for the template: a process rather than an emulator, rather than one whose
// link only the build finds; no hardware.
func (c *checking) chooseBoard() (string, error) {
	var wrong error
	undetermined := func(l boards.Link) bool { return l.Kind == "" }

	for _, fits := range []func(boards.Link) bool{boards.Link.IsProcess, boards.Link.IsEmulator, undetermined} {
		for _, name := range boards.List(c.builder.Path) {
			b, err := boards.Find(name, c.builder.Path)
			if err == nil && fits(b.Link) && slices.Contains(b.Templates, c.found.Name) {
				return name, nil
			}

			// A board that cannot be read may be one for the template.
			wrong = cmp.Or(wrong, err)
		}
	}

	if wrong != nil {
		return "", fmt.Errorf("no emulated board names template %s, and one cannot be read: %w", c.found.Name, wrong)
	}
	return "", fmt.Errorf("no emulated board names template %s", c.found.Name)
}

// newBuild returns a build of a project, to ask it.
func (c *checking) newBuild(s *projectfile.State, t *workdir.Tree) *builddir.Build {
	return &builddir.Build{
		State: s, Tree: t, Log: hclog.NewNullLogger(), Jobs: cmp.Or(c.builder.Jobs, runtime.NumCPU()),
		Env: buildenv.Env{
			Template: &s.Template.Description, Board: s.Board.Name, Dir: t.Dir, Variables: c.builder.Variables,
			Programs: c.builder.Programs, Tools: &buildenv.Tools{},
		},
	}
}
