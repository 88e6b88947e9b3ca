package project_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
	"github.com/boardsmith/boardsmith/rpc"
)

// chips are the shipped boards that are no process.
func chips(t *testing.T, wanted func(*boards.Board) bool) []*boards.Board {
	t.Helper()
	var all []*boards.Board
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		must(t, err)
		if len(b.Memory) > 0 && wanted(b) {
			all = append(all, b)
		}
	}
	return all
}

func hasCompiler(t *testing.T, b *boards.Board) (why string) {
	t.Helper()
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(compiler) > 0 {
		return compiler[0].Error() + ": " + failure.Next(compiler[0])
	}
	return ""
}

func hasEmulator(t *testing.T, b *boards.Board) (why string) {
	t.Helper()
	_, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(emulator) > 0 {
		return emulator[0].Error() + ": " + failure.Next(emulator[0])
	}
	return ""
}

// unwanted are symbols of a heap, of formatted output and of C++, none of which firmware of ours has.
var unwanted = regexp.MustCompile(`^_*(malloc|calloc|realloc|reallocarray|free|memalign|aligned_alloc|posix_memalign|malloc_usable_size|sbrk|brk)(_r)?$` +
	`|printf|scanf|^_*(f?puts|f?putc|putchar|fwrite|fopen|fflush)(_r)?$|^_Z|^__cxa_|^__gxx_|^_Unwind_|^__dso_handle$`)

// TestEveryChipBuilds builds the sample for boards that are no process, all warnings being errors, and looks at the
// symbols of each image.
func TestEveryChipBuilds(t *testing.T) {
	t.Parallel()
	all := drawn.Of(t, "chips", chips(t, func(*boards.Board) bool { return true }), 1)
	model := filepath.Join(t.TempDir(), samples.Name)
	writeFile(t, model, string(samples.Archive()))
	c := cache.New(testcache.Dir(), cache.Options{})
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			if why := hasCompiler(t, b); why != "" {
				t.Skip(why)
			}
			ctx := testkit.Context(t)
			dir := filepath.Join(t.TempDir(), "p")
			builder := &project.Builder{Host: device.Host{Cache: c}, Forms: true}
			p, err := builder.Generate(ctx, dir, project.Spec{Board: b.Name, Model: model})
			must(t, err)
			defer p.Close()
			warnsAsErrors(t, dir)
			i, err := p.Build(ctx)
			must(t, err)
			symbols, err := exec.CommandContext(ctx, strings.TrimSuffix(b.Toolchain.Objcopy(), "objcopy")+"nm", i.Path).Output()
			must(t, err)
			n := 0
			for line := range strings.Lines(string(symbols)) {
				words := strings.Fields(line)
				name := words[len(words)-1]
				if n++; unwanted.MatchString(name) {
					t.Errorf("%s is in the image", name)
				}
			}
			if n < 50 {
				t.Errorf("only %d symbols in the image", n)
			}
			for _, f := range []string{i.Bin, i.Hex} {
				if s, err := os.Stat(f); err != nil || s.Size() == 0 {
					t.Errorf("%s: %v", f, err)
				}
			}
		})
	}
}

// warnsAsErrors makes the build to come stop at a warning.
func warnsAsErrors(t *testing.T, dir string) {
	t.Helper()
	editFile(t, filepath.Join(dir, "Makefile"), "\nWERROR :=\n", "\nWERROR := -Werror\n")
	out, err := exec.Command("make", "-C", dir, "-n", "-B").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, " -c -o build/src/") && !strings.Contains(line, " -Werror ") {
			t.Errorf("without -Werror: %s", line)
		}
	}
}

// Levels of a pin.
const high, low = 1, 2

// measuredBoards are emulated boards whose emulators have GPIO: the pin, and an expression in C that is not 0 while it
// is high.
var measuredBoards = []struct{ board, pin, level string }{
	{"lm3s6965evb", "PF0", "*(volatile uint32_t*)0x40025004U"},                // GPIODATA of this pin
	{"microbit", "P0.17", "(*(volatile uint32_t*)0x50000504U) & (1U << 17)"},  // OUT
	{"sifive_e", "GPIO19", "(*(volatile uint32_t*)0x1001200CU) & (1U << 19)"}, // OUTPUT_VAL
}

// measuredBoard writes a board file like a shipped one with a measure_pin, and returns the folder for the search path.
func measuredBoard(t *testing.T, name, pin string) string {
	t.Helper()
	text := readFile(t, filepath.Join("..", "boards", name+".json"))
	fields := map[string]any{}
	must(t, json.Unmarshal(text, &fields))
	fields["measure_pin"] = pin
	text, err := json.Marshal(fields)
	must(t, err)
	return boardstest.Shelf(t, map[string]string{"measured.json": string(text)})
}

// TestMeasured has an operator read the board's measure_pin: it is high while a run is timed, over RPC and in
// standalone firmware, and low in a run that is not.
func TestMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "boards with a pin", measuredBoards, 1) {
		t.Run(c.board, func(t *testing.T) {
			shipped, err := boards.Find(c.board, nil)
			must(t, err)
			if why := hasCompiler(t, shipped) + hasEmulator(t, shipped); why != "" {
				t.Skip(why)
			}
			builder := newBuilder(testcache.Dir(), measuredBoard(t, c.board, c.pin))
			statement := fmt.Sprintf("static int32_t was; out[0] = was; was = (%s) ? %d : %d; return 0;", c.level, high, low)
			s := project.Spec{Board: "measured", Model: broken(t, statement)}
			t.Run("rpc", func(t *testing.T) { measureOverRPC(t, builder, s) })
			t.Run("standalone", func(t *testing.T) { measureAlone(t, builder, s) })
		})
	}
}

