package project

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/builddir"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

const bareBoard = `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "serial"}, "flash": {"programmer": "none"}, "arena_kib": 4,
"core_hz": 1000000, "watchdog_ms": 20, "defines": {"UART_BASE": "0x40004000", "A": "1"},
"memory": [{"name": "rom", "origin": 0, "size": 65536, "exec": true, "nonvolatile": true}, {"name": "ram", "origin": "0x20000000", "size": 32768}, {"name": "fast", "origin": "0x10000000", "size": 4096}],
"place": {"code": "rom", "data": "ram", "stack": "fast"}, "stack_bytes": 1024`

func TestMemoryReachesTheLinker(t *testing.T) {
	t.Parallel()
	path := boardstest.Shelf(t, map[string]string{"b.json": bareBoard + "}"})
	dir := filepath.Join(t.TempDir(), "p")
	env := testEnv()
	env.Path = []string{path}
	p := generated(t, dir, Spec{Board: "b", Model: mlftest.Tiny(t, nil)}, env)
	all := contents(t, dir)
	for name, want := range map[string][]string{
		"crt_config/memory.h": {
			"#define BOARDSMITH_MEMORY rom (rx) : ORIGIN = 0x00000000, LENGTH = 0x00010000 ram (rw) : ORIGIN = 0x20000000, " +
				"LENGTH = 0x00008000 fast (rw) : ORIGIN = 0x10000000, LENGTH = 0x00001000\n",
			"#define BOARDSMITH_IN_CODE rom\n#define BOARDSMITH_IS_CODE(address) ((address) >= 0x0 && (address) < 0x10000)\n",
			"#define BOARDSMITH_IN_DATA ram\n#define BOARDSMITH_IN_STACK fast\n" +
				"#define BOARDSMITH_IN_ARENA ram\n#define BOARDSMITH_IN_NOINIT ram\n",
			"#define BOARDSMITH_STACK_BYTES 1024\n#define BOARDSMITH_ARENA_BYTES 4096\n",
		},
		"crt_config/crt_config.h": {
			"#define BOARDSMITH_STACK_BYTES 1024\n", "#define BOARDSMITH_CORE_HZ 1000000\n#define BOARDSMITH_TIMER_HZ 1000000\n",
			"#define BOARDSMITH_WATCHDOG_MS 20\n", "#define BOARDSMITH_EMULATED 0\n",
			"#define A 1\n#define UART_BASE 0x40004000\n",
		},
		"crt_config/board.mk": {"BOARD_LDSCRIPT := link.ld.S\n", "OBJCOPY := objcopy\n"},
	} {
		for _, w := range want {
			if !strings.Contains(all[name], w) {
				t.Errorf("%s has not\n%s:\n%s", name, w, all[name])
			}
		}
	}
	if forms := builddir.OtherForms(&p.state); len(forms) != 2 || forms[0] != "build/firmware.bin" {
		t.Errorf("other forms %q", forms)
	}
}

func TestSourceMissing(t *testing.T) {
	t.Parallel()
	for source, hint := range map[string]string{
		"port/uart/cmdsk.c": `; did you mean "port/uart/cmsdk.c"?`,
	} {
		board := bareBoard + ",\n\"sources\": [\n  \"port/process.c\",\n  \"" + source + "\"]}"
		env := testEnv()
		env.Path = []string{boardstest.Shelf(t, map[string]string{"b.json": board})}
		_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: "b", Model: mlftest.Tiny(t, nil)}, env)
		if want := `b.json:7: sources: "` + source + `" is not in `; err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), hint) {
			t.Errorf("got %v, want %s…%s", err, want, hint)
		}
	}
}
