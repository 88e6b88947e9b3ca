package cmodel_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// A costCase compares one kind of entry with a direct call of what TVM generated.
type costCase struct {
	archive string
	wrapper bool   // the direct call is in a file that the generated C replaces
	c       string // defines `direct`
	most    int    // instructions that the interface may add
}

var costCases = []costCase{
	{
		// The C interface, without and with a workspace: at most 10 instructions.
		archive: "twoin.aot_c", wrapper: true, most: 10,
		c: `#include <tvmgen_twoin.h>
#include <tvm_twoin.h>
static uint8_t cats[8];
static float dogs[8], a[8], b[8];
static struct tvmgen_twoin_inputs di = {cats, dogs};
static struct tvmgen_twoin_outputs dout = {a, b};
#define DIRECT tvmgen_twoin_run(&di, &dout)
#define MODEL tvm_twoin
static const TVM_twoin_input in = {cats, dogs};
static const TVM_twoin_output out = {a, b};
`,
	},
	{
		archive: "sine.aot_c", wrapper: true, most: 10,
		c: `#include <tvmgen_sine.h>
#include <tvm_sine.h>
static float x[1], y[1];
static struct tvmgen_sine_inputs di = {x};
static struct tvmgen_sine_outputs dout = {y};
#define DIRECT tvmgen_sine_run(&di, &dout)
#define MODEL tvm_sine
static const TVM_sine_input in = {x};
static const TVM_sine_output out = {y};
`,
	},
	{
		// The packed interface: 4 more for each of 4 tensors.
		archive: "twoin.aot_packed", wrapper: true, most: 10 + 4*4,
		c: `#include <tvm/runtime/c_runtime_api.h>
#include <tvm_twoin.h>
static uint8_t cats[8];
static float dogs[8], a[8], b[8];
int tvmgen_twoin_run(TVMValue* args, int* codes, int n, TVMValue* v, int* t, void* r);
static DLTensor ts[4] = {{cats, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}, {dogs, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0},
  {a, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}, {b, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}};
static TVMValue args[4] = {{.v_handle = &ts[0]}, {.v_handle = &ts[1]}, {.v_handle = &ts[2]}, {.v_handle = &ts[3]}};
static int codes[4] = {7, 7, 7, 7};
static TVMValue v;
static int t;
#define DIRECT tvmgen_twoin_run(args, codes, 4, &v, &t, NULL)
#define MODEL tvm_twoin
static const TVM_twoin_input in = {cats, dogs};
static const TVM_twoin_output out = {a, b};
`,
	},
	{
		// A graph of two operators: 30, 4 for each of 4 tensors, and 10 for each call.
		archive: "twoin.graph", most: 30 + 4*4 + 10*2,
		c: `#include <tvm/runtime/c_runtime_api.h>
#include <tvm_twoin.h>
static uint8_t cats[8];
static float dogs[8], a[8], b[8];
int tvmgen_twoin_fused_cast_add(TVMValue* args, int* codes, int n, TVMValue* v, int* t, void* r);
int tvmgen_twoin_fused_cast_multiply(TVMValue* args, int* codes, int n, TVMValue* v, int* t, void* r);
static DLTensor ts[4] = {{cats, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}, {dogs, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0},
  {a, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}, {b, {kDLCPU, 0}, 0, {0, 0, 0}, 0, 0, 0}};
static TVMValue args[5] = {{.v_handle = &ts[0]}, {.v_handle = &ts[1]}, {.v_handle = &ts[2]},
  {.v_handle = &ts[0]}, {.v_handle = &ts[3]}};
static int codes[4] = {7, 7, 7, 7};
static TVMValue v;
static int t;
#define DIRECT tvmgen_twoin_fused_cast_add(args, codes, 3, &v, &t, NULL) | \
  tvmgen_twoin_fused_cast_multiply(&args[3], codes, 2, &v, &t, NULL)
#define MODEL tvm_twoin
static const TVM_twoin_input in = {cats, dogs};
static const TVM_twoin_output out = {a, b};
`,
	},
}

const costMain = `
int main(void) {
  TIME("direct", DIRECT);
  TIME("interface", TVMExecute(&MODEL, &in, &out, NULL));
  return 0;
}
`

// mostFlash is the bytes of flash of a model beyond its tables of tensors: its code and its description.
const mostFlash = 64

