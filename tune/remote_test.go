//go:build linux

package tune_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/trackertest"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune"
)

// servedVariable has a board, a tracker and a key in a process of TestServed.
const servedVariable = "BOARDSMITH_TEST_SERVED"

// TestServed serves a board in a process of its own, until that is killed.
func TestServed(t *testing.T) {
	words := strings.Fields(os.Getenv(servedVariable))
	if len(words) == 0 {
		t.Skip("started by other tests")
	}
	b, err := tune.OpenBoard(t.Context(), words[3], &device.Desk{}, words[0], tune.Options{})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, serve.Serve(t.Context(), l, b, serve.Options{Tracker: words[1], Key: words[2], OnEvent: func(e serve.Event) {
		fmt.Println(e.Text, e.Err)
	}}))
}

// serveBoard starts a process that serves a board, and returns it once the tracker has it.
func serveBoard(t *testing.T, board, tracker, key string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServed$", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), servedVariable+"="+strings.Join([]string{board, tracker, key, t.TempDir()}, " "))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)

	// The kernel kills it with the thread that starts it: one that lives as long, since threads that start builds end.
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		<-ended
	}()
	must(t, <-started)
	t.Cleanup(func() {
		kill(cmd)
		_ = cmd.Wait()
		close(ended)
	})

	var text strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "joined") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return cmd
		}
		text.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("the server ended: %s", &text)
	return nil
}

func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// remoteRun opens a run with boards of other computers.
func remoteRun(t *testing.T, o tune.Options, remotes ...tune.Remote) *tune.Run {
	t.Helper()
	o.Remotes = remotes
	o.OnEvent = func(e tune.Event) { t.Log(e.Board, e.Text, e.Err) }
	run, err := tune.OpenRun(t.Context(), t.TempDir(), &device.Desk{}, nil, o)
	must(t, err)
	t.Cleanup(func() { must(t, run.Close()) })
	return run
}

// TestRemoteBoards measures on a process and on an emulated board of other processes, as on local ones.
func TestRemoteBoards(t *testing.T) {
	k := trackertest.Start(t)
	serveBoard(t, "host", k.Address(), "bench")
	serveBoard(t, "mps2_an386", k.Address(), "m4")
	run := remoteRun(t, tune.Options{},
		tune.Remote{Tracker: k.Address(), Key: "bench", Board: "host"},
		tune.Remote{Tracker: k.Address(), Key: "m4", Board: "mps2_an386"})
	var all []tune.Candidate
	classes := map[string]failure.Class{"right": "", "wrong": failure.WrongAnswer, "crash": failure.Fault, "large": ""}
	for _, kind := range run.Kinds() {
		for id, body := range map[string]string{
			"right": right, "wrong": right + "out[1] = 7;", "crash": "*(volatile int*)0 = 1;" + right,
			"large": "static const char table[70000] = {2}; for (int i = 0; i < 4; i++) out[i] = in[i] * table[in[0] - 1];",
		} {
			c := operator(id+"@"+kind, body)
			c.Kind = kind
			all = append(all, c)
		}
	}
	machine, err := os.Hostname()
	must(t, err)
	results := measureAll(t, run, all)
	testkit.Equal(t, "results", len(results), len(all))
	for _, r := range results {
		id, kind, _ := strings.Cut(r.ID, "@")
		wantFailure(t, r, classes[id])
		want := map[string]string{"host": "bench", "mps2_an386": "m4"}[kind] + "@" + machine + ":"
		if !strings.HasPrefix(r.Board, want) {
			t.Errorf("%s was measured on %q, want %s…", r.ID, r.Board, want)
		}
		if id == "crash" {
			wantFailure(t, r, failure.Fault, "twice.c:")
		}
	}
	confirm(t, run, 1)
}

// TestRemoteFlash measures on a chip with flash, which the other side writes by its own desk and ledger: the client's
// desk has none.
func TestRemoteFlash(t *testing.T) {
	k, own := trackertest.Start(t), desk(t)
	b, err := tune.OpenBoard(t.Context(), t.TempDir(), own, "netduinoplus2", tune.Options{})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	joined, done := make(chan struct{}, 9), make(chan error)
	go func() {
		done <- serve.Serve(ctx, l, b, serve.Options{Tracker: k.Address(), Key: "chip", OnEvent: func(e serve.Event) {
			if strings.HasPrefix(e.Text, "joined") {
				joined <- struct{}{}
			}
		}})
	}()
	defer func() {
		cancel()
		must(t, errors.Join(<-done, b.Close()))
	}()
	<-joined
	run := remoteRun(t, tune.Options{Memory: map[string]boards.Options{"": {UploadKiB: 4}}},
		tune.Remote{Tracker: k.Address(), Key: "chip", Board: "netduinoplus2"})
	wantTime(t, measured(t, run, operator("right", right)), true)
	r := measured(t, run, large("large", 5000))
	wantFailure(t, r, "")
	testkit.Equal(t, "tier", r.Tier, tune.Sectors)
	wantFailure(t, measured(t, run, operator("crash", "*(volatile int*)0 = 1;"+right)), failure.Fault)
	wear, err := own.Wear()
	must(t, err)
	if len(wear) != 1 || wear[0].Board != "netduinoplus2" || len(wear[0].Sectors) == 0 {
		t.Errorf("the ledger of the chip's computer: %+v", wear)
	}
}

