package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/transport"
)

// TestEmulatorMissing: a missing emulator is an error with the command that installs it.
func TestEmulatorMissing(t *testing.T) {
	b := findBoard(t, "mps2_an385")
	b.Link.Program = "qemu-missing"
	d := &Device{board: b, desk: &Desk{}}
	wantError(t, last(d.openLink(t.Context(), &image.Image{Path: "x"})), failure.ToolMissing,
		"apt-get install qemu-system-arm")
}

// fakeEmulator puts a program on PATH that prints this version, adds a line to the file queries for each query of it,
// and exits at once when it should emulate.
func fakeEmulator(t *testing.T, version string) (name, queries string) {
	t.Helper()
	bin := t.TempDir()
	name, queries = "qemu-system-fake", filepath.Join(bin, "queries")
	script := "#!/bin/sh\n[ \"$1\" = --version ] || exit 0\necho >>" + queries + "\ncat <<'END'\n" + version + "\nEND\n"
	testkit.WriteProgram(t, filepath.Join(bin, name), script)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return name, queries
}

// TestEmulatorVersion: an emulator that is older than the board's minimum version, or prints none, is refused. A device
// queries the version once.
func TestEmulatorVersion(t *testing.T) {
	for _, c := range []struct{ name, output, needs, refused string }{
		{"older", "QEMU emulator version 7.2.22 (Debian 1:7.2)", "9.1", "has version 7.2.22; 9.1 or newer is required"},
		{"older by the second number", "QEMU emulator version 9.0.4", "9.1", "has version 9.0.4; 9.1 or newer"},
		{"equal", "QEMU emulator version 9.1.0", "9.1", ""},
		{"two digits", "QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", "9.1", ""},
		{"one number", "QEMU emulator version 9", "9.1", "has version 9; 9.1 or newer is required"},
		{"no version", "an emulator", "9.1", "prints no version; 9.1 or newer is required"},
		{"no minimum", "an emulator", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, queries := fakeEmulator(t, c.output)
			b := findBoard(t, "mps2_an385")
			b.Link.Program, b.Link.MinVersion, b.Link.Install = name, c.needs, "apt-get install qemu, of backports"
			d := &Device{board: b, desk: &Desk{}}
			ctx := t.Context()
			if c.refused == "" {
				for range 2 {
					link, err := d.openLink(ctx, &image.Image{Path: "x"})
					must(t, err)
					link.Close()
				}
				if text, _ := os.ReadFile(queries); c.needs != "" && len(text) != 1 {
					t.Errorf("queried %d times", len(text))
				}
				return
			}
			wantError(t, last(d.openLink(ctx, &image.Image{Path: "x"})), failure.ToolMissing, c.refused, "backports")
			if _, emulator, err := MissingTools(ctx, b); err != nil || len(emulator) != 1 ||
				!strings.Contains(emulator[0].Error(), c.refused) {
				t.Errorf("missing: %v", emulator)
			}
		})
	}
}

// TestEmulatorArgs: the board's arguments come first, and own options are not repeated.
func TestEmulatorArgs(t *testing.T) {
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
		l := boards.Link{Args: c.own, Dir: "/x,y"}
		if got := strings.Join(emulatorArgs(l, "/a,b.elf"), " "); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q in it", c.name, got, c.want)
		}
	}
}

// TestEmulatorErrorHasItsOutput: if an emulator does not support the machine, its message is in the error.
func TestEmulatorErrorHasItsOutput(t *testing.T) {
	b := findBoard(t, "mps2_an385")
	b.Link.Program, b.Link.Args = "sh", []string{"-c", "echo first reason >&2; echo second line >&2; exit 3", "{image}"}
	link, err := transport.StartProcess(t.Context(),
		transport.ProcessConfig{Path: "/bin/sh", Args: b.Link.Args[:2], StaysOnEOF: true})
	must(t, err)
	defer link.Close()
	_, err = transport.Dial(t.Context(), link, transport.SessionOptions{})
	err = (&Device{board: b, desk: &Desk{}}).emulatorError(err, &image.Image{Path: "/x"})
	wantError(t, err, failure.Boot, "first reason\nsecond line", "cd / && sh")
}
