package project

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// shelfWith writes board files into a folder for the search path.
func shelfWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, "boards", name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(text), 0o644))
	}
	return dir
}

const bareBoard = `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "serial"}, "flash": {"runner": "none"}, "arena_kib": 4,
"core_hz": 1000000, "watchdog_ms": 20, "defines": {"UART_BASE": "0x40004000", "A": "1"},
"memory": [{"name": "rom", "origin": 0, "size": 65536, "exec": true, "nonvolatile": true}, {"name": "ram", "origin": "0x20000000", "size": 32768}, {"name": "fast", "origin": "0x10000000", "size": 4096}],
"place": {"code": "rom", "data": "ram", "stack": "fast"}, "stack_bytes": 1024`

func TestMemoryReachesTheLinker(t *testing.T) {
	t.Parallel()
	path := shelfWith(t, map[string]string{"b.json": bareBoard + "}"})
	dir := filepath.Join(t.TempDir(), "p")
	env := testEnv()
	env.Path = []string{path}
	p := generated(t, dir, Spec{Board: "b", Model: tiny(t, nil), Env: env})
	all := contents(t, dir)
	for name, want := range map[string][]string{
		"crt_config/memory.h": {
			"#define BOARDSMITH_MEMORY rom (rx) : ORIGIN = 0x00000000, LENGTH = 0x00010000 ram (rw) : ORIGIN = 0x20000000, LENGTH = 0x00008000 fast (rw) : ORIGIN = 0x10000000, LENGTH = 0x00001000\n",
			"#define BOARDSMITH_IN_CODE rom\n#define BOARDSMITH_IN_DATA ram\n#define BOARDSMITH_IN_STACK fast\n#define BOARDSMITH_IN_ARENA ram\n#define BOARDSMITH_IN_NOINIT ram\n",
			"#define BOARDSMITH_STACK_BYTES 1024\n#define BOARDSMITH_ARENA_BYTES 4096\n",
		},
		"crt_config/crt_config.h": {
			"#define BOARDSMITH_STACK_BYTES 1024\n", "#define BOARDSMITH_CORE_HZ 1000000\n#define BOARDSMITH_TIMER_HZ 1000000\n",
			"#define BOARDSMITH_WATCHDOG_MS 20\n", "#define BOARDSMITH_EMULATED 0\n", "#define A 1\n#define UART_BASE 0x40004000\n",
		},
		"crt_config/board.mk": {"BOARD_LDSCRIPT := link.ld.S\n", "OBJCOPY := objcopy\n"},
	} {
		for _, w := range want {
			if !strings.Contains(all[name], w) {
				t.Errorf("%s has not\n%s:\n%s", name, w, all[name])
			}
		}
	}
	if forms := p.otherForms(); len(forms) != 2 || forms[0] != "build/firmware.bin" {
		t.Errorf("other forms %q", forms)
	}
}

func TestSourceMissing(t *testing.T) {
	t.Parallel()
	for source, hint := range map[string]string{
		"port/uart/cmdsk.c": `; did you mean "port/uart/cmsdk.c"?`,
		"port/stm32f.c":     `; it is now "port/chip/stm32/f2_f4_f7_clocks.c"`,
		"port/chip_irq.c":   `; it is now "port/chip/uart_irq_only.c"`,
	} {
		board := bareBoard + ",\n\"sources\": [\n  \"port/process.c\",\n  \"" + source + "\"]}"
		env := testEnv()
		env.Path = []string{shelfWith(t, map[string]string{"b.json": board})}
		_, err := Generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: "b", Model: tiny(t, nil), Env: env})
		if want := `b.json:7: sources: "` + source + `" is not in `; err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), hint) {
			t.Errorf("got %v, want %s…%s", err, want, hint)
		}
	}
}

// TestRenamedSources holds the template's list of renamed sources to the files there are.
func TestRenamedSources(t *testing.T) {
	t.Parallel()
	found, err := findTemplate("baremetal", nil)
	must(t, err)
	ports := portsOf(found.files)
	if len(found.Renamed) < 40 {
		t.Errorf("only %d renamed sources", len(found.Renamed))
	}
	for old, now := range found.Renamed {
		if slices.Contains(ports, old) || !slices.Contains(ports, now) {
			t.Errorf("%s renamed to %s: the first must not exist, the second must", old, now)
		}
	}
}

func TestNoEmulator(t *testing.T) {
	t.Parallel()
	d := &Device{}
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	b.Link.Program = "qemu-that-is-not-there"
	d.board = b
	_, err = startEmulator(t.Context(), d, &Image{Path: "x"})
	var missing *MissingToolError
	if !errors.As(err, &missing) || !strings.Contains(missing.NextStep(), "apt-get install qemu-system-arm") {
		t.Errorf("got %v", err)
	}
	if _, emulator, err := MissingTools(t.Context(), b); err != nil || len(emulator) != 1 || emulator[0].Tool != b.Link.Program {
		t.Errorf("missing: %v", emulator)
	}
}

