// This file finds emulators, checks their version and makes their command line; it lists missing tools.

package device

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/command"
)

// findEmulator returns the path of the board's emulator, and checks its version if the board requires one:
// *failure.MissingToolError.
func findEmulator(ctx context.Context, l boards.Link) (string, error) {
	path, err := command.Find(l.Program, l.Install)
	if err != nil || l.MinVersion == "" {
		return path, err
	}

	output, err := command.Ask(ctx, path, "--version")
	if err != nil {
		return "", err
	}

	if v := versionIn(output); v == "" || olderThan(v, l.MinVersion) {
		return "", &failure.MissingToolError{Tool: l.Program, Install: l.Install, Version: v, Needs: l.MinVersion}
	}
	return path, nil
}

var versionWord = regexp.MustCompile(`\bversion v?(\d+(?:\.\d+)*)`)

// versionIn finds the version in a program's output, as in "QEMU emulator version 9.1.2 (Debian …)"; "": none.
func versionIn(output string) string {
	m := versionWord.FindStringSubmatch(output)
	if m == nil {
		return ""
	}
	return m[1]
}

// olderThan compares two versions number by number.
func olderThan(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		x, _ := strconv.Atoi(a) // digits
		y, _ := strconv.Atoi(b)
		return cmp.Compare(x, y)
	}) < 0
}

// emulatorArgs returns QEMU's command line for the board's arguments and an image. It disables display and monitor,
// and does not repeat options of the board's arguments.
func emulatorArgs(l boards.Link, image string, further ...string) []string {
	// QEMU reads a comma in an option's value as its end, unless it is doubled.
	quote := func(name string) string { return strings.ReplaceAll(name, ",", ",,") }
	words := strings.NewReplacer("{image}", quote(image), boardfile.BoardWord, quote(l.Dir))

	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none"}
	hasImage := false
	for _, a := range l.Args {
		hasImage = hasImage || strings.Contains(a, "{image}")
		args = append(args, words.Replace(a))
	}

	if !slices.Contains(l.Args, "-icount") {
		option, _ := (&boards.Board{Link: l}).InstructionClock()
		args = append(args, "-icount", option)
	}

	if !hasImage {
		args = append(args, "-kernel", image)
	}

	return append(append(args, "-chardev", "stdio,id=link,signal=off", "-serial", "chardev:link"), further...)
}

// MissingTools lists the board's missing tools: its compiler with companion programs, and its emulator, with a
// version check if the board requires one. It does not check the template's own tools. Errors: those of ctx.
func MissingTools(ctx context.Context, b *boards.Board) (compiler, emulator []*failure.MissingToolError, err error) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "tools of board %s", b.Name)
	}
	var needed []string
	if b.Toolchain.CC != "" { // else only the build finds its compiler
		needed = []string{b.Toolchain.CC, b.Toolchain.AR}
	}

	// A process is not converted to raw bytes or Intel HEX.
	if len(needed) > 0 && len(b.Memory) > 0 {
		needed = append(needed, b.Toolchain.Objcopy())
	}

	for _, name := range needed {
		if _, err := exec.LookPath(name); err != nil {
			compiler = append(compiler, &failure.MissingToolError{Tool: name, Install: b.Toolchain.Install})
		}
	}

	if b.Link.Program == "" {
		return compiler, nil, nil
	}

	_, err = findEmulator(ctx, b.Link)
	var missing *failure.MissingToolError
	if errors.As(err, &missing) {
		emulator = append(emulator, missing)
	}

	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "tools of board %s", b.Name)
	}
	return compiler, emulator, nil
}

// ChipOf returns OpenOCD's data of a board's chip, without a probe: flash banks and targets, by their names, and the
// configuration files that it does not find. Errors: those of flasher and ctx.
func (k *Desk) ChipOf(ctx context.Context, b *boards.Board) (chip, missing []string, err error) {
	return flasher.Config{Flash: b.Flash, Find: k.tool}.ChipOf(ctx)
}

// MemoryMap returns pyOCD's memory map of a board's chip, without a probe. Errors: those of flasher and ctx.
func (k *Desk) MemoryMap(ctx context.Context, b *boards.Board) ([]boards.Region, error) {
	return flasher.Config{Flash: b.Flash, Find: k.tool}.MemoryMap(ctx)
}