// levelSeen runs the model, and returns the pin's level in the run before.
func levelSeen(t *testing.T, e executor.Executor) byte {
	t.Helper()
	ctx := testkit.Context(t)
	must(t, e.Run(ctx))
	out, err := e.Output(ctx, 0)
	must(t, err)
	return out.Data[0]
}

func measureOverRPC(t *testing.T, builder *project.Builder, s project.Spec) {
	ctx := testkit.Context(t)
	p := generated(t, builder, s)
	session, err := p.Run(ctx, &device.Desk{Programmer: "none"}, "")
	must(t, err)
	defer session.Close(ctx)
	_, m, err := p.Model()
	must(t, err)
	e, err := executor.Open(ctx, session, m)
	must(t, err)
	in := four(t, e)
	must(t, e.SetInput(ctx, in.Name, in.Array))
	levelSeen(t, e)
	if level := levelSeen(t, e); level != low {
		t.Errorf("in a run that is not timed, the pin is %d", level)
	}
	_, err = e.Time(ctx, rpc.TimeOptions{Number: 2, Repeat: 2})
	must(t, err)
	if level := levelSeen(t, e); level != high {
		t.Errorf("in a timed run, the pin is %d", level)
	}
	if level := levelSeen(t, e); level != low {
		t.Errorf("after the measurement, the pin is %d", level)
	}
}

func measureAlone(t *testing.T, builder *project.Builder, s project.Spec) {
	p, err := generateAlone(t, builder, s)
	must(t, err)
	f, err := openAlone(t, p)
	must(t, err)
	in := four(t, f.model)
	must(t, f.model.SetInput(t.Context(), in.Name, in.Array))
	levelSeen(t, f.model)
	if level := levelSeen(t, f.model); level != high {
		t.Errorf("in a run, the pin is %d", level)
	}
}

// TestMeasurePinRefused asks for a pin of a board, or of a template, that cannot raise it.
func TestMeasurePinRefused(t *testing.T) {
	t.Parallel()
	for board, pin := range map[string]string{"host": "PA5", "lm3s6965evb": "PE7", "mps2_an385": "PA5"} {
		builder := &project.Builder{Host: device.Host{Path: []string{measuredBoard(t, board, pin)}}}
		p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
			project.Spec{Board: "measured", Model: broken(t, "return 1;")})
		if err == nil {
			p.Close()
		}
		if failure.Of(err) != failure.Config {
			t.Errorf("%s of %s: %v", pin, board, err)
		}
	}
}

const customExample = "../examples/custom-board"

// TestCustomBoard builds the example of a custom board: its boot loader starts the image only with a header and a list
// of hash and signature, and the model's outputs are right.
func TestCustomBoard(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"make", "arm-none-eabi-gcc", "qemu-system-arm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
	loader := filepath.Join(t.TempDir(), "boot.elf")
	if out, err := exec.Command("arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0,-e,start", "-o", loader,
		customExample+"/boards/boot.S").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made, err := exec.Command("arm-none-eabi-objcopy", "-O", "ihex", loader, "/dev/stdout").Output()
	must(t, err)
	is, err := os.ReadFile(customExample + "/boards/boot.hex")
	lines := func(text []byte) string { return strings.ReplaceAll(string(text), "\r", "") }
	if err != nil || lines(made) != lines(is) {
		t.Errorf("boot.hex is not made of boot.S (%v):\n%s", err, made)
	}
	board := "kiln"
	builder := &project.Builder{
		Host:  device.Host{Path: []string{customExample}, Cache: cache.New(testcache.Dir(), cache.Options{})},
		Forms: true,
	}
	if path, err := exec.LookPath("imgtool"); err == nil {
		key := filepath.Join(t.TempDir(), "kiln.pem")
		if out, err := exec.Command(path, "keygen", "--key", key, "--type", "ed25519").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		board, builder.Variables = "kiln_imgtool", map[string]string{"KILN_KEY": key}
	} else {
		t.Log("no imgtool: the image is hashed by the example's sign.py, and not signed")
	}
	model := mlftest.Path(t, "digits_i8.aot_c")
	p := generated(t, builder, project.Spec{Board: board, Model: model})
	runProject(t, t.Context(), p, model)
	built, err := p.Built()
	must(t, err)
	r, err := release.Of(p, built, release.Options{})
	must(t, err)
	at := slices.IndexFunc(r.Files, func(f release.File) bool { return f.Name == "release.json" })
	type part struct{ Kind, Name, SHA256 string }
	var about struct{ Parts []part }
	must(t, json.Unmarshal(r.Files[at].Data, &about))
	if !slices.ContainsFunc(about.Parts, func(x part) bool {
		return x.Kind == "board" && x.Name == board && len(x.SHA256) == 64
	}) {
		t.Errorf("the board's own C is no part: %+v", about.Parts)
	}
}
