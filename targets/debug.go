// This file starts gdb on the firmware of a board.

package targets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// debug flashes the image where the board does not hold it, and starts gdb on it.
func (v *invocation) debug(ctx context.Context) (err error) {
	if v.Env.On("DRYRUN") {
		return v.dryRunDebug(ctx)
	}
	gdb, err := findProgram(v.Env, "gdb-multiarch")
	if err != nil {
		return err
	}
	if err := v.flash(ctx); err != nil {
		return err
	}
	d, err := v.attached(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, v.detach()) }()
	return d.Debug(ctx, func(ctx context.Context, address string) error {
		args := gdbArgs(v.project.Dir(), v.image.Path, address)
		v.Notef("running %s", typed(gdb, args))
		return v.runGDB(ctx, gdb, args)
	})
}

// gdbArgs start gdb on an image, connected, before its first instruction. The sources lie in the project's folder.
func gdbArgs(project, image, address string) []string {
	return []string{
		"-q", "-d", project, "-ex", "set confirm off", "-ex", "set pagination off", "-ex", "target extended-remote " + address,
		"-ex", "monitor reset halt", "-ex", "maintenance flush register-cache", image,
	}
}

// dryRunDebug prints what debug would run.
func (v *invocation) dryRunDebug(ctx context.Context) error {
	in, err := v.inputs()
	if err != nil {
		return err
	}
	would, err := v.commands(ctx, in)
	if err != nil {
		return err
	}
	var commands []string
	if would.Debug != "" {
		image, err := v.planned(in)
		if err != nil {
			return err
		}
		gdb := typed("gdb-multiarch", gdbArgs(shown(v.Dir, v.project.Dir()), shown(v.Dir, image.Path), "127.0.0.1:3333"))
		commands = []string{would.Debug, gdb}
	}
	for _, c := range commands {
		v.Printf("%s", c)
	}
	text := fmt.Sprintf("debug %s on board %s", in.project, in.board.value)
	v.Printf("debug: would %s", text)
	v.JSONLine(fields{"status": "dry-run", "would": text, "commands": append([]string{}, commands...)})
	return nil
}

// typed is a command as one would type it in a shell.
func typed(program string, args []string) string {
	words := []string{program}
	for _, a := range args {
		if strings.ContainsAny(a, " '\"$\\") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// runGDB runs gdb on this process's own input and output; where stdout is for JSON lines, on stderr. On a terminal,
// Ctrl-C is gdb's.
func (v *invocation) runGDB(ctx context.Context, path string, args []string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if v.JSON() {
		cmd.Stdout = os.Stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	restore := foreground(cmd)
	defer restore()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return nil // what a person did in gdb is no failure of ours
	}
	return err
}
