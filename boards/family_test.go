package boards_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

// system is a family whose boards are known to an operating system; its file has all that can be known without a build.
const system = `{"doc": "any board of the system", "templates": ["baremetal"], "partial": true, "packet_bytes": 1024,
"registry_bytes": 512, "log_level": "info", "runtime_opt": "Os", "operator_opt": "O2", "cflags": ["-DSYSTEM"],
"flash": {"programmer": "west"}}`

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// systemShelf has the family, one board of it with a file, one below a vendor's name, and one that is no board.
func systemShelf(t *testing.T) string {
	t.Helper()
	return boardstest.Shelf(t, map[string]string{
		"family/system.json":      system,
		"system/kit.json":         `{"inherits": "family/system", "arena_kib": 32, "doc": "the kit"}`,
		"system/vendor/node.json": `{"inherits": "family/system", "zephyr_board": "node@2/soc"}`,
		"system/no board.json":    `{}`,
		"desk.json":               `{"inherits": "family/system", "zephyr_board": "kit", "doc": "one of ours"}`,
		"other/plain.json":        `{"inherits": "family/system"}`,
	})
}

// TestFamily: a board of a family has a name with slashes, and is known to the system by the name behind the first one.
// Its own file is used if there is one; it needs none.
func TestFamily(t *testing.T) {
	shelf := systemShelf(t)
	for _, c := range []struct{ name, zephyr, doc string }{
		{"system/kit", "kit", "the kit"},
		{"system/vendor/node", "node@2/soc", "any board of the system"},
		{"system/mps2/an385", "mps2/an385", "any board of the system"},
		{"system/board@1.0.0", "board@1.0.0", "any board of the system"},
		{"desk", "kit", "one of ours"},
	} {
		b, err := boards.Find(c.name, []string{shelf})
		must(t, err)
		if b.Name != c.name || b.Zephyr() != c.zephyr || b.Doc != c.doc || !b.Partial || b.Flash.Programmer != "west" {
			t.Errorf("%s: %q, to the system %q: %q", c.name, b.Name, b.Zephyr(), b.Doc)
		}
		if got, file := boards.Locate(c.name, []string{shelf}); got != c.name || file != "" {
			t.Errorf("%s is named %s", c.name, got)
		}
		_, err = b.Settle(boards.Options{})
		must(t, err)
	}
	list := boards.List([]string{shelf})
	for name, want := range map[string]bool{
		"system/kit": true, "system/vendor/node": true, "desk": true, "system": false, "family/system": false,
		"system/no board": false, "other/plain": false,
	} {
		testkit.Equal(t, name+" is listed", slices.Contains(list, name), want)
	}
}

// TestNotOfAFamily: other names with slashes are paths of board files.
func TestNotOfAFamily(t *testing.T) {
	shelf := systemShelf(t)
	for _, name := range []string{
		"system", "system/", "system/../kit", "system//kit", "system/.kit", "family/system",
		"cpu/native",
	} {
		_, err := boards.Find(name, []string{shelf})
		wantError(t, err, failure.Config)
	}
	t.Chdir(filepath.Join(shelf, "boards"))
	for _, path := range []string{
		"./system/kit", "system/kit.json", "other/plain",
		filepath.Join(shelf, "boards", "desk"),
	} {
		b, err := boards.Find(path, []string{shelf})
		want := strings.TrimSuffix(filepath.Base(path), ".json")
		if name, _ := boards.Locate(path, []string{shelf}); err != nil || b.Name != want || name != want {
			t.Errorf("%s: %+v, %v", path, b, err)
		}
	}
	for name, text := range map[string]string{
		"family/chip.json": system, "chip/x.json": `{"inherits": "family/system"}`,
		"wrong.json":      `{"inherits": "system/kit"}`,
		"system/far.json": `{"inherits": "cpu/native"}`,
	} {
		testkit.WriteFile(t, filepath.Join(shelf, "boards", filepath.FromSlash(name)), text)
	}
	for name, want := range map[string]string{
		"wrong":      `wrong.json:1: inherits "system/kit": a board inherits from chip/NAME or cpu/NAME or family/NAME`,
		"system/far": `far.json:1: inherits "cpu/native": a board of a family inherits from family/NAME`,
	} {
		_, err := boards.Find(name, []string{shelf})
		wantError(t, err, "", want)
	}
	b, err := boards.Find("chip/x", []string{shelf}) // the name of a level is no family's
	must(t, err)
	testkit.Equal(t, "name", b.Name, "x")
}

// TestFamilyMisspelt: a name that is neither of a family nor of a file is named whole, and the next step has the
// families.
func TestFamilyMisspelt(t *testing.T) {
	for _, name := range []string{"zephir/mps2_an385", "Zephyr/x", "folder/x.json"} {
		_, err := boards.Find(name, nil)
		wantError(t, err, failure.Config, name, "zephyr/NAME")
	}
}

