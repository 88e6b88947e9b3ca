// This file checks the installed tools and this user's access to boards.

package targets

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// Doctor lists the tools that are here and what is missing, and changes nothing. Compilers and emulators are those for
// the boards of BOARD, boardsmith.json and desk.json, or of all boards if these name none.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
func Doctor(ctx context.Context) error { return doDoctor(ctx) }

var doDoctor = target("doctor", doctor)

// doctorInputs are the variables of doctor.
type doctorInputs struct {
	Board []string `var:"BOARD"`
}

func doctor(ctx context.Context, c *console.Console, v doctorInputs) error {
	p := c.Start("looking for tools", len(toolbox.Tools()))
	all, err := toolbox.Look(ctx, p.Add)
	p.End()
	if err != nil {
		return err
	}

	c.Printf("go       %s %s/%s, working folder %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, c.Dir)

	wanted, err := programsOf(ctx, c, v.Board)
	if err != nil {
		return err
	}

	// A compiler or an emulator that no board of the user needs is not missing.
	all = slices.DeleteFunc(all, func(f toolbox.Finding) bool {
		program := f.Command[0]
		isOfBoards := program == "cc" || strings.HasSuffix(program, "-gcc") || strings.HasPrefix(program, "qemu-system-")
		return wanted != nil && isOfBoards && !wanted[program]
	})

	var lacking []string
	for _, f := range all {
		f.Needed = f.Needed || wanted[f.Command[0]]
		toolbox.Print(c, f)
		if !f.Installed && f.Needed {
			lacking = append(lacking, f.Name)
		}
	}

	if err := printNeeds(ctx, c); err != nil {
		return err
	}

	for _, f := range toolbox.Access() {
		toolbox.Print(c, f)
	}
	if runtime.GOOS != "linux" {
		c.Printf("The host board needs Linux; on this system use a hardware or a QEMU board.")
	}

	if len(lacking) > 0 {
		return failure.New(failure.ToolMissing, toolbox.HowToInstall(all), "missing: %s", strings.Join(lacking, ", "))
	}

	c.JSONLine(jsonlines.Done{})
	return nil
}

// boardPrograms are the compilers and emulators of boards; nil: of all boards.
type boardPrograms map[string]bool

// programsOf returns the programs of the boards that this user works with, and prints their names.
func programsOf(ctx context.Context, c *console.Console, names []string) (boardPrograms, error) {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return nil, err
	}
	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return nil, err
	}
	desk, err := device.ReadDeskFile(inputs.DeskFilePath(c.Dir))
	if err != nil {
		return nil, err
	}

	names = append(names, config.Board)
	for _, t := range config.Targets {
		names = append(names, t.Board)
	}
	for _, d := range desk.Devices {
		names = append(names, d.Board)
	}

	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
	if len(names) == 0 {
		return nil, nil
	}

	c.Printf("boards   %s", strings.Join(names, ", "))
	p := boardPrograms{}
	for _, name := range names {
		b, err := boards.Find(name, builder.Path)
		if err != nil {
			return nil, err
		}
		p[b.Toolchain.CC], p[b.Link.Program] = true, true
	}

	return p, nil
}

// longReason is the length of a reason that is printed once.
const longReason = 60

// printNeeds prints what templates need besides the tools that doctor looks for anyway.
func printNeeds(ctx context.Context, c *console.Console) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}
	needs, err := builder.Needs(ctx, c.Dir)
	if err != nil {
		return err
	}

	reported := map[string]string{} // the first one that lacks the same, by template and error
	for _, n := range needs {
		if slices.ContainsFunc(toolbox.Tools(), func(t toolbox.Tool) bool { return t.Apt != "" && t.Name == n.Name }) {
			continue
		}

		f := toolbox.Finding{
			Tool: toolbox.Tool{Name: n.Name, Use: "template " + n.Template}, Installed: n.Err == nil,
			Version: cmp.Or(n.Result, "works"), Fix: "to get it: " + n.Install,
		}

		if n.Board != "" {
			f.Use, f.Fix = "post_link of board "+n.Board, "install it, or put its folder on PATH"
		}

		if n.Err != nil {
			f.Version, f.Reason = "", n.Err.Error()

			// A long reason, such as a missing workspace, is often that of several tools.
			key := n.Template + "\n" + f.Reason
			if first, ok := reported[key]; ok && len(f.Reason) > longReason {
				f.Short = "as " + first
			} else {
				reported[key] = n.Name
			}
		}

		toolbox.Print(c, f)
	}
	return nil
}

// Setup installs the tools that are missing (Debian, Ubuntu), or names what to install.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	DRYRUN=1     prints what would be done, without doing it
//	CHECK=1      only reports what is missing, as doctor
func Setup(ctx context.Context) error { return doSetup(ctx) }

var doSetup = target("setup", setup)

// setupInputs are the variables of setup.
type setupInputs struct {
	doctorInputs
	inputs.Dry
	Check bool `var:"CHECK"`
}

func setup(ctx context.Context, c *console.Console, v setupInputs) error {
	if v.Check {
		return doctor(ctx, c, v.doctorInputs)
	}
	return toolbox.Setup(ctx, c)
}