// TestCost checks that an image has no heap, no stdio and no formatting of floats, and counts the instructions that the
// interface adds to a call on a Cortex-M3, and the bytes of flash that a model of the C interface takes beyond its
// tables.
func TestCost(t *testing.T) {
	testkit.Need(t, "arm-none-eabi-gcc", "qemu-system-arm")
	for _, c := range drawn.Of(t, "cost", costCases, 1) {
		t.Run(c.archive, func(t *testing.T) {
			a, m := mlftest.Open(t, mlftest.Path(t, c.archive))
			code, err := cmodel.Generate(a, m, cmodel.Options{})
			must(t, err)
			dir := unpack(t, code)
			if c.wrapper {
				// The sources and headers that the generated C replaces, for a direct call.
				for _, f := range m.Sources {
					kept := slices.ContainsFunc(code.Sources, func(s mlf.File) bool { return s.Name == f.Name })
					if !kept && strings.Contains(string(f.Data), "_run(") {
						write(t, dir+"/src/"+filepath.Base(f.Name), string(f.Data))
					}
				}
				for _, f := range m.Headers {
					write(t, dir+"/include/"+filepath.Base(f.Name), string(f.Data))
				}
			}
			added := instructions(t, dir, c)
			t.Logf("%s: %.1f instructions more than a direct call", c.archive, added)
			if added > float64(c.most) {
				t.Errorf("the interface adds %.1f instructions, more than %d", added, c.most)
			}
			bytes := flash(t, filepath.Join(dir, "tvm_"+m.Name+".o"), m.Name)
			t.Logf("%s: %d bytes of flash beyond its tables", c.archive, bytes)
			if strings.Contains(c.archive, "aot_c") && bytes > mostFlash {
				t.Errorf("%d bytes of flash, more than %d", bytes, mostFlash)
			}
		})
	}
}

// instructions returns how many instructions more a call through the interface takes.
func instructions(t *testing.T, dir string, c costCase) float64 {
	t.Helper()
	write(t, dir+"/case.h", c.c+costMain)
	main, err := filepath.Abs("testdata/cost.c")
	must(t, err)
	cpu := []string{"-mcpu=cortex-m3", "-mthumb", "-Os", "--specs=nano.specs", "-ffunction-sections", "-fdata-sections"}
	sources, _ := filepath.Glob(dir + "/src/*.c")
	var objects []string
	for _, f := range append(sources, main) {
		object := filepath.Join(dir, strings.TrimSuffix(filepath.Base(f), ".c")+".o")
		args := slices.Concat(cpu, []string{
			"-std=gnu11", "-w", "-I" + dir + "/include",
			`-DCOST_CASE="` + dir + "/case.h" + `"`, "-c", f, "-o", object,
		})
		output(t, dir, "arm-none-eabi-gcc", args...)
		objects = append(objects, object)
	}
	elf := dir + "/cost.elf"
	args := slices.Concat(cpu, []string{
		"-nostartfiles", "-Wl,--gc-sections", "-T", crt() + "/measure/link.ld",
		"-o", elf,
	}, objects, []string{"-lm"})
	output(t, dir, "arm-none-eabi-gcc", args...)
	names := output(t, dir, "arm-none-eabi-nm", elf)
	for _, name := range []string{"malloc", "printf", "sbrk", "dtoa", "strtod", "fwrite"} {
		if strings.Contains(names, name) {
			t.Errorf("the image has %s", name)
		}
	}
	said := output(t, dir, "qemu-system-arm", "-machine", "mps2-an385", "-display", "none", "-monitor", "none", "-serial",
		"none", "-icount", "shift=6", "-semihosting-config", "enable=on,target=native", "-kernel", elf)
	ticks := map[string]float64{}
	for line := range strings.Lines(said) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n == 0 {
			t.Fatalf("unexpected line %q of\n%s", line, said)
		}
		ticks[name] = n
	}
	if len(ticks) != 2 {
		t.Fatalf("unexpected output:\n%s", said)
	}
	const calls, ticksPerInstruction = 64, 64.0 / 40
	return (ticks["interface"] - ticks["direct"]) / calls / ticksPerInstruction
}

// flash returns the bytes of a model's code and description in flash, without tables that grow with its
// tensors and workspaces.
func flash(t *testing.T, object, name string) int {
	t.Helper()
	said := output(t, filepath.Dir(object), "arm-none-eabi-nm", "-S", "--defined-only", object)
	total, found := 0, 0
	for line := range strings.Lines(said) {
		words := strings.Fields(line)
		if len(words) != 4 || !slices.Contains([]string{"run", "tvm_" + name}, words[3]) {
			continue
		}
		n, err := strconv.ParseInt(words[1], 16, 32)
		must(t, err)
		total, found = total+int(n), found+1
	}
	if found != 2 {
		t.Fatal(fmt.Errorf("no run or tvm_%s in\n%s", name, said))
	}
	return total
}
