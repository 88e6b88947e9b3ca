package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/transport"
)

// TestEmulatorMissing: a missing emulator is an error with the command that installs it.
func TestEmulatorMissing(t *testing.T) {
	t.Parallel()
	d := &Device{desk: &Desk{}}
	b := findBoard(t, "mps2_an385")
	b.Link.Program = "qemu-missing"
	d.board = b
	_, err := d.openLink(t.Context(), &image.Image{Path: "x"})
	var missing *failure.MissingToolError
	if !errors.As(err, &missing) || !strings.Contains(missing.NextStep(), "apt-get install qemu-system-arm") {
		t.Errorf("got %v", err)
	}
	if _, emulator, err := MissingTools(t.Context(), b); err != nil || len(emulator) != 1 ||
		emulator[0].Tool != b.Link.Program {
		t.Errorf("missing: %v", emulator)
	}
}

// TestMissingToolchainIsListed: each missing program of the toolchain is listed, and a board whose build finds its own
// compiler needs none.
func TestMissingToolchainIsListed(t *testing.T) {
	t.Parallel()
	b := findBoard(t, "microbit")
	b.Toolchain.CC, b.Toolchain.AR = "no-such-gcc", "no-such-ar"
	compiler, _, err := MissingTools(t.Context(), b)
	must(t, err)
	if len(compiler) < 2 || compiler[0].Tool != "no-such-gcc" || compiler[1].Tool != "no-such-ar" ||
		!strings.Contains(compiler[0].NextStep(), b.Toolchain.Install) {
		t.Errorf("missing: %v", compiler)
	}
	b.Toolchain.CC = ""
	if compiler, _, err := MissingTools(t.Context(), b); err != nil || compiler != nil {
		t.Errorf("without a compiler: %v, %v", compiler, err)
	}
}

// fakeEmulator puts a program on PATH that prints this version, adds a line to the file queries for each query of it,
// and exits at once when it should emulate.
func fakeEmulator(t *testing.T, version string) (name, queries string) {
	t.Helper()
	bin := t.TempDir()
	name, queries = "qemu-system-fake", filepath.Join(bin, "queries")
	script := "#!/bin/sh\n[ \"$1\" = --version ] || exit 0\necho >>" + queries + "\ncat <<'END'\n" + version + "\nEND\n"
	must(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return name, queries
}

// TestEmulatorVersion: an emulator that is older than the board's minimum version, or prints none, is refused.
func TestEmulatorVersion(t *testing.T) {
	for _, c := range []struct{ name, output, needs, refused string }{
		{
			"older, of a distribution", "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", "9.1",
			"qemu-system-fake has version 7.2.22; 9.1 or newer is required",
		},
		{
			"older by the second number", "QEMU emulator version 9.0.4", "9.1",
			"qemu-system-fake has version 9.0.4; 9.1 or newer is required",
		},
		{"equal", "QEMU emulator version 9.1.0", "9.1", ""},
		{"two digits", "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", "9.1", ""},
		{"one number", "QEMU emulator version 9", "9.1", "qemu-system-fake has version 9; 9.1 or newer is required"},
		{"no version", "an emulator", "9.1", "qemu-system-fake prints no version; 9.1 or newer is required"},
		{"no minimum", "an emulator", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _ := fakeEmulator(t, c.output)
			b := findBoard(t, "mps2_an385")
			b.Link.Program, b.Link.MinVersion, b.Link.Install = name, c.needs, "apt-get install qemu, of backports"
			link, err := (&Device{board: b, desk: &Desk{}}).openLink(t.Context(), &image.Image{Path: "x"})
			if c.refused == "" {
				must(t, err)
				link.Close()
				return
			}
			var missing *failure.MissingToolError
			if !errors.As(err, &missing) || err.Error() != c.refused || failure.Of(err) != failure.ToolMissing ||
				!strings.Contains(failure.Next(err), "backports") {
				t.Errorf("got %v (%s)", err, failure.Next(err))
			}
			if _, emulator, err := MissingTools(t.Context(), b); err != nil || len(emulator) != 1 ||
				emulator[0].Error() != c.refused {
				t.Errorf("missing: %v", emulator)
			}
		})
	}
}

// TestEmulatorVersionIsQueriedOnce: a device queries its emulator's version once.
func TestEmulatorVersionIsQueriedOnce(t *testing.T) {
	b := findBoard(t, "mps2_an385")
	name, queries := fakeEmulator(t, "QEMU emulator version 10.0.13")
	b.Link.Program, b.Link.MinVersion = name, "9.1"
	d := &Device{board: b, desk: &Desk{}}
	for range 3 {
		link, err := d.openLink(t.Context(), &image.Image{Path: "x"})
		must(t, err)
		link.Close()
	}
	if text, err := os.ReadFile(queries); err != nil || len(text) != 1 {
		t.Errorf("queried %d times, %v", len(text), err)
	}
}

// TestEmulatorArgs: the board's arguments come first, and own options are not repeated.
func TestEmulatorArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		own  []string
		want string
	}{
		{"machine", []string{"-machine", "m"}, "-machine m -icount shift=4 -kernel /a,b.elf -chardev"},
		{"icount", []string{"-machine", "m", "-icount", "shift=2"}, "-machine m -icount shift=2 -kernel /a,b.elf -chardev"},
		{"image", []string{"-device", "loader,file={image}"}, "-device loader,file=/a,,b.elf -icount shift=4 -chardev"},
		{"board", []string{"-device", "loader,file={board}/boot.hex"}, "-device loader,file=/x,,y/boot.hex -icount"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := boards.Link{Args: c.own, Dir: "/x,y"}
			if got := strings.Join(emulatorArgs(l, "/a,b.elf"), " "); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

// TestEmulatorErrorHasItsOutput: if an emulator does not support the machine, its message is in the error.
func TestEmulatorErrorHasItsOutput(t *testing.T) {
	t.Parallel()
	b := findBoard(t, "mps2_an385")
	b.Link.Program, b.Link.Args = "sh", []string{"-c", "echo first reason >&2; echo second line >&2; exit 3", "{image}"}
	link, err := transport.StartProcess(t.Context(),
		transport.ProcessConfig{Path: "/bin/sh", Args: b.Link.Args[:2], StaysOnEOF: true})
	must(t, err)
	defer link.Close()
	d := &Device{board: b, desk: &Desk{}}
	_, err = dial(t.Context(), func(context.Context) (transport.Link, error) { return link, nil },
		transport.SessionOptions{})
	err = d.emulatorError(err, &image.Image{Path: "/x"})
	wantError(t, err, failure.Boot, "first reason\nsecond line", "cd / && sh")
}
