// This file compares the device's counter with the host's clock, and measures the link.

package accept

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

const (
	clockTolerance = 0.01
	clockDoubt     = 0.002 // of a measurement that is long enough
	mostDoubt      = clockTolerance
	clockTries     = 4 // other programs may delay one
	measured       = 300 * time.Millisecond
	longest        = 10 * time.Second // measurement, by intent
)

// A reading is the device's counter at some moment between two.
type reading struct {
	ticks         uint64
	before, after time.Time
}

func (a reading) middle() time.Time { return a.before.Add(a.after.Sub(a.before) / 2) }

// read asks for the counter several times, and returns the quickest answer.
func (r *run) read(ctx context.Context) (best reading, err error) {
	const asks = 3
	for i := range asks {
		current := reading{before: time.Now()}
		p, err := r.session.Platform(ctx)
		if err != nil {
			return best, err
		}

		current.after = time.Now()

		if p.Ticks == nil || *p.Ticks == math.MaxUint64 {
			return best, failure.Errorf(failure.WrongAnswer, "the counter has stopped")
		}

		current.ticks = *p.Ticks

		// The quickest answer leaves the least doubt about the moment of its reading.
		if i == 0 || current.after.Sub(current.before) < best.after.Sub(best.before) {
			best = current
		}
	}

	return best, nil
}

// rate measures the counter's rate while do runs, and how exact that is. ticks is what it counted.
func (r *run) rate(ctx context.Context, do func() error) (hz, doubt float64, ticks uint64, err error) {
	first, err := r.read(ctx)
	if err != nil {
		return 0, 0, 0, err
	}

	if err := do(); err != nil {
		return 0, 0, 0, err
	}

	last, err := r.read(ctx)
	if err != nil {
		return 0, 0, 0, err
	}

	if last.ticks < first.ticks {
		return 0, 0, 0, failure.Errorf(failure.WrongAnswer, "the counter went from %d back to %d", first.ticks, last.ticks)
	}

	ticks = last.ticks - first.ticks

	// Each reading is from the middle of its exchange; half of each exchange is its doubt.
	between := last.middle().Sub(first.middle()).Seconds()
	doubt = (first.after.Sub(first.before) + last.after.Sub(last.before)).Seconds() / 2 / between
	return float64(ticks) / between, doubt, ticks, nil
}

// hasCounter reports whether the firmware reports a counter, and whether it follows the host's time.
func (r *run) hasCounter() (known, follows bool) {
	p := r.platform
	known = p.Ticks != nil && p.TicksHz != nil && *p.TicksHz > 0
	return known, known && r.board.KeepsHostTime() && !r.isEmulated()
}

// compare measures until the rate is the reported one, a few times at most. do takes about the given time.
func (r *run) compare(ctx context.Context, found *Result, what string,
	do func(ctx context.Context, long time.Duration) error,
) error {
	reported, follows := r.hasCounter()
	if !reported {
		found.Skipped = "the firmware reports no counter"
		return nil
	}

	statedHz, long := *r.platform.TicksHz, measured
	if !follows {
		long = 0
	}

	wrong := 0.0 // the rate of a measurement that was exact enough

	for try := 1; try <= clockTries; try++ {
		hz, doubt, ticks, err := r.rate(ctx, func() error { return do(ctx, long) })
		switch {
		case err != nil:
			return err
		case !follows && ticks == 0:
			return failure.Errorf(failure.WrongAnswer, "the counter does not count while the core %s", what)
		case !follows:
			found.note("the counter counts while the core %s; its time is not the host's", what)
			return nil
		// The doubt is of constant length, so a longer measurement has a smaller share of it.
		case doubt > clockDoubt && try < clockTries:
			long = min(longest, time.Duration(float64(long)*doubt/clockDoubt))
			continue
		case doubt > mostDoubt:
			continue
		}

		off := hz/float64(statedHz) - 1
		if math.Abs(off) <= clockTolerance {
			found.note("%.0f counts a second while the core %s, %+.2f %% off the reported %d (± %.2f %%)", hz, what,
				off*100, statedHz, doubt*100)
			return nil
		}

		// Another program may have delayed this one, so it counts only if no other is right.
		wrong = hz
	}

	if wrong == 0 {
		found.Skipped = "this computer is too busy to measure the counter to ± 1 %"
		return nil
	}

	return failure.Errorf(failure.Config, "%w: while the core %s, it makes %.0f ticks a second by the host's clock, "+
		"%+.1f %% off the reported %d", device.ErrClock, what, wrong, (wrong/float64(statedHz)-1)*100, statedHz)
}

