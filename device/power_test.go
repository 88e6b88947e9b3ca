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

// TestPowerIsCycledOnce: the power of a board that does not respond is cycled once before the operation fails, and once
// for each call of PowerCycle, which reports whether there is a command.
func TestPowerIsCycledOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	dir := t.TempDir()
	i := d.image("")
	ran, link := filepath.Join(dir, "ran"), filepath.Join(dir, "tty")
	dev := d.powered(fmt.Sprintf("echo x >>%s; ln -sf $(cat %s.to) %s", ran, link, link))
	writeFile(t, link+".to", *dev.Port())

	ctx := t.Context()
	wantError(t, last(dev.Open(ctx, i)), failure.Boot) // a chip without firmware
	wantEqual(t, times(t, ran), 1, "its power was cycled")
	must(t, last(dev.Flash(ctx, i)))
	must(t, os.Remove(link))
	*dev.Port() = link // it is there once the command has run
	mustAnswer(t, dev, i)
	if done, err := dev.PowerCycle(ctx); !done || err != nil {
		t.Errorf("%v, %v", done, err)
	}
	wantEqual(t, times(t, ran), 3, "its power was cycled")
	must(t, dev.Close())
	if done, err := d.powered("").PowerCycle(ctx); done || err != nil {
		t.Errorf("without a command: %v, %v", done, err)
	}
}

// TestPowerCycleRescuesFlash: if the probe is lost during a flash, a power cycle restores it, and the flash completes.
func TestPowerCycleRescuesFlash(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	dir := t.TempDir()
	i := d.image("")
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

// TestFailedPowerCommandKeepsError: a power command that fails is logged, and the original error is returned.
func TestFailedPowerCommandKeepsError(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image("")
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
