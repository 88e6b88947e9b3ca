//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestMonitorShowsStandaloneLines: Monitor of standalone firmware on a board that keeps its image shows the firmware's
// lines unchanged after a reset, sends only the caller's line, and shows the answer.
func TestMonitorShowsStandaloneLines(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	standalone := d.image(boards.Options{App: boards.Standalone})
	dev := d.attach()
	must(t, last(dev.Flash(t.Context(), standalone)))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var shown []string
	var record bytes.Buffer
	send := make(chan string, 1)
	err := dev.Monitor(ctx, nil, device.Monitoring{
		Record: &record, Send: send, Baud: 115200, Reset: true,
		Show: func(line string) {
			shown = append(shown, line)
			switch {
			case strings.HasPrefix(line, "!0000 start ") && send != nil: // twice, as the programmer resets the board twice
				send <- "?0001 id 00000000"
				send = nil
			case strings.HasPrefix(line, "="):
				cancel()
			}
		},
	})
	wantError(t, err, failure.Interrupted)
	line := hex.EncodeToString([]byte("?0001 id 00000000\n"))
	if got := record.String(); strings.Count(got, `"to":"device","hex"`) != 1 || !strings.Contains(got, line) {
		t.Errorf("recorded %s, shown %q", got, shown)
	}
	wantError(t, dev.Monitor(t.Context(), nil, device.Monitoring{Baud: -1}), failure.Config)
}

// TestMonitorBaudNeedsSerialPort: only a serial port has a rate.
func TestMonitorBaudNeedsSerialPort(t *testing.T) {
	t.Parallel()
	d, err := attach(t.Context(), findBoard(t, "host"), "", testEnv())
	must(t, err)
	defer d.Close()
	wantError(t, d.Monitor(t.Context(), nil, device.Monitoring{Baud: 9600}), failure.Config, "Monitoring.Baud")
}
