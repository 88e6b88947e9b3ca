package device_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// powered is a device whose desk.json has a command for its power.
func (d *desk) powered(command string) *device.Device {
	d.t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		d.t.Skip("no /bin/sh")
	}
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{
		{Name: "other", Board: d.board, Probe: "ANOTHER", Power: "false"},
		{Name: "this", Board: d.board, Probe: chipkeeper.SerialOf(device.EmulatedDir(d.state, d.board)), Power: command},
	}}
	return d.attach()
}

// times returns how often a command ran that appends to a file.
func times(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestPowerIsCycledOnce: the power of a board that does not respond is cycled once before the operation fails.
func TestPowerIsCycledOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	dir := t.TempDir()
	i := d.image(boards.Options{})
	ran, link := filepath.Join(dir, "ran"), filepath.Join(dir, "tty")
	dev := d.powered(fmt.Sprintf("echo x >>%s; ln -sf $(cat %s.to) %s", ran, link, link))
	writeFile(t, link+".to", *dev.Port())

	wantError(t, last(dev.Open(t.Context(), i)), failure.Boot) // a chip without firmware
	if n := times(t, ran); n != 1 {
		t.Errorf("its power was cycled %d times", n)
	}
	must(t, last(dev.Flash(t.Context(), i)))
	must(t, os.Remove(link))
	*dev.Port() = link // it is there once the command has run
	s, err := dev.Open(t.Context(), i)
	must(t, err)
	must(t, s.Close(t.Context()))
	if n := times(t, ran); n != 2 {
		t.Errorf("its power was cycled %d times", n)
	}
}

// TestPowerCycleRescuesFlash: if the probe is lost during a flash, a power cycle restores it, and the flash completes.
func TestPowerCycleRescuesFlash(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	dir := t.TempDir()
	i := d.image(boards.Options{})
	ran, back := filepath.Join(dir, "ran"), filepath.Join(dir, "back")
	dev := d.powered(fmt.Sprintf("echo x >>%s; for i in $(seq 200); do [ -e %s ] && exit 0; sleep 0.05; done; exit 1",
		ran, back))
	d.setFaults(chipkeeper.Faults{UnplugAfter: 3000})
	go func() {
		for times(t, ran) == 0 && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		d.setFaults(chipkeeper.Faults{})
		_ = os.WriteFile(back, nil, 0o644) // without it the command fails, and the test
	}()
	r, err := dev.Flash(t.Context(), i)
	if err != nil || times(t, ran) != 1 {
		t.Fatalf("%+v, %v, %d times", r, err, times(t, ran))
	}
	d.mustHold(i)
}

// TestPowerCycleReportsCommand: PowerCycle runs the command once for each call, and reports whether there is one.
func TestPowerCycleReportsCommand(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	ran := filepath.Join(t.TempDir(), "ran")
	dev := d.powered("echo x >>" + ran)
	for range 2 {
		if done, err := dev.PowerCycle(t.Context()); !done || err != nil {
			t.Errorf("%v, %v", done, err)
		}
	}
	if n := times(t, ran); n != 2 {
		t.Errorf("the command ran %d times", n)
	}
	must(t, dev.Close())
	dev = d.powered("")
	if done, err := dev.PowerCycle(t.Context()); done || err != nil {
		t.Errorf("without a command: %v, %v", done, err)
	}
}

// TestFailedPowerCommandKeepsError: a power command that fails is logged, and the original error is returned.
func TestFailedPowerCommandKeepsError(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	var log bytes.Buffer
	d.env.Log = hclog.New(&hclog.LoggerOptions{Output: &log})
	dev := d.powered("exit 3")
	wantError(t, last(dev.Open(t.Context(), i)), failure.Boot)
	if !strings.Contains(log.String(), "its power was not cycled") || !strings.Contains(log.String(), "exit status 3") {
		t.Errorf("logged %q", log.String())
	}
	if done, err := dev.PowerCycle(t.Context()); !done || err == nil {
		t.Errorf("PowerCycle: %v, %v", done, err)
	}
}
