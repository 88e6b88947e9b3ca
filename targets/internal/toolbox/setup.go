// This file installs missing tools, or lists what to install by hand.

package toolbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Setup installs missing tools. Its error lists what is still missing and how to install it.
func Setup(ctx context.Context, c *console.Console) error {
	p := c.Start("looking for tools", len(Tools()))
	all, err := Look(ctx, p.Add)

	p.End()
	if err != nil {
		return err
	}

	debian, python := missing(all, byApt), missing(all, byPython)
	if len(debian)+len(python) == 0 {
		c.Printf("setup: all %d tools are installed", len(all))
		c.JSONLine(jsonlines.Done{Status: jsonlines.StatusUpToDate})
		return nil
	}

	for _, f := range all {
		if !f.Installed {
			Print(c, f)
		}
	}

	return setupMissing(ctx, c, debian, python)
}

// setupMissing installs all tools that it can, even if apt lacks some.
func setupMissing(ctx context.Context, c *console.Console, debian, python []Tool) error {
	var installed []string

	var problems []error
	for _, way := range []struct {
		missing []Tool
		install func(context.Context, *console.Console, []Tool) ([]string, error)
	}{{debian, install}, {python, installPython}} {
		if len(way.missing) == 0 {
			continue
		}

		names, err := way.install(ctx, c, way.missing)
		if ctx.Err() != nil {
			return ctx.Err()
		}

		installed, problems = append(installed, names...), append(problems, err)
	}

	if c.DryRun {
		return errors.Join(problems...)
	}

	if len(installed) > 0 {
		c.Printf("setup: installed %s", strings.Join(installed, " "))
	}

	// A package that is installed may still lack what the tool needs.
	for _, t := range slices.Concat(debian, python) {
		if name := cmp.Or(t.Apt, t.Python); slices.Contains(installed, name) {
			if f := Probe(ctx, t); !f.Installed {
				problems = append(problems,
					failure.Errorf(failure.ToolMissing, "installed, but still not working: %s (%s)", name, f.Reason))
			}
		}
	}

	if err := errors.Join(problems...); err != nil {
		return err
	}

	c.JSONLine(jsonlines.Setup{Installed: installed})
	return nil
}

// SetupNeeded installs the tools that the host board needs. It reports whether any was missing.
func SetupNeeded(ctx context.Context, c *console.Console) (wasMissing bool, err error) {
	var list []Tool
	for _, t := range Tools() {
		if t.Needed && !Probe(ctx, t).Installed {
			list = append(list, t)
		}
	}

	if len(list) == 0 {
		return false, nil
	}

	_, err = install(ctx, c, list)
	return true, err
}

// install installs Debian packages, as root or with a sudo without password, and returns the names of those that it
// installed. It upgrades and removes nothing.
func install(ctx context.Context, c *console.Console, list []Tool) ([]string, error) {
	names := aptNames(list)

	how := "install these packages (Debian's names): " + strings.Join(names, " ")
	if !OnDebian() {
		return nil, failure.New(failure.ToolMissing, how,
			"setup installs on Debian and Ubuntu only")
	}

	prefix, ok := asRoot(ctx)
	if !ok {
		how = "sudo apt-get install " + strings.Join(names, " ")
		return nil, failure.New(failure.ToolMissing, how, "setup can install only as root, or with sudo without a password")
	}

	// Without questions, in English, and waiting for another apt to end.
	get := append(prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C",
		"apt-get", "-q", "-o", "DPkg::Lock::Timeout=120")
	// A copy of each: both commands must not share one array.
	update := append(get[:len(get):len(get)], "update")
	command := append(get[:len(get):len(get)], "install", "-y", "--no-upgrade", "--no-remove", "--no-install-recommends")

	if c.DryRun {
		return nil, c.Would("run: %s; %s", strings.Join(update, " "), strings.Join(append(command, names...), " "))
	}

	c.Notef("running %s", strings.Join(update, " "))
	// An update may fail for one server of several, and the old lists may still do.
	if err := runTool(ctx, c, update); err != nil {
		c.Notef("%v: continuing with the existing package lists", err)
	}

	available, missing := knownToApt(ctx, c, list)

	var problems []error
	if len(missing) > 0 {
		problems = append(problems, failure.New(failure.ToolMissing,
			"install on PATH by hand what is needed for "+uses(missing),
			"apt has no package %s for this system", strings.Join(aptNames(missing), ", ")))
	}

	if len(available) == 0 {
		return nil, errors.Join(problems...)
	}

	command = append(command, aptNames(available)...)
	c.Notef("running %s", strings.Join(command, " "))
	if err := runTool(ctx, c, command); err != nil {
		return nil, errors.Join(failure.New(failure.ToolMissing, how, "%w", err), errors.Join(problems...))
	}

	return aptNames(available), errors.Join(problems...)
}

// knownToApt returns the tools that apt can install, with their dependencies. Names differ between releases of
// Debian and Ubuntu, and apt installs nothing if one is unknown.
func knownToApt(ctx context.Context, c *console.Console, list []Tool) (available, missing []Tool) {
	p := c.Start("asking apt", len(list))
	defer p.End()
	// A simulation with the options of the installation.
	could := func(names ...string) bool {
		argv := append([]string{"-qq", "-s", "--no-upgrade", "--no-remove", "--no-install-recommends", "install"}, names...)
		return exec.CommandContext(ctx, "apt-get", argv...).Run() == nil
	}

	// One question for all: only after a refusal, each is asked for.
	if could(aptNames(list)...) {
		return list, nil
	}

	for _, t := range list {
		if could(t.Apt) {
			available = append(available, t)
		} else {
			missing = append(missing, t)
		}
		p.Add(1)
	}

	return available, missing
}

// uses lists what the tools are needed for.
func uses(list []Tool) string {
	var names []string
	for _, t := range list {
		if !slices.Contains(names, t.Use) {
			names = append(names, t.Use)
		}
	}
	return strings.Join(names, ", ")
}

// asRoot returns the prefix that runs a command as root, and whether that is possible.
func asRoot(ctx context.Context) ([]string, bool) {
	if os.Geteuid() == 0 {
		return nil, true
	}
	if exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, true
	}
	return nil, false
}

// runTool runs a command with progress. It shows the output after a failure or, with VERBOSE=1, as it comes.
func runTool(ctx context.Context, c *console.Console, argv []string) error {
	p := c.Start(argv[0]+" …", 0)
	// The tool's own output would mix with the bar.
	if c.Verbose {
		p.End()
	}

	defer p.End()

	var printed bytes.Buffer

	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = &printed, &printed
	if c.Verbose {
		cmd.Stdout, cmd.Stderr = c, c
	}
	// An interrupt lets apt and pip clean up; a kill would not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second

	if err := cmd.Run(); err != nil {
		c.Write(printed.Bytes())
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
