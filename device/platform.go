// This file compares a device's settings with its board file, and its clock with the host's: times measured with
// wrong settings are wrong.

package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc"
)

// A comparison is a list of the settings that differ between a board file and a device.
type comparison []string

func (c *comparison) add(name string, file, device *uint64, text func(uint64) string) {
	if file == nil || device != nil && *file == *device {
		return
	}

	actual := "unknown"
	if device != nil {
		actual = text(*device)
	}

	*c = append(*c, fmt.Sprintf("%s is %s in the board file, but %s on the device", name, text(*file), actual))
}

// addClocks compares the clocks that the device reports. The firmware of another port may have numbers of its own.
func (c *comparison) addClocks(b *boards.Board, p rpc.Platform) {
	decimal := func(v uint64) string { return fmt.Sprint(v) }
	timer := b.Timer.Hz
	// SysTick counts the core's clock unless the board file has a rate.
	if b.Timer.Kind == "systick" {
		timer = cmp.Or(timer, b.CoreHz)
	}

	if b.CoreHz != 0 && p.CoreHz != nil {
		c.add("core_hz", number(&b.CoreHz), number(p.CoreHz), decimal)
	}
	if timer != 0 && p.TicksHz != nil {
		c.add("timer.hz", number(&timer), number(p.TicksHz), decimal)
	}
}

// err returns an error of class config for settings that differ.
func (c *comparison) err(b *boards.Board) error {
	if len(*c) == 0 {
		return nil
	}
	next := "correct core_hz, timer or platform in the board file, or the firmware's clock setup"
	return failure.New(failure.Config, next, "board %s: %s", b.Name, strings.Join(*c, "; "))
}

// comparePlatform compares the settings that are in the board file with those of the device. Those that a device does
// not report are unknown.
func comparePlatform(b *boards.Board, p rpc.Platform) error {
	want := b.Platform
	decimal := func(v uint64) string { return fmt.Sprint(v) }
	hex := func(v uint64) string { return fmt.Sprintf("%#x", v) }
	onOff := func(v uint64) string {
		if v != 0 {
			return "on"
		}
		return "off"
	}

	var c comparison
	c.addClocks(b, p)

	c.add("icache", truth(want.ICache), truth(p.ICache), onOff)
	c.add("dcache", truth(want.DCache), truth(p.DCache), onOff)
	c.add("prefetch", truth(want.Prefetch), truth(p.Prefetch), onOff)
	c.add("wait_states", number(want.WaitStates), number(p.WaitStates), decimal)
	c.add("fpu", truth(want.FPU), truth(p.FPU), onOff)
	c.add("cpuid", number(want.CPUID), number(p.CPUID), hex)
	return c.err(b)
}

func number[T int | boards.Number | uint8 | uint32](v *T) *uint64 {
	if v == nil {
		return nil
	}
	return new(uint64(*v))
}

func truth(v *bool) *uint64 {
	switch {
	case v == nil:
		return nil
	case *v:
		return new(uint64(1))
	}
	return new(uint64(0))
}

// ErrClock is wrapped by the error, of class config, of a device whose timer, measured by another clock, runs at
// another rate than it reports: its measured times would be wrong by the same factor.
var ErrClock = errors.New("the timer does not run at its reported rate")

// clockError returns ErrClock with the ticks per second.
func clockError(board string, reported uint32, measured float64, clock rpc.Clock) error {
	by := "the host's clock"
	next := "correct the port's clock setup, or core_hz and timer in the board file; host_clock is false for an emulator"
	if clock == rpc.InstructionClock {
		by = "the emulator's clock, which counts instructions"
		next = fmt.Sprintf("the emulated machine has this clock: set core_hz and timer to %.0f Hz in the board file; on "+
			"Zephyr, CONFIG_SYS_CLOCK_HW_CYCLES_PER_SEC in local/local.conf, or in a file of the board's settings", measured)
	}
	return failure.New(failure.Config, next, "board %s: %w: %.0f ticks a second by %s, %+.1f %% off the reported %d",
		board, ErrClock, measured, by, (measured/float64(reported)-1)*100, reported)
}

// verifyPlatform compares the device, which runs the image, with its board file.
func (d *Device) verifyPlatform(ctx context.Context, s *rpc.Session, i *image.Image) error {
	p, err := s.Platform(ctx)
	if errors.Is(err, rpc.ErrNotFound) {
		d.desk.log().Debug("the firmware does not report its platform", "board", d.board.Name)
		return nil
	}
	if err != nil {
		return err
	}
	if err := comparePlatform(d.board, p); err != nil {
		return err
	}

	// Firmware may report that it is emulated although the board file does not.
	emulated := !d.board.KeepsHostTime() || p.Emulated != nil && *p.Emulated
	err = d.verifyClock(ctx, i, s.Platform, emulated)
	s.SetClock(d.verified.clock)
	return err
}

// verifyTimer is verifyPlatform for standalone firmware, which reports its timer only.
func (d *Device) verifyTimer(ctx context.Context, s *standalone.Session, i *image.Image) error {
	p, err := s.Timer(ctx)
	if err != nil {
		return err
	}

	var c comparison
	if c.addClocks(d.board, p); len(c) > 0 {
		return c.err(d.board)
	}

	err = d.verifyClock(ctx, i, s.Timer, !d.board.KeepsHostTime())
	s.SetClock(d.verified.clock)
	return err
}

