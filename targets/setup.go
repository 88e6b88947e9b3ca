// This file installs missing tools where that is simple, and says what to install where it is not.

package targets

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
)

func (s *session) setup(ctx context.Context) error {
	if s.env.set("CHECK") {
		return s.doctor(ctx)
	}
	p := s.out.lasts("looking for tools", 0)
	all, err := look(ctx)
	p.end()
	if err != nil {
		return err
	}
	debian, python := missing(all, byApt), missing(all, byPython)
	if len(debian)+len(python) == 0 {
		s.out.printf("setup: all %d tools are here", len(all))
		s.out.line(record{"status": "up-to-date"})
		return nil
	}
	for _, f := range all {
		if !f.here {
			s.printFinding(f)
		}
	}
	return s.setupMissing(ctx, debian, python)
}

// setupMissing installs what it can. What apt does not have keeps nothing else from being installed.
func (s *session) setupMissing(ctx context.Context, debian, python []tool) error {
	var installed []string
	var problems []error
	for _, way := range []struct {
		missing []tool
		install func(context.Context, []tool) ([]string, error)
	}{{debian, s.install}, {python, s.installPython}} {
		if len(way.missing) == 0 {
			continue
		}
		names, err := way.install(ctx, way.missing)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		installed, problems = append(installed, names...), append(problems, err)
	}
	if s.env.set("DRYRUN") {
		return errors.Join(problems...)
	}
	if len(installed) > 0 {
		s.out.printf("setup: installed %s", strings.Join(installed, " "))
	}
	for _, t := range slices.Concat(debian, python) {
		if name := cmp.Or(t.apt, t.python); slices.Contains(installed, name) {
			if f := probe(ctx, t); !f.here {
				problems = append(problems, failure.New(failure.ToolMissing, "", "installed, but still not working: %s (%s)", name, f.why))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	s.out.line(record{"status": "done", "installed": installed})
	return nil
}

// install installs Debian packages, as root or with a sudo that asks for no password, and returns those that it did
// install, by the names in the list. Nothing that is installed already is upgraded or removed.
func (s *session) install(ctx context.Context, list []tool) ([]string, error) {
	names := aptNames(list)
	how := "install what Debian calls: " + strings.Join(names, " ")
	if !onDebian() {
		return nil, failure.New(failure.ToolMissing, how, "this system is neither Debian nor Ubuntu: setup cannot install here")
	}
	prefix, ok := asRoot(ctx)
	if !ok {
		how = "sudo apt-get install " + strings.Join(names, " ")
		return nil, failure.New(failure.ToolMissing, how, "setup can install only as root, or with sudo without a password")
	}
	get := append(prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120")
	update := append(get[:len(get):len(get)], "update")
	install := append(get[:len(get):len(get)], "install", "-y", "--no-upgrade", "--no-remove", "--no-install-recommends")
	if s.env.set("DRYRUN") {
		return nil, s.would("run: %s; %s", strings.Join(update, " "), strings.Join(append(install, names...), " "))
	}
	s.out.notef("running %s", strings.Join(update, " "))
	if err := s.runTool(ctx, update); err != nil {
		s.out.notef("%v: going on with the lists of packages that are here", err)
	}
	known, unknown := s.knownToApt(ctx, list)
	var problems []error
	if len(unknown) > 0 {
		problems = append(problems, failure.New(failure.ToolMissing, "install by yourself, so that it is on PATH, what is for "+uses(unknown),
			"apt can install nothing called %s here", strings.Join(aptNames(unknown), ", ")))
	}
	if len(known) == 0 {
		return nil, errors.Join(problems...)
	}
	install = append(install, aptNames(known)...)
	s.out.notef("running %s", strings.Join(install, " "))
	if err := s.runTool(ctx, install); err != nil {
		return nil, errors.Join(failure.New(failure.ToolMissing, how, "%w", err), errors.Join(problems...))
	}
	return aptNames(known), errors.Join(problems...)
}

// knownToApt asks apt which of the tools it could install, with all that they depend on. Names differ between releases
// of Debian and Ubuntu, and one that is unknown would keep apt from installing any.
func (s *session) knownToApt(ctx context.Context, list []tool) (known, unknown []tool) {
	p := s.out.lasts("asking apt", len(list))
	defer p.end()
	could := func(names ...string) bool {
		argv := append([]string{"-qq", "-s", "--no-upgrade", "--no-remove", "--no-install-recommends", "install"}, names...)
		return exec.CommandContext(ctx, "apt-get", argv...).Run() == nil
	}
	if could(aptNames(list)...) {
		return list, nil
	}
	for _, t := range list {
		if could(t.apt) {
			known = append(known, t)
		} else {
			unknown = append(unknown, t)
		}
		p.add(1)
	}
	return known, unknown
}

// uses says what the tools are for.
func uses(list []tool) string {
	var all []string
	for _, t := range list {
		if !slices.Contains(all, t.use) {
			all = append(all, t.use)
		}
	}
	return strings.Join(all, ", ")
}

// asRoot returns what to put before a command so that it runs as root, and whether there is a way.
func asRoot(ctx context.Context) ([]string, bool) {
	if os.Geteuid() == 0 {
		return nil, true
	}
	if exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, true
	}
	return nil, false
}

// runTool runs a command with progress. Its output is shown when it fails, or as it comes with VERBOSE=1.
func (s *session) runTool(ctx context.Context, argv []string) error {
	p := s.out.lasts(argv[0]+" …", 0)
	if s.env.set("VERBOSE") {
		p.end()
	}
	defer p.end()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = &said, &said
	if s.env.set("VERBOSE") {
		cmd.Stdout, cmd.Stderr = s.out, s.out
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		s.out.Write(said.Bytes())
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
