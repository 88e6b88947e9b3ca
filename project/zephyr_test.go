package project

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestZephyr builds for an emulated board with the Zephyr in $ZEPHYR_BASE, and runs the image: the outputs are right, a
// second build does nothing, a changed operator compiles nothing else of the project, and the parts of the image are
// known.
func TestZephyr(t *testing.T) {
	t.Parallel()
	needZephyr(t, "qemu-system-arm")
	store, b := t.TempDir(), newBuilder()
	b.Cache = cache.New(store, cache.Options{})
	archive := mlftest.Path(t, "add.aot_packed")
	p := generated(t, Spec{Board: "zephyr/mps2_an385", Model: archive, Options: boards.Options{ArenaKiB: 64}}, b)
	first := built(t, p)
	checkZephyrParts(t, p)
	runProject(t, p, archive)
	if again := built(t, p); !again.UpToDate || again.Digest != first.Digest {
		t.Errorf("without a change: %+v", again)
	}

	editFile(t, p.at("model/codegen/host/src/add_lib2.c"), "+ ((int8_t*)p1_1)", "- ((int8_t*)p1_1)")
	before := time.Now()
	second := built(t, p)
	if second.UpToDate || second.BuildID == first.BuildID {
		t.Errorf("another operator, but image %s", second.ID())
	}
	got := slices.DeleteFunc(objectsSince(t, filepath.Join(store, "kept"), before), func(name string) bool {
		return !strings.Contains(name, "/modules/boardsmith/")
	})
	if len(got) != 1 || path.Base(got[0]) != "add_lib2.c.obj" {
		t.Errorf("a changed operator compiles %v of the project", got)
	}
	checkDifference(t, p, archive)
}

