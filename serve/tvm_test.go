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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
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
	if n := b.live(); n != 0 {
		t.Errorf("%d tensors were not freed", n)
	}
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

// freePort returns a port that no program uses.
func freePort(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	must(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	must(t, l.Close())
	return port
}

// next returns the port after a port.
func next(port string) string {
	var n int
	fmt.Sscan(port, &n)
	return fmt.Sprint(n + 1)
}
