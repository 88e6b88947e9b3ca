// This file runs OpenOCD as a server of RTT.

package flasher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

const (
	rttEveryMS  = 1    // OpenOCD's pause between two reads of the buffers
	rttWithinMS = 3000 // limit of the search for the control block, which begins anew until then
	rttPauseMS  = 20   // between two searches
	rttNone     = "no RTT control block"
)

// rttArgs makes OpenOCD listen after it has located the control block in one of the ranges (OpenOCD User's Guide, "Real
// Time Transfer").
func (o *openocd) rttArgs(dir string, port int, ranges []Range) []string {
	var setups []string
	for _, r := range ranges {
		setups = append(setups, fmt.Sprintf("{0x%x 0x%x}", r.Addr, r.Size))
	}

	search := fmt.Sprintf(`set started 0
set end [expr {[clock milliseconds] + %d}]
while {!$started && [clock milliseconds] < $end} {
 foreach range {%s} {
  rtt setup {*}$range "SEGGER RTT"
  rtt start
  if {![catch {rtt channels}]} {set started 1; break}
 }
 if {!$started} {sleep %d}
}
if {!$started} {error "%s"}`, rttWithinMS, strings.Join(setups, " "), rttPauseMS, rttNone)
	// OpenOCD 0.12 reads the buffers after polling_interval even if rtt start failed, and crashes.
	return append(o.connect(dir, noGDB), "-c", search, "-c", fmt.Sprintf("rtt polling_interval %d", rttEveryMS),
		"-c", fmt.Sprintf("rtt server start %d 0", port), "-c", `echo "`+mark+serving+`"`)
}

// ServeRTT serves RTT's channel 0 until use returns.
func (o *openocd) ServeRTT(
	ctx context.Context, port int, ranges []Range, use func(context.Context) error,
) error {
	err := o.serve(ctx, server{name: "RTT server"}, func(dir string) []string { return o.rttArgs(dir, port, ranges) }, use)

	var c *command.Error
	if errors.As(err, &c) && strings.Contains(c.Text, rttNone) {
		return failure.New(failure.Boot, "check that firmware with RTT was flashed and starts", "the firmware has %s (%w)",
			rttNone, c)
	}
	return err
}

// serveWatched is serve, but use's context ends with the command, too; the error is then that of the command.
func (s server) serveWatched(ctx context.Context, within time.Duration, use func(context.Context) error) error {
	using, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	s.ended = func(err error) {
		if err == nil {
			err = fmt.Errorf("%s ended", command.Name(s.command.Path))
		}
		cancel(failure.New(failure.Transport, "check the probe's cable and the board's power",
			"the %s ended while it was used (%w)", s.name, err))
	}

	return s.serve(ctx, within, func(context.Context) error {
		err := use(using)
		if lost := context.Cause(using); ctx.Err() == nil && lost != nil {
			return errors.Join(lost, err)
		}
		return err
	})
}
