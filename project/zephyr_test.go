package project_test

import (
	"context"
	"debug/elf"
	"errors"
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
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/templatecheck"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	putFiles  = testkit.WriteFiles
	readFile  = testkit.ReadFile
	editFile  = testkit.EditFile
	wantError = testkit.WantError
)

// TestZephyr builds for an emulated board with the Zephyr in $ZEPHYR_BASE, and runs the image: the outputs are right, a
// second build does nothing, a changed operator compiles nothing else of the project, and the parts of the image are
// known.
func TestZephyr(t *testing.T) {
	t.Parallel()
	project.NeedZephyr(t, "qemu-system-arm")
	store := t.TempDir()
	builder := newBuilder(store)
	ctx := testkit.Context(t)
	archive := mlftest.Path(t, "add.aot_packed")
	spec := project.Spec{Board: "zephyr/mps2_an385", Model: archive, Options: boards.Options{ArenaKiB: 64}}
	p := generated(t, builder, spec)
	first, err := p.Build(ctx)
	must(t, err)
	checkZephyrParts(t, p)
	runProject(t, ctx, p, archive)
	if again, err := p.Build(ctx); err != nil || !again.UpToDate || again.Digest != first.Digest {
		t.Errorf("without a change: %+v, %v", again, err)
	}

	operator := filepath.Join(p.Dir(), "model", "codegen", "host", "src", "add_lib2.c")
	source := readFile(t, operator)
	changed := strings.Replace(string(source), "+ ((int8_t*)p1_1)", "- ((int8_t*)p1_1)", 1)
	writeFile(t, operator, changed)
	before := time.Now()
	second, err := p.Build(ctx)
	must(t, err)
	if second.UpToDate || second.BuildID == first.BuildID {
		t.Errorf("another operator, but image %s", second.ID())
	}
	want := []string{"add_lib2.c.obj"}
	if got := objectsSince(t, filepath.Join(store, "kept"), before); !slices.Equal(got, want) {
		t.Errorf("a changed operator compiles %v of the project, want %v", got, want)
	}
	checkDifference(t, ctx, p, archive)
}

// objectsSince lists the module's objects below a folder that are younger than a time.
func objectsSince(t *testing.T, dir string, since time.Time) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		module := strings.Contains(filepath.ToSlash(path), "/modules/boardsmith/")
		if err != nil || !module || filepath.Ext(path) != ".obj" {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(since) {
			names = append(names, d.Name())
		}
		return err
	})
	must(t, err)
	slices.Sort(names)
	return names
}

// checkZephyrParts holds the image to the parts that it must have. The board has 4 MiB of each memory; an image of an
// operator may take 23 KiB of flash, and 6.25 KiB of RAM besides the arena, its stack of 2.25 KiB among them.
func checkZephyrParts(t *testing.T, p *project.Project) {
	t.Helper()
	i, err := p.Built()
	must(t, err)
	u, err := p.Usage(i)
	must(t, err)
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
func checkDifference(t *testing.T, ctx context.Context, p *project.Project, archive string) {
	t.Helper()
	s, err := p.Run(ctx, nil, "")
	must(t, err)
	defer s.Close(ctx)
	_, m, err := p.Model()
	must(t, err)
	e, err := executor.Open(ctx, s, m)
	must(t, err)
	inputs, _ := mlftest.Arrays(archive)
	given := arraysOf(t, inputs)
	want, err := ndarray.New(given[0].DType, given[0].Shape...)
	must(t, err)
	for i := range want.Data {
		want.Data[i] = given[0].Data[i] - given[1].Data[i]
	}
	compare(t, answer(t, ctx, e, inputs), []ndarray.Named{{Name: "output0", Array: want}})
}

// localZephyr returns a project for mps2_an385 with a cache of its own, and a function that writes its settings.
func localZephyr(t *testing.T, ctx context.Context) (p *project.Project, write func(name, text string)) {
	t.Helper()
	builder := newBuilder(t.TempDir())
	spec := project.Spec{Board: "zephyr/mps2_an385", Model: mlftest.Path(t, "digits_i8.aot_packed")}
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p, func(name, text string) {
		t.Helper()
		path := filepath.Join(p.Dir(), "local", name)
		writeFile(t, path, text)
	}
}

// TestZephyrSendByInterrupt runs firmware whose UART's interrupt sends, as it does on USB, which no emulated board has.
func TestZephyrSendByInterrupt(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t, "qemu-system-arm")
	ctx := testkit.Context(t)
	p, write := localZephyr(t, ctx)
	write("local.conf", "CONFIG_BOARDSMITH_SEND_BY_INTERRUPT=y\n")
	_, err := p.Build(ctx)
	must(t, err)
	runProject(t, ctx, p, mlftest.Path(t, "digits_i8.aot_packed"))
}

