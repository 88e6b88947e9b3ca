package device_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// TestRunStartsOneProcess: an open device of board host is one process, whose functions can be called.
func TestRunStartsOneProcess(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	rpctest.CallTwice(t, s)
	if runtime.GOOS == "linux" && len(running(t, built(t, p).Path)) != 1 {
		t.Error("an open device is not one process")
	}
	must(t, s.Close(t.Context()))
}

func attachedTo(t *testing.T, p *project.Project) *device.Device {
	t.Helper()
	d, err := attach(t.Context(), p.Board(), "", testEnv())
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// TestOpenTwiceLeavesNoProcess: a process can be opened again after its session was closed, and none is left.
func TestOpenTwiceLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	i, d := built(t, p), attachedTo(t, p)
	r, err := d.Flash(t.Context(), i)
	if err != nil || r.Wrote != 0 || r.Reason == "" {
		t.Errorf("flash: %+v, %v", r, err)
	}
	for range 2 {
		s, err := d.Open(t.Context(), i)
		must(t, err)
		rpctest.CallTwice(t, s)
		must(t, s.Close(t.Context()))
	}
	if left := running(t, i.Path); len(left) > 0 {
		t.Errorf("processes still run: %q", left)
	}
}

// running lists the processes of a program.
func running(t *testing.T, program string) (list []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	must(t, err)
	if len(links) == 0 {
		t.Log("processes are not listed: this system has no /proc")
	}
	for _, l := range links {
		if exe, err := os.Readlink(l); err == nil && exe == program {
			list = append(list, l)
		}
	}
	return list
}

// TestFirmwareFunctions: the firmware's own functions return build id, CRC and checksum, and reject wrong arguments.
func TestFirmwareFunctions(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(t.Context())
	f, err := s.Function(t.Context(), "boardsmith.build_id")
	must(t, err)
	answer, err := f.Call(t.Context())
	must(t, err)
	i := built(t, p)
	if want := append(slices.Clone(i.BuildID[:]), 0, 0, 0, 0); !slices.Equal(answer.([]byte), want) {
		t.Errorf("build_id answered % x, want % x", answer, want)
	}
	if answer, err := f.Call(t.Context(), -7); err != nil || !slices.Equal(answer.([]byte)[:16], i.BuildID[:]) {
		t.Errorf("build_id with a nonce answered % x, %v", answer, err)
	}
	for _, args := range [][]any{{"7"}, {7, 8}} {
		if _, err := f.Call(t.Context(), args...); err == nil {
			t.Errorf("build_id took %v", args)
		}
	}
	f, err = s.Function(t.Context(), "boardsmith.crc32")
	must(t, err)
	dtype, err := ndarray.ParseDType("uint8")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{9})
	must(t, err)
	must(t, x.Write(t.Context(), []byte("123456789")))
	if sum, err := f.Call(t.Context(), x); err != nil || sum != int64(0xcbf43926) {
		t.Errorf("crc32 answered %v, %v", sum, err)
	}
}

// TestResetEndsSession: if the firmware resets itself, the session ends with ErrTerminated.
func TestResetEndsSession(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(t.Context())
	f, err := s.Function(t.Context(), "tvm.testing.reset_server")
	must(t, err)
	_, err = f.Call(t.Context())
	if !errors.Is(err, transport.ErrTerminated) {
		t.Errorf("the call of reset_server: %v", err)
	}
}

// TestOpenRefusesWrongImage: another build, a lost file, and an image of another board are refused.
func TestOpenRefusesWrongImage(t *testing.T) {
	t.Parallel()
	first := generated(t, project.Spec{})
	second := generated(t, project.Spec{Model: mlftest.Tiny(t,
		map[string]string{"codegen/host/src/lib1.c": mlftest.TinyOperator + "int other; // other\n"})})
	i, j, d := built(t, first), built(t, second), attachedTo(t, first)

	swapped := *i // as if the wrong file had been flashed
	swapped.Path, swapped.Digest = j.Path, j.Digest
	_, err := d.Open(t.Context(), &swapped)
	wantError(t, err, failure.Verify, "build "+j.ID()+", not build "+i.ID())
	source := filepath.Join(first.Dir(), "src", "main.c")
	appendTo(t, source, "extern int changed;\nint changed;\n")
	k := built(t, first)
	lost := *i
	lost.Digest = strings.Repeat("0", len(i.Digest))
	_, err = d.Open(t.Context(), &lost)
	wantError(t, err, failure.Config)
	s, err := d.Open(t.Context(), k)
	must(t, err)
	must(t, s.Close(t.Context()))

	elsewhere := *k
	elsewhere.Board = "nucleo"
	_, err = d.Flash(t.Context(), &elsewhere)
	wantError(t, err, failure.Config)
	_, err = attach(t.Context(), first.Board(), "serial-3", testEnv())
	wantError(t, err, failure.Config)
}

// TestAbortIsFault: if the firmware aborts, the error names operator and line, and the session continues with the
// restarted firmware.
func TestAbortIsFault(t *testing.T) {
	t.Parallel()
	aborts := strings.Replace(mlftest.TinyOperator, "return 0;",
		"extern void TVMPlatformAbort(int); TVMPlatformAbort(0x1234); return 0;", 1)
	p := generated(t, project.Spec{Model: mlftest.Operator(t, aborts)})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(t.Context())
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	f, err := lib.Function(t.Context(), "twice")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4})
	must(t, err)
	_, err = f.Call(t.Context(), x, x)
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || failure.Of(err) != failure.Fault || !strings.Contains(err.Error(), "twice") ||
		!strings.Contains(err.Error(), "error 0x1234") || !strings.Contains(err.Error(), "lib1.c:") {
		t.Errorf("got %v", err)
	}
	if _, err := f.Call(t.Context(), x, x); !errors.Is(err, rpc.ErrStale) {
		t.Errorf("a function from before the reset: %v", err)
	}
	if _, err := s.SystemLib(t.Context()); err != nil {
		t.Errorf("after the reset: %v", err)
	}
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
	_, err = in.Write([]byte{0xff, 0xfd, 1}) // an incomplete frame
	must(t, err)
	time.Sleep(600 * time.Millisecond)
	must(t, in.Close())
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of its input: %v", err)
	}
	if used := cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(); used > 60*time.Millisecond {
		t.Errorf("it used %v of processor time in 600 ms without input", used)
	}
	none, err := os.Open(os.DevNull)
	must(t, err)
	defer none.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Logf("a full output is not tested: %v", err)
		return
	}
	defer full.Close()
	cmd = exec.Command(i.Path)
	cmd.Stdin, cmd.Stdout = none, full
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("with a full output: %v", err)
	}
}

// TestLinkOutlastsSessions: several sessions can use a raw link one after the other; closing the link ends the process.
func TestLinkOutlastsSessions(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{})
	i, d := built(t, p), attachedTo(t, p)
	_, err := d.Link(t.Context(), nil)
	wantError(t, err, failure.Config)
	link, err := d.Link(t.Context(), i)
	must(t, err)
	for range 2 {
		session, err := transport.Dial(t.Context(), link, transport.SessionOptions{})
		must(t, err)
		rpctest.CallTwice(t, rpc.New(session, rpc.Options{}))
	}
	must(t, link.Close())
	if left := running(t, i.Path); len(left) > 0 {
		t.Errorf("left running: %q", left)
	}
}
