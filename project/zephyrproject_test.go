package project

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
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
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	workspace, bin := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "log")
	for name, script := range map[string]string{
		"west":  strings.ReplaceAll(recordingWest, "LOG", log),
		"cmake": "#!/bin/sh\necho cmake version 3.20.0\n",
		"ninja": "#!/bin/sh\necho 1.11.0\n",
	} {
		writeIn(t, bin, name, script)
		must(t, os.Chmod(filepath.Join(bin, name), 0o755))
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
	e := testEnv()
	e.Cache, e.Jobs = newCache(t), 3
	dir := filepath.Join(workspace, "p") // beside the tree that is found
	options := boards.Options{StackBytes: 4096, OperatorFlags: "-funroll-loops"}
	p := generatedIn(t, dir, Spec{Board: "zephyr/mps2/an385", Options: options}, e)

	var text strings.Builder
	all := contents(t, dir)
	for name := range sorted(all) {
		if strings.HasPrefix(name, "crt/") {
			continue // as the runtime's sources are
		}
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		fmt.Fprintf(&text, "%v %s\n", info.Mode(), name)
		if strings.Contains(all[name], workspace) {
			t.Errorf("%s has an absolute path in it", name)
		}
	}
	for _, name := range []string{"crt_config/crt_config.h", "crt_config/operators.mk"} {
		fmt.Fprintf(&text, "\n%s:\n%s", name, all[name])
	}
	if i := built(t, p); i.UpToDate {
		t.Error("a first build is up to date")
	}
	commands := readFile(t, log)
	said := strings.ReplaceAll(string(commands), filepath.Join(workspace, "zephyr"), "WORKSPACE/zephyr")
	fmt.Fprintf(&text, "\ncommands:\n%s", said)
	golden(t, "zephyr.project", text.String())
	if _, err := os.Stat(filepath.Join(dir, "build", "app", "zephyr", ".config")); err != nil {
		t.Errorf("a result was not copied: %v", err)
	}
	if b := p.Board(); b.Doc != "mps2/an385" || b.Partial {
		t.Errorf("the board of the build: %+v", b)
	}
}

// TestZephyrStandaloneFiles: the files of a project of standalone firmware for Zephyr, without its settings.
func TestZephyrStandaloneFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := boards.Options{App: boards.Standalone}
	generatedIn(t, dir, Spec{Board: "zephyr/mps2/an385", Options: options})
	var text strings.Builder
	for name := range sorted(contents(t, dir)) {
		if top, _, _ := strings.Cut(name, "/"); top == "crt" && strings.HasSuffix(name, ".h") || top == "boards" ||
			top == "links" || top == "local" {
			continue // as with an RPC server
		}
		fmt.Fprintln(&text, name)
	}
	golden(t, "zephyr.standalone", text.String())
}

// NeedZephyr skips without a Zephyr in $ZEPHYR_BASE, or without a tool that building with it, or the test, needs.
func NeedZephyr(t testing.TB, tools ...string) {
	t.Helper()
	if os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("ZEPHYR_BASE is not set: no Zephyr to build with (docs/zephyr.md)")
	}
	for _, tool := range append([]string{"west", "cmake", "ninja"}, tools...) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s to build with Zephyr or to run the image", tool)
		}
	}
}

// NeedFullZephyr also skips in a run that is not a full one.
func NeedFullZephyr(t *testing.T, tools ...string) {
	t.Helper()
	if !drawn.InFull() {
		t.Skip("takes more than some seconds: only in a full run")
	}
	NeedZephyr(t, tools...)
}