// TestZephyrLocal: settings that cannot work are explained, the others apply, and a setting that is removed, which
// CMake remembers, is in no later image.
func TestZephyrLocal(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t)
	ctx := testkit.Context(t)
	p, write := localZephyr(t, ctx)
	first, err := p.Build(ctx)
	must(t, err)
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
		switch image, err := p.Build(ctx); {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.text, err)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.want == "" && image.Digest == first.Digest:
			t.Errorf("%s: the same image", c.text)
		}
		write(c.name, "")
	}
	t.Run("too large an arena", func(t *testing.T) {
		builder := newBuilder(t.TempDir())
		spec := project.Spec{Board: "zephyr/mps2_an385", Model: mlftest.Path(t, "digits_i8.aot_packed")}
		for _, spec.Options.ArenaKiB = range []int{4090, 5000} { // of 4096 KiB
			p := generated(t, builder, spec)
			_, err = p.Build(ctx)
			wantError(t, err, failure.DoesNotFit, "arena_kib=40")
		}
	})
	t.Run("user mode", func(t *testing.T) {
		if _, err := exec.LookPath("gperf"); err != nil {
			t.Skip("no gperf, which Zephyr needs for CONFIG_USERSPACE: apt-get install gperf")
		}
		write("local.conf", "CONFIG_USERSPACE=y\n")
		_, err := p.Build(ctx)
		must(t, err)
		runProject(t, ctx, p, mlftest.Path(t, "digits_i8.aot_packed"))
	})
	write("local.conf", "")
	write("dts/bindings/mine.yaml",
		"description: a test\ncompatible: mine\nproperties: {n: {type: int, required: true}}\n")
	write("local.overlay", "/ { mine { compatible = \"mine\"; }; };\n")
	write("local.cmake", "list(APPEND DTS_ROOT \"${CMAKE_CURRENT_SOURCE_DIR}/local\")\n")
	_, err = p.Build(ctx)
	wantError(t, err, "", "'n' is marked as required")
	write("local.overlay", "")
	// A comment makes it another input, so that this is built and not taken from the image cache.
	write("local.cmake", "# none\n")
	last, err := p.Build(ctx)
	must(t, err)
	if first.Size != last.Size {
		t.Errorf("%d bytes, %d at first", last.Size, first.Size)
	}
	config, err := os.ReadFile(filepath.Join(p.Dir(), "build/app/zephyr/.config"))
	if err != nil || !strings.Contains(string(config), "CONFIG_BOARDSMITH_RING_BYTES=256\n") {
		t.Errorf("the setting stayed: %v", err)
	}
}

