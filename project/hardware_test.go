package project

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/rpc"
)

// unwanted are symbols of a heap, of formatted output and of C++, none of which firmware of ours has.
var unwanted = regexp.MustCompile(`^_*(malloc|calloc|realloc|reallocarray|free|memalign|aligned_alloc|posix_memalign|malloc_usable_size|sbrk|brk)(_r)?$` +
	`|printf|scanf|^_*(f?puts|f?putc|putchar|fwrite|fopen|fflush)(_r)?$|^_Z|^__cxa_|^__gxx_|^_Unwind_|^__dso_handle$`)

// TestEveryChipBuilds builds the sample for boards that are no process, all warnings being errors, and looks at the
// symbols of each image.
func TestEveryChipBuilds(t *testing.T) {
	t.Parallel()
	model := filepath.Join(t.TempDir(), samples.Name)
	writeFile(t, model, string(samples.Archive()))
	for _, b := range drawn.Of(t, "chips", bareBoards(t), 1) {
		t.Run(b.Name, func(t *testing.T) {
			p := generated(t, Spec{Board: b.Name, Model: model})
			warnsAsErrors(t, p)
			i := built(t, p)
			symbols, err := openELF(t, i).Symbols()
			must(t, err)
			for _, s := range symbols {
				if unwanted.MatchString(s.Name) && elf.ST_TYPE(s.Info) != elf.STT_FILE {
					t.Errorf("%s is in the image", s.Name)
				}
			}
			if len(symbols) < 50 {
				t.Errorf("only %d symbols in the image", len(symbols))
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
func warnsAsErrors(t *testing.T, p *Project) {
	t.Helper()
	need(t, "make")
	editFile(t, p.at("Makefile"), "\nWERROR :=\n", "\nWERROR := -Werror\n")
	for line := range strings.Lines(output(t, exec.Command("make", "-C", p.Dir(), "-n", "-B"))) {
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
	text := boardstest.Text(t, name, `"measure_pin": "`+pin+`",`)
	return boardstest.Shelf(t, map[string]string{"measured.json": text})
}

// TestMeasured has an operator read the board's measure_pin: it is high while a run is timed, over RPC and in
// standalone firmware, and low in a run that is not.
func TestMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "boards with a pin", measuredBoards, 1) {
		t.Run(c.board, func(t *testing.T) {
			builder := newBuilder(measuredBoard(t, c.board, c.pin))
			statement := fmt.Sprintf("static int32_t was; out[0] = was; was = (%s) ? %d : %d; return 0;", c.level, high, low)
			s := Spec{Board: "measured", Model: mlftest.Edited(t, "return 0;", statement)}
			t.Run("rpc", func(t *testing.T) {
				p := generated(t, s, builder)
				e := opened(t, p, running(t, p))
				answer(t, e, four(t, e))
				checkLevel(t, e, low)
				_, err := e.Time(t.Context(), rpc.TimeOptions{Number: 2, Repeat: 2})
				must(t, err)
				checkLevel(t, e, high)
				checkLevel(t, e, low)
			})
			t.Run("standalone", func(t *testing.T) {
				f := startAlone(t, s, builder)
				answer(t, f.model, four(t, f.model))
				checkLevel(t, f.model, high)
			})
		})
	}
}

// checkLevel runs the model, which answers with the pin's level in the run before.
func checkLevel(t *testing.T, e executor.Executor, want byte) {
	t.Helper()
	if level := answer(t, e, four(t, e))[0].Array.Data[0]; level != want {
		t.Errorf("the pin is %d, want %d", level, want)
	}
}

// TestMeasurePinRefused asks for a pin of a board, or of a template, that cannot raise it.
func TestMeasurePinRefused(t *testing.T) {
	t.Parallel()
	for board, pin := range map[string]string{"host": "PA5", "lm3s6965evb": "PE7", "mps2_an385": "PA5"} {
		_, err := generate(t, Spec{Board: "measured"}, newBuilder(measuredBoard(t, board, pin)))
		wantError(t, err, failure.Config)
	}
}

const customExample = "../examples/custom-board"

// TestCustomBoard builds the example of a custom board: its boot loader starts the image only with a header and a list
// of hash and signature, and the model's outputs are right.
func TestCustomBoard(t *testing.T) {
	t.Parallel()
	need(t, "make", "arm-none-eabi-gcc", "qemu-system-arm", "python3")
	loader := filepath.Join(t.TempDir(), "boot.elf")
	output(t, exec.Command("arm-none-eabi-gcc", "-nostdlib", "-Wl,-Ttext=0,-e,start", "-o", loader,
		customExample+"/boards/boot.S"))
	hex := output(t, exec.Command("arm-none-eabi-objcopy", "-O", "ihex", loader, "/dev/stdout"))
	if !slices.Equal(strings.Fields(hex), strings.Fields(readFile(t, customExample+"/boards/boot.hex"))) {
		t.Errorf("boot.hex is not made of boot.S:\n%s", hex)
	}
	board, builder := "kiln", newBuilder(customExample)
	if path, err := exec.LookPath("imgtool"); err == nil {
		key := filepath.Join(t.TempDir(), "kiln.pem")
		output(t, exec.Command(path, "keygen", "--key", key, "--type", "ed25519"))
		board, builder.Variables = "kiln_imgtool", map[string]string{"KILN_KEY": key}
	} else {
		t.Log("no imgtool: the image is hashed by the example's sign.py, and not signed")
	}
	model := mlftest.Path(t, "digits_i8.aot_c")
	runProject(t, generated(t, Spec{Board: board, Model: model}, builder), model)
}
