package project

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// recordingWest stands for west: it notes its arguments and its environment in the file LOG, and builds a program.
const recordingWest = `#!/bin/sh
set -e
ls CMakeLists.txt prj.conf boardsmith/zephyr/module.yml boardsmith/src/main.c >/dev/null
ls crt/src/rpc/server.c >/dev/null
{ echo "west $*"; env | grep "^ZEPHYR\|^GNUARMEMB\|^CROSS" | LC_ALL=C sort; } >> LOG
mkdir -p build/app/zephyr
echo config > build/app/zephyr/.config
cat > build/board.json <<END
{"doc": "$5", "arena_kib": 64, "elf": {"machine": "native"}, "link": {"kind": "process"},
  "toolchain": {"cc": "gcc", "ar": "ar"}, "flash": {"programmer": "none"}}
END
echo 'int main(void) { return 0; }' > build/app/main.c
gcc -Wl,--build-id=md5 -Wl,-Map=build/app/zephyr/zephyr.map -o build/app/zephyr/firmware.elf build/app/main.c
`

// TestZephyrProject: the files of a project for Zephyr, and the command that builds it, on a computer without Zephyr.
// TestZephyr builds it for real.
func TestZephyrProject(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the build command is a shell script here")
	}
	need(t, "gcc")
	workspace, bin := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "log")
	for name, script := range map[string]string{
		"west":  strings.ReplaceAll(recordingWest, "LOG", log),
		"cmake": "#!/bin/sh\necho cmake version 3.20.0\n",
		"ninja": "#!/bin/sh\necho 1.11.0\n",
	} {
		testkit.WriteProgram(t, filepath.Join(bin, name), script)
	}
	writeIn(t, workspace, "zephyr/VERSION", "VERSION_MAJOR = 3\nVERSION_MINOR = 2\nPATCHLEVEL = 0\n")
	writeIn(t, workspace, "zephyr/share/zephyr-package/cmake/ZephyrConfig.cmake", "")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for name, value := range map[string]string{
		"ZEPHYR_BASE": "", "ZEPHYR_TOOLCHAIN_VARIANT": "gnuarmemb", "GNUARMEMB_TOOLCHAIN_PATH": "/usr",
		"ZEPHYR_SDK_INSTALL_DIR": "", "CROSS_COMPILE": "",
	} {
		t.Setenv(name, value)
	}
	b := freshBuilder(t)
	b.Jobs = 3
	dir := filepath.Join(workspace, "p") // beside the tree that is found
	options := boards.Options{StackBytes: 4096, OperatorFlags: "-funroll-loops"}
	p := generatedIn(t, dir, Spec{Board: "zephyr/mps2/an385", Options: options}, b)

	text := listed(t, dir)
	for name, data := range contents(t, dir) {
		if strings.Contains(data, workspace) {
			t.Errorf("%s has an absolute path in it", name)
		}
	}
	for _, name := range []string{"crt_config/crt_config.h", "crt_config/operators.mk"} {
		text += fmt.Sprintf("\n%s:\n%s", name, readFile(t, p.at(name)))
	}
	if i := built(t, p); i.UpToDate {
		t.Error("a first build is up to date")
	}
	text += "\ncommands:\n" + strings.ReplaceAll(readFile(t, log), filepath.Join(workspace, "zephyr"), "WORKSPACE/zephyr")
	golden(t, "zephyr.project", text)
	readFile(t, p.at("build/app/zephyr/.config")) // a result
	if b := p.Board(); b.Doc != "mps2/an385" || b.Partial {
		t.Errorf("the board of the build: %+v", b)
	}
}

// TestZephyrStandaloneFiles: the files of a project of standalone firmware for Zephyr, without its settings.
func TestZephyrStandaloneFiles(t *testing.T) {
	t.Parallel()
	dir := generated(t, Spec{Board: "zephyr/mps2/an385", Options: alone}).Dir()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(contents(t, dir))) {
		if top, _, _ := strings.Cut(name, "/"); top == "crt" && strings.HasSuffix(name, ".h") || top == "boards" ||
			top == "links" || top == "local" {
			continue // as with an RPC server
		}
		fmt.Fprintln(&text, name)
	}
	golden(t, "zephyr.standalone", text.String())
}

// needZephyr skips without a Zephyr in $ZEPHYR_BASE, or without a tool that building with it, or the test, needs.
func needZephyr(t testing.TB, tools ...string) {
	t.Helper()
	if os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("ZEPHYR_BASE is not set: no Zephyr to build with (docs/zephyr.md)")
	}
	need(t, append(tools, "west", "cmake", "ninja")...)
}

// needFullZephyr also skips in a run that is not a full one.
func needFullZephyr(t *testing.T, tools ...string) {
	t.Helper()
	if !drawn.InFull() {
		t.Skip("takes more than some seconds: only in a full run")
	}
	needZephyr(t, tools...)
}
