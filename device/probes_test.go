//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/failure"
)

// startsFile names the file in which each start of attachingChild is a byte.
const startsFile = "PROJECT_TEST_STARTS"

// attachingChild is a program that attaches an emulated board and cannot find a keeper.
func attachingChild() int {
	const enough = 3
	f, err := os.OpenFile(os.Getenv(startsFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, _ = f.WriteString("*")
	f.Close()
	if starts, _ := os.ReadFile(f.Name()); len(starts) > enough {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	b, err := boards.Find("microbit", nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = attach(ctx, b, "", env{StateDir: filepath.Join(filepath.Dir(f.Name()), "state")})
	var missing *failure.MissingToolError
	if !errors.As(err, &missing) || failure.Of(err) != failure.ToolMissing {
		fmt.Printf("%T: %v\n", err, err)
		return 1
	}
	fmt.Println(err, "-", failure.Next(err))
	return 0
}

// TestAttachStartsNoCopyOfItself: a program without a keeper on its PATH does not start itself as one, and its error
// names the missing program.
func TestAttachStartsNoCopyOfItself(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	cmd := childCommand(t, "attach")
	cmd.Env = append(cmd.Env, startsFile+"="+starts, "BOARDSMITH_KEEPER=", "PATH=/usr/bin:/bin")
	output, err := cmd.CombinedOutput()
	advice := "go install -mod=readonly github.com/boardsmith/boardsmith/cmd/boardsmith-keeper"
	if err != nil || !bytes.Contains(output, []byte(advice)) {
		t.Errorf("%v: %s", err, output)
	}
	if n, err := os.ReadFile(starts); string(n) != "*" {
		t.Errorf("the program was started %d times: %v", strings.Count(string(n), "*"), err)
	}
}

var emulatedCalls = map[string]func(*device.Desk, context.Context, *boards.Board) (device.EmulatedState, error){
	"start": (*device.Desk).StartEmulated, "stop": (*device.Desk).StopEmulated,
	"erase": (*device.Desk).EraseEmulated, "swap": (*device.Desk).SwapEmulated,
}

// TestEmulatedCallsRefuseRealBoard: a board whose chip is not emulated is refused.
func TestEmulatedCallsRefuseRealBoard(t *testing.T) {
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir(), Probes: emulated.Probes()}
	b := findBoard(t, "host")
	for name, do := range emulatedCalls {
		t.Run(name, func(t *testing.T) {
			_, err := do(k, t.Context(), b)
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "no emulated chip") ||
				failure.Next(err) == "" {
				t.Error(err)
			}
		})
	}
}

// fakeProbes are probes with one state, whose Stop fails.
type fakeProbes struct {
	device.Probes
	state device.EmulatedState
	err   error
}

var errNotStopped = errors.New("it still runs")

func (p fakeProbes) State(context.Context, string) (device.EmulatedState, error) {
	return p.state, p.err
}

func (p fakeProbes) Stop(context.Context, string) error { return errNotStopped }

// TestStopEmulated: only a running chip is stopped, and errors of the probe are returned.
func TestStopEmulated(t *testing.T) {
	b := findBoard(t, "microbit")
	broken := errors.New("no answer")
	for _, c := range []struct {
		name   string
		probes fakeProbes
		want   error
	}{
		{"stopped", fakeProbes{state: device.EmulatedState{Probe: "P"}}, nil},
		{"running", fakeProbes{state: device.EmulatedState{Probe: "P", Running: true}}, errNotStopped},
		{"no state", fakeProbes{err: broken}, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &device.Desk{StateDir: t.TempDir(), Probes: c.probes}
			s, err := k.StopEmulated(t.Context(), b)
			if !errors.Is(err, c.want) || err == nil && s.Probe != "P" {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// TestEmulatedBoardNeedsProbes: the error for an emulated board on a desk without Probes names the package and the
// field.
func TestEmulatedBoardNeedsProbes(t *testing.T) {
	b := findBoard(t, "microbit")
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir()}
	must(t, os.MkdirAll(device.EmulatedDir(k.StateDir, b.Name), 0o755)) // by another program
	calls := map[string]func() error{
		"attach": func() error { _, err := k.Attach(t.Context(), b, ""); return err },
	}
	for name, do := range emulatedCalls {
		calls[name] = func() error { _, err := do(k, t.Context(), b); return err }
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call()
			wantError(t, err, failure.Config, b.Name)
			if next := failure.Next(err); !strings.Contains(next, "device/emulated") || !strings.Contains(next, "Probes") {
				t.Errorf("the next step is %q", next)
			}
		})
	}
	list, err := k.Devices(t.Context())
	must(t, err)
	for _, d := range list {
		if d.Emulated {
			t.Errorf("listed %+v, which cannot be attached", d)
		}
	}
	k.Programmer = "none"
	d, err := k.Attach(t.Context(), b, "") // QEMU alone
	must(t, err)
	must(t, d.Close())
}
