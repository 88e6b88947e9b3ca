package project_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

// TestZephyrStandalone builds standalone firmware with the Zephyr in $ZEPHYR_BASE and runs it: the outputs are right,
// and the image has neither a heap nor an RPC server. A plain run has one archive, a full run all of them on an
// emulated board and on Zephyr's native board.
func TestZephyrStandalone(t *testing.T) {
	t.Parallel()
	project.NeedZephyr(t, "qemu-system-arm")
	builder := &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}}
	archives, on := []string{mlftest.Path(t, "twoin.aot_packed")}, []string{"mps2_an385"}
	if drawn.InFull() {
		archives, on = zephyrAlone(t), []string{"mps2_an521", nativeZephyr(t)}
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
		f, err = openAlone(t, p, 5*time.Minute)
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
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestZephyrDevice gives an operator a device of Zephyr's as its context. Without devices, its run is an error.
func TestZephyrDevice(t *testing.T) {
	t.Parallel()
	project.NeedZephyr(t, "qemu-system-arm")
	builder := &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}}
	p, err := generateAlone(t, builder, project.Spec{Board: "zephyr/mps2_an385", Model: deviceArchive(t)})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"src/devices.c":       deviceFirmware,
		"local/local.overlay": "&uart2 { status = \"okay\"; };\n",
	} {
		file := filepath.Join(p.Dir(), filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openAlone(t, p, 5*time.Minute)
	if err != nil {
		t.Fatalf("%v\n%s", err, failure.Next(err))
	}
	checkDeviceRun(t, f)
}

// checkDeviceRun runs the model with the device: it adds 100.
func checkDeviceRun(t *testing.T, f aloneFirmware) {
	t.Helper()
	if err := f.session.SetInput(t.Context(), 0, []byte{1, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.session.Run(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if y, err := f.session.Output(t.Context(), 0, 4); err != nil || string(y) != "efgh" {
		t.Errorf("the output is %q, %v", y, err)
	}
}

// TestDeviceContext does the same with firmware of the bare-metal template for a process. Firmware without the list of
// devices returns an error, and firmware with an RPC server is refused.
func TestDeviceContext(t *testing.T) {
	t.Parallel()
	archive := deviceArchive(t)
	builder := &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}, Jobs: 1}
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
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(p.Dir(), "src", "devices.c"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := openAlone(t, p, 2*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if text != operator {
			checkDeviceRun(t, f)
		} else if _, err := f.session.Run(t.Context(), 1); !errors.As(err, new(*standalone.RunError)) {
			t.Errorf("without devices: %v", err)
		}
	}
}
