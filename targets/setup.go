// This file installs missing tools where that is simple, and says what to install where it is not.

package targets

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
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
	pkgs := missingPackages(all)
	if len(pkgs) == 0 {
		s.out.printf("setup: all %d tools are here", len(all))
		s.out.line(record{"status": "up-to-date"})
		return nil
	}
	for _, f := range all {
		if !f.here {
			s.printFinding(f)
		}
	}
	if err := s.install(ctx, pkgs); err != nil || s.env.set("DRYRUN") {
		return err
	}
	if all, err = look(ctx); err != nil {
		return err
	}
	if left := missingPackages(all); len(left) > 0 {
		return failure.New(failure.ToolMissing, howToInstall(all), "installed, but still not working: %s", strings.Join(left, " "))
	}
	s.out.printf("setup: installed %s", strings.Join(pkgs, " "))
	s.out.line(record{"status": "done", "installed": pkgs})
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
