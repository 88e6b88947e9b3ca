//go:build !windows

package device_test

import (
	"bytes"
	"context"
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
	name := os.Getenv(startsFile)
	starts, _ := os.ReadFile(name) // none at the first start
	if err := os.WriteFile(name, append(starts, '*'), 0o644); err != nil || len(starts) >= enough {
		fmt.Println(err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	b, err := boards.Find("microbit", nil)
	if err == nil {
		_, err = attach(ctx, b, "", env{StateDir: filepath.Join(filepath.Dir(name), "state")})
	}
	fmt.Println(err, "-", failure.Next(err))
	if failure.Of(err) != failure.ToolMissing {
		return 1
	}
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

var emulatedCalls = []func(*device.Desk, context.Context, *boards.Board) (device.EmulatedState, error){
	(*device.Desk).StartEmulated, (*device.Desk).StopEmulated, (*device.Desk).EraseEmulated, (*device.Desk).SwapEmulated,
}

// TestUnusableBoardIsRefused: a board whose chip is not emulated, and, before its build, one whose link only its build
// determines.
func TestUnusableBoardIsRefused(t *testing.T) {
	ctx := t.Context()
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir(), Probes: emulated.Probes()}
	for _, do := range emulatedCalls {
		wantError(t, last(do(k, ctx, findBoard(t, "host"))), failure.Config, "no emulated chip")
	}
	b := findBoard(t, "zephyr/nucleo_f746zg")
	for _, err := range []error{
		last(k.Attach(ctx, b, "")), last(k.EraseCommands(ctx, b, "")), last(k.StartEmulated(ctx, b)),
	} {
		wantError(t, err, failure.Config, "only a build finds out how board "+b.Name+" is reached")
	}
}

// TestEmulatedBoardNeedsProbes: the error for an emulated board on a desk without Probes names the package and the
// field.
func TestEmulatedBoardNeedsProbes(t *testing.T) {
	b := findBoard(t, "microbit")
	k := &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir()}
	must(t, os.MkdirAll(device.EmulatedDir(k.StateDir, b.Name), 0o755)) // by another program
	ctx := t.Context()
	errs := []error{last(k.Attach(ctx, b, ""))}
	for _, do := range emulatedCalls {
		errs = append(errs, last(do(k, ctx, b)))
	}
	for _, err := range errs {
		wantError(t, err, failure.Config, b.Name, "device/emulated", "Probes")
	}
	list, err := k.Devices(ctx)
	must(t, err)
	for _, d := range list {
		if d.Emulated {
			t.Errorf("listed %+v, which cannot be attached", d)
		}
	}
	k.Programmer = "none"
	d, err := k.Attach(ctx, b, "") // QEMU alone
	must(t, err)
	must(t, d.Close())
}