// emulatorSaying puts a program into PATH that says this of its version, notes each time that it is asked, and ends at once
// when it is to emulate.
func emulatorSaying(t *testing.T, said string) (name, asked string) {
	t.Helper()
	bin := t.TempDir()
	name, asked = "qemu-system-told", filepath.Join(bin, "asked")
	script := "#!/bin/sh\n[ \"$1\" = --version ] || exit 0\necho >>" + asked + "\ncat <<'END'\n" + said + "\nEND\n"
	must(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return name, asked
}

// TestEmulatorTooOld has emulators say their versions to a board that needs a certain one.
func TestEmulatorTooOld(t *testing.T) {
	for _, c := range []struct{ said, needs, refused string }{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright", "9.1", "qemu-system-told is version 7.2.22, and 9.1 or newer is needed"},
		{"QEMU emulator version 9.0.4", "9.1", "qemu-system-told is version 9.0.4, and 9.1 or newer is needed"},
		{"QEMU emulator version 9.1.0", "9.1", ""},
		{"QEMU emulator version 10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", "9.1", ""},
		{"QEMU emulator version 9", "9.1", "qemu-system-told is version 9, and 9.1 or newer is needed"},
		{"an emulator", "9.1", "qemu-system-told names no version, and 9.1 or newer is needed"},
		{"an emulator", "", ""},
	} {
		name, _ := emulatorSaying(t, c.said)
		b, err := boards.Find("mps2_an385", nil)
		must(t, err)
		b.Link.Program, b.Link.MinVersion, b.Link.Install = name, c.needs, "apt-get install qemu-told, of backports"
		link, err := startEmulator(t.Context(), &Device{board: b}, &Image{Path: "x"})
		if c.refused == "" {
			must(t, err)
			link.Close()
			continue
		}
		var missing *MissingToolError
		if !errors.As(err, &missing) || err.Error() != c.refused || failure.Of(err) != failure.ToolMissing || !strings.Contains(failure.Next(err), "backports") {
			t.Errorf("%q: got %v (%s)", c.said, err, failure.Next(err))
		}
		if _, emulator, err := MissingTools(t.Context(), b); err != nil || len(emulator) != 1 || emulator[0].Error() != c.refused {
			t.Errorf("%q: missing: %v", c.said, emulator)
		}
	}
}

// A device's emulator is asked once.
func TestEmulatorAskedOnce(t *testing.T) {
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	name, asked := emulatorSaying(t, "QEMU emulator version 10.0.13")
	b.Link.Program, b.Link.MinVersion = name, "9.1"
	d := &Device{board: b}
	for range 3 {
		link, err := startEmulator(t.Context(), d, &Image{Path: "x"})
		must(t, err)
		link.Close()
	}
	if text, err := os.ReadFile(asked); err != nil || len(text) != 1 {
		t.Errorf("asked %d times, %v", len(text), err)
	}
}

func TestEmulatorArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own  []string
		want string
	}{
		{[]string{"-machine", "m"}, "-machine m -icount shift=4 -kernel /a,b.elf -chardev"},
		{[]string{"-machine", "m", "-icount", "shift=2"}, "-machine m -icount shift=2 -kernel /a,b.elf -chardev"},
		{[]string{"-device", "loader,file={image}"}, "-device loader,file=/a,,b.elf -icount shift=4 -chardev"},
	} {
		if got := strings.Join(emulatorArgs(c.own, "/a,b.elf"), " "); !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want %q in it", c.own, got, c.want)
		}
	}
}

// An emulator that does not know the machine is quoted.
func TestEmulatorEnds(t *testing.T) {
	t.Parallel()
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	b.Link.Program, b.Link.Args = "sh", []string{"-c", "echo first reason >&2; echo second line >&2; exit 3", "{image}"}
	link, err := transport.StartProcess(t.Context(), transport.ProcessConfig{Path: "/bin/sh", Args: b.Link.Args[:2], StaysOnEOF: true})
	must(t, err)
	defer link.Close()
	d := &Device{board: b}
	_, err = d.dial(t.Context(), link, &Image{Path: "/x"})
	err = d.emulatorEnded(err, &Image{Path: "/x"})
	if failure.Of(err) != failure.Boot || !strings.Contains(err.Error(), "first reason\nsecond line") || !strings.Contains(failure.Next(err), "cd / && sh") {
		t.Errorf("got %v (%s)", err, failure.Next(err))
	}
}