// objectsSince lists the objects below a folder that are younger than a time.
func objectsSince(t *testing.T, dir string, since time.Time) (names []string) {
	t.Helper()
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".obj" {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(since) {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// checkZephyrParts holds the image to the parts that it must have. The board has 4 MiB of each memory; an image of an
// operator may take 23 KiB of flash, and 6.25 KiB of RAM besides the arena, its stack of 2.25 KiB among them.
func checkZephyrParts(t *testing.T, p *Project) {
	t.Helper()
	u := usageOf(t, p)
	if len(u.Regions) != 2 || u.Regions[0].Name != "flash" || u.Regions[1].Name != "ram" {
		t.Fatalf("regions %+v", u.Regions)
	}
	bytes := map[string]int64{}
	for _, part := range u.Parts {
		bytes[part.Name] = part.In[0] + part.In[1]
	}
	t.Logf("%s: flash %d, RAM %d bytes, %v", os.Getenv("ZEPHYR_BASE"), u.Regions[0].Used, u.Regions[1].Used, bytes)
	for _, name := range []string{"runtime", "RPC", "executor", "operators", "main and port", "system"} {
		if bytes[name] < 100 {
			t.Errorf("%s takes %d bytes", name, bytes[name])
		}
	}
	if bytes["arena"] != 64<<10 || bytes["other"] > 200 {
		t.Errorf("arena %d bytes, other %d", bytes["arena"], bytes["other"])
	}
	if flash := u.Regions[0].Used; flash > 23<<10 { // 22,458 with Zephyr 3.2.0, 22,854 with 3.5.99
		t.Errorf("%d bytes of flash", flash)
	}
	if ram := u.Regions[1].Used - bytes["arena"]; ram > 6400 { // 6,176 with Zephyr 3.2.0
		t.Errorf("%d bytes of RAM besides the arena", ram)
	}
}

// checkDifference runs the changed operator, which subtracts.
func checkDifference(t *testing.T, p *Project, archive string) {
	t.Helper()
	inputs, _ := mlftest.Arrays(archive)
	given := arraysOf(t, inputs)
	want, err := ndarray.New(given[0].DType, given[0].Shape...)
	must(t, err)
	for i := range want.Data {
		want.Data[i] = given[0].Data[i] - given[1].Data[i]
	}
	compare(t, answer(t, opened(t, p, running(t, p)), given...), []ndarray.Named{{Name: "output0", Array: want}})
}

// localZephyr returns a project for mps2_an385 with a cache of its own, its model's archive, and a function that writes
// its settings.
func localZephyr(t *testing.T) (p *Project, archive string, write func(name, text string)) {
	t.Helper()
	archive = mlftest.Path(t, "digits_i8.aot_packed")
	p = generated(t, Spec{Board: "zephyr/mps2_an385", Model: archive}, freshBuilder(t))
	return p, archive, func(name, text string) { writeFile(t, p.at("local/"+name), text) }
}

// TestZephyrSendByInterrupt runs firmware whose UART's interrupt sends, as it does on USB, which no emulated board has.
func TestZephyrSendByInterrupt(t *testing.T) {
	t.Parallel()
	needFullZephyr(t, "qemu-system-arm")
	p, archive, write := localZephyr(t)
	write("local.conf", "CONFIG_BOARDSMITH_SEND_BY_INTERRUPT=y\n")
	runProject(t, p, archive)
}

// TestZephyrLocal: settings that cannot work are explained, the others apply, and a setting that is removed, which
// CMake remembers, is in no later image.
func TestZephyrLocal(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	p, archive, write := localZephyr(t)
	first := built(t, p)
	const uart1 = "/ { chosen { boardsmith,uart = &uart1; }; };\n"
	for _, c := range []struct{ name, text, want string }{
		{"local.cmake", "set(BOARDSMITH_LINK wire)\n", "BOARDSMITH_LINK is wire: it is rtt, usb, or"},
		{"local.conf", "CONFIG_BOARDSMITH=n\n", "CONFIG_BOARDSMITH is off"},
		{"local.conf", "CONFIG_CODE_DATA_RELOCATION=y\n", "CODE_DATA_RELOCATION if no file"}, // a script's words
		{"local.overlay", uart1, "the UART of the link is disabled"},
		{"local.overlay", uart1 + "&uart1 { status = \"okay\"; };\n", ""},
		{"local.cmake", "set(CONFIG_BOARDSMITH_RING_BYTES 1024 CACHE STRING \"\")\n", ""},
	} {
		write(c.name, c.text)
		if c.want != "" {
			wantError(t, buildError(t, p), "", c.want)
		} else if built(t, p).Digest == first.Digest {
			t.Errorf("%s: the same image", c.text)
		}
		write(c.name, "")
	}
	t.Run("too large an arena", func(t *testing.T) {
		b, spec := freshBuilder(t), Spec{Board: "zephyr/mps2_an385", Model: archive}
		for _, spec.Options.ArenaKiB = range []int{4090, 5000} { // of 4096 KiB
			wantError(t, buildError(t, generated(t, spec, b)), failure.DoesNotFit, "arena_kib=40")
		}
	})
	t.Run("user mode", func(t *testing.T) {
		need(t, "gperf")
		write("local.conf", "CONFIG_USERSPACE=y\n")
		runProject(t, p, archive)
	})
	write("local.conf", "")
	write("dts/bindings/mine.yaml",
		"description: a test\ncompatible: mine\nproperties: {n: {type: int, required: true}}\n")
	write("local.overlay", "/ { mine { compatible = \"mine\"; }; };\n")
	write("local.cmake", "list(APPEND DTS_ROOT \"${CMAKE_CURRENT_SOURCE_DIR}/local\")\n")
	wantError(t, buildError(t, p), "", "'n' is marked as required")
	write("local.overlay", "")
	// A comment makes it another input, so that this is built and not taken from the image cache.
	write("local.cmake", "# none\n")
	if last := built(t, p); first.Size != last.Size {
		t.Errorf("%d bytes, %d at first", last.Size, first.Size)
	}
	if config := readFile(t, p.at("build/app/zephyr/.config")); !strings.Contains(config, "BOARDSMITH_RING_BYTES=256\n") {
		t.Error("the setting stayed")
	}
}

// TestZephyrStandalone builds standalone firmware with the Zephyr in $ZEPHYR_BASE and runs it: the outputs are right,
// and the image has neither a heap nor an RPC server. A plain run has one archive, a full run all of them on an
// emulated board and on Zephyr's native board.
func TestZephyrStandalone(t *testing.T) {
	t.Parallel()
	needZephyr(t, "qemu-system-arm")
	archives, on := []string{mlftest.Path(t, "twoin.aot_packed")}, []string{"mps2_an385"}
	if drawn.InFull() {
		archives, on = zephyrAlone(t), []string{"mps2_an521", "qemu_cortex_m3", nativeZephyr(t)}
	}
	for _, board := range on {
		t.Run(board, func(t *testing.T) {
			ran := 0
			for _, path := range archives {
				t.Run(mlftest.Name(path), func(t *testing.T) {
					if runZephyrAlone(t, board, path) {
						ran++
					}
				})
			}
			if ran < min(len(archives), 20) && !t.Failed() {
				t.Errorf("only %d of %d archives ran", ran, len(archives))
			}
		})
	}
}

// zephyrAlone returns the archives of all kinds, with one of the many single operators.
func zephyrAlone(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(mlftest.Archives(t), func(path string) bool {
		name := mlftest.Name(path)
		return strings.HasPrefix(name, "matmul_") && name != "matmul_07"
	})
}

// otherCore reports whether an archive has objects for another core than the board's.
func otherCore(board, archive string) bool {
	_, core, hasObjects := strings.Cut(archive, "_llvm_")
	own := "thumbv7m"
	if strings.HasPrefix(board, "native") {
		own = "x86_64"
	}
	return hasObjects && core != own
}

// nativeZephyr returns the native board of the Zephyr in $ZEPHYR_BASE.
func nativeZephyr(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"native_sim_64", "native_posix_64"} {
		has := filepath.Join(os.Getenv("ZEPHYR_BASE"), "boards", "*", "*", name+"_defconfig")
		if found, err := filepath.Glob(has); err == nil && len(found) > 0 {
			return name
		}
	}
	t.Fatal("this Zephyr has no native board")
	return ""
}

// runZephyrAlone returns false for an archive that is refused for a good reason.
func runZephyrAlone(t *testing.T, board, path string) bool {
	t.Helper()
	if otherCore(board, mlftest.Name(path)) {
		t.Log("objects for another core, which only the link finds")
		return false
	}
	f, err := runAlone(t, Spec{Board: "zephyr/" + board, Model: path})
	if why, bad := refusal(trial{&boards.Board{CFlags: []string{"-mcpu=cortex-m4"}}, path}, err); bad != nil {
		t.Fatalf("%v\n%s", bad, failure.Next(bad))
	} else if why != "" {
		t.Logf("refused: %s", why)
		return false
	}
	checkOutputs(t, f, path)
	if strings.HasPrefix(board, "native") { // a process has Zephyr's own output
		return true
	}
	checkAlone(t, f.Project, board)
	if stack, err := f.session.Stack(t.Context()); err != nil || stack.Used == 0 || stack.Used > stack.Size {
		t.Errorf("stack: %+v, %v", stack, err)
	}
	return true
}

// A model whose operator sends its output over a UART, whose Zephyr device is its device context.
const (
	deviceHeader = `#include <stdint.h>
#define TVMGEN_NET_X_SIZE 4
#define TVMGEN_NET_Y_SIZE 4
struct tvmgen_net_inputs {
  void* x;
};
struct tvmgen_net_outputs {
  void* y;
};
struct tvmgen_net_devices {
  void* port;
};
int32_t tvmgen_net_run(
  struct tvmgen_net_inputs* inputs,
  struct tvmgen_net_outputs* outputs,
  struct tvmgen_net_devices* devices
);
`
	deviceSource = `#include <tvmgen_net.h>
int32_t net_add_baud(int8_t* x, int8_t* y, void* port);
int32_t tvmgen_net_run(struct tvmgen_net_inputs* inputs, struct tvmgen_net_outputs* outputs,
                       struct tvmgen_net_devices* devices) {
  return net_add_baud((int8_t*)inputs->x, (int8_t*)outputs->y, devices->port);
}
`
	deviceMetadata = `{"version": 7, "modules": {"net": {"model_name": "net", "style": "full-model",
  "executors": ["aot"], "export_datetime": "2020-01-01 00:00:00Z", "target": ["c -keys=cpu"],
  "memory": {"operator_functions": [], "functions": {"main": [{"device": 1, "constants_size_bytes": 0,
    "io_size_bytes": 8, "workspace_size_bytes": 0, "inputs": {"x": {"dtype": "int8", "size": 4}},
    "outputs": {"y": {"dtype": "int8", "size": 4}}}]}}}}}
`
	// What a user writes: the operator's library, which drives the device, and the list of devices.
	deviceFirmware = `#include <boardsmith/standalone.h>
#include <tvm_zephyr.h>
#if __has_include(<zephyr/drivers/uart.h>)
#include <zephyr/drivers/uart.h>
#else
#include <drivers/uart.h>
#endif

static void* const devices[] = {TVM_ZEPHYR_DEVICE(DT_NODELABEL(uart2))};
const TVMContext standalone_context = TVM_CONTEXT_INIT(NULL, devices);

// Fails unless the device is the UART, by its name and by a call of its driver.
int32_t net_add_baud(const int8_t* x, int8_t* y, void* port);
int32_t net_add_baud(const int8_t* x, int8_t* y, void* port) {
  const struct device* const uart = (const struct device*)port;
  if ((uart != DEVICE_DT_GET(DT_NODELABEL(uart2))) || !device_is_ready(uart)) {
    return -7;
  }
  uart_poll_out(uart, 'x');
  for (int i = 0; i < 4; i++) {
    y[i] = (int8_t)(x[i] + 100);
  }
  return 0;
}
`
)

// deviceArchive writes an archive of a model with a device context.
func deviceArchive(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "net.tar")
	data := mlftest.Tar(t,
		mlf.File{Name: "metadata.json", Data: []byte(deviceMetadata)},
		mlf.File{Name: "codegen/host/include/tvmgen_net.h", Data: []byte(deviceHeader)},
		mlf.File{Name: "codegen/host/src/net_lib0.c", Data: []byte(deviceSource)})
	writeFile(t, path, string(data))
	return path
}

// TestZephyrDevice gives an operator a device of Zephyr's as its context. Without devices, its run is an error.
func TestZephyrDevice(t *testing.T) {
	t.Parallel()
	needZephyr(t, "qemu-system-arm")
	p := generated(t, Spec{Board: "zephyr/mps2_an385", Model: deviceArchive(t), Options: alone})
	writeFile(t, p.at("src/devices.c"), deviceFirmware)
	writeFile(t, p.at("local/local.overlay"), "&uart2 { status = \"okay\"; };\n")
	f, err := openAlone(t, p)
	must(t, err)
	checkDeviceRun(t, f)
}

// checkDeviceRun runs the model with the device: it adds 100.
func checkDeviceRun(t *testing.T, f aloneFirmware) {
	t.Helper()
	must(t, f.session.SetInput(t.Context(), 0, []byte{1, 2, 3, 4}))
	_, err := f.session.Run(t.Context(), 1)
	must(t, err)
	if y, err := f.session.Output(t.Context(), 0, 4); err != nil || string(y) != "efgh" {
		t.Errorf("the output is %q, %v", y, err)
	}
}

// TestDeviceContext does the same with firmware of the bare-metal template for a process. Firmware without the list of
// devices returns an error, and firmware with an RPC server is refused.
func TestDeviceContext(t *testing.T) {
	t.Parallel()
	archive := deviceArchive(t)
	_, err := generate(t, Spec{Model: archive})
	wantAdvice(t, err, failure.Config, `"port"`)
	const operator = `#include <stdint.h>
int32_t net_add_baud(const int8_t* x, int8_t* y, void* port);
int32_t net_add_baud(const int8_t* x, int8_t* y, void* port) {
  for (int i = 0; i < 4; i++) {
    y[i] = (int8_t)(x[i] + *(const int*)port);
  }
  return 0;
}
`
	const devices = `#include <boardsmith/standalone.h>
static int port = 100;
static void* const devices[] = {&port};
const TVMContext standalone_context = TVM_CONTEXT_INIT(NULL, devices);
`
	for _, text := range []string{operator, operator + devices} {
		p := generated(t, Spec{Model: archive, Options: alone})
		writeFile(t, p.at("src/devices.c"), text)
		f, err := openAlone(t, p)
		must(t, err)
		if text != operator {
			checkDeviceRun(t, f)
			continue
		}
		_, err = f.session.Run(t.Context(), 1)
		wantError(t, err, "", "run returned the error")
	}
}

const zephyrApp = "../examples/own-zephyr-app"

// TestZephyrAppFiles: a project of the example has the application's and the module's files.
func TestZephyrAppFiles(t *testing.T) {
	t.Parallel()
	p := generated(t, zephyrAppSpec(t), newBuilder(zephyrApp))
	for name, from := range map[string]string{
		"CMakeLists.txt": zephyrApp + "/app/", "src/main.c": zephyrApp + "/app/",
		"boardsmith/zephyr/module.yml": "../templates/zephyr/", "boardsmith/src/main.c": "../templates/firmware/main.c",
	} {
		if strings.HasSuffix(from, "/") {
			from += name
		}
		if readFile(t, p.at(name)) != readFile(t, from) {
			t.Errorf("%s is not %s", name, from)
		}
	}
}

func zephyrAppSpec(t *testing.T) Spec {
	t.Helper()
	return Spec{
		Board: "zephyr/mps2_an385", Template: zephyrApp + "/app", Model: mlftest.Path(t, "add.aot_packed"),
		Options: boards.Options{ArenaKiB: 64},
	}
}

// needZephyrOfExample skips with a Zephyr that is older than the example's README says.
func needZephyrOfExample(t *testing.T) {
	t.Helper()
	needZephyr(t, "qemu-system-arm")
	if _, err := os.Stat(os.Getenv("ZEPHYR_BASE") + "/include/zephyr/kernel.h"); err != nil {
		t.Skipf("the example needs Zephyr 3.2: %v", err)
	}
}

// TestZephyrApp builds the example with the Zephyr in $ZEPHYR_BASE and runs it: the model's outputs are right, and the
// application's own thread runs beside the server.
func TestZephyrApp(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	spec := zephyrAppSpec(t)
	p := generated(t, spec, freshBuilder(t, zephyrApp))
	runProject(t, p, spec.Model)

	i := built(t, p)
	f := openELF(t, i)
	own := firmware.Place{Symbol: "_k_thread_stack_boardsmith"}
	want, has := own.Find(f)
	if got, ok := i.Landmarks.Stacks[0].Find(f); !has || !ok || got != want {
		t.Errorf("the thread's stack is at %#x, and the landmark at %#x", want, got)
	}
	checkBeats(t, running(t, p))
}

// TestZephyrAppSettings: the settings of a board file are those of an application of one's own, which they cannot leave
// without effect.
func TestZephyrAppSettings(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS(zephyrApp)))
	putFiles(t, folder, map[string]string{
		"boards/zephyr/mps2_an385.json": `{"doc": "a", "inherits": "family/zephyr", "templates": ["app"],
			"functions": [{"name": "app.beats", "symbol": "app_beats"}], "settings": ["kiln.conf", "kiln.overlay"]}`,
		"boards/zephyr/kiln.conf":    "CONFIG_HEAP_MEM_POOL_SIZE=2048\n",
		"boards/zephyr/kiln.overlay": "/ { kiln { }; };\n",
		"app/app.overlay":            "/ { oven { }; };\n",
	})
	spec := zephyrAppSpec(t)
	spec.Template = filepath.Join(folder, "app")
	p := generated(t, spec, freshBuilder(t, folder))
	built(t, p)
	if !strings.Contains(readFile(t, p.at("build/app/zephyr/.config")), "CONFIG_HEAP_MEM_POOL_SIZE=2048\n") {
		t.Error("the setting has no effect")
	}
	editFile(t, filepath.Join(folder, "app/CMakeLists.txt"), "include(boardsmith/cmake/application.cmake)",
		`list(APPEND ZEPHYR_EXTRA_MODULES "${CMAKE_CURRENT_SOURCE_DIR}/boardsmith")`)
	must(t, p.Generate(t.Context(), spec))
	wantError(t, buildError(t, p), "", "does not read the settings")
}

