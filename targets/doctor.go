// This file checks the installed tools and this user's access to boards.

package targets

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
)

// Doctor lists the tools that are here and what is missing, and changes nothing.
func Doctor(ctx context.Context) error { return do(ctx, "doctor", doctor) }

func doctor(ctx context.Context, c *console.Console) error {
	p := c.Start("looking for tools", len(toolbox.Tools()))
	all, err := toolbox.Look(ctx)
	p.End()
	if err != nil {
		return err
	}
	c.Printf("go       %s %s/%s, working folder %s", runtime.Version(), runtime.GOOS, runtime.GOARCH, c.Dir)
	var lacking []string
	for _, f := range all {
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
		}
		toolbox.Print(c, f)
	}
	return nil
}

// Setup installs the tools that are missing (Debian, Ubuntu), or names what to install.
//
// Variables:
//
//	DRYRUN=1     generate, build, flash, erase, run, call, validate, measure, release, tune, report, reproduce …
//	CHECK=1      setup only reports, like doctor
func Setup(ctx context.Context) error { return do(ctx, "setup", setup) }

func setup(ctx context.Context, c *console.Console) error {
	if c.Env.On("CHECK") {
		return doctor(ctx, c)
	}
	return toolbox.Setup(ctx, c)
}