// TestZephyrStandalone builds standalone firmware with the Zephyr in $ZEPHYR_BASE and runs it: the outputs are right,
// and the image has neither a heap nor an RPC server. A plain run has one archive, a full run all of them on an
// emulated board and on Zephyr's native board.
func TestZephyrStandalone(t *testing.T) {
	t.Parallel()
	project.NeedZephyr(t, "qemu-system-arm")
	builder := newBuilder(testcache.Dir())
	archives, on := []string{mlftest.Path(t, "twoin.aot_packed")}, []string{"mps2_an385"}
	if drawn.InFull() {
		archives, on = zephyrAlone(t), []string{"mps2_an521", "qemu_cortex_m3", nativeZephyr(t)}
	}
	for _, board := range on {
		t.Run(board, func(t *testing.T) {
			ran := 0
			for _, path := range archives {
				t.Run(mlftest.Name(path), func(t *testing.T) {
					if runZephyrAlone(t, builder, board, path) {
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
func runZephyrAlone(t *testing.T, builder *project.Builder, board, path string) bool {
	t.Helper()
	if otherCore(board, mlftest.Name(path)) {
		t.Log("objects for another core, which only the link finds")
		return false
	}
	p, err := generateAlone(t, builder, project.Spec{Board: "zephyr/" + board, Model: path})
	f := aloneFirmware{}
	if err == nil {
		f, err = openAlone(t, p)
	}
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
	project.NeedZephyr(t, "qemu-system-arm")
	builder := newBuilder(testcache.Dir())
	p, err := generateAlone(t, builder, project.Spec{Board: "zephyr/mps2_an385", Model: deviceArchive(t)})
	must(t, err)
	for name, text := range map[string]string{
		"src/devices.c":       deviceFirmware,
		"local/local.overlay": "&uart2 { status = \"okay\"; };\n",
	} {
		file := filepath.Join(p.Dir(), filepath.FromSlash(name))
		writeFile(t, file, text)
	}
	f, err := openAlone(t, p)
	if err != nil {
		t.Fatalf("%v\n%s", err, failure.Next(err))
	}
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
	builder := newBuilder(testcache.Dir())
	_, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), project.Spec{Board: "host", Model: archive})
	if failure.Of(err) != failure.Config || failure.Next(err) == "" || !strings.Contains(err.Error(), `"port"`) {
		t.Errorf("with an RPC server: %v", err)
	}
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
		p, err := generateAlone(t, builder, project.Spec{Board: "host", Model: archive})
		must(t, err)
		writeFile(t, filepath.Join(p.Dir(), "src", "devices.c"), text)
		f, err := openAlone(t, p)
		must(t, err)
		if text != operator {
			checkDeviceRun(t, f)
		} else if _, err := f.session.Run(t.Context(), 1); err == nil ||
			!strings.Contains(err.Error(), "run returned the error") {
			t.Errorf("without devices: %v", err)
		}
	}
}

const zephyrApp = "../examples/own-zephyr-app"

// TestZephyrAppFiles: a project of the example has the application's and the module's files.
func TestZephyrAppFiles(t *testing.T) {
	t.Parallel()
	builder := &project.Builder{Host: device.Host{Path: []string{zephyrApp}}}
	p := generated(t, builder, zephyrAppSpec(t))
	for _, name := range []string{
		"CMakeLists.txt", "src/main.c", "boardsmith/zephyr/module.yml",
		"boardsmith/src/main.c",
	} {
		from := filepath.Join(zephyrApp, "app", name)
		switch name {
		case "boardsmith/zephyr/module.yml":
			from = filepath.Join("../templates/zephyr", name)
		case "boardsmith/src/main.c":
			from = "../templates/firmware/main.c"
		}
		want := readFile(t, from)
		if got, err := os.ReadFile(filepath.Join(p.Dir(), name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not %s (%v)", name, from, err)
		}
	}
}

func zephyrAppSpec(t *testing.T) project.Spec {
	t.Helper()
	return project.Spec{
		Board: "zephyr/mps2_an385", Template: zephyrApp + "/app", Model: mlftest.Path(t, "add.aot_packed"),
		Options: boards.Options{ArenaKiB: 64},
	}
}

// needZephyrOfExample skips with a Zephyr that is older than the example's README says.
func needZephyrOfExample(t *testing.T) {
	t.Helper()
	project.NeedZephyr(t, "qemu-system-arm")
	if _, err := os.Stat(filepath.Join(os.Getenv("ZEPHYR_BASE"), "include/zephyr/kernel.h")); err != nil {
		t.Skipf("the example needs Zephyr 3.2: %v", err)
	}
}

// TestZephyrApp builds the example with the Zephyr in $ZEPHYR_BASE and runs it: the model's outputs are right, and the
// application's own thread runs beside the server.
func TestZephyrApp(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	ctx := testkit.Context(t)
	builder := newBuilder(t.TempDir(), zephyrApp)
	spec := zephyrAppSpec(t)
	p := generated(t, builder, spec)
	runProject(t, ctx, p, spec.Model)

	i, err := p.Build(ctx)
	must(t, err)
	f, err := elf.Open(i.Path)
	must(t, err)
	defer f.Close()
	own := firmware.Place{Symbol: "_k_thread_stack_boardsmith"}
	want, has := own.Find(f)
	if got, ok := i.Landmarks.Stacks[0].Find(f); !has || !ok || got != want {
		t.Errorf("the thread's stack is at %#x, and the landmark at %#x", want, got)
	}
	s, err := p.Run(ctx, nil, "")
	must(t, err)
	defer s.Close(ctx)
	beats, err := s.Function(ctx, "app.beats")
	must(t, err)
	first, err := beats.Call(ctx)
	must(t, err)
	for now := first; now.(int64) <= first.(int64); {
		if now, err = beats.Call(ctx); err != nil {
			t.Fatalf("the application's thread does not run, it has counted %v: %v", first, err)
		}
	}
}

// TestZephyrAppSettings: the settings of a board file are those of an application of one's own, which they cannot leave
// without effect.
func TestZephyrAppSettings(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	ctx := testkit.Context(t)
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS(zephyrApp)))
	write := func(name, text string) {
		t.Helper()
		writeFile(t, filepath.Join(folder, name), text)
	}
	write("boards/zephyr/mps2_an385.json", `{"doc": "a", "inherits": "family/zephyr", "templates": ["app"],
		"functions": [{"name": "app.beats", "symbol": "app_beats"}], "settings": ["kiln.conf", "kiln.overlay"]}`)
	write("boards/zephyr/kiln.conf", "CONFIG_HEAP_MEM_POOL_SIZE=2048\n")
	write("boards/zephyr/kiln.overlay", "/ { kiln { }; };\n")
	write("app/app.overlay", "/ { oven { }; };\n")
	builder := newBuilder(t.TempDir(), folder)
	spec := zephyrAppSpec(t)
	spec.Template = filepath.Join(folder, "app")
	p := generated(t, builder, spec)
	_, err := p.Build(ctx)
	must(t, err)
	config, err := os.ReadFile(filepath.Join(p.Dir(), "build/app/zephyr/.config"))
	if err != nil || !strings.Contains(string(config), "CONFIG_HEAP_MEM_POOL_SIZE=2048\n") {
		t.Errorf("the setting has no effect: %v", err)
	}
	const line = "include(boardsmith/cmake/application.cmake)"
	lists := readFile(t, filepath.Join(folder, "app/CMakeLists.txt"))
	write("app/CMakeLists.txt", strings.Replace(string(lists), line,
		`list(APPEND ZEPHYR_EXTRA_MODULES "${CMAKE_CURRENT_SOURCE_DIR}/boardsmith")`, 1))
	must(t, p.Generate(ctx, spec))
	_, err = p.Build(ctx)
	wantError(t, err, "", "does not read the settings")
}

// TestZephyrAppArena: an edited crt_config.h has its effect in the example, and none in another project of it.
func TestZephyrAppArena(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	ctx := testkit.Context(t)
	builder := newBuilder(t.TempDir(), zephyrApp)
	spec := zephyrAppSpec(t)
	spec.Options.ArenaKiB = 0
	const line = "#define BOARDSMITH_ARENA_BYTES 0"
	for _, c := range []struct {
		line  string
		bytes uint64
	}{{"#define BOARDSMITH_ARENA_BYTES 32768", 32 << 10}, {line, 2 << 20}} { // the default is half of the RAM
		p := generated(t, builder, spec)
		name := filepath.Join(p.Dir(), "crt_config", "crt_config.h")
		data, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(data), line) {
			t.Fatalf("%v: no %q", err, line)
		}
		writeFile(t, name, strings.ReplaceAll(string(data), line, c.line))
		_, err = p.Build(ctx)
		must(t, err)
		symbols := elfSymbols(t, p)
		at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "arena" })
		if at < 0 || symbols[at].Size != c.bytes {
			t.Errorf("no arena of %d bytes in %v", c.bytes, symbols)
		}
	}
}

// TestZephyrChecked: Zephyr's template and the example pass all checks of templates.
func TestZephyrChecked(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	if !drawn.InFull() {
		t.Skip("only in the full tests")
	}
	for template, path := range map[string][]string{zephyrApp + "/app": {zephyrApp}, "zephyr": nil} {
		var skipped []string
		trial := templatecheck.Trial{Spec: zephyrAppSpec(t)}
		trial.Template = template
		builder := &project.Builder{Host: device.Host{Path: path}}
		err := templatecheck.Run(t.Context(), builder, trial, func(c templatecheck.Check) {
			if c.Skipped != "" {
				skipped = append(skipped, c.Name)
			}
		})
		if err != nil || !slices.Equal(skipped, []string{"run"}) { // no Run is given
			t.Errorf("%s: %v; skipped %q", template, err, skipped)
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
	project.NeedFullZephyr(t, "qemu-system-arm")
	needZephyrOfExample(t)
	builder := newBuilder(t.TempDir(), zephyrApp)
	p := generated(t, builder, zephyrAppSpec(t))
	name := filepath.Join(p.Dir(), "src", "main.c")
	source := readFile(t, name)
	writeFile(t, name, string(append(source, badThread...)))
	s, err := p.Run(t.Context(), nil, "")
	must(t, err)
	defer s.Close(t.Context())
	beats, err := s.Function(t.Context(), "app.beats")
	for err == nil {
		_, err = beats.Call(t.Context())
	}
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) {
		t.Fatal(err)
	}
	if faultErr.Record.Reason != fault.ReasonHardware || len(faultErr.Record.Stack) > 0 {
		t.Errorf("%v, with %d bytes of a stack; want a hardware fault, without", err, len(faultErr.Record.Stack))
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
	project.NeedFullZephyr(t)
	for _, b := range zephyrBoards {
		t.Run(b.name, b.try)
	}
}

// TestZephyrArchivesRISCV does the same with another toolchain.
func TestZephyrArchivesRISCV(t *testing.T) {
	project.NeedFullZephyr(t)
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
	for _, tool := range b.tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	has := filepath.Join(os.Getenv("ZEPHYR_BASE"), "boards", "*", "*", b.name+"_defconfig")
	if found, err := filepath.Glob(has); len(found) == 0 {
		t.Skipf("this Zephyr has no board %s (%v)", b.name, err)
	}
	builder := newBuilder(t.TempDir())
	ran := 0
	for _, file := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		name := filepath.Base(filepath.Dir(file)) + "/" + mlftest.Name(file)
		if !matches(b.archives, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			spec := project.Spec{Board: "zephyr/" + b.name, Model: file}
			if strings.HasPrefix(name, "tvm-0.9/dscnn_i8.") {
				spec.Options.StackBytes = 4096
			}
			p := generated(t, builder, spec)
			_, err := p.Build(ctx)
			if matches(b.noMath, name) {
				var tool *project.ToolError
				if !errors.As(err, &tool) || failure.Of(err) != failure.Link || !strings.Contains(err.Error(), "expf") {
					t.Errorf("class %s: %v", failure.Of(err), err)
				}
				return
			}
			if matches(b.tooLarge, name) {
				var fit *project.FitError
				if !errors.As(err, &fit) || failure.Next(err) == "" {
					t.Errorf("%v (next: %s)", err, failure.Next(err))
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, failure.Next(err))
			}
			runProject(t, ctx, p, file)
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
