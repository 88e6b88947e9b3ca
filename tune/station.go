package tune

import (
	"context"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune/internal/timegate"
)

// A changingPlace is one board of another computer after the other.
type changingPlace interface {
	// acquire waits for a board, and returns its name.
	acquire(ctx context.Context) (name string, err error)
	// isLost reports whether the board that was acquired has gone.
	isLost() bool
}

// A station is a place with the firmware, the session and the arguments that are on it. One goroutine at a time uses
// it.
type station struct {
	place    Place
	changing changingPlace // place, if it is one; else nil
	name     string        // of the place in the run
	o        *Options
	firmware *firmware
	gate     *timegate.Gate

	image   *image.Image // on the place, or the next one
	layout  *layout      // of image
	flashed flashed
	window  rpc.Window // for code, as the place reported it

	bench     bench
	platform  rpc.Platform
	endTiming func() // releases the gate; nil: not held
}

// flashed describes how the last new image came onto a place.
type flashed struct {
	image  *image.Image
	tier   Tier
	reason string
}

// acquire waits until there is a place, which may be another one than before.
func (s *station) acquire(ctx context.Context) error {
	if s.changing == nil {
		return nil
	}
	name, err := s.changing.acquire(ctx)
	if err != nil {
		return err
	}

	l := s.firmware.current()
	s.name, s.layout, s.image, s.flashed = name, l, l.resident, flashed{}
	return nil
}

// isLost reports whether the place has gone.
func (s *station) isLost() bool { return s.changing != nil && s.changing.isLost() }

// prepare puts an image onto the place.
func (s *station) prepare(ctx context.Context, i *image.Image) error {
	s.image = i
	tier, reason, err := s.place.Prepare(ctx, i)
	// The first flash of an image counts, not another one after a reset.
	if err == nil && (s.flashed.tier == "" || s.flashed.image != i) {
		s.flashed = flashed{i, tier, reason}
	}
	return err
}

// open prepares the current image and opens a session.
func (s *station) open(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, s.o.flashTimeout())
	defer cancel()
	if err := s.prepare(limited, s.image); err != nil {
		return err
	}
	return s.openSession(ctx)
}

// ensure puts the firmware that a load requires onto the place, with an open session.
func (s *station) ensure(ctx context.Context, l *load) error {
	required := l.image
	if required == nil && (s.layout != l.layout || s.window != l.layout.window) {
		required = l.layout.resident
	}
	if required == nil || required == s.image {
		return nil
	}

	s.closeSession()
	limited, cancel := context.WithTimeout(ctx, s.o.flashTimeout())
	defer cancel()

	oldImage, oldLayout := s.image, s.layout
	s.layout = l.layout
	if err := s.prepare(limited, required); err != nil {
		s.image, s.layout = oldImage, oldLayout
		return err
	}
	return s.openSession(ctx)
}

// restart resets the place, puts an image of a layout onto it, and opens a session. try is as in Place.Reset.
func (s *station) restart(ctx context.Context, try int, l *layout, i *image.Image) error {
	s.closeSession()
	limited, cancel := context.WithTimeout(ctx, s.o.flashTimeout())
	defer cancel()
	if err := s.place.Reset(limited, try); err != nil {
		return err
	}
	s.layout = l
	if err := s.prepare(limited, i); err != nil {
		return err
	}
	return s.openSession(ctx)
}

func (s *station) openSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.StepTimeout)
	defer cancel()
	session, err := s.place.Open(ctx, s.image)
	if err != nil {
		return err
	}

	s.bench = bench{o: s.o, session: session, fresh: true}
	if err := s.identify(ctx); err != nil {
		s.closeSession()
		return err
	}
	return s.firmware.setWindow(s.layout, s.image, s.window)
}

// identify reads the window for code and the platform from the device.
func (s *station) identify(ctx context.Context) error {
	windows, err := s.bench.session.Windows(ctx)
	if errors.Is(err, rpc.ErrNotFound) && s.layout.spec.Options.UploadKiB == 0 {
		err = nil // the layout has no window
	}
	if err != nil {
		return err
	}
	if len(windows) > 1 {
		return failure.Errorf(failure.Transport, "%s has %d windows for code, not one", s.name, len(windows))
	}

	if s.platform, err = s.bench.session.Platform(ctx); err != nil {
		return err
	}

	s.window = rpc.Window{}
	if len(windows) == 1 {
		s.window = windows[0]
	}
	return nil
}

func (s *station) closeSession() {
	if s.bench.session == nil {
		return
	}

	// The caller's context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.bench.session.Close(ctx) // the link may be broken
	s.bench.session, s.bench.args = nil, nil
}

// measure measures a candidate whose firmware is on the place. See bench.measure.
func (s *station) measure(ctx context.Context, c Candidate, l *load, best float64) (Result, error) {
	end, err := s.acquireProcessors(ctx)
	if err != nil {
		return Result{}, err
	}
	defer end()
	return s.bench.measure(ctx, c, l, best)
}

// confirm returns an error if the firmware on the place is damaged.
func (s *station) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.measureTimeout())
	defer cancel()
	return s.place.Confirm(ctx, s.bench.session, s.image)
}

// acquireProcessors waits until the place may measure a candidate, which uses processors of this computer unless the
// place is a chip. The caller calls end after the measurement.
//
// A place whose times are measured with this computer's clock has the processors to itself until releaseProcessors:
// it measures all candidates that are built before compilers run again, since each change leaves processors idle.
func (s *station) acquireProcessors(ctx context.Context) (end func(), err error) {
	b := s.firmware.board
	switch {
	case s.changing != nil || !b.Link.OnHost():
		return func() {}, nil
	case !b.KeepsHostTime():
		return s.gate.Work(ctx)
	}

	if s.endTiming == nil {
		s.endTiming, err = s.gate.Time(ctx)
	}
	return func() {}, err
}

// releaseProcessors lets compilers and other places use the processors.
func (s *station) releaseProcessors() {
	if s.endTiming != nil {
		s.endTiming()
		s.endTiming = nil
	}
}

// setProvenance sets the fields of a result that describe where and how it was measured.
func (s *station) setProvenance(l *load, r *Result) {
	r.Board, r.Image, r.Tier, r.Reason = s.name, s.image.ID(), RAM, l.reason
	if s.platform.Clock == rpc.InstructionClock {
		_, r.Instruction = s.firmware.board.InstructionClock()
	}
	if l.program == nil {
		r.Tier, r.Reason = s.flashed.tier, l.reason+"; "+s.flashed.reason
	}
}
