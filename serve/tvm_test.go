//go:build linux

package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/serve"
)

// pythons are the variables with a Python that has Apache TVM: 0.14, and 0.26 or later.
var pythons = []string{earlier, todays}

// todays is the variable of TVM 0.26 or later; without it, that of setup is used.
const todays = "BOARDSMITH_RELAX_PYTHON"

// tvmCommand returns a command of a Python with TVM. It runs in a process group of its own, which ends with the test:
// TVM's tools leave processes.
func tvmCommand(ctx context.Context, t *testing.T, variable string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	python := os.Getenv(variable)
	if python == "" && variable == todays {
		if tool, err := testkit.FindTool("tvm-ffi-config"); err == nil { // installed by setup
			python = filepath.Join(filepath.Dir(tool), "python")
		}
	}
	if python == "" {
		t.Skip(variable + " is not set: no Python with Apache TVM")
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

func runTVM(t *testing.T, variable string, args ...string) string {
	t.Helper()
	ctx := testkit.Context(t)
	cmd, out := tvmCommand(ctx, t, variable, args...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return out.String()
}

// TestTVM uses a simulated board from unmodified TVM.
func TestTVM(t *testing.T) {
	for _, variable := range pythons {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			useSimulated(t, variable)
		})
	}
}

// useSimulated uses a simulated board from a Python with TVM.
func useSimulated(t *testing.T, variable string) {
	t.Helper()
	b, address := start(t, serve.Options{})
	host, port, _ := net.SplitHostPort(address)
	runTVM(t, variable, "testdata/client.py", host, port)
	wantEqual(t, b.live(), 0)
}

// TestTracker uses a simulated board from unmodified TVM through its tracker, twice, and once more after the tracker
// was restarted.
func TestTracker(t *testing.T) {
	for _, variable := range pythons {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			const host = "127.0.0.1"
			port := freePort(t, host)
			joined := make(chan struct{}, 100)
			stop := startTracker(t, variable, host, port)
			_, address := start(t, serve.Options{Key: "bd", Tracker: net.JoinHostPort(host, port), OnEvent: func(e serve.Event) {
				if strings.HasPrefix(e.Text, "joined") {
					joined <- struct{}{}
				}
			}})
			<-joined
			_, own, _ := net.SplitHostPort(address)
			for range 2 {
				runTVM(t, variable, "testdata/client.py", host, own, port, "bd")
			}
			stop()
			stop = startTracker(t, variable, host, port)
			defer stop()
			<-joined
			runTVM(t, variable, "testdata/client.py", host, own, port, "bd")
		})
	}
}

// startTracker starts TVM's tracker and waits until it listens. stop ends it; it is an error if it ended before.
func startTracker(t *testing.T, variable, host, port string) (stop func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // that of a test ends before its cleanups, some of which call stop
	cmd, out := tvmCommand(ctx, t, variable, "-m", "tvm.exec.rpc_tracker", "--host="+host, "--port="+port,
		fmt.Sprintf("--port-end=%s", next(port)))
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("tcp", net.JoinHostPort(host, port)); err == nil {
			c.Close()
			break
		}
		select {
		case err := <-ended:
			if strings.Contains(out.String(), "No module named") {
				t.Skipf("TVM's tracker needs Python's tornado, cloudpickle and psutil: %s", out)
			}
			t.Fatalf("tracker: %v\n%s", err, out)
		default:
		}
		if time.Since(begun) > 3*time.Minute {
			t.Fatal("the tracker does not listen")
		}
	}
	return func() {
		select {
		case err := <-ended:
			t.Errorf("the tracker ended by itself: %v\n%s", err, out)
		default:
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	}
}

// ownTracker starts TVM's tracker, which ends with the test.
func ownTracker(t *testing.T, variable string) (address string) {
	t.Helper()
	const host = "127.0.0.1"
	port := freePort(t, host)
	t.Cleanup(startTracker(t, variable, host, port))
	return net.JoinHostPort(host, port)
}

// freePort returns a port that no program uses.
func freePort(t *testing.T, host string) string {
	t.Helper()
	l := transporttest.Listen(t, host+":0")
	must(t, l.Close())
	_, port, _ := net.SplitHostPort(l.Address())
	return port
}

// next returns the port after a port.
func next(port string) string {
	var n int
	fmt.Sscan(port, &n)
	return fmt.Sprint(n + 1)
}

// earlier is the variable of TVM 0.14.
const earlier = "BOARDSMITH_TVM_PYTHON"

// TestEarlierTuners uses an emulated Cortex-M4 by the compiler and the tuners of unmodified TVM 0.14, through its
// tracker: operators in C and as objects.
func TestEarlierTuners(t *testing.T) {
	needCompiler(t)
	trials := "2"
	if drawn.InFull() {
		trials = "8"
	}
	for _, c := range []struct{ use, target string }{
		{"connect", targetC},
		{"connect", llvmTargets["mps2_an386"]},
		{"upload", targetC},
		{"upload", llvmTargets["mps2_an386"]},
		{"loader", `{"kind": "c", "model": "host"}`}, // as tvm.target.target.micro has it
		{"metaschedule", targetC},
		{"metaschedule", llvmTargets["mps2_an386"]},
	} {
		kind := "c"
		if strings.Contains(c.target, "llvm") {
			kind = "llvm"
		}
		t.Run(c.use+"/"+kind, func(t *testing.T) {
			const board = "mps2_an386"
			t.Log(runTVM(t, earlier, "testdata/earlier.py", c.use, serveBoard(t, earlier, board), board, c.target, trials))
		})
	}
}

// needCompiler skips the test if TVM 0.14 is not there, or has its runtime only.
func needCompiler(t *testing.T) {
	t.Helper()
	out := runTVM(t, earlier, "-c", "import tvm; print(tvm._ffi.libinfo.find_lib_path()[0])")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if library := lines[len(lines)-1]; filepath.Base(library) != "libtvm.so" {
		t.Skipf("%s has no compiler: its library is %s", earlier, library)
	}
}

// TestPinnedVersions installs the versions of TVM in docs/tvm.md by its commands, and uses a simulated board with each.
func TestPinnedVersions(t *testing.T) {
	page, err := os.ReadFile("../docs/tvm.md")
	must(t, err)
	row := regexp.MustCompile("(?m)^\\| (0\\.\\S+) \\| \\S+ \\| `pip (install [^`]+)` \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 3 {
		t.Fatalf("docs/tvm.md has %d versions", len(rows))
	}
	if !drawn.InFull() {
		t.Skip("test:full runs it: it installs them from PyPI")
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			folder := t.TempDir()
			if out, err := exec.Command("python3", "-m", "venv", folder).CombinedOutput(); err != nil {
				t.Skipf("Python's venv: %v\n%s", err, out)
			}
			pip := exec.Command(filepath.Join(folder, "bin", "pip"), strings.Fields(row[2])...)
			if out, err := pip.CombinedOutput(); err != nil && strings.Contains(string(out), "onnection") {
				t.Skipf("PyPI is not reached: %s", out)
			} else if err != nil {
				t.Fatalf("%v: %s", pip, out)
			}
			t.Setenv(todays, filepath.Join(folder, "bin", "python"))
			useSimulated(t, todays)
		})
	}
}
