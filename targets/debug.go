// This file starts gdb on the firmware of a board.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Debug starts the gdb server of the probe or emulator, and gdb on the built firmware. ATTACH=1 leaves the board as it
// is, SERVE=1 starts only the server: docs/devices.md.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	IMAGE        an earlier firmware, by the beginning of its build id or SHA-256 [the project's build]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it; also prints its commands
//	ATTACH=1     neither flash nor reset the board
//	SERVE        1 starts only the gdb server, on a free port [gdb starts, too]
func Debug(ctx context.Context) error { return doDebug(ctx) }

var doDebug = jobTarget("debug", "", debugFirmware)

// debugInputs are the variables of debug.
type debugInputs struct {
	inputs.OfImage
	Attach bool `var:"ATTACH"`
	Serve  int  `var:"SERVE" range:"0 65535" else:" is no TCP port" next:"SERVE=1 chooses a free port"`
}

func debugFirmware(ctx context.Context, j *job, v debugInputs) (err error) {
	o, serve, gdb := device.Debugging{Attach: v.Attach}, v.Serve > 0, ""
	if v.Serve > 1 { // 1: a free one
		o.Port = v.Serve
	}

	if j.DryRun {
		return dryRunDebug(ctx, j, o, serve)
	}

	if !serve {
		if gdb, err = findProgram("gdb-multiarch"); err != nil {
			return err
		}
	}

	// gdb shows the sources of this image, so without ATTACH the board gets it first.
	prepare := func(ctx context.Context, j *job) error { return flashImage(ctx, j, flashInputs{}) }
	if o.Attach {
		prepare = func(ctx context.Context, j *job) error { _, err := j.built(ctx); return err }
	}

	if err := prepare(ctx, j); err != nil {
		return err
	}

	d, err := j.attached(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.detach()) }()

	o.Image, o.Timeout = j.image, j.in.CallTimeout()
	err = d.Debug(ctx, o, func(ctx context.Context, address string) error {
		if serve {
			printServer(j.Console, o.Image.Path, address)
			<-ctx.Done()
			return nil
		}
		args := gdbArgs(j.project.Dir(), o.Image.Path, address, d.KeepsImage() && !o.Attach)
		j.Notef("running %s", typed(gdb, args))
		return runGDB(ctx, j.Console, gdb, args)
	})

	if serve && ctx.Err() != nil {
		return nil // the usual end
	}
	return err
}

// printServer prints the server's address.
func printServer(c *console.Console, image, address string) {
	c.Printf("debug: gdb server on %s, image %s", address, c.Shown(image))

	_, port, _ := net.SplitHostPort(address) // always has a port
	n, _ := strconv.Atoi(port)
	c.JSONLine(jsonlines.Debug{Status: jsonlines.StatusRunning, Address: address, Port: n, Image: image})
	c.Notef("debug: Ctrl-C ends it")
}

// gdbArgs returns gdb's arguments for an image, connected to the server; with reset, before the first instruction. The
// sources lie in the project's folder.
func gdbArgs(project, image, address string, reset bool) []string {
	args := []string{
		"-q", "-d", project, "-ex", "set confirm off", "-ex", "set pagination off", "-ex",
		"target extended-remote " + address,
	}
	// gdb read registers when it connected: after the reset these are old.
	if reset {
		args = append(args, "-ex", "monitor reset halt", "-ex", "maintenance flush register-cache")
	}
	return append(args, image)
}

// dryRunDebug prints the commands of debug.
func dryRunDebug(ctx context.Context, j *job, o device.Debugging, serve bool) error {
	if err := j.check(ctx); err != nil {
		return err
	}

	commands, err := debugCommands(ctx, j, o, serve)
	if err != nil {
		return err
	}

	for _, c := range commands {
		j.Printf("%s", c)
	}

	text := fmt.Sprintf("debug %s on board %s", j.in.Project, j.in.Board)
	j.Printf("debug: would %s", text)
	j.JSONLine(jsonlines.DryRun{
		Status: jsonlines.StatusDryRun, Would: text, Commands: append([]string{}, commands...),
	})
	return nil
}

// debugCommands returns the commands of debug: the server's and, without SERVE, gdb's.
func debugCommands(ctx context.Context, j *job, o device.Debugging, serve bool) ([]string, error) {
	var err error
	if o.Image, err = planned(j); err != nil || o.Image == nil {
		return nil, err
	}

	b, desk := j.project.Board(), j.desk()
	would, err := desk.DebugCommands(ctx, b, j.in.Device, o)
	switch {
	case err != nil || would.Debug == "":
		return nil, err
	case serve:
		return []string{would.Debug}, nil
	}

	// An emulator starts with the image, and needs no reset.
	emulator := cmp.Or(desk.Programmer, b.Flash.Programmer, boards.NoProgrammer) == boards.NoProgrammer
	args := gdbArgs(j.Shown(j.project.Dir()), j.Shown(o.Image.Path), "127.0.0.1:3333", !emulator && !o.Attach)
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
func runGDB(ctx context.Context, c *console.Console, path string, args []string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if c.JSON() {
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