// verifyClock compares the rate of an image's timer with another clock, once. query fetches the device's timer.
func (d *Device) verifyClock(ctx context.Context, i *image.Image, query queryPlatform, emulated bool) error {
	if d.verified.clock != "" && d.verified.image == i.Digest {
		return nil
	}

	// A failed comparison leaves no clock, so that it is made again.
	d.verified = verifiedClock{image: i.Digest}
	clock, most, least, measure := rpc.HostClock, clockTolerance, -clockTolerance, measureClock

	if emulated {
		_, each := d.board.InstructionClock()
		if each == 0 {
			return nil
		}
		clock, most, least = rpc.InstructionClock, countMost, countLeast
		measure = func(ctx context.Context, query queryPlatform) (uint32, float64, error) {
			return countClock(ctx, query, each)
		}
	}

	reported, measured, err := measure(ctx, query)
	if err != nil || reported == 0 {
		return err
	}

	if off := measured/float64(reported) - 1; off > most || off < least {
		return clockError(d.board.Name, reported, measured, clock)
	}

	d.verified.clock = clock
	return nil
}

const (
	clockTolerance = 0.01
	clockPrecision = 0.002 // of the measurement
	clockPause     = 5 * time.Second
	clockReads     = 3 // of which the quickest counts
	// by instructions, of which interrupts add some
	countLeast = -0.001
	countMost  = 0.005
)

type queryPlatform func(context.Context) (rpc.Platform, error)

// countClock measures the timer by instructions, each of which takes the same time. Of several measurements it returns
// the lowest, since interrupts add instructions; but the reported rate if the counts differ by at most one. It returns
// 0 for a device that does not report its counts.
func countClock(ctx context.Context, query queryPlatform, each time.Duration) (
	reported uint32, rate float64, err error,
) {
	for i := range clockReads {
		p, err := query(ctx)
		if err != nil || p.TicksHz == nil || p.CountedInstructions == 0 {
			return 0, 0, err
		}

		reported = *p.TicksHz
		seconds := float64(p.CountedInstructions) * each.Seconds()
		hz := float64(p.CountedTicks) / seconds
		if math.Abs(float64(p.CountedTicks)-float64(reported)*seconds) <= 1 {
			return reported, float64(reported), nil
		}

		if i == 0 || hz < rate {
			rate = hz
		}
	}
	return reported, rate, nil
}

// A clockReading is a device's ticks at some time between before and after.
type clockReading struct {
	ticks         uint64
	hz            uint32
	before, after time.Time
}

// measureClock compares a device's clock with this computer's. It returns 0 for a device that does not report ticks,
// and behind a link that is too slow for a result. A busy computer gets several tries.
func measureClock(ctx context.Context, query queryPlatform) (reported uint32, measured float64, err error) {
	for range clockReads {
		first, err := readClock(ctx, query)
		if err != nil || first.hz == 0 {
			return 0, 0, err
		}

		// Long enough that the two requests blur the rate by about clockPrecision.
		pause := max(time.Duration(float64(first.after.Sub(first.before))/clockPrecision), 20*time.Millisecond)
		if err := sleep(ctx, min(pause, clockPause)); err != nil {
			return 0, 0, err
		}

		last, err := readClock(ctx, query)
		if err != nil {
			return 0, 0, err
		}

		// Certainly wrong, or certainly right; anything between needs another try.
		rate, uncertainty := rateOf(first, last)
		off := math.Abs(rate/float64(first.hz) - 1)
		if off > clockTolerance+uncertainty || max(off, uncertainty) <= clockTolerance {
			return first.hz, rate, nil
		}

		// A longer pause is not allowed, so that another try would be no better.
		if pause >= clockPause {
			break
		}
	}
	return 0, 0, nil
}

// rateOf returns the ticks per second between two readings. A reading is assigned to the middle of its request, and so
// is off by at most half the request's time.
func rateOf(first, last clockReading) (rate, uncertainty float64) {
	elapsed := last.middle().Sub(first.middle()).Seconds()
	requests := first.after.Sub(first.before) + last.after.Sub(last.before)
	return float64(last.ticks-first.ticks) / elapsed, requests.Seconds() / 2 / elapsed
}

func (c clockReading) middle() time.Time { return c.before.Add(c.after.Sub(c.before) / 2) }

// readClock returns the quickest of several readings; the zero value for a device that does not report ticks.
func readClock(ctx context.Context, query queryPlatform) (best clockReading, err error) {
	for i := range clockReads {
		c := clockReading{before: time.Now()}
		p, err := query(ctx)
		if err != nil {
			return best, err
		}

		c.after = time.Now()
		if p.Ticks == nil || p.TicksHz == nil || *p.Ticks == math.MaxUint64 { // the maximum: the timer has failed
			return clockReading{}, nil
		}

		c.ticks, c.hz = *p.Ticks, *p.TicksHz
		if i == 0 || c.after.Sub(c.before) < best.after.Sub(best.before) {
			best = c
		}
	}
	return best, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return failure.Stopped(ctx, "measuring the device's clock")
	}
}
