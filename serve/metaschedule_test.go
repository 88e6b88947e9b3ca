//go:build linux

package serve_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune"
)

// exampleFolder has the script that readers try.
const exampleFolder = "../examples/tvm-metaschedule"

// targetC is the target of operators in C.
const targetC = `{"kind": "c"}`

// llvmTargets are TVM's targets of boards.
var llvmTargets = map[string]string{
	"host": `{"kind": "llvm", "num-cores": 1}`,
	"mps2_an386": `{"kind": "llvm", "mtriple": "thumbv7em-none-eabihf", "mcpu": "cortex-m4", "mfloat-abi": "hard",
		"num-cores": 1}`,
	"mps2_an500": `{"kind": "llvm", "mtriple": "thumbv7em-none-eabihf", "mcpu": "cortex-m7", "mfloat-abi": "hard",
		"mattr": ["-fp64"], "num-cores": 1}`,
	"qemu_riscv32": `{"kind": "llvm", "mtriple": "riscv32-unknown-elf", "mattr": ["+m", "+a", "+c"], "mabi": "ilp32",
		"num-cores": 1}`,
}

// TestExample runs the commands of the example's page on an emulated Cortex-M4: for one operator and one target, in a
// full run for all.
func TestExample(t *testing.T) {
	t.Parallel()
	tvmCommand(t.Context(), t, todays) // skips without it
	tracker := serveBoard(t, todays, "mps2_an386")
	script := exampleFolder + "/tune.py"
	if !drawn.InFull() {
		out := runTVM(t, todays, "testdata/quick.py", script, tracker, "mps2_an386", llvmTargets["mps2_an386"], "2",
			"matmul")
		if !strings.Contains(out, "matmul: ") || !strings.Contains(out, "its output is NumPy's") {
			t.Error(out)
		}
		return
	}
	for _, target := range []string{llvmTargets["mps2_an386"], targetC} {
		out := runTVM(t, todays, script, tracker, "mps2_an386", target, "4")
		wantEqual(t, strings.Count(out, "its output is NumPy's"), 2, target, out)
	}
}

// TestMetaSchedule tunes operators, and those of a network, with unmodified TVM, through its tracker. Each candidate's
// outputs are compared with NumPy's, and the best one's time with that of another measurement.
func TestMetaSchedule(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("test:full runs it: TVM's builder takes minutes")
	}
	tvmCommand(t.Context(), t, todays) // skips without it
	for name, target := range llvmTargets {
		t.Run(name, func(t *testing.T) {
			tolerance := "1.1"
			if name == "host" { // times are those of a busy computer
				tolerance = "10"
			}
			tracker := serveBoard(t, todays, name)
			t.Log(runTVM(t, todays, "testdata/metaschedule.py", exampleFolder, tracker, name, target, "4", tolerance))
		})
	}
}

// serveBoard serves a board at a tracker of TVM until the test ends, and returns the tracker's address. No request may
// fail.
func serveBoard(t *testing.T, variable, name string) (tracker string) {
	t.Helper()
	tracker = ownTracker(t, variable)
	serveBoardAt(t, tracker, name)
	return tracker
}

func serveBoardAt(t *testing.T, tracker, name string) {
	t.Helper()
	b := openBoard(t, name, t.TempDir())
	serveAt(t, b, "127.0.0.1", serve.Options{Key: name, Tracker: tracker, OnEvent: func(e serve.Event) {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Text, e.Err)
		}
	}})
}

// openBoard opens a board whose firmware is built below a folder.
func openBoard(t *testing.T, name, dir string) serve.Place {
	t.Helper()
	b, err := tune.OpenBoard(t.Context(), filepath.Join(dir, "firmware"), &device.Desk{}, name, tune.Options{})
	must(t, err)
	return b
}

// TestRate compares candidates a minute on boards with those on TVM's own server for this computer, in turns.
func TestRate(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("test:full runs it: it measures for minutes")
	}
	tracker := serveBoard(t, todays, "host")
	serveBoardAt(t, tracker, "mps2_an386")
	host, port, _ := net.SplitHostPort(tracker)
	own := freePort(t, host)
	server, _ := tvmCommand(t.Context(), t, todays, "-m", "tvm.exec.rpc_server", "--host="+host, "--port="+own,
		"--port-end="+next(own), "--tracker="+host+":"+port, "--key=tvm")
	must(t, server.Start())
	defer func() {
		_ = server.Cancel()
		_ = server.Wait()
	}()
	out := runTVM(t, todays, "testdata/rate.py", tracker, "50", "host", llvmTargets["host"], "mps2_an386",
		llvmTargets["mps2_an386"], "tvm", llvmTargets["host"])
	t.Log(out)
	rates := map[string]int{} // by key
	for line := range strings.Lines(out) {
		key, rest, _ := strings.Cut(line, ": ")
		var n int
		if _, err := fmt.Sscanf(rest, "%d candidates a minute", &n); err == nil {
			rates[key] = n
		}
	}
	if rates["host"] < rates["tvm"] || rates["mps2_an386"] == 0 || rates["tvm"] == 0 {
		t.Errorf("%s%v", out, rates)
	}
}
