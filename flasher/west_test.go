package flasher

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// rewrite replaces a file of a build.
func rewrite(t *testing.T, build, name, text string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(build, filepath.FromSlash(name)), text)
}

// TestZephyrChoice: of a build's runners, that of the board file is used, else one that reads back, else the usual one.
func TestZephyrChoice(t *testing.T) {
	type runners = map[string][]string
	flashing := zephyrtest.OpenOCD
	with := func(more string) []string { return append(slices.Clone(flashing), more) }
	for _, c := range []struct {
		name, usual string
		args        runners
		flash       boards.Flash
		want        string
	}{
		{"usual", "openocd", runners{"openocd": flashing, "pyocd": {"--target=x"}}, boards.Flash{}, "openocd"},
		{"usual is pyocd", "pyocd", runners{"openocd": flashing, "pyocd": {"--target=x"}}, boards.Flash{}, "pyocd"},
		{"one that reads", "jlink", runners{"jlink": nil, "pyocd": {"--target", "x"}}, boards.Flash{}, "pyocd"},
		{"given", "openocd", runners{"jlink": nil, "openocd": flashing}, boards.Flash{Runner: "jlink"}, "west: jlink"},
		{"a debugger", "esp32", runners{"esp32": nil, "openocd": {"--no-init"}}, boards.Flash{}, "west: esp32"},
		{"into RAM", "openocd", runners{"openocd": with("--use-elf")}, boards.Flash{}, "west: openocd"},
		{"its own command", "openocd", runners{"openocd": with("--cmd-load=x")}, boards.Flash{}, "west: openocd"},
		{"a command before", "openocd", runners{"openocd": with("--cmd-pre-load=x")}, boards.Flash{}, "west: openocd"},
		{"no target", "pyocd", runners{"pyocd": nil}, boards.Flash{}, "west: pyocd"},
		{"a chip", "pyocd", runners{"pyocd": nil}, boards.Flash{Chip: "y"}, "pyocd"},
	} {
		got := ""
		build := zephyrtest.Build(t, c.usual, c.args, "# nothing\n")
		switch p := created(t, "west", Config{Flash: c.flash, Build: build}).(type) {
		case *openocd:
			got = "openocd"
		case *pyocd:
			got = "pyocd"
		case *westRunner:
			got = "west: " + p.runner
		}
		wantEqual(t, got, c.want, c.name)
	}
}

// TestZephyrSettings: the settings of a build are those with which Zephyr's runners start the tools. Paths may be
// relative to the build's folder; a name that is no file there is OpenOCD's own.
func TestZephyrSettings(t *testing.T) {
	const text = `# comment
runners: ["openocd", 'pyocd']
flash-runner: 'openocd'
config:
  board_dir: ../the board
  openocd_search:
    - ../more scripts
args:
  openocd:
    - --cmd-pre-init
    - source [find interface/jlink.cfg]
    - --cmd-pre-init=transport select swd
    - --config=own settings/a b.cfg
    - --config=target/nrf52.cfg
    - --cmd-load=flash write_image erase
    - --cmd-post-verify=late
  pyocd:
    - --target=nrf52840
    - --frequency=4000000
    - --flash-opt=-O reset_type=hw
    - --flash-opt=-e=chip
`
	dir := zephyrtest.Build(t, "openocd", map[string][]string{"openocd": zephyrtest.OpenOCD}, "# not used\n")
	rewrite(t, dir, "own settings/a b.cfg", "")
	rewrite(t, dir, "zephyr/runners.yaml", text)
	got := created(t, "west", Config{Build: dir}).(*openocd)
	own := filepath.Join(dir, "own settings")
	wantEqual(t, got.Flash.Scripts, []string{filepath.Join(own, "a b.cfg"), "target/nrf52.cfg"}, "scripts")
	beside := func(name string) string { return filepath.Join(filepath.Dir(dir), name) }
	wantEqual(t, got.extras, (extras{
		search:     []string{beside("the board/support"), own, beside("more scripts")},
		preInit:    []string{"source [find interface/jlink.cfg]", "transport select swd"},
		postVerify: []string{"late"},
	}), "settings")
	given := created(t, "west", Config{Build: dir, Flash: boards.Flash{Scripts: []string{"mine.cfg"}}}).(*openocd)
	if !slices.Equal(given.Flash.Scripts, []string{"mine.cfg"}) || !reflect.DeepEqual(given.extras, extras{}) {
		t.Errorf("with scripts in the board file: %q, %q", given.Flash.Scripts, given.extras)
	}
	other := created(t, "west", Config{Build: dir, Flash: boards.Flash{Runner: "pyocd"}}).(*pyocd)
	options := []string{"--frequency=4000000", "-Oreset_type=hw"}
	if other.Flash.Chip != "nrf52840" || !slices.Equal(other.extras.options, options) {
		t.Errorf("pyocd: %q, %q", other.Flash.Chip, other.extras.options)
	}
}