// TestFileName: names of boards stay apart as parts of paths.
func TestFileName(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"kit", "system/kit", "system/kit/a", "system/kit_a", "system-kit", "system/a@1"} {
		file := boardfile.FileName(name)
		if strings.ContainsAny(file, `/\`) || seen[file] != "" {
			t.Errorf("%s and %s are the file %s", name, seen[file], file)
		}
		seen[file] = name
	}
}

// whole is what the build of a partial board finds out.
const whole = `{"memory": [{"name": "flash", "origin": 0, "size": "0x40000", "exec": true, "nonvolatile": true},
	{"name": "ram", "origin": "0x20000000", "size": "0x10000"}],
"place": {"code": "flash", "data": "ram"}, "core_hz": 25000000, "arena_kib": 32, "cflags": ["-mthumb"],
"toolchain": {"cc": "arm-none-eabi-gcc", "ar": "arm-none-eabi-ar"}, "elf": {"machine": "arm", "class": 32},
"platform": {"wait_states": 2}, "host_clock": false,
"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "x"]}, "flash": {"programmer": "none"}}`

// TestComplete: what a build found out is one more level, and the board from before is as it was.
func TestComplete(t *testing.T) {
	b, err := boards.Find("system/kit", []string{systemShelf(t)})
	must(t, err)
	before := *b
	c, err := b.Complete("build/board.json", []byte(whole))
	must(t, err)
	if c.Partial || c.Name != b.Name || c.Zephyr() != "kit" || c.CoreHz != 25000000 || c.Flash.Programmer != "none" ||
		!slices.Equal(c.CFlags, []string{"-DSYSTEM", "-mthumb"}) || len(c.Memory) != 2 || c.PacketBytes != 1024 {
		t.Errorf("%+v", c)
	}
	again, err := c.Complete("build/board.json", []byte(`{"core_hz": 1, "platform": {"wait_states": 1}, "host_clock": true}`))
	if err != nil || *again.Platform.WaitStates != 1 || *c.Platform.WaitStates != 2 || c.KeepsHostTime() {
		t.Errorf("%v: a copy shares memory with its origin", err)
	}
	if !reflect.DeepEqual(*b, before) {
		t.Errorf("the partial board has changed: %+v", b)
	}
}

// TestCompleteKeepsOwn: what a board's own file sets stays when its build completes it; lists accumulate.
func TestCompleteKeepsOwn(t *testing.T) {
	own := `{"inherits": "family/system", %s "doc": "mine", "cflags": ["-DOWN"], "core_hz": 1, "platform": {"wait_states": 1},
		"link": {"kind": "serial", "usb": "0483:374b", "baud": 921600},
		"flash": {"programmer": "openocd", "scripts": ["target/x.cfg"]}}`
	shelf := boardstest.Shelf(t, map[string]string{
		"family/system.json": system,
		"system/kit.json":    fmt.Sprintf(own, ""),
		"desk.json":          fmt.Sprintf(own, `"zephyr_board": "kit",`),
	})
	built := strings.Replace(whole, `{"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "x"]}`,
		`{"kind": "serial", "baud": 115200}`, 1)
	for _, name := range []string{"system/kit", "desk"} {
		b, err := boards.Find(name, []string{shelf})
		must(t, err)
		c, err := b.Complete("build/board.json", []byte(built))
		must(t, err)
		if c.Flash.Programmer != "openocd" || c.Link.Baud != 921600 || c.Doc != "mine" || c.CoreHz != 1 || c.Partial {
			t.Errorf("%s: the build replaces what the board's own file sets: %+v", name, c)
		}
		if !slices.Equal(c.CFlags, []string{"-DSYSTEM", "-DOWN", "-mthumb"}) || c.ArenaKiB != 32 || len(c.Memory) != 2 {
			t.Errorf("%s: what only the build knows is lost: %+v", name, c)
		}
	}
}

// TestCompleteLink: a board's own link takes the place of a build's of another kind, with all its fields.
func TestCompleteLink(t *testing.T) {
	shelf := boardstest.Shelf(t, map[string]string{
		"family/system.json": system,
		"system/kit.json": `{"inherits": "family/system", "link": {"kind": "tcp", "address": "kit:4000"},
			"flash": {"programmer": "none"}}`,
	})
	b, err := boards.Find("system/kit", []string{shelf})
	must(t, err)
	c, err := b.Complete("build/board.json", []byte(whole)) // whose link is of kind qemu
	must(t, err)
	if l := c.Link; l.Kind != "tcp" || l.Address != "kit:4000" || l.Program != "" || l.Args != nil {
		t.Errorf("%+v", l)
	}
}

// TestCompleteRefused: the errors of a file that a build wrote name it, and their class is config.
func TestCompleteRefused(t *testing.T) {
	b, err := boards.Find("system/other", []string{systemShelf(t)})
	must(t, err)
	with := func(old, text string) string { return strings.Replace(whole, old, text, 1) }
	for want, text := range map[string]string{
		"built.json:1: the file is truncated":              "",
		"built.json:1: nested too deeply":                  `{"doc": ` + strings.Repeat("[", 100),
		"built.json: larger than":                          strings.Repeat(" ", boardfile.MaxFileBytes) + "{}",
		"built.json:2: inherits: a build cannot change it": "{\n\"inherits\": \"cpu/native\"}",
		"built.json:1: sources: a build cannot change it":  `{"sources": ["x.c"]}`,
		"built.json:1: partial: a build cannot change it":  `{"partial": true}`,
		`built.json:1: arena_kib, elf.class, elf.machine, link.kind, memory, place.code, place.data, toolchain.ar, toolchain.cc: missing`: `{}`,
		"built.json:4: toolchain.cc: missing":                   with(`"cc": "arm-none-eabi-gcc"`, `"cc": ""`),
		`built.json:3: arena_kib: an arena of 1024 KiB`:         with(`"arena_kib": 32`, `"arena_kib": 1024`),
		`built.json:6: flash.programmer: "rm" is no programmer`: with(`"programmer": "none"`, `"programmer": "rm"`),
		"built.json:6: link.program: missing":                   with(`"program": "qemu-system-arm", `, ""),
	} {
		_, err := b.Complete("built.json", []byte(text))
		wantError(t, err, failure.Config, want)
	}
}

// TestFamilies lists each family once, with those that are shipped.
func TestFamilies(t *testing.T) {
	shelf := systemShelf(t)
	testkit.Equal(t, "families", boards.Families([]string{shelf, shelf}), []string{"system", "zephyr"})
}
