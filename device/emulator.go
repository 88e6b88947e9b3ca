// This file finds emulators and checks their version.

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
	"github.com/boardsmith/boardsmith/internal/command"
)

// findEmulator returns the path of the board's emulator, and checks its version if the board requires one:
// *command.MissingToolError.
func findEmulator(ctx context.Context, l boards.Link) (string, error) {
	path, err := command.Find(l.Program, l.Install)
	if err != nil || l.MinVersion == "" {
		return path, err
	}
	said, err := command.Ask(ctx, path, "--version")
	if err != nil {
		return "", err
	}
	if v := versionIn(said); v == "" || olderThan(v, l.MinVersion) {
		return "", &command.MissingToolError{Tool: l.Program, Install: l.Install, Version: v, Needs: l.MinVersion}
	}
	return path, nil
}

var versionWord = regexp.MustCompile(`\bversion v?(\d+(?:\.\d+)*)`)

// versionIn finds the version in a program's output, as in "QEMU emulator version 9.1.2 (Debian …)"; "": none.
func versionIn(said string) string {
	m := versionWord.FindStringSubmatch(said)
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

// MissingTools lists the board's missing tools: its compiler with companion programs, and its emulator, with a
// version check if the board requires one. It does not check the template's own tools. Errors: those of ctx.
func MissingTools(ctx context.Context, b *boards.Board) (compiler, emulator []*command.MissingToolError, err error) {
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "tools of board %s", b.Name)
	}
	var need []string
	if b.Toolchain.CC != "" { // else only the build finds its compiler
		need = []string{b.Toolchain.CC, b.Toolchain.AR}
	}
	if len(need) > 0 && len(b.Memory) > 0 {
		need = append(need, b.Toolchain.Objcopy())
	}
	for _, name := range need {
		if _, err := exec.LookPath(name); err != nil {
			compiler = append(compiler, &command.MissingToolError{Tool: name, Install: b.Toolchain.Install})
		}
	}
	if b.Link.Program == "" {
		return compiler, nil, nil
	}
	_, err = findEmulator(ctx, b.Link)
	var missing *command.MissingToolError
	if errors.As(err, &missing) {
		emulator = append(emulator, missing)
	}
	if ctx.Err() != nil {
		return nil, nil, failure.Stopped(ctx, "tools of board %s", b.Name)
	}
	return compiler, emulator, nil
}

// MissingScripts asks OpenOCD, the program at path, which of the board's configuration files it does not find. It needs
// no probe. Errors: *command.Error; those of ctx.
func MissingScripts(ctx context.Context, path string, b *boards.Board) ([]string, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "scripts of board %s", b.Name)
	}
	return flasher.MissingScripts(ctx, path, b.Flash.Scripts)
}
