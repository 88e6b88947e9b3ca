package flasher

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/zephyrtest"
)

func TestZephyrBuild(t *testing.T) {
	t.Parallel()
	b, err := openZephyrBuild(zephyrtest.Build(t, "jlink", "nrf51"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"jlink": {"--device=x"}, "openocd": {"--cmd-load", "flash write_image erase", "--cmd-verify", "verify_image"},
		"pyocd": {"--target=nrf51"},
	}
	if !reflect.DeepEqual(b.args, want) || !reflect.DeepEqual(b.runners, []string{"jlink", "openocd", "pyocd"}) ||
		b.usual != "jlink" {
		t.Errorf("%+v", b)
	}
	if b.runner() != "openocd" || b.argument("pyocd", "--target") != "nrf51" ||
		b.argument("openocd", "--cmd-verify") != "verify_image" || b.argument("openocd", "--x") != "" {
		t.Errorf("runner %s, target %q", b.runner(), b.argument("pyocd", "--target"))
	}
	for name, dir := range map[string]string{"none": "", "an empty folder": t.TempDir()} {
		w := newWest(Config{Build: dir, Log: hclog.NewNullLogger(), Find: findTool})
		if err := w.Do(t.Context(), Job{}); failure.Of(err) != failure.Config || failure.Next(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	baseless := zephyrtest.Build(t, "openocd", "x")
	if err := os.WriteFile(filepath.Join(baseless, "CMakeCache.txt"), []byte("OTHER:PATH=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openZephyrBuild(baseless); failure.Of(err) != failure.Config {
		t.Errorf("without ZEPHYR_BASE: %v", err)
	}
	only := zephyrtest.Build(t, "jlink", "x")
	file := filepath.Join(only, "zephyr", "runners.yaml")
	if err := os.WriteFile(file, []byte("runners:\n- jlink\nflash-runner: jlink\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = newWest(Config{Build: only, Log: hclog.NewNullLogger(), Find: findTool}).Read(t.Context(), nil)
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "it has jlink") {
		t.Errorf("only jlink: %v", err)
	}
}

// Comments, empty lines and one-letter lines of runners.yaml change nothing.
func TestZephyrRunnersComments(t *testing.T) {
	t.Parallel()
	const text = "# runners:\n\nrunners:\n#- jlink\n  # - jlink\n- pyocd\n-\n\n#\nflash-runner: 'pyocd'\nargs:\n" +
		"  pyocd:\n  # flash-runner: jlink\n  - --target=x\n"
	var b zephyrBuild
	b.parse([]byte(text))
	want := zephyrBuild{runners: []string{"pyocd"}, usual: "pyocd", args: map[string][]string{"pyocd": {"--target=x"}}}
	if !reflect.DeepEqual(b, want) {
		t.Errorf("got  %+v\nwant %+v", b, want)
	}
}

// objcopy reads the Intel HEX that writeHex writes.
func TestHex(t *testing.T) {
	t.Parallel()
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
	if out, err := exec.Command(objcopy, "-I", "ihex", "-O", "binary", "--gap-fill", "0xff", hex,
		bin).CombinedOutput(); err != nil {
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

// Outside of a Zephyr workspace, west has no command flash. The error names this and the next step.
func TestWestWithoutZephyr(t *testing.T) {
	t.Parallel()
	if _, err := findTool("west"); err != nil {
		t.Skip("west is not installed")
	}
	build := zephyrtest.Build(t, "openocd", "nrf51")
	cache := filepath.Join(build, "CMakeCache.txt")
	if err := os.WriteFile(cache, []byte("ZEPHYR_BASE:PATH="+t.TempDir()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := newWest(Config{Flash: boards.Flash{Programmer: "west"}, Build: build, Log: hclog.NewNullLogger(), Find: findTool})
	err := p.Do(t.Context(), Job{Restart: true})
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "not in a west workspace") {
		t.Errorf("class %v: %v", failure.Of(err), err)
	}
}

// The commands that DRYRUN prints work in a shell.
func TestWestCommands(t *testing.T) {
	t.Parallel()
	job := Job{Restart: true}
	for i := range uint64(3) {
		s := boards.Sector{Index: int(i), Addr: i * 1024, Size: 1024}
		job.Erase = append(job.Erase, s)
		job.Write = append(job.Write, Segment{s.Addr, make([]byte, 1024)})
	}
	job.Verify = job.Write
	for runner, want := range map[string]int{"openocd": 1, "pyocd": 3} {
		w := newWest(Config{
			Build: zephyrtest.Build(t, runner, "nrf51"), Log: hclog.NewNullLogger(),
			Find: func(n string) (string, error) { return n, nil }, Probe: Probe{Serial: "S1"},
		})
		got := w.Commands(job)
		all := strings.Join(got, "\n")
		if len(got) != want || !strings.Contains(strings.ReplaceAll(all, "'", ""), "west flash --build-dir=") ||
			!strings.Contains(all, "S1") || !strings.HasPrefix(got[want/2], "ZEPHYR_BASE=") {
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

// West's part of a job and pyOCD's two have each sector and segment of the job once; pyOCD writes the last segment and
// does a job without writes alone.
func TestWestParts(t *testing.T) {
	t.Parallel()
	w := &westPyOCD{}
	for writes := range 4 {
		job := Job{Restart: true}
		for i := range uint64(4) {
			job.Erase = append(job.Erase, boards.Sector{Index: int(i), Addr: i * 1024, Size: 1024})
		}
		for _, s := range job.Erase[:writes] {
			job.Write = append(job.Write, Segment{s.Addr, make([]byte, 1024)})
		}
		job.Verify = job.Write
		before, middle, after := w.parts(job)
		erased := append(slices.Clone(before.Erase), after.Erase...)
		for _, s := range job.Erase {
			if touches(middle, s) {
				erased = append(erased, s)
			}
		}
		slices.SortFunc(erased, func(a, b boards.Sector) int { return a.Index - b.Index })
		written := append(slices.Clone(middle), after.Write...)
		if !reflect.DeepEqual(erased, job.Erase) || len(written) != writes || len(before.Write) > 0 ||
			writes > 0 && !reflect.DeepEqual(written, job.Write) || writes == 1 && len(after.Write) > 0 ||
			writes > 1 && len(after.Write) != 1 || writes == 0 && len(before.Erase) > 0 {
			t.Errorf("%d writes: %+v, %d segments, %+v", writes, before, len(middle), after)
		}
		if !after.Restart || before.Restart || len(after.Verify) != writes || len(before.Verify) > 0 {
			t.Errorf("%d writes: %+v, %+v", writes, before, after)
		}
	}
}
