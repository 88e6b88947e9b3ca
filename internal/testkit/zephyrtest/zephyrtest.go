// Package zephyrtest makes folders of Zephyr builds for tests of flashing.
package zephyrtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// flashCommand replaces Zephyr's "west flash" on a computer without Zephyr: it accepts the same options, and has two of
// its runners. As documented by Zephyr, misc-flasher starts a command of the board's, and nrfjprog can choose a probe.
const flashCommand = `
import shutil, subprocess
from pathlib import Path
import yaml
from west import log
from west.commands import WestCommand

class Flash(WestCommand):
    def __init__(self):
        super().__init__('flash', 'flash', 'stands in for flash')

    def do_add_parser(self, adder):
        p = adder.add_parser(self.name)
        for short, name in (('-d', '--build-dir'), ('-r', '--runner'), ('-i', '--dev-id'), ('-e', '--elf-file')):
            p.add_argument(short, name)
        for name in ('--skip-rebuild', '--context'):
            p.add_argument(name, action='store_true')
        return p

    def do_run(self, args, unknown):
        config = yaml.safe_load((Path(args.build_dir) / 'zephyr' / 'runners.yaml').read_text())
        choose = args.runner == 'nrfjprog'
        if args.context:
            return log.inf(f'  RunnerCaps(commands={{"flash"}}, dev_id={choose}, erase=False)')
        cmd = ['nrfjprog', '--snr', args.dev_id] if choose else config['args'][args.runner]
        if not shutil.which(cmd[0]):
            log.die('required program', cmd[0], 'not found; install it or add its location to PATH')
        done = subprocess.call(cmd[:1] + [args.build_dir] + cmd[1:])
        if done:
            log.die(f'command exited with status {done}')
`

// OpenOCD are the arguments of a board that is flashed by OpenOCD.
var OpenOCD = []string{"--cmd-load", "flash write_image erase", "--cmd-verify", "verify_image"}

// Build makes the folder of a Zephyr build whose path has a space, for Zephyr's own west commands if ZEPHYR_BASE is
// set, else in a workspace with a replacement. usual is the board's runner, args has the arguments of each. config is
// the text of the board's support/openocd.cfg, in the folder "the board" beside it.
func Build(t testing.TB, usual string, args map[string][]string, config string) string {
	t.Helper()
	top := t.TempDir()
	base := os.Getenv("ZEPHYR_BASE")
	if base == "" {
		t.Log("ZEPHYR_BASE is not set: west runs a replacement of Zephyr's flash command")
		base = filepath.Join(top, "zephyr")
	}
	board, build := filepath.Join(top, "the board"), filepath.Join(top, "a build")
	files := map[string]string{
		".west/config": "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n",
		"zephyr/west.yml": "manifest:\n  self:\n    path: zephyr\n" +
			"    west-commands: scripts/west-commands.yml\n",
		"zephyr/scripts/west-commands.yml": "west-commands:\n  - file: scripts/flash.py\n    commands:\n" +
			"      - name: flash\n        class: Flash\n",
		"zephyr/scripts/flash.py": flashCommand,
		"a build/CMakeCache.txt": "# This is the CMakeCache file.\nCACHED_BOARD:STRING=b\nZEPHYR_BASE:PATH=" +
			base + "\n",
		"a build/zephyr/.config":      "CONFIG_BOARD=\"b\"\nCONFIG_FLASH_BASE_ADDRESS=0x0\n",
		"a build/zephyr/runners.yaml": runnersText(usual, args, board),
	}
	if config != "" {
		files["the board/support/openocd.cfg"] = config
	}
	testkit.WriteFiles(t, top, files)
	return build
}

// runnersText returns runners.yaml as Zephyr's CMake writes it, unquoted.
func runnersText(usual string, args map[string][]string, board string) string {
	names := slices.Sorted(maps.Keys(args))
	var w strings.Builder
	fmt.Fprintf(&w, `# Available runners configured by board.cmake.
runners:
- %s

# Default flash runner if --runner is not given.
flash-runner: %s

# Common runner configuration values.
config:
  board_dir: %s
  # Build outputs:
  elf_file: zephyr.elf
  hex_file: zephyr.hex
  # Host tools:
  openocd: /usr/bin/openocd
  openocd_search:

# Runner specific arguments
args:
`, strings.Join(names, "\n- "), usual, board)
	for _, name := range names {
		fmt.Fprintf(&w, "  %s:\n", name)
		for _, a := range args[name] {
			fmt.Fprintf(&w, "    - %s\n", a)
		}
		if len(args[name]) == 0 {
			fmt.Fprint(&w, "    []\n\n")
		}
	}
	return w.String()
}
