package accept_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/accept"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, failure.Next(err))
	}
}

// needTools skips where the board's compiler or emulator is not installed.
func needTools(t *testing.T, name string, path []string) {
	t.Helper()
	b, err := boards.Find(name, path)
	must(t, err)
	compiler, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range append(compiler, emulator...) {
		t.Skipf("board %s: %v", name, e)
	}
}

// trial accepts a board in short form. Without hardware it needs no more than the compiler and the emulator.
func trial(t *testing.T, board string, path ...string) accept.Trial {
	t.Helper()
	needTools(t, board, path)
	c := cache.New(testcache.Dir(), cache.Options{})
	home := t.TempDir()
	return accept.Trial{
		Board: board, Short: true,
		Builder: &project.Builder{Host: device.Host{Path: path, Cache: c}},
		Desk: &device.Desk{
			Host:     device.Host{Path: path, Cache: c},
			StateDir: home, LeaseDir: home, Programmer: "none", Probes: emulated.Probes(),
		},
		Done: func(r accept.Result) { t.Log(time.Now().Format("05.000"), r.Name, r.Details, r.Skipped) },
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	keepertest.Clean()
	testcache.Clean()
	os.Exit(code)
}

// TestAccept accepts a process or an emulated board in every run, and all kinds of core in a full one.
func TestAccept(t *testing.T) {
	t.Parallel()
	names := drawn.Of(t, "accepted boards", []string{"host", "mps2_an385"}, 1)
	if drawn.InFull() {
		names = append(names, "lm3s6965evb", "microbit", "mps2_an521", "qemu_riscv32", "qemu_riscv64", "sifive_e",
			"stm32vldiscovery")
	}
	for _, board := range names {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			r, err := accept.Run(t.Context(), trial(t, board))
			must(t, err)
			if len(r.Results) != len(accept.Steps()) || r.Failed != nil {
				t.Errorf("%d results: %v", len(r.Results), r.Failed)
			}
		})
	}
}

// TestMemoryOfEmulatedBoards compares the memory maps of shipped boards that are emulated with the emulator's RAM.
func TestMemoryOfEmulatedBoards(t *testing.T) {
	t.Parallel()
	var emulated []string
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		must(t, err)
		if b.Link.Kind == "qemu" {
			emulated = append(emulated, name)
		}
	}
	if len(emulated) == 0 {
		t.Error("no shipped board is emulated")
	}
	for _, name := range drawn.Of(t, "memory of emulated boards", emulated, 3) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := accept.RunThrough(t.Context(), trial(t, name), "memory")
			must(t, err)
			if last := r.Results[len(r.Results)-1]; last.Name != "memory" || last.Skipped != "" {
				t.Errorf("the last step is %+v", last)
			}
		})
	}
}

// TestAcceptInFull takes every step with all repetitions, and flashes an emulated chip whose power is switched.
func TestAcceptInFull(t *testing.T) {
	t.Parallel()
	if !drawn.InFull() {
		t.Skip("in full tests only: 1,000 sessions")
	}
	testkit.Need(t, "openocd")
	for _, board := range []string{"mps2_an385", "microbit"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			needTools(t, board, nil)
			c, home := cache.New(testcache.Dir(), cache.Options{}), t.TempDir()
			ran := filepath.Join(home, "ran")
			desk := &device.Desk{
				Host:     device.Host{Cache: c},
				StateDir: home, LeaseDir: home, Probes: emulated.Probes(),
				Tool: func(program string) (string, error) {
					if program == chipkeeper.Program {
						return keepertest.Path()
					}
					return exec.LookPath(program)
				},
			}
			b, err := boards.Find(board, nil)
			must(t, err)
			if b.Flash.Emulated {
				state, err := desk.StartEmulated(t.Context(), b)
				must(t, err)
				t.Cleanup(func() {
					_, err := desk.StopEmulated(context.Background(), b)
					must(t, err)
				})
				desk.File = &device.DeskFile{Devices: []device.DeskDevice{
					{Name: "this", Board: board, Probe: state.Probe, Power: "echo x >>" + ran},
				}}
			}
			r, err := accept.Run(t.Context(), accept.Trial{
				Board: board, Builder: &project.Builder{Host: device.Host{Cache: c}}, Desk: desk,
			})
			must(t, err)
			page := r.Page("me", time.Now())
			t.Log(page)
			testkit.WantText(t, page, "1000 sessions", "double: right")
			if b.Flash.Emulated {
				testkit.WantText(t, page, "10 flashes: ", "the power was off after 10 of them")
				testkit.Equal(t, "the command for the power ran", string(testkit.ReadFile(t, ran)), strings.Repeat("x\n", 10))
			}
		})
	}
}

