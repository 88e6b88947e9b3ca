// This file starts gdb on the firmware of a board.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/command"
)

// debug flashes the image unless the board holds it, or with ATTACH leaves the board as it is, and starts gdb on it, or
// with SERVE only the server.
func (v *invocation) debug(ctx context.Context) (err error) {
	o, err := v.debugging()
	if err != nil {
		return err
	}
	if v.Env.On("DRYRUN") {
		return v.dryRunDebug(ctx, o)
	}
	serve, gdb := v.Env.On("SERVE"), ""
	if !serve {
		if gdb, err = findProgram(v.Env, "gdb-multiarch"); err != nil {
			return err
		}
	}
	prepare := v.flash
	if o.Attach {
		prepare = func(ctx context.Context) error { _, err := v.built(ctx); return err }
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	d, err := v.attached(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.detach()) }()
	o.Image, o.Timeout = v.image, v.in.Timeout
	err = d.Debug(ctx, o, func(ctx context.Context, address string) error {
		if serve {
			v.serving(o.Image.Path, address)
			<-ctx.Done()
			return nil
		}
		args := gdbArgs(v.project.Dir(), o.Image.Path, address, d.KeepsImage() && !o.Attach)
		v.Notef("running %s", typed(gdb, args))
		return v.runGDB(ctx, gdb, args)
	})
	if serve && ctx.Err() != nil {
		return nil // the usual end
	}
	return err
}

// debugging returns the inputs of debug. SERVE is a switch, or the server's port.
func (v *invocation) debugging() (o device.Debugging, err error) {
	o.Attach = v.Env.On("ATTACH")
	serve := v.Env("SERVE")
	if !v.Env.On("SERVE") || serve == "1" {
		return o, nil
	}
	if o.Port, err = strconv.Atoi(serve); err != nil || o.Port < 1 || o.Port > math.MaxUint16 {
		return o, failure.New(failure.Config, "SERVE=1 chooses a free port", "SERVE=%s is no TCP port", serve)
	}
	return o, nil
}

// serving prints the server's address.
func (v *invocation) serving(image, address string) {
	v.Printf("debug: gdb server on %s, image %s", address, v.Shown(image))
	_, port, _ := net.SplitHostPort(address) // always has a port
	n, _ := strconv.Atoi(port)
	v.JSONLine(jsonlines.Debug{Status: jsonlines.StatusRunning, Address: address, Port: n, Image: image})
	v.Notef("debug: Ctrl-C ends it")
}

// gdbArgs returns gdb's arguments for an image, connected to the server; with reset, before the first instruction. The
// sources lie in the project's folder.
func gdbArgs(project, image, address string, reset bool) []string {
	args := []string{
		"-q", "-d", project, "-ex", "set confirm off", "-ex", "set pagination off", "-ex",
		"target extended-remote " + address,
	}
	if reset {
		args = append(args, "-ex", "monitor reset halt", "-ex", "maintenance flush register-cache")
	}
	return append(args, image)
}

// dryRunDebug prints the commands of debug.
func (v *invocation) dryRunDebug(ctx context.Context, o device.Debugging) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	commands, err := v.debugCommands(ctx, in, o)
	if err != nil {
		return err
	}
	for _, c := range commands {
		v.Printf("%s", c)
	}
	text := fmt.Sprintf("debug %s on board %s", in.Project, in.Board.Value)
	v.Printf("debug: would %s", text)
	v.JSONLine(jsonlines.DryRun{
		Status: jsonlines.StatusDryRun, Would: text, Commands: append([]string{}, commands...),
	})
	return nil
}

// debugCommands returns the commands of debug: the server's and, without SERVE, gdb's.
func (v *invocation) debugCommands(ctx context.Context, in *inputs.Inputs, o device.Debugging) ([]string, error) {
	if v.project == nil {
		return nil, nil
	}
	var err error
	if o.Image, err = v.planned(in); err != nil || o.Image == nil {
		return nil, err
	}
	b, desk := v.project.Board(), v.desk(in)
	would, err := desk.DebugCommands(ctx, b, in.Device, o)
	switch {
	case err != nil || would.Debug == "":
		return nil, err
	case v.Env.On("SERVE"):
		return []string{would.Debug}, nil
	}
	emulator := cmp.Or(desk.Programmer, b.Flash.Programmer, boards.NoProgrammer) == boards.NoProgrammer
	args := gdbArgs(v.Shown(v.project.Dir()), v.Shown(o.Image.Path), "127.0.0.1:3333", !emulator && !o.Attach)
	return []string{would.Debug, typed("gdb-multiarch", args)}, nil
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