// TestZephyrBuildErrors: an error about a build names its file and the next step.
func TestZephyrBuildErrors(t *testing.T) {
	good := func() string {
		return zephyrtest.Build(t, "openocd", map[string][]string{"jlink": nil, "openocd": zephyrtest.OpenOCD}, "# nothing\n")
	}
	with := func(text string) string {
		dir := good()
		rewrite(t, dir, "zephyr/runners.yaml", text)
		return dir
	}
	lost := zephyrtest.Build(t, "openocd",
		map[string][]string{"openocd": append([]string{"--config=/no such/a.cfg"}, zephyrtest.OpenOCD...)}, "")
	for _, c := range []struct{ dir, runner, want string }{
		{t.TempDir(), "", "is not the folder of a Zephyr build"},
		{with("runners:\n- a\n b: ["), "", "runners.yaml: yaml: line"},
		{with("runners: 3\n"), "", "runners.yaml: yaml: "},
		{with(""), "", "has no runner"},
		{with("runners: [jlink]\n"), "", "it has: jlink"},
		{good(), "nrfutil", `no runner "nrfutil" to flash with; it has: jlink, openocd`},
		{lost, "", "openocd's configuration /no such/a.cfg does not exist"},
	} {
		_, err := New("west", Config{Build: c.dir, Flash: boards.Flash{Runner: c.runner}})
		wantError(t, err, failure.Config, c.want, c.dir)
	}
	none := created(t, "west", Config{})
	wantError(t, none.Do(t.Context(), Job{}), failure.Config)
	wantError(t, last(none.(flashReader).Read(t.Context(), nil)), failure.Config)
}

// withScript returns a configuration for a Zephyr build whose runner starts a script, which gets the build's folder.
func withScript(t *testing.T, script string) Config {
	t.Helper()
	testkit.Need(t, "west")
	path := filepath.Join(t.TempDir(), "flash it")
	testkit.WriteProgram(t, path, "#!/bin/sh\n"+script+"\n")
	runner := map[string][]string{"misc-flasher": {path, "of mine"}}
	return Config{Build: zephyrtest.Build(t, "misc-flasher", runner, ""), Find: testkit.FindTool}
}

// wholeImage is a job that writes two sectors.
var wholeImage = Job{
	Erase: []boards.Sector{{Index: 0, Addr: 0, Size: 4}, {Index: 1, Addr: 4, Size: 4}},
	Write: []Segment{{0, []byte("abcd")}, {4, []byte("efgh")}}, Restart: true,
}