// Lines of the port of board host.
const (
	ticks       = "static uint64_t process_ticks(void* ctx) {"
	nanoseconds = "return ((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec;"
)

// broken are boards that each have one fault, and the step at which it must show.
var broken = []struct {
	name, step string
	of         string            // the shipped board
	board      map[string]string // what to change in its file: old to new
	port       map[string]string // what to change in port/process.c and its header
	text       string            // in the error
}{
	{
		name: "receive interrupt dead", step: "reset", of: "mps2_an385",
		board: map[string]string{`"arena_kib"`: `"defines": {"UART_IRQ": "7"}, "arena_kib"`}, text: "session start",
	},
	{
		name: "region too large", step: "memory", of: "mps2_an385",
		board: map[string]string{`"arena_kib"`: `"memory": [
    {"name": "code", "origin": "0x00000000", "size": "0x00400000", "exec": true},
    {"name": "ram", "origin": "0x20000000", "size": "0x00400000"},
    {"name": "psram", "origin": "0x21000000", "size": "0x01000100"}], "arena_kib"`},
		text: "region psram",
	},
	{
		// the machine has the 4 MiB at 0x20000000 a second time, at 0x20400000
		name: "arena over the stack", step: "memory", of: "mps2_an385",
		board: map[string]string{`"arena_kib": 2048`: `"memory": [
    {"name": "code", "origin": "0x00000000", "size": "0x00400000", "exec": true},
    {"name": "ram", "origin": "0x20000000", "size": "0x00400000"},
    {"name": "more", "origin": "0x20400000", "size": "0x00400000"}],
  "place": {"code": "code", "data": "ram", "arena": "more"}, "arena_kib": 32`},
		text: "region more",
	},
	{
		name: "clock 2 % fast", step: "clock", of: "host",
		port: map[string]string{
			nanoseconds: "return ((((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec) / 100U) * 102U;",
		},
		text: "% off the reported", // 2 %, less or more on a busy computer
	},
	{
		// only waits that time out count: the others may be those of a busy computer
		name: "counter that sleeps", step: "timer", of: "host",
		port: map[string]string{
			ticks:       "static uint64_t slept;\n" + ticks,
			nanoseconds: "return ((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec - slept;",
			"static int32_t process_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {": `static uint64_t slept;
static uint64_t process_ticks(void* ctx);
static int32_t process_receive(void* ctx, uint8_t** data, uint32_t timeout_ms) {
  const uint64_t before = process_ticks(ctx);`,
			"  if (ready <= 0) {\n    return ((ready == 0)": `  slept += (ready == 0) ? process_ticks(ctx) - before : 0U;
  if (ready <= 0) {
    return ((ready == 0)`,
		},
		text: "the timer does not run at",
	},
	{
		name: "constant id", step: "chip id", of: "host",
		port: map[string]string{
			"static void process_ticks_align": `static uint32_t constant_id(void* ctx, uint8_t* id, uint32_t most) {
  (void)ctx;
  (void)memset(id, 0xFF, (most < 8U) ? most : 8U);
  return (most < 8U) ? most : 8U;
}
static void process_ticks_align`,
			".ticks_align = process_ticks_align,": ".ticks_align = process_ticks_align,\n    .chip_id = constant_id,",
			"    .chip_id = process_chip_id,\n":   "",
		},
		text: "nothing was read",
	},
}

