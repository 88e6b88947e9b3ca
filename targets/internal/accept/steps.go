// This file has the list of steps, and those that are about starts, sessions and flashes.

package accept

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

type step struct {
	Step
	test func(*run, context.Context, *Result) error
}

var steps = []step{
	{Step{
		"reset", "the firmware starts, answers, and starts again after a reset of its own",
		"the core stands before main: the memory map. It is in a wait: chip_init. It is idle: the UART's pins, base, " +
			"clock (chip_uart_hz) and receive interrupt; docs/board.md, Troubleshooting",
	}, (*run).reset},
	{Step{
		"chip id", "the chip's id is the same after each start",
		"chip_id: the address and the length of the unique id",
	}, (*run).chipID},
	{Step{
		"memory", "all RAM that is free can be written, and is no other RAM",
		"memory and place in the board file: origin and size of each region; whether two regions are the same RAM; " +
			"RAM that must be switched on in chip_early",
	}, (*run).memory},
	{Step{
		"clock", "the counter runs at the reported rate while the core computes, and the settings are the board file's",
		"core_hz, timer and platform in the board file, and chip_init: crystal, PLL, flash wait states; chip_core_hz must " +
			"read registers",
	}, (*run).clock},
	{Step{
		"timer", "the counter continues at that rate while the core waits",
		"the counter or its clock stops in sleep: CPU_SLEEP_STOPS_TICK, or another timer; docs/chip.md, A CPU",
	}, (*run).timer},
	{Step{
		"link", "tensors are copied both ways without a lost byte",
		"BARE_RX_BYTES, the UART's divisor (chip_uart_hz), and how long interrupts are masked",
	}, (*run).link},
	{Step{
		"runtime", "the runtime's own unit tests are right on this core, with this compiler and its library",
		"cflags and ldflags in the board's or CPU's file: the ABI of floating point and of varargs; the compiler's version",
	}, (*run).units},
	{Step{
		"faults", "each kind of fault resets the board, is recorded with its reason, and the board answers again",
		"the handlers of faults, noinit (memory that a reset keeps), watchdog_ms; docs/faults.md",
	}, (*run).faults},
	{Step{
		"sessions", "sessions can be opened and closed again and again",
		"what a session leaves behind: the UART's error flags, the receive buffer",
	}, (*run).sessions},
	{Step{
		"flashes", "two images can be written alternately, and are there after the power was off",
		"the programmer's settings, and sectors in the board file; the supply, if the power was off",
	}, (*run).flashes},
}

// bareSession opens a session without comparing the device with its board file, which is a later step.
func (r *run) bareSession(ctx context.Context) error {
	if err := r.close(ctx); err != nil {
		return err
	}

	link, err := r.device.Link(ctx, r.images[0])
	if err != nil {
		return err
	}

	t, err := transport.Dial(ctx, link, transport.SessionOptions{Log: r.Log})
	if err != nil {
		return errors.Join(err, link.Close())
	}

	s := rpc.New(t, rpc.Options{Log: r.Log})
	p, err := s.Platform(ctx)
	// A runtime other than ours may lack the function that reports the platform.
	if err != nil && !errors.Is(err, rpc.ErrNotFound) {
		return errors.Join(err, s.Close(ctx))
	}

	r.session, r.platform = s, p
	return nil
}

// open opens a session as every user does.
func (r *run) open(ctx context.Context, variant int) error {
	if err := r.close(ctx); err != nil {
		return err
	}

	s, err := r.device.Open(ctx, r.images[variant])
	r.session = s
	return err
}

func (r *run) reset(ctx context.Context, found *Result) error {
	f, err := r.device.Flash(ctx, r.images[0])
	if err != nil {
		return err
	}

	r.report.Device, r.report.Programmer = f.Device, f.Programmer
	// A wrong clock must not end the first step, so this session compares nothing.
	if err := r.bareSession(ctx); err != nil {
		return err
	}

	if err := r.answers(ctx); err != nil {
		return err
	}

	began := time.Now()
	_, err = r.call(ctx, "accept_check_fault")
	if faultErr := new(fault.Error); !errors.As(err, &faultErr) {
		return notReset(err)
	}

	// The session continues after a reset: this answer is the restarted firmware's.
	if err := r.answers(ctx); err != nil {
		return err
	}

	found.note("answers %v after its reset", time.Since(began).Round(time.Millisecond))
	return nil
}

