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

	"github.com/boardsmith/boardsmith/internal/command"
)

// debug flashes the image unless the board holds it, and starts gdb on it.
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

// gdbArgs returns gdb's arguments for an image: connected to the server, before the first instruction. The sources
// lie in the project's folder.
func gdbArgs(project, image, address string) []string {
	return []string{
		"-q", "-d", project, "-ex", "set confirm off", "-ex", "set pagination off", "-ex",
		"target extended-remote " + address,
		"-ex", "monitor reset halt", "-ex", "maintenance flush register-cache", image,
	}
}

// dryRunDebug prints the commands of debug.
func (v *invocation) dryRunDebug(ctx context.Context) error {
	in, err := v.inputs(ctx)
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
		gdb := typed("gdb-multiarch", gdbArgs(v.Shown(v.project.Dir()), v.Shown(image.Path), "127.0.0.1:3333"))
		commands = []string{would.Debug, gdb}
	}
	for _, c := range commands {
		v.Printf("%s", c)
	}
	text := fmt.Sprintf("debug %s on board %s", in.Project, in.Board.Value)
	v.Printf("debug: would %s", text)
	v.JSONLine(fields{"status": "dry-run", "would": text, "commands": append([]string{}, commands...)})
	return nil
}

// typed returns a command as typed in a shell.
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

// runGDB runs gdb with this process's input and output, or stderr if stdout is for JSON lines. On a terminal,
// Ctrl-C goes to gdb.
func (v *invocation) runGDB(ctx context.Context, path string, args []string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if v.JSON() {
		cmd.Stdout = os.Stderr
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Second
	restore := command.Foreground(cmd)
	defer restore()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		return nil // gdb's exit status is not an error of the target
	}
	return err
}
