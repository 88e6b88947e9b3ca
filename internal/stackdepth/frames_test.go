package stackdepth_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

var edgeLine = regexp.MustCompile(`edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"`)

var suLine = regexp.MustCompile(`title: "([^"]*)" label: "[^"]*\\n(\d+) bytes \(([a-z,]+)\)`)

// A compiled is GCC's report about all functions of one name (-fcallgraph-info=su).
type compiled struct {
	frames []int64
	calls  []string
}

// readReports reads the reports that GCC wrote next to its objects, by function name.
func readReports(t *testing.T, dir string) map[string]*compiled {
	t.Helper()
	all := map[string]*compiled{}
	of := func(title []byte) *compiled {
		name := stackdepth.PlainName(string(title))
		if all[name] == nil {
			all[name] = &compiled{}
		}
		return all[name]
	}
	for _, pattern := range []string{
		"build/model/*.ci", "build/crt/*.ci", "build/src/*.ci", "build/src/*/*.ci", "build/src/*/*/*.ci",
	} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			must(t, err)
			for _, m := range suLine.FindAllSubmatch(data, -1) {
				n, err := strconv.ParseInt(string(m[2]), 10, 64)
				must(t, err)
				of(m[1]).frames = append(of(m[1]).frames, n)
			}
			for _, m := range edgeLine.FindAllSubmatch(data, -1) {
				of(m[1]).calls = append(of(m[1]).calls, stackdepth.PlainName(string(m[2])))
			}
		}
	}
	return all
}

// TestFrames compares the frames read from machine code with those that the compiler reports, on every kind of core,
// with and without optimisation.
func TestFrames(t *testing.T) {
	t.Parallel()
	type build struct {
		board, model string
		options      boards.Options
	}
	for _, c := range drawn.Of(t, "frames", []build{
		{"mps2_an385", "conv_f32.graph", boards.Options{}},
		{"mps2_an386", "dscnn_i8.aot_packed", boards.Options{RuntimeOpt: "O0", OperatorOpt: "O0"}},
		{"mps2_an521", "sine.graph_linked", boards.Options{OperatorOpt: "O3"}},
		{"mps3_an547", "conv_f32.aot_c", boards.Options{OperatorOpt: "Os"}},
		{"microbit", "add.graph", boards.Options{}},
		{"stm32vldiscovery", "add.aot_c", boards.Options{OperatorOpt: "Os"}},
		{"rpi_pico", "dscnn_i8.graph", boards.Options{RuntimeOpt: "O2", OperatorOpt: "O0"}},
		{"qemu_riscv32", "conv_f32.graph", boards.Options{}},
		{"qemu_riscv64", "dscnn_i8.aot_packed", boards.Options{RuntimeOpt: "O0", OperatorOpt: "O3"}},
	}, 3) {
		t.Run(c.board, func(t *testing.T) {
			p, err := new(project.Builder).Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
				project.Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options})
			must(t, err)
			defer p.Close()
			for _, tool := range []string{"make", p.Board().Toolchain.CC} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("no %s", tool)
				}
			}
			cmd := exec.Command("make", "-j2", "-C", p.Dir()) // not Build: a cache would have no such files
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			image, err := elf.Open(filepath.Join(p.Dir(), "build/firmware.elf"))
			must(t, err)
			defer image.Close()
			code, err := stackdepth.ReadCode(image)
			must(t, err)
			reports := readReports(t, p.Dir())
			compared := 0
			for _, f := range code.Functions() {
				want := reports[stackdepth.PlainName(f.Name())]
				if want == nil || len(want.frames) == 0 {
					continue
				}
				compared++
				frame := f.Frame()
				if p.Board().ELF.Machine == "arm" {
					frame -= argumentsPushed[f.Name()]
				}
				if !slices.Contains(want.frames, frame) {
					t.Errorf("%s: %d bytes, the compiler reports %d", f.Name(), frame, want.frames)
				}
				if len(want.frames) > 1 {
					continue // several functions of one name: their calls cannot be told apart
				}
				for _, name := range want.calls {
					if strings.HasPrefix(name, "__") && name != stackdepth.IndirectCall {
						continue // a helper for arithmetic: it lists some that it then did without
					}
					if !code.MakesCall(f, name) {
						t.Errorf("%s: no call of %s is found", f.Name(), name)
					}
				}
			}
			if compared < 60 {
				t.Errorf("only %d functions were compared", compared)
			}
		})
	}
}

// argumentsPushed returns the bytes of arguments that came in registers and that a function pushes first. GCC counts
// them for the caller: functions with "..." and with a struct half in registers.
var argumentsPushed = map[string]int64{"TVMLogf": 16, "TVMAPIErrorf": 16, "TVMNDArray_Create": 8, "TVMNDArray_Empty": 8}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
