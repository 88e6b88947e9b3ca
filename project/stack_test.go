package project

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
	"github.com/boardsmith/boardsmith/internal/drawn"
	"github.com/boardsmith/boardsmith/mlf/mlftest"
)

var edgeLine = regexp.MustCompile(`edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"`)

var suLine = regexp.MustCompile(`title: "([^"]*)" label: "[^"]*\\n(\d+) bytes \(([a-z,]+)\)`)

// A compiled is what GCC says of all functions of one name (-fcallgraph-info=su).
type compiled struct {
	frames []int64
	calls  []string
}

const indirectCall = "__indirect_call" // GCC's name for what a pointer points to

func plainName(title string) string {
	name, _, _ := strings.Cut(title[strings.LastIndexByte(title, ':')+1:], ".") // file.c:name.constprop.0
	return name
}

// compilerSays reads what GCC wrote beside its objects, by name.
func compilerSays(t *testing.T, dir string) map[string]*compiled {
	t.Helper()
	all := map[string]*compiled{}
	of := func(title []byte) *compiled {
		name := plainName(string(title))
		if all[name] == nil {
			all[name] = &compiled{}
		}
		return all[name]
	}
	for _, pattern := range []string{"build/model/*.ci", "build/crt/*/*.ci", "build/src/*.ci"} {
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
				of(m[1]).calls = append(of(m[1]).calls, plainName(string(m[2])))
			}
		}
	}
	return all
}

// makesCall says whether a function calls another, or a pointer, by its machine code.
func (p *program) makesCall(f *codeFunction, name string) bool {
	if name == indirectCall {
		return f.pointers
	}
	alias, known := p.symbols[name] // one of several names
	return slices.ContainsFunc(slices.Concat(f.calls, f.tails), func(addr uint64) bool {
		addr = p.codeAddress(addr)
		g := p.function(addr)
		return g != nil && strings.TrimPrefix(plainName(g.name), "__wrap_") == name || known && p.codeAddress(alias.Value) == addr
	})
}

// TestFrames holds the frames that are read off machine code against those that the compiler says it made, on every
// kind of core, with and without optimisation.
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
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options})
			needTools(t, p, "make", p.Board().Toolchain.CC)
			cmd := exec.Command("make", "-j2", "-C", p.dir) // not Build: a cache would have no such files
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			l, err := p.layout(filepath.Join(p.dir, "build/firmware.elf"), filepath.Join(p.dir, "build/firmware.map"))
			must(t, err)
			defer l.image.Close()
			code, err := readProgram(l)
			must(t, err)
			says := compilerSays(t, p.dir)
			compared := 0
			for _, f := range code.functions {
				want := says[plainName(f.name)]
				if want == nil || len(want.frames) == 0 {
					continue
				}
				compared++
				frame := f.frame
				if l.image.Machine == elf.EM_ARM {
					frame -= argumentsPushed[f.name]
				}
				if !slices.Contains(want.frames, frame) {
					t.Errorf("%s: %d bytes, the compiler says %d", f.name, frame, want.frames)
				}
				if len(want.frames) > 1 {
					continue // who of them calls whom is not known
				}
				for _, name := range want.calls {
					if strings.HasPrefix(name, "__") && name != indirectCall {
						continue // a helper for arithmetic: it lists some that it then did without
					}
					if !code.makesCall(f, name) {
						t.Errorf("%s: no call of %s is found", f.name, name)
					}
				}
			}
			if compared < 60 {
				t.Errorf("only %d functions were compared", compared)
			}
		})
	}
}

// argumentsPushed are bytes of arguments that came in registers and that a function pushes before all else, which GCC
// counts as its caller's: of functions with "...", and with a struct half in registers.
var argumentsPushed = map[string]int64{"TVMLogf": 16, "TVMAPIErrorf": 16, "TVMNDArray_Create": 8, "TVMNDArray_Empty": 8}

func needTools(t *testing.T, p *Project, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
}

// FuzzStackCode gives the decoders any code: they end, and find no frame that is negative.
func FuzzStackCode(f *testing.F) {
	f.Add([]byte{0x2d, 0xe9, 0xf0, 0x4f, 0x89, 0xb0, 0x00, 0x47, 0xfe, 0xe7, 0xdf, 0xe8, 0x00, 0xf0}) // push, sub sp, bx, b, tbb
	f.Add([]byte{0x41, 0x11, 0x06, 0xc6, 0x13, 0x01, 0x01, 0xe0, 0x97, 0x00, 0x00, 0x00, 0xe7, 0x80, 0x40, 0x01})
	f.Fuzz(func(t *testing.T, code []byte) {
		for machine, decode := range decoders {
			for _, size := range []int{4, 8} {
				g := &codeFunction{addr: 0x1000, size: uint64(len(code)), narrow: size == 4}
				g.settle(func(g *codeFunction) { decode(g, code, blindView{}) })
				if g.frame < 0 {
					t.Errorf("%v: a frame of %d bytes", machine, g.frame)
				}
			}
		}
	})
}

// blindView knows of nothing but code.
type blindView struct{}

func (blindView) isData(uint64) bool                      { return false }
func (blindView) constant(a uint64, _ int) (uint64, bool) { return a * 3, a%5 != 0 }
func (blindView) begins(p uint64) (uint64, bool)          { return p &^ 1, p%7 == 0 }
