package projectapi

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// recordingWest stands for west: it notes its arguments and its tree in the file LOG, and builds a program.
const recordingWest = `#!/bin/sh
set -e
if [ "$1" = --version ]; then echo "West version: v1.2.0"; exit; fi
echo "west $1 $2 $3 $4 $5 ZEPHYR_BASE=$ZEPHYR_BASE" >> LOG
grep ARENA crt_config/crt_config.h >> LOG
mkdir -p build/app/zephyr
echo > build/app/zephyr/.config
cat > build/board.json <<END
{"doc": "$5", "arena_kib": 64, "elf": {"machine": "native"}, "link": {"kind": "process"},
  "toolchain": {"cc": "gcc", "ar": "ar"}, "flash": {"programmer": "none"}}
END
case "$*" in *--cmake-only) exit;; esac
echo 'int main(void) { return 0; }' > build/app/main.c
gcc -Wl,--build-id=md5 -Wl,-Map=build/app/zephyr/zephyr.map -o build/app/zephyr/firmware.elf build/app/main.c
`

// TestZephyrOptions: TVM's options zephyr_base and west_cmd are where the build command finds Zephyr and west, before
// what the server's environment has, and config_main_stack_size is the stack.
func TestZephyrOptions(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	template := folderOf(t, "folder") // skips on Windows
	at := t.TempDir()
	log := at + "/log"
	zephyr := at + "/mine/zephyr"
	for path, text := range map[string]string{
		"bin/west":   strings.ReplaceAll(recordingWest, "LOG", log),
		"bin/python": "#!/bin/sh\nexit 1\n",
		"bin/cmake":  "#!/bin/sh\necho cmake version 3.20.0\n",
		"bin/ninja":  "#!/bin/sh\necho 1.11.0\n",
		"mine/zephyr/share/zephyr-package/cmake/ZephyrConfig.cmake": "",
	} {
		program(t, at+"/"+path, text)
	}
	c := started(t, template)
	for _, command := range []string{"bin/west", "bin/python -m west"} {
		options := map[string]any{
			"board": "zephyr/kit", "zephyr_base": zephyr, "west_cmd": at + "/" + command,
			"config_main_stack_size": "4096",
		}
		made, p := c.project(t, mlftest.Tiny(t, nil), options)
		delete(options, "board") // a project has one
		must(t, p.do("build", options))
		testkit.WantText(t, command+": "+string(readFile(t, log)), "west build -d build/app -b kit ZEPHYR_BASE="+zephyr)
		testkit.WantText(t, string(readFile(t, made+"/crt_config/crt_config.h")), "4096")
		must(t, os.Remove(log))
	}
}

// TestWestOption: a command that is neither west nor a Python with it is refused; relative paths are those of the
// server's working folder.
func TestWestOption(t *testing.T) {
	at := t.TempDir()
	t.Chdir(at)
	for _, name := range []string{"west", "python", "other", "a b/west", "a b/python"} {
		program(t, at+"/"+name, "#!/bin/sh\n")
	}
	for value, want := range map[string]string{
		"west --quiet": "neither a path", "python -m pip": "neither a path", "a b c d": "neither a path",
		at + "/other":      "neither a path",
		at + "/none/west":  "is not installed",
		at + "/no -m west": "is not installed",
	} {
		_, err := westOf(value)
		wantError(t, err, "", want, "option west_cmd")
	}
	for value, want := range map[string]string{
		at + "/west": "west", at + "/python -m west": "west", at + "/a b/west": "a b/west", "a b/west": "a b/west",
		"./a b/python -m west": "a b/west",
	} {
		path, err := westOf(value)
		must(t, err)
		testkit.Equal(t, value, path, at+"/"+want)
	}
}

// TestWestOfProgrammer: the programmer west is that of the option; other programs are found as without it.
func TestWestOfProgrammer(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/west"
	program(t, path, "#!/bin/sh\n")
	f := folderAt(t, folderOf(t, "none"))
	option, err := json.Marshal(path)
	must(t, err)
	must(t, f.prepare(values{optWest: option}))
	for name, want := range map[string]string{"west": path, "openocd": "", "boardsmith-keeper": ""} {
		if got, err := f.Desk.Tool(name); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestRuntimeOption: the option crt names a folder with another runtime of the same layout; TVM's own is refused.
func TestRuntimeOption(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	c := started(t, folderOf(t, "folder"))
	archive := mlftest.Path(t, "add.aot_packed")
	mine := t.TempDir() + "/crt"
	must(t, os.CopyFS(mine, crt.Sources.Runtime))
	server := mine + "/src/rpc/server.c"
	text := string(readFile(t, server))
	const mark = "/* mine */\n"
	writeFile(t, server, mark+text)
	program(t, mine+"/test/main.c", "#error not a part of the runtime\n")
	for value, want := range map[string]string{"bundled": text, mine: mark + text} {
		made, p := c.project(t, archive, map[string]any{"crt": value})
		testkit.Equal(t, value, string(readFile(t, made+"/crt/src/rpc/server.c")), want)
		if _, err := os.Stat(made + "/crt/test"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("crt=%s: a file outside of include/ and src/ was copied: %v", value, err)
		}
		must(t, p.do("build", nil))
	}
	theirs := t.TempDir() + "/standalone_crt"
	program(t, theirs+"/src/runtime/crt/common/crt_runtime_api.c", "")
	for value, want := range map[string]string{
		theirs: "C++", t.TempDir(): "has no include/boardsmith/boardsmith.h", mine + "/none": "has no include",
	} {
		wantError(t, c.Generate(archive, "", t.TempDir()+"/p", map[string]any{"crt": value}), "", want)
	}
}

// TestRemovedProject: after the project of a running server was removed, the error says so.
func TestRemovedProject(t *testing.T) {
	t.Parallel()
	c := started(t, folderOf(t, "folder"))
	made, p := c.project(t, mlftest.Path(t, "add.aot_packed"), nil)
	for _, remove := range []string{made + "/project.json", made} {
		must(t, os.RemoveAll(remove))
		err := p.do("build", nil)
		wantError(t, err, "", "was removed")
		if err != nil && strings.Contains(err.Error(), "template") {
			t.Errorf("without %s: %v", remove, err)
		}
	}
}