// brokenDrawn is how many of them a plain run tries.
const brokenDrawn = 1

// TestBrokenBoards checks that each fault of a board shows at its step.
func TestBrokenBoards(t *testing.T) {
	t.Parallel()
	for _, b := range drawn.Of(t, "broken boards", broken, brokenDrawn) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			text := shipped(t, filepath.Join("..", "..", "..", "boards", b.of+".json"), b.board)
			files := map[string]string{}
			if b.port != nil {
				text = strings.Replace(text, `"port/process.c"`, `"process.c"`, 1)
				const file = "../../../templates/baremetal/port/process.c"
				header := shipped(t, "../../../templates/firmware/process.h", nil)
				port := shipped(t, file, map[string]string{"#include \"process.h\"\n": header})
				files["process.c"] = changed(t, file, port, b.port)
			}
			files[b.of+".json"] = strings.Replace(text, "{", `{"replaces": true,`, 1)
			if strings.Contains(text, `"memory"`) { // which a chip file's would contradict
				chip := filepath.Join("chip", b.of+".json")
				file := shipped(t, filepath.Join("..", "..", "..", "boards", chip), nil)
				files[chip] = regexp.MustCompile(`(?s)"memory": \[.*?\n  \],`).ReplaceAllString(file, "")
			}
			r, err := accept.Run(t.Context(), trial(t, b.of, boardstest.Shelf(t, files)))
			if r != nil {
				for _, s := range r.Results {
					if strings.Contains(s.Skipped, "too busy") { // other programs left no time to measure a counter
						t.Skipf("step %s: %s", s.Name, s.Skipped)
					}
				}
			}
			var failed *accept.Error
			if !errors.As(err, &failed) {
				t.Fatalf("got %v", err)
			}
			t.Log(err)
			if failed.Step.Name != b.step || !strings.Contains(err.Error(), b.text) {
				t.Errorf("step %s: %v\nwant step %s, and in the text %q", failed.Step.Name, err, b.step, b.text)
			}
			next, dead := failed.NextStep(), b.name == "receive interrupt dead"
			if !dead && next != failed.Step.Look || dead && !strings.Contains(next, "bytes arrive") {
				t.Errorf("the next step is %q", next)
			}
			page := r.Page("somebody", time.Time{})
			if !strings.Contains(page, "\n## Wrong\n\n* **"+b.step+"**") || strings.Contains(page, "Accepted by") {
				t.Errorf("the page is\n%s", page)
			}
		})
	}
}

// shipped returns a file with changes.
func shipped(t *testing.T, file string, changes map[string]string) string {
	t.Helper()
	return changed(t, file, string(testkit.ReadFile(t, file)), changes)
}

