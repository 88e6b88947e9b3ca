package project

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/blueprint"
)

// TestConfigured: boardsmith and Zephyr's CMake take the same number from a changed crt_config.h, or CMake refuses it.
func TestConfigured(t *testing.T) {
	t.Parallel()
	cmake, err := exec.LookPath("cmake")
	if err != nil {
		t.Skip("no cmake")
	}
	const refused = -1
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "CMakeLists.txt"), []byte(`cmake_minimum_required(VERSION 3.20)
project(test NONE)
include("${MODULE}/cmake/configured.cmake")
boardsmith_configured(number "${CMAKE_CURRENT_SOURCE_DIR}/crt_config.h" BOARDSMITH_ARENA_BYTES)
message("number ${number}")
`), 0o644))
	module, err := filepath.Abs("../templates/zephyr/boardsmith")
	must(t, err)
	for text, want := range map[string]int64{
		"#define BOARDSMITH_ARENA_BYTES 32768":                               32768,
		"#define BOARDSMITH_ARENA_BYTES (32768)":                             32768,
		"#define BOARDSMITH_ARENA_BYTES 32768U  // 32 KiB":                   32768,
		"#define BOARDSMITH_ARENA_BYTES\t0x8000u /* 32 KiB */":               32768,
		"# define  BOARDSMITH_ARENA_BYTES (32 * 1024UL)":                     32768,
		"#define BOARDSMITH_ARENA_BYTES (1 << 15)":                           32768,
		"#define BOARDSMITH_ARENA_BYTES ((4 + 4) * 0x1000 - 8)":              32760,
		"#define BOARDSMITH_ARENA_BYTES 0":                                   0,
		"#define BOARDSMITH_ARENA_BYTES_MORE 4":                              0,
		"// #define BOARDSMITH_ARENA_BYTES 4":                                0,
		"":                                                                   0,
		"#define BOARDSMITH_ARENA_BYTES 0100":                                refused, // octal in C, decimal in CMake
		"#define BOARDSMITH_ARENA_BYTES":                                     refused,
		"#define BOARDSMITH_ARENA_BYTES OTHER":                               refused,
		"#define BOARDSMITH_ARENA_BYTES 4\n#define BOARDSMITH_ARENA_BYTES 8": refused,
	} {
		header := []byte("#define OTHER 4\n" + text + "\n")
		must(t, os.WriteFile(filepath.Join(dir, "crt_config.h"), header, 0o644))
		out, err := exec.Command(cmake, "-DMODULE="+module, "-S", dir, "-B", filepath.Join(dir, "build")).CombinedOutput()
		switch {
		case want == refused:
			if err == nil || !strings.Contains(string(out), "must be one number") {
				t.Errorf("%s: CMake says %s", text, out)
			}
			continue
		case err != nil || !strings.Contains(string(out), fmt.Sprintf("number %d\n", want)):
			t.Errorf("%s: CMake says %v %s, want %d", text, err, out, want)
		}
		if n, ok := defined(header, "BOARDSMITH_ARENA_BYTES"); n != want || want > 0 && !ok {
			t.Errorf("%s: %d, %v, want %d", text, n, ok, want)
		}
	}
}

// TestConfiguredArena: the arena is that of a changed crt_config.h, or else the board's; 0 there is no arena.
func TestConfiguredArena(t *testing.T) {
	t.Parallel()
	found, err := boards.Find("mps2_an385", nil)
	must(t, err)
	for _, bytes := range []int64{0, 4096} {
		p := &Project{dir: t.TempDir()}
		p.state.Board.Board = *found
		file := filepath.Join(p.dir, filepath.FromSlash(blueprint.ConfigFile))
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, fmt.Appendf(nil, "#define BOARDSMITH_ARENA_BYTES %d\n", bytes), 0o644))
		if got, want := p.arenaBytes(), cmp.Or(bytes, int64(found.ArenaKiB)*1024); got != want {
			t.Errorf("%d bytes configured: %d, want %d", bytes, got, want)
		}
	}
}
