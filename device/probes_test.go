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
	"github.com/boardsmith/boardsmith/emulated"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project"
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
	var missing *project.MissingToolError
	if !errors.As(err, &missing) || failure.Of(err) != failure.ToolMissing {
		fmt.Printf("%T: %v\n", err, err)
		return 1
	}
	fmt.Println(err, "-", failure.Next(err))
	return 0
}

// TestAttachStartsNoCopyOfItself runs a program that has no keeper on its PATH. It runs only once, and its error names
// what is missing.
func TestAttachStartsNoCopyOfItself(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	cmd := childCommand(t, "attach")
	cmd.Env = append(cmd.Env, startsFile+"="+starts, "BOARDSMITH_KEEPER=", "PATH=/usr/bin:/bin")
	said, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(said, []byte("go install github.com/boardsmith/boardsmith/cmd/boardsmith-keeper")) {
		t.Errorf("%v: %s", err, said)
	}
	if n, err := os.ReadFile(starts); string(n) != "*" {
		t.Errorf("the program was started %d times: %v", strings.Count(string(n), "*"), err)
	}
}

var emulatedCalls = map[string]func(*device.Desk, context.Context, *boards.Board) (device.EmulatedState, error){
	"start": (*device.Desk).StartEmulated, "stop": (*device.Desk).StopEmulated,
	"erase": (*device.Desk).EraseEmulated, "swap": (*device.Desk).SwapEmulated,
}

// TestNotEmulated: a board whose chip is not emulated is refused.
func TestNotEmulated(t *testing.T) {
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir(), Probes: emulated.Probes()}
	b, err := boards.Find("host", nil)
	must(t, err)
	for name, do := range emulatedCalls {
		_, err := do(k, t.Context(), b)
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "no emulated chip") ||
			failure.Next(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// probesIn are probes of one state. They do not stop.
type probesIn struct {
	device.Probes
	state device.EmulatedState
	err   error
}

var errNotStopped = errors.New("it goes on")

func (p probesIn) State(context.Context, string) (device.EmulatedState, error) { return p.state, p.err }

func (p probesIn) Stop(context.Context, string) error { return errNotStopped }

// TestStopEmulated: only a running chip is stopped, and errors of the probe are returned.
func TestStopEmulated(t *testing.T) {
	b, err := boards.Find("microbit", nil)
	must(t, err)
	broken := errors.New("no answer")
	for _, c := range []struct {
		probes probesIn
		want   error
	}{
		{probesIn{state: device.EmulatedState{Probe: "P"}}, nil},
		{probesIn{state: device.EmulatedState{Probe: "P", Runs: true}}, errNotStopped},
		{probesIn{err: broken}, broken},
	} {
		k := &device.Desk{StateDir: t.TempDir(), Probes: c.probes}
		s, err := k.StopEmulated(t.Context(), b)
		if !errors.Is(err, c.want) || err == nil && s.Probe != "P" {
			t.Errorf("%+v: %+v, %v", c.probes.state, s, err)
		}
	}
}

// TestNoProbes uses an emulated board on a desk without emulated probes: the error names the package and the field.
func TestNoProbes(t *testing.T) {
	b, err := boards.Find("microbit", nil)
	must(t, err)
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir()}
	must(t, os.MkdirAll(device.EmulatedDir(k.StateDir, b.Name), 0o755)) // by another program
	tries := map[string]func() error{
		"attach": func() error { _, err := k.Attach(t.Context(), b, ""); return err },
	}
	for name, do := range emulatedCalls {
		tries[name] = func() error { _, err := do(k, t.Context(), b); return err }
	}
	for name, try := range tries {
		err := try()
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), b.Name) {
			t.Errorf("%s: %v of class %s", name, err, failure.Of(err))
		}
		if next := failure.Next(err); !strings.Contains(next, "boardsmith/emulated") || !strings.Contains(next, "Probes") {
			t.Errorf("%s: the next step is %q", name, next)
		}
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