func changed(t *testing.T, file, text string, changes map[string]string) string {
	t.Helper()
	for from, to := range changes {
		if !strings.Contains(text, from) && to != "" {
			t.Fatalf("%s has no %q", file, from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

// TestContexts ends the contexts of all that this package does before it begins, and of a run under way.
func TestContexts(t *testing.T) {
	run := func(ctx context.Context) error {
		_, err := accept.Run(ctx, accept.Trial{
			Board: "host", Builder: &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}},
			Desk: &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir()},
		})
		return err
	}
	failuretest.Ended(t, failuretest.Calls{"Run": run})
	failuretest.Waiting(t, failuretest.Calls{"Run": run})
}

// TestPageIsRead writes pages, and reads who accepted what.
func TestPageIsRead(t *testing.T) {
	b, err := boards.Find("host", nil)
	must(t, err)
	on := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	steps := accept.Steps()
	r := &accept.Report{
		Board: "host", Digest: accept.DigestOf(b), Short: true,
		Results: []accept.Result{{Step: steps[0], Details: []string{"measured"}}, {Step: steps[1], Skipped: "no id"}},
	}
	page := filepath.Join(t.TempDir(), "host.accepted.md")
	write := func(r *accept.Report) (accept.Signature, bool) {
		t.Helper()
		testkit.WriteFile(t, page, r.Page("A. Author", on))
		return accept.Read(page)
	}
	want := accept.Signature{By: "A. Author", On: on.Truncate(24 * time.Hour), Digest: accept.DigestOf(b), Short: true}
	if got, ok := write(r); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	r.Failed = &accept.Error{Board: "host", Step: steps[2], Err: errors.New("no RAM")}
	if got, ok := write(r); ok {
		t.Errorf("a failed board was accepted: %+v", got)
	}
	if _, ok := accept.Read(filepath.Join(t.TempDir(), "none")); ok {
		t.Error("a page that is not there was read")
	}
	changed := *b
	changed.ArenaKiB++
	if accept.DigestOf(&changed) == accept.DigestOf(b) {
		t.Error("a changed board has the same digest")
	}
}

// TestDigestOfFiles changes each file that a board names, and one that it does not name.
func TestDigestOfFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) boards.Source { return boards.Source{Name: name, Dir: dir} }
	b := &boards.Board{
		Sources: []boards.Source{at("port/a.c"), {Name: "port/of_the_template.c"}}, LinkerScript: at("a.ld"),
		Startup: at("start.S"), Include: []boards.Source{at("inc")},
		Libraries: []boards.Source{at("./lib"), {Name: "known", Dir: dir}},
		Link:      boards.Link{Args: []string{"{board}/sim.txt"}, Dir: dir},
	}
	b.PostLink.Words, b.PostLink.Dir = []string{"{board}/sign.sh", "{elf}", "{out.bin}"}, dir
	names := []string{"port/a.c", "a.ld", "start.S", "inc/a.h", "lib/library.json", "lib/src/x.def", "sign.sh", "sim.txt"}
	digests := map[string]bool{}
	write := func(name, text string) bool {
		t.Helper()
		testkit.WriteFile(t, filepath.Join(dir, name), text)
		sum := accept.DigestOf(b)
		was := digests[sum]
		digests[sum] = true
		return !was
	}
	for _, name := range names {
		if !write(name, "one") || !write(name, "two") {
			t.Errorf("%s was written or changed: the digest is the same", name)
		}
	}
	if write("inc/notes.md", "x") || write("port/b.c", "x") {
		t.Error("a file that the board does not name changes the digest")
	}
}

// TestPageOfFetched: the page of a board of a git repository is not in the fetched folder.
func TestPageOfFetched(t *testing.T) {
	fetched := filepath.Join(t.TempDir(), "files", "boards")
	must(t, os.MkdirAll(fetched, 0o755))
	b := &boards.Board{Name: "kiln", Dir: fetched}
	testkit.Equal(t, "an own board", accept.PageOf(b, "here"), filepath.Join(fetched, "kiln.accepted.md"))
	testkit.WriteFile(t, filepath.Join(fetched, "..", "..", "fetched.json"), "{}")
	testkit.Equal(t, "a fetched board", accept.PageOf(b, "here"), "here/boards/kiln.accepted.md")
}

// TestAdvice checks that the pages and headings which the steps advise to read exist.
func TestAdvice(t *testing.T) {
	named := regexp.MustCompile(`(docs/[\w/.-]+\.md)(?:, ([A-Z][\w ]*))?`)
	found := 0
	for _, s := range accept.Steps() {
		for _, m := range named.FindAllStringSubmatch(s.Look, -1) {
			found++
			page := testkit.ReadFile(t, filepath.Join("..", "..", "..", m[1]))
			if !regexp.MustCompile(`(?m)^#+ ` + regexp.QuoteMeta(m[2])).Match(page) {
				t.Errorf("step %s: %s has no heading %q", s.Name, m[1], m[2])
			}
		}
	}
	if found == 0 {
		t.Error("no step names a page")
	}
}