// TestZephyrAppArena: an edited crt_config.h has its effect in the example, and none in another project of it.
func TestZephyrAppArena(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	builder, spec := freshBuilder(t, zephyrApp), zephyrAppSpec(t)
	spec.Options.ArenaKiB = 0
	for _, c := range []struct{ bytes, size uint64 }{{32 << 10, 32 << 10}, {0, 2 << 20}} { // by default half of the RAM
		p := generated(t, spec, builder)
		const define = "#define BOARDSMITH_ARENA_BYTES "
		editFile(t, p.at("crt_config/crt_config.h"), define+"0", fmt.Sprint(define, c.bytes))
		symbols := elfSymbols(t, p)
		at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "arena" })
		if at < 0 || symbols[at].Size != c.size {
			t.Errorf("no arena of %d bytes in %v", c.size, symbols)
		}
	}
}

// badThread is a thread of an application that fails after a while. Its stack lies below the server's.
const badThread = `
static void fail(void* a, void* b, void* c) {
  (void)a;
  (void)b;
  (void)c;
  while (beats < 200U) {
    k_msleep(5);
  }
  beats = *(volatile uint32_t*)0xc0000000U;
}
K_THREAD_DEFINE(bad, 1024, fail, NULL, NULL, NULL, 0, 0, 0);
`