// TestWestRunner: a runner of west writes the build's own image; each sector counts as erased before it starts. Its
// failure, a program that it lacks and a job that it cannot do are errors.
func TestWestRunner(t *testing.T) {
	t.Parallel()
	c := withScript(t, `cp "$1/zephyr/zephyr.hex" "$1/flashed"; echo "$2" >>"$1/flashed"; exit $(cat "$1/status")`)
	image := filepath.Join(c.Build, "zephyr", "zephyr.elf")
	rewrite(t, c.Build, "zephyr/zephyr.hex", "the image\n")
	for status, want := range []failure.Class{"", failure.Flash} {
		rewrite(t, c.Build, "status", fmt.Sprint(status))
		var erased []uint64
		job := wholeImage
		job.Erasing = func(addr uint64) { erased = append(erased, addr) }
		with := c
		with.Image, with.Probe.Serial = image, "S1" // this runner cannot choose a probe
		err := created(t, "west", with).Do(t.Context(), job)
		if failure.Of(err) != want || !slices.Equal(erased, []uint64{0, 4}) {
			t.Errorf("status %d: class %s, erased %d: %v", status, failure.Of(err), erased, err)
		}
		if err != nil && strings.Contains(failure.Next(err), "west flash") { // which would erase outside of the ledger
			t.Errorf("%v; %s", err, failure.Next(err))
		}
		got, _ := os.ReadFile(filepath.Join(c.Build, "flashed"))
		wantEqual(t, string(got), "the image\nof mine\n", got)
	}
	earlier, other := c, c
	earlier.Image = filepath.Join(t.TempDir(), "zephyr.elf")
	other.Flash.Runner = "nrfjprog"
	other.Build = zephyrtest.Build(t, "nrfjprog", map[string][]string{"nrfjprog": {"--nrf-family=NRF52"}}, "")
	rewrite(t, other.Build, "zephyr/zephyr.hex", ":00000001FF\n")
	do := func(c Config, job Job) error { return created(t, "west", c).Do(t.Context(), job) }
	wantError(t, do(c, Job{Restart: true}), failure.Config, "neither erases nor resets")
	wantError(t, do(earlier, wholeImage), failure.Config, "is of another")
	wantError(t, do(other, wholeImage), failure.ToolMissing, "not installed")
	rewrite(t, c.Build, "CMakeCache.txt", "OTHER:PATH=x\n")
	wantError(t, do(c, wholeImage), failure.Config, "contain Zephyr's folder")
	rewrite(t, c.Build, "CMakeCache.txt", "ZEPHYR_BASE:PATH="+t.TempDir()+"\n")
	wantError(t, do(c, wholeImage), failure.Config, "not in a west workspace")
}

// TestWestChoosesProbe: a runner that can choose a probe gets its serial, unless another attached one has the same.
func TestWestChoosesProbe(t *testing.T) {
	testkit.Need(t, "west")
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	script := "#!/bin/sh\necho \"$*\" >>" + command.Quote(log) + "\n"
	testkit.WriteProgram(t, filepath.Join(bin, "nrfjprog"), script)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	c := Config{
		Build: zephyrtest.Build(t, "nrfjprog", map[string][]string{"nrfjprog": {"--nrf-family=NRF52"}}, ""),
		Find:  testkit.FindTool,
		Probe: Probe{Serial: "683123456"},
	}
	rewrite(t, c.Build, "zephyr/zephyr.hex", ":0400000001020304F2\n:00000001FF\n")
	p := created(t, "west", c)
	must(t, p.Do(t.Context(), wholeImage))
	if output, err := os.ReadFile(log); err != nil || !strings.Contains(string(output), "--snr 683123456") {
		t.Errorf("nrfjprog got %s (%v)", output, err)
	}
	lines := p.Commands(wholeImage)
	if len(lines) != 2 || !strings.Contains(lines[0], "--context") || !strings.Contains(lines[1], "--dev-id=683123456") {
		t.Errorf("commands %q", lines)
	}
	c.Probe.Shared = true
	wantError(t, created(t, "west", c).Do(t.Context(), wholeImage), failure.Config, "also has the serial")
}

// TestWestCommands: the command that a dry run prints works in a shell.
func TestWestCommands(t *testing.T) {
	t.Parallel()
	c := withScript(t, `touch "$1/flashed"`)
	p := created(t, "west", c)
	lines, files := p.Commands(wholeImage), p.Files(wholeImage)
	if len(lines) != 1 || len(files) != 1 || !strings.Contains(files[0], c.Build) {
		t.Fatalf("%q, %q", lines, files)
	}
	must(t, shell(lines[0]).Run(t.Context()))
	must(t, last(os.Stat(filepath.Join(c.Build, "flashed"))))
}
