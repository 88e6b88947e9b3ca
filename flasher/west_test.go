package flasher

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// flashCommand stands in for Zephyr's "west flash" where no Zephyr is: it takes the same options and starts the runners' tools
// with the same steps in the same order, as Zephyr's documentation of its runners says.
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

// zephyrBuildFor makes the folder of a Zephyr build by hand: with Zephyr's own west commands where ZEPHYR_BASE says where they
// are, else in a workspace that stands in for it.
func zephyrBuildFor(t *testing.T, runner, target string) string {
	t.Helper()
	top := t.TempDir()
	base := os.Getenv("ZEPHYR_BASE")
	if base == "" {
		t.Log("ZEPHYR_BASE is not set: the real west runs a command that stands in for Zephyr's own flash")
		base = filepath.Join(top, "zephyr")
	}
	build := filepath.Join(top, "build")
	for name, text := range map[string]string{
		".west/config":                     "[manifest]\npath = zephyr\nfile = west.yml\n[zephyr]\nbase = zephyr\n",
		"zephyr/west.yml":                  "manifest:\n  self:\n    path: zephyr\n    west-commands: scripts/west-commands.yml\n",
		"zephyr/scripts/west-commands.yml": "west-commands:\n  - file: scripts/flash.py\n    commands:\n      - name: flash\n        class: Flash\n",
		"zephyr/scripts/flash.py":          flashCommand,
		"build/CMakeCache.txt":             "# This is the CMakeCache file.\nCACHED_BOARD:STRING=b\nZEPHYR_BASE:PATH=" + base + "\n",
		"build/zephyr/.config":             "CONFIG_BOARD=\"b\"\nCONFIG_FLASH_BASE_ADDRESS=0x0\nCONFIG_FLASH_LOAD_OFFSET=0x0\nCONFIG_HAS_FLASH_LOAD_OFFSET=y\n",
		"support/openocd.cfg":              "# the board's own: the emulated probe's configuration takes its place\n",
		"build/zephyr/runners.yaml":        runnersText(runner, target, top),
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

func TestZephyrBuild(t *testing.T) {
	b, err := openZephyrBuild(zephyrBuildFor(t, "jlink", "nrf51"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"jlink": {"--device=x"}, "openocd": {"--cmd-load", "flash write_image erase", "--cmd-verify", "verify_image"}, "pyocd": {"--target=nrf51"},
	}
	if !reflect.DeepEqual(b.args, want) || !reflect.DeepEqual(b.runners, []string{"jlink", "openocd", "pyocd"}) || b.usual != "jlink" {
		t.Errorf("%+v", b)
	}
	if b.runner() != "openocd" || b.argument("pyocd", "--target") != "nrf51" || b.argument("openocd", "--cmd-verify") != "verify_image" || b.argument("openocd", "--x") != "" {
		t.Errorf("runner %s, target %q", b.runner(), b.argument("pyocd", "--target"))
	}
	for name, dir := range map[string]string{"none": "", "an empty folder": t.TempDir()} {
		w := newWest(Config{Build: dir, Log: hclog.NewNullLogger(), Find: findTool})
		if err := w.Do(t.Context(), Job{}); failure.Of(err) != failure.Config || failure.Next(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	only := zephyrBuildFor(t, "jlink", "x")
	file := filepath.Join(only, "zephyr", "runners.yaml")
	if err := os.WriteFile(file, []byte("runners:\n- jlink\nflash-runner: jlink\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = newWest(Config{Build: only, Log: hclog.NewNullLogger(), Find: findTool}).Read(t.Context(), nil)
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "it has jlink") {
		t.Errorf("only jlink: %v", err)
	}
}

// Intel HEX as a tool that knows it reads it.
func TestHex(t *testing.T) {
	objcopy, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("objcopy is not installed")
	}
	one, two := Segment{0x0800FFF1, bytes.Repeat([]byte{1, 2, 3}, 40)}, Segment{0x08020000, []byte{0xAA}}
	dir := t.TempDir()
	hex, bin := filepath.Join(dir, "a.hex"), filepath.Join(dir, "a.bin")
	if err := writeHex(hex, []Segment{one, two}); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(objcopy, "-I", "ihex", "-O", "binary", "--gap-fill", "0xff", hex, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{0xff}, int(two.End()-one.Addr))
	copy(want, one.Data)
	copy(want[two.Addr-one.Addr:], two.Data)
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// Outside of a Zephyr workspace west has no command flash: it says so, and what helps.
func TestWestWithoutZephyr(t *testing.T) {
	if _, err := findTool("west"); err != nil {
		t.Skip("west is not installed")
	}
	build := zephyrBuildFor(t, "openocd", "nrf51")
	cache := filepath.Join(build, "CMakeCache.txt")
	if err := os.WriteFile(cache, []byte("ZEPHYR_BASE:PATH="+t.TempDir()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newWest(Config{Flash: boards.Flash{Runner: "west"}, Build: build, Log: hclog.NewNullLogger(), Find: findTool})
	err := p.Do(t.Context(), Job{Restart: true})
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "not in a west workspace") {
		t.Errorf("class %v: %v", failure.Of(err), err)
	}
}

// What DRYRUN prints can be typed.
func TestWestCommands(t *testing.T) {
	job := Job{Restart: true}
	for i := range uint64(3) {
		s := Sector{int(i), i * 1024, 1024}
		job.Erase = append(job.Erase, s)
		job.Write = append(job.Write, Segment{s.Addr, make([]byte, 1024)})
	}
	job.Verify = job.Write
	for runner, want := range map[string]int{"openocd": 1, "pyocd": 3} {
		w := newWest(Config{Build: zephyrBuildFor(t, runner, "nrf51"), Log: hclog.NewNullLogger(), Find: func(n string) (string, error) { return n, nil }, Probe: Probe{Serial: "S1"}})
		got := w.Commands(job)
		all := strings.Join(got, "\n")
		if len(got) != want || !strings.Contains(all, "west flash --build-dir=") || !strings.Contains(all, "S1") || !strings.HasPrefix(got[want/2], "ZEPHYR_BASE=") {
			t.Errorf("%s: %s", runner, all)
		}
		t.Log(all)
		files := strings.Join(w.Files(job), "\n")
		for _, name := range []string{"job.hex", "segment0.bin"} {
			if strings.Contains(all, name) != strings.Contains(files, name+": ") {
				t.Errorf("%s: %s is read, or not: %s", runner, name, files)
			}
		}
	}
}
