package device_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

func attachedTo(t *testing.T, p *project.Project) *device.Device {
	t.Helper()
	d, err := attach(t.Context(), p.Board(), "", testEnv())
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// TestOpenTwiceLeavesNoProcess: an open device of board host is one process. It can be opened again after its session
// was closed, and none is left.
func TestOpenTwiceLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	i, d := built(t, p), attachedTo(t, p)
	ctx := t.Context()
	r, err := d.Flash(ctx, i)
	if err != nil || r.Wrote != 0 || r.Reason == "" {
		t.Errorf("flash: %+v, %v", r, err)
	}
	for range 2 {
		s, err := d.Open(ctx, i)
		must(t, err)
		rpctest.CallTwice(t, s)
		if runtime.GOOS == "linux" && len(running(t, i.Path)) != 1 {
			t.Error("an open device is not one process")
		}
		must(t, s.Close(ctx))
	}
	wantEqual(t, len(running(t, i.Path)), 0, "processes still run")
}

// running lists the processes of a program.
func running(t *testing.T, program string) (list []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	must(t, err)
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && exe == program {
			list = append(list, l)
		}
	}
	return list
}

// TestIdentityRefusesArguments: the firmware's identity takes at most a nonce, which is a number.
func TestIdentityRefusesArguments(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := generated(t, project.Spec{}).Run(ctx, testEnv().desk(), "")
	must(t, err)
	defer s.Close(ctx)
	f, err := s.Function(ctx, "boardsmith.build_id")
	must(t, err)
	for _, args := range [][]any{{"7"}, {7, 8}} {
		wantError(t, last(f.Call(ctx, args...)), "")
	}
}

// TestOpenRefusesWrongImage: another build, a lost file, and an image of another board are refused.
func TestOpenRefusesWrongImage(t *testing.T) {
	t.Parallel()
	first := generated(t, project.Spec{})
	second := generated(t, project.Spec{Model: mlftest.Operator(t, mlftest.TinyOperator+"int other; // other\n")})
	i, j, d := built(t, first), built(t, second), attachedTo(t, first)

	swapped, lost, elsewhere := *i, *i, *i
	swapped.Path, swapped.Digest = j.Path, j.Digest // as if the wrong file had been flashed
	lost.Digest = strings.Repeat("0", len(i.Digest))
	elsewhere.Board = "nucleo"
	ctx := t.Context()
	wantError(t, last(d.Open(ctx, &swapped)), failure.Verify, "build "+j.ID()+", not build "+i.ID())
	wantError(t, last(d.Open(ctx, &lost)), failure.Config)
	wantError(t, last(d.Flash(ctx, &elsewhere)), failure.Config)
	wantError(t, last(attach(ctx, first.Board(), "serial-3", testEnv())), failure.Config)
	// Only a serial port has a rate.
	wantError(t, d.Monitor(ctx, nil, device.Monitoring{Baud: 9600}), failure.Config, "Monitoring.Baud")
}

// TestProcessEndsWithInput: the firmware's program ends at the end of its input, uses no processor time while it waits,
// and fails if its output is full.
func TestProcessEndsWithInput(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	i := built(t, p)
	cmd := exec.Command(i.Path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	hello := make([]byte, 12)
	if _, err := out.Read(hello); err != nil || hello[1] != 0xff || hello[2] != 0xfd {
		t.Errorf("it began with % x, %v", hello, err)
	}
	must(t, last(in.Write([]byte{0xff, 0xfd, 1}))) // an incomplete frame
	time.Sleep(600 * time.Millisecond)
	must(t, in.Close())
	must(t, cmd.Wait())
	if used := cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(); used > 60*time.Millisecond {
		t.Errorf("it used %v of processor time in 600 ms without input", used)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Logf("a full output is not tested: %v", err)
		return
	}
	defer full.Close()
	cmd = exec.Command(i.Path)
	cmd.Stdout = full
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("with a full output: %v", err)
	}
}

// TestLinkOutlastsSessions: several sessions can use a raw link one after the other; closing the link ends the process.
func TestLinkOutlastsSessions(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	i, d := built(t, p), attachedTo(t, p)
	ctx := t.Context()
	wantError(t, last(d.Link(ctx, nil)), failure.Config)
	link, err := d.Link(ctx, i)
	must(t, err)
	for range 2 {
		session, err := transport.Dial(ctx, link, transport.SessionOptions{})
		must(t, err)
		rpctest.CallTwice(t, rpc.New(session, rpc.Options{}))
	}
	must(t, link.Close())
	wantEqual(t, len(running(t, i.Path)), 0, "left running")
}