// TestZephyrAppFault: a hardware fault in another thread than the server's is recorded as such, without the server's
// stack.
func TestZephyrAppFault(t *testing.T) {
	t.Parallel()
	needFullZephyr(t, "qemu-system-arm")
	needZephyrOfExample(t)
	p := generated(t, zephyrAppSpec(t), freshBuilder(t, zephyrApp))
	appendTo(t, p.at("src/main.c"), badThread)
	s := running(t, p)
	var err error
	for err == nil {
		_, err = callIn(t, s, "app.beats")
	}
	if r := faultOf(t, err).Record; r.Reason != fault.ReasonHardware || len(r.Stack) > 0 {
		t.Errorf("%v, with %d bytes of a stack; want a hardware fault, without", err, len(r.Stack))
	}
}

// A zephyrBoard is a board of Zephyr's and the archives that it runs: patterns of folder and name.
type zephyrBoard struct {
	name     string
	tools    []string // that it needs besides Zephyr's
	archives []string
	tooLarge []string // patterns of those that do not fit
	noMath   []string // of those that call functions of math.h, which no library of the compiler for this core has
}

// zephyrBoards are those that any Zephyr of the tests has and that need GCC for Arm or for the computer. The first one
// runs every kind of archive.
var zephyrBoards = []zephyrBoard{
	{
		name: "mps2_an385", tools: []string{"qemu-system-arm"}, archives: []string{
			"archives/add.*", "tvm-*/add.aot_*", "archives/conv_pools.*", "archives/digits_i8.graph_llvm_thumbv7m",
			"candidates/matmul_07",
		},
	},
	{
		name: "mps2_an521", tools: []string{"qemu-system-arm"},
		archives: []string{"archives/dscnn_i8.*", "tvm-*/dscnn_i8.aot_packed"},
	},
	{
		name: "qemu_cortex_m3", tools: []string{"qemu-system-arm"}, archives: []string{"archives/*.aot_packed"},
		tooLarge: []string{"*/autoenc.*"},
	},
	{name: "native_posix_64", archives: []string{"archives/d*.aot_packed", "archives/digits_i8.graph_llvm_x86_64"}},
	{name: "native_sim_64", archives: []string{"archives/d*.aot_packed"}},
}