func (r *run) clock(ctx context.Context, found *Result) error {
	if err := r.bareSession(ctx); err != nil {
		return err
	}

	rounds, took, err := r.busyRounds(ctx)
	if err != nil {
		return err
	}

	// long is 0 where the counter does not follow the host's time: then these rounds show that it counts.
	err = r.compare(ctx, found, "computes", func(ctx context.Context, long time.Duration) error {
		_, err := r.call(ctx, "accept_busy", max(rounds, int64(float64(rounds)*long.Seconds()/took.Seconds())))
		return err
	})
	if err != nil {
		return err
	}

	// Only now the board's settings are compared with the device's, as for every user.
	err = r.open(ctx, 0)
	if errors.Is(err, device.ErrClock) {
		return nil // the next step's
	}
	if err != nil {
		return err
	}

	found.note("%v", r.platform)
	return nil
}

// busyRounds returns how many rounds accept_busy computes in a short time.
func (r *run) busyRounds(ctx context.Context) (rounds int64, took time.Duration, err error) {
	const first, enough = 1000, 20 * time.Millisecond
	const repeats = 3 // the shortest one counts: other programs delay

	for rounds = first; took < enough; rounds *= 2 {
		for i := range repeats {
			began := time.Now()
			if _, err := r.call(ctx, "accept_busy", 2*rounds); err != nil {
				return 0, 0, err
			}
			if d := time.Since(began); i == 0 || d < took {
				took = d
			}
		}
	}
	return rounds, took, nil
}

func (r *run) timer(ctx context.Context, found *Result) error {
	if err := r.bareSession(ctx); err != nil {
		return err
	}

	err := r.compare(ctx, found, "waits", func(ctx context.Context, long time.Duration) error {
		select {
		case <-ctx.Done():
			return failure.Stopped(ctx, "waiting")
		case <-time.After(long):
			return nil
		}
	})
	if err != nil {
		return err
	}
	return r.open(ctx, 0) // which compares them once more
}

const (
	linkBytes      = 64 << 10
	shortLinkBytes = 4 << 10
)

func (r *run) link(ctx context.Context, found *Result) error {
	if err := r.open(ctx, 0); err != nil {
		return err
	}
	previous, err := r.session.Platform(ctx)
	if err != nil {
		return err
	}

	// The tensor takes at most half of the arena, in which the firmware keeps data, too.
	data := make([]byte, min(r.times(linkBytes, shortLinkBytes), r.arenaKiB()*1024/2)/4*4)
	for i := 0; i < len(data); i += 4 { // every byte value, without a period that a buffer might have
		binary.LittleEndian.PutUint32(data[i:], uint32(i)*2654435761)
	}

	t, err := r.session.Empty(ctx, ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}, []int64{int64(len(data))})
	if err != nil {
		return err
	}

	began := time.Now()
	if err := t.Write(ctx, data); err != nil {
		return err
	}
	wrote := time.Now()

	got := make([]byte, len(data))
	if err := t.Read(ctx, got); err != nil {
		return err
	}
	read := time.Now()

	if !bytes.Equal(got, data) {
		return failure.Errorf(failure.WrongAnswer, "%d bytes came back changed", len(data))
	}

	// A damaged copy is repeated, so a lost byte may not show in the data.
	after, err := r.session.Platform(ctx)
	if err != nil {
		return err
	}
	if previous.Lost != nil && after.Lost != nil && *after.Lost != *previous.Lost {
		return failure.Errorf(failure.Transport, "the board lost %d of %d bytes", *after.Lost-*previous.Lost, len(data))
	}

	n, err := r.session.Damages(ctx)
	if err != nil {
		return err
	}
	if n != 0 {
		return failure.Errorf(failure.Transport, "%d copies were damaged", n)
	}

	rate := func(d time.Duration) float64 { return float64(len(data)) / d.Seconds() / 1000 }
	found.note("%d bytes: %.1f kB/s to the board, %.1f kB/s from it", len(data), rate(wrote.Sub(began)),
		rate(read.Sub(wrote)))
	return t.Free(ctx)
}
