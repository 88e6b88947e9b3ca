// This file installs missing tools where that is simple, and says what to install where it is not.

package targets

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	pkgs, python := missingPackages(all), missingPython(all)
	if len(pkgs)+len(python) == 0 {
		s.out.printf("setup: all %d tools are here", len(all))
		s.out.line(record{"status": "up-to-date"})
		return nil
	}
	for _, f := range all {
		if !f.here {
			s.printFinding(f)
		}
	}
	if len(pkgs) > 0 {
		if all, err = s.installed(ctx, pkgs, s.install); err != nil {
			return err
		}
		if left := missingPackages(all); len(left) > 0 && !s.env.set("DRYRUN") {
			return failure.New(failure.ToolMissing, howToInstall(all), "installed, but still not working: %s", strings.Join(left, " "))
		}
	}
	if len(python) > 0 {
		if all, err = s.installed(ctx, python, s.installPython); err != nil {
			return err
		}
		if left := missingPython(all); len(left) > 0 && !s.env.set("DRYRUN") {
			return failure.New(failure.ToolMissing, "", "installed, but still not working: %s", strings.Join(left, " "))
		}
	}
	if s.env.set("DRYRUN") {
		return nil
	}
	names := append(pkgs, python...)
	s.out.printf("setup: installed %s", strings.Join(names, " "))
	s.out.line(record{"status": "done", "installed": names})
	return nil
}

// installed installs something and looks what is here then.
func (s *session) installed(ctx context.Context, what []string, by func(context.Context, []string) error) ([]finding, error) {
	if err := by(ctx, what); err != nil {
		return nil, err
	}
	return look(ctx)
}

// installPython installs programs written in Python into a virtual environment of setup's own. What is in there stays.
func (s *session) installPython(ctx context.Context, what []string) error {
	dir, err := pythonDir()
	if err != nil {
		return err
	}
	python := filepath.Join(dir, pythonPrograms(), "python")
	var steps [][]string
	if _, err := os.Stat(python); err != nil {
		steps = append(steps, []string{"python3", "-m", "venv", dir})
	}
	steps = append(steps, append([]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"}, what...))
	if s.env.set("DRYRUN") {
		var lines []string
		for _, step := range steps {
			lines = append(lines, strings.Join(step, " "))
		}
		return s.would("run: %s", strings.Join(lines, "; "))
	}
	for _, step := range steps {
		s.out.notef("running %s", strings.Join(step, " "))
		if err := s.runTool(ctx, step); err != nil {
			return failure.New(failure.ToolMissing, "install them by yourself so that they are on PATH: "+strings.Join(what, " "), "%w", err)
		}
	}
	return nil
}

// install installs Debian packages, as root or with a sudo that asks for no password. Nothing that is installed
// already is upgraded or removed.
func (s *session) install(ctx context.Context, pkgs []string) error {
	how := "install what Debian calls: " + strings.Join(pkgs, " ")
	if !onDebian() {
		return failure.New(failure.ToolMissing, how, "this system is neither Debian nor Ubuntu: setup cannot install here")
	}
	prefix, ok := asRoot(ctx)
	if !ok {
		how = "sudo apt-get install " + strings.Join(pkgs, " ")
		return failure.New(failure.ToolMissing, how, "setup can install only as root, or with sudo without a password")
	}
	get := append(prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120")
	update := append(get[:len(get):len(get)], "update")
	install := append(get[:len(get):len(get)], "install", "-y", "--no-upgrade", "--no-remove", "--no-install-recommends")
	install = append(install, pkgs...)
	if s.env.set("DRYRUN") {
		return s.would("run: %s; %s", strings.Join(update, " "), strings.Join(install, " "))
	}
	for _, step := range [][]string{update, install} {
		s.out.notef("running %s", strings.Join(step, " "))
		if err := s.runTool(ctx, step); err != nil {
			return failure.New(failure.ToolMissing, how, "%w", err)
		}
	}
	return nil
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