// TestZephyrArchives builds archives for emulated boards with the Zephyr in $ZEPHYR_BASE, and runs the images: the
// outputs are right, or the archive is refused because it does not fit.
func TestZephyrArchives(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	for _, b := range zephyrBoards {
		t.Run(b.name, b.try)
	}
}

// TestZephyrArchivesRISCV does the same with another toolchain.
func TestZephyrArchivesRISCV(t *testing.T) {
	needFullZephyr(t)
	version, err := os.ReadFile(filepath.Join(os.Getenv("ZEPHYR_BASE"), "VERSION"))
	if err != nil || strings.Contains(string(version), "VERSION_MAJOR = 2\n") {
		t.Skipf("this board has run with Zephyr 3.2 and later only (%v)", err)
	}
	if os.Getenv("ZEPHYR_TOOLCHAIN_VARIANT") != "zephyr" { // Zephyr's SDK has all compilers
		cc, err := exec.LookPath("riscv64-unknown-elf-gcc")
		if err != nil {
			t.Skip("riscv64-unknown-elf-gcc is not installed")
		}
		t.Setenv("ZEPHYR_TOOLCHAIN_VARIANT", "cross-compile")
		t.Setenv("CROSS_COMPILE", strings.TrimSuffix(cc, "gcc"))
	}
	b := zephyrBoard{name: "qemu_riscv32", tools: []string{"qemu-system-riscv32"}, archives: []string{
		"archives/[dt]*.aot_packed", "archives/digits_i8.graph_llvm_rv32",
	}}
	if os.Getenv("ZEPHYR_TOOLCHAIN_VARIANT") != "zephyr" {
		b.noMath = []string{"*/dscnn_i8.*"}
	}
	b.try(t)
}

func (b zephyrBoard) try(t *testing.T) {
	need(t, b.tools...)
	has := filepath.Join(os.Getenv("ZEPHYR_BASE"), "boards", "*", "*", b.name+"_defconfig")
	if found, err := filepath.Glob(has); len(found) == 0 {
		t.Skipf("this Zephyr has no board %s (%v)", b.name, err)
	}
	builder := freshBuilder(t)
	ran := 0
	for _, file := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		name := filepath.Base(filepath.Dir(file)) + "/" + mlftest.Name(file)
		if !matches(b.archives, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			spec := Spec{Board: "zephyr/" + b.name, Model: file}
			if strings.HasPrefix(name, "tvm-0.9/dscnn_i8.") {
				spec.Options.StackBytes = 4096
			}
			p := generated(t, spec, builder)
			switch {
			case matches(b.noMath, name):
				err := buildError(t, p)
				toolOf(t, err)
				wantError(t, err, failure.Link, "expf")
			case matches(b.tooLarge, name):
				err := buildError(t, p)
				misfitOf(t, err)
				wantAdvice(t, err, failure.DoesNotFit)
			default:
				runProject(t, p, file)
			}
		})
	}
	if ran == 0 {
		t.Errorf("no archive is one of %q", b.archives)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}