// A census counts the measured candidates of each board.
type census struct {
	t *testing.T

	mu       sync.Mutex
	measured map[string]int
	failed   int
}

func (c *census) add(e tune.Event) {
	c.t.Log(e.Board, e.Text, e.Err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Result == nil:
	case e.Result.Failure != nil:
		c.failed++
	default:
		c.measured[e.Board]++
	}
}

// await waits until so many boards have measured, each at least two candidates.
func (c *census) await(boards int) {
	c.t.Helper()
	for range 1200 {
		c.mu.Lock()
		n := 0
		for _, measured := range c.measured {
			if measured >= 2 {
				n++
			}
		}
		c.mu.Unlock()
		if n >= boards {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("%d boards were expected to measure: %v", boards, c.measured)
}

// TestRemoteBoardGoes kills a server in the middle of a run, starts two, and ends the tracker and one of these: each
// candidate is measured, and each board measures.
func TestRemoteBoardGoes(t *testing.T) {
	k := trackertest.Start(t)
	first := serveBoard(t, "host", k.Address(), "host")
	c := &census{t: t, measured: map[string]int{}}
	run, err := tune.OpenRun(t.Context(), t.TempDir(), &device.Desk{}, nil, tune.Options{
		Remotes: []tune.Remote{{Tracker: k.Address(), Key: "host", Board: "host"}}, OnEvent: c.add,
	})
	must(t, err)
	defer func() { must(t, run.Close()) }()
	drawn, stop := 0, make(chan struct{})
	results := make(chan int)
	go func() {
		n := 0
		defer func() { results <- n }()
		for _, err := range run.All(t.Context(), func(yield func(tune.Candidate) bool) {
			for {
				select {
				case <-stop:
					return
				default:
				}
				drawn++
				if !yield(operator(fmt.Sprintf("slow %d", drawn), // of different bytes
					fmt.Sprintf("for (volatile int n = 0; n < 20000000 + %d; n++) {} ", drawn)+right)) {
					return
				}
			}
		}) {
			if err != nil {
				t.Error(err)
				return
			}
			n++
		}
	}()
	c.await(1)
	kill(first)
	serveBoard(t, "host", k.Address(), "host")
	c.await(2)
	third := serveBoard(t, "host", k.Address(), "host")
	c.await(3)
	k.Stop()
	kill(third)
	close(stop)
	if n := <-results; n != drawn || c.failed > 0 || len(c.measured) != 3 {
		t.Errorf("%d of %d candidates were measured, %d failed, by %v", n, drawn, c.failed, c.measured)
	}
}

// TestRemoteRefusals opens runs with boards that cannot be used.
func TestRemoteRefusals(t *testing.T) {
	k := trackertest.Start(t)
	open := func(r tune.Remote) (*tune.Run, error) {
		return tune.OpenRun(t.Context(), t.TempDir(), &device.Desk{}, nil, tune.Options{
			Remotes: []tune.Remote{r}, OnEvent: func(e tune.Event) { t.Log(e.Board, e.Text, e.Err) },
		})
	}
	_, err := open(tune.Remote{Tracker: k.Address(), Key: "bench", Board: "host"})
	wantError(t, err, failure.Config, `no board of key "bench"; its keys: none`)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	_, err = open(tune.Remote{Tracker: l.Addr().String(), Key: "bench", Board: "host"})
	wantError(t, err, failure.Network)
	serveBoard(t, "host", k.Address(), "bench")
	own := t.TempDir() + "/host.json"
	writeFile(t, own, strings.Replace(string(readFile(t, "../boards/host.json")), `"link"`,
		`"replaces": true, "arena_kib": 77, "link"`, 1))
	for board, want := range map[string]string{
		"mps2_an386": `offers a board "host", not mps2_an386`, own: "has another board file of host",
	} {
		run, err := open(tune.Remote{Tracker: k.Address(), Key: "bench", Board: board})
		must(t, err)
		_, err = run.Measure(t.Context(), operator("a", right))
		wantError(t, err, failure.Config, want)
		must(t, run.Close())
	}
}
