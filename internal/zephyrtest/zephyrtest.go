// Package zephyrtest makes folders of Zephyr builds for tests of west.
package zephyrtest

import (
	"os"
	"path/filepath"
	"testing"
)

// flashCommand replaces Zephyr's "west flash" on a computer without Zephyr: it accepts the same options and starts
// the runners' tools with the same steps in the same order, as documented by Zephyr.
const flashCommand = `
import argparse, subprocess
from pathlib import Path
import yaml
from west.commands import WestCommand

class Flash(WestCommand):
    def __init__(self):
        super().__init__('flash', 'flash', 'stands in for flash', accepts_unknown_args=True)

    def do_add_parser(self, adder):
        p = adder.add_parser(self.name)
        for short, name in (('-d', '--build-dir'), ('-r', '--runner'), ('-H', '--hex-file'), ('-o', '--openocd'), ('-s', '--openocd-search')):
            p.add_argument(short, name)
        p.add_argument('--skip-rebuild', action='store_true')
        return p

    def do_run(self, args, unknown):
        config = yaml.safe_load((Path(args.build_dir) / 'zephyr' / 'runners.yaml').read_text())
        p = argparse.ArgumentParser()
        if args.runner == 'openocd':
            for name in ('--config', '--cmd-pre-init', '--cmd-pre-load'):
                p.add_argument(name, action='append', default=[])
            for name in ('--cmd-load', '--cmd-verify'):
                p.add_argument(name)
            a = p.parse_args(config['args']['openocd'] + unknown)
            cmd = [args.openocd] + (['-s', args.openocd_search] if args.openocd_search else [])
            for f in a.config:
                cmd += ['-f', f]
            steps = a.cmd_pre_init + ['init', 'targets'] + a.cmd_pre_load
            steps += ['reset halt', a.cmd_load + ' ' + args.hex_file, 'reset halt', a.cmd_verify + ' ' + args.hex_file, 'reset run', 'shutdown']
            for s in steps:
                cmd += ['-c', s]
        else:
            for name in ('--target', '--pyocd', '--board-id'):
                p.add_argument(name)
            p.add_argument('--flash-opt', action='append', default=[])
            a = p.parse_args(config['args']['pyocd'] + unknown)
            cmd = [a.pyocd, 'flash', '-e', 'sector', '-t', a.target] + (['-u', a.board_id] if a.board_id else []) + a.flash_opt + [args.hex_file]
        subprocess.check_call(cmd)
`

// Build makes the folder of a Zephyr build: with Zephyr's own west commands if ZEPHYR_BASE is set, else in a
// workspace with a replacement. runner is the board's usual one, target is pyOCD's name of the chip.
func Build(t testing.TB, runner, target string) string {
	t.Helper()
	top := t.TempDir()
	base := os.Getenv("ZEPHYR_BASE")
	if base == "" {
		t.Log("ZEPHYR_BASE is not set: west runs a replacement of Zephyr's flash command")
		base = filepath.Join(top, "zephyr")
	}
	build := filepath.Join(top, "build")
	for name, text := range map[string]string{
		".west/config": "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n",
		"zephyr/west.yml": "manifest:\n  self:\n    path: zephyr\n" +
			"    west-commands: scripts/west-commands.yml\n",
		"zephyr/scripts/west-commands.yml": "west-commands:\n  - file: scripts/flash.py\n    commands:\n" +
			"      - name: flash\n        class: Flash\n",
		"zephyr/scripts/flash.py": flashCommand,
		"build/CMakeCache.txt": "# This is the CMakeCache file.\nCACHED_BOARD:STRING=b\nZEPHYR_BASE:PATH=" +
			base + "\n",
		"build/zephyr/.config": "CONFIG_BOARD=\"b\"\nCONFIG_FLASH_BASE_ADDRESS=0x0\nCONFIG_FLASH_LOAD_OFFSET=0x0\n" +
			"CONFIG_HAS_FLASH_LOAD_OFFSET=y\n",
		"support/openocd.cfg":       "# the board's own: the emulated probe's configuration takes its place\n",
		"build/zephyr/runners.yaml": runnersText(runner, target, top),
	} {
		path := filepath.Join(top, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return build
}

func runnersText(usual, target, board string) string {
	return `# Available runners configured by board.cmake.
runners:
- jlink
- openocd
- pyocd

# Default flash runner if --runner is not given.
flash-runner: ` + usual + `

# Default debug runner if --runner is not given.
debug-runner: jlink

# Common runner configuration values.
config:
  board_dir: ` + board + `
  # Build outputs:
  elf_file: zephyr.elf
  hex_file: zephyr.hex
  bin_file: zephyr.bin

# Runner specific arguments
args:
  jlink:
    - --device=x
  openocd:
    - --cmd-load
    - flash write_image erase
    - --cmd-verify
    - verify_image
  pyocd:
    - --target=` + target + "\n"
}