// notReset returns the error of a board that should have reset itself.
func notReset(err error) error {
	if err == nil {
		return failure.Errorf(failure.WrongAnswer, "the board did not stop, but returned")
	}
	return err
}

func (r *run) chipID(ctx context.Context, found *Result) error {
	// This id was read before the reset of the previous step.
	id := r.platform.ChipID
	if err := r.bareSession(ctx); err != nil {
		return err
	}

	second := r.platform.ChipID
	switch {
	case !bytes.Equal(id, second):
		return failure.Errorf(failure.WrongAnswer, "the id was %x, and after another start %x", []byte(id), []byte(second))
	case len(id) == 0:
		found.Skipped = "the firmware reports no id"
		return nil
	case isConstant(id):
		return failure.Errorf(failure.WrongAnswer, "the id is %x: nothing was read", []byte(id))
	}

	r.report.Chip = hex.EncodeToString(id)
	found.note("%x", []byte(id))
	return nil
}

// isConstant reports whether all bytes are 0x00 or all are 0xFF.
func isConstant(id []byte) bool {
	return (id[0] == 0 || id[0] == 0xFF) && !slices.ContainsFunc(id, func(b byte) bool { return b != id[0] })
}

const (
	sessions      = 1000
	shortSessions = 3
	flashes       = 10
	shortFlashes  = 2
)

// times returns how often something is repeated.
func (r *run) times(whole, short int) int {
	if r.Short {
		return short
	}
	return whole
}

func (r *run) sessions(ctx context.Context, found *Result) error {
	n := r.times(sessions, shortSessions)

	began := time.Now()
	for i := range n {
		err := r.open(ctx, 0)
		if err == nil {
			err = r.answers(ctx)
		}
		if err != nil {
			return fmt.Errorf("session %d of %d: %w", i+1, n, err)
		}
	}

	found.note("%d sessions, %v each", n, (time.Since(began) / time.Duration(n)).Round(time.Millisecond))
	return r.close(ctx)
}

func (r *run) flashes(ctx context.Context, found *Result) error {
	if !r.device.KeepsImage() {
		found.Skipped = "the image is loaded when the link opens"
		return nil
	}

	if err := r.close(ctx); err != nil {
		return err
	}

	n, cycled := r.times(flashes, shortFlashes), 0
	erased, wrote := 0, int64(0)
	// Another image each time, so that each flash has something to write.
	for i := range n {
		variant := (i + 1) % 2
		report, off, err := r.flash(ctx, variant)
		if failure.Of(err) == failure.Config && r.report.Programmer == boards.NoProgrammer {
			found.Skipped = "the board has no programmer"
			return nil
		}
		if err != nil {
			return fmt.Errorf("flash %d of %d: %w", i+1, n, err)
		}

		erased, wrote = erased+report.Erased, wrote+report.Wrote
		if off {
			cycled++
		}
	}

	found.note("%d flashes: %d sectors erased, %d bytes written", n, erased, wrote)
	if cycled == 0 {
		found.note("the power was not switched: desk.json has no power command for the device")
	} else {
		found.note("the power was off after %d of them", cycled)
	}
	return r.close(ctx)
}

// flash writes an image, switches the power off and on if it can, and checks that the firmware is there.
func (r *run) flash(ctx context.Context, variant int) (report device.FlashReport, off bool, err error) {
	i, err := r.build(ctx, variant)
	if err != nil {
		return report, false, err
	}

	if report, err = r.device.Flash(ctx, i); err != nil {
		return report, false, err
	}

	if off, err = r.device.PowerCycle(ctx); err != nil {
		return report, off, err
	}

	if err := r.open(ctx, variant); err != nil {
		return report, off, err
	}

	n, err := r.call(ctx, "accept_variant")
	if err == nil && n != int64(variant) {
		err = failure.Errorf(failure.WrongAnswer, "image %d answers as image %d", variant, n)
	}

	return report, off, errors.Join(err, r.close(ctx))
}

// note adds what was found.
func (r *Result) note(format string, args ...any) {
	r.Details = append(r.Details, fmt.Sprintf(format, args...))
}
