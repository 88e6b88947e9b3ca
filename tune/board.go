package tune

import (
	"context"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
)

// A board is one place to measure at, with the firmware, the session and the arguments that are there. In a run, it
// takes jobs of its kind. One goroutine at a time uses it.
type board struct {
	place    place
	remote   *remotePlace // place, if it is one; else nil
	name     string       // of the place in the run
	o        *Options
	firmware *firmware

	image   *image.Image // on the place, or the next one
	layout  *layout      // of image
	flashed flashed
	window  rpc.Window // for code, as the place reported it

	session   *rpc.Session // nil: none is open
	platform  rpc.Platform
	args      *arguments // of the last candidate; nil: none on the device
	fresh     bool       // no candidate ran since the last reset: a failure is not the fault of an earlier one
	endTiming func()     // releases the processors; nil: not held

	scheduler *scheduler
	reference reference
	idle      bool // it waited for a job when the run was closed
}

// newPlace returns the place that a word of OpenRun names, for a kind of board.
func newPlace(desk *device.Desk, word string, b *boards.Board, o *Options) place {
	_, which := splitWord(word)
	p := &devicePlace{attached: attached{board: b}, desk: desk, which: which}
	if o.replace != nil {
		return o.replace(word, p)
	}
	return p
}

// newBoard returns the board at a place, which has a name, for the current layout of a firmware.
func newBoard(p place, name string, f *firmware) *board {
	l := f.current()
	b := &board{place: p, name: name, o: f.o, firmware: f, layout: l, image: l.resident}
	b.remote, _ = p.(*remotePlace)
	return b
}

// A reference is the candidate whose time shows whether a board still measures as it did at first.
type reference struct {
	candidate *Candidate // nil: the run has none for this kind of board
	job       *job       // nil: not built yet
	expected  float64    // seconds; 0: not measured yet
	unproven  []*job     // measured since the last check
}

// flashed describes how the last new image came onto a place.
type flashed struct {
	image  *image.Image
	tier   Tier
	reason string
}

// acquire waits until there is a place, which may be another one than before.
func (b *board) acquire(ctx context.Context) error {
	if b.remote == nil {
		return nil
	}
	name, err := b.remote.acquire(ctx)
	if err != nil {
		return err
	}

	l := b.firmware.current()
	b.name, b.layout, b.image, b.flashed = name, l, l.resident, flashed{}
	return nil
}

// isLost reports whether the place has gone.
func (b *board) isLost() bool { return b.remote != nil && b.remote.isLost() }

// prepare puts an image onto the place.
func (b *board) prepare(ctx context.Context, i *image.Image) error {
	b.image = i
	tier, reason, err := b.place.Prepare(ctx, i)
	// The first flash of an image counts, not another one after a reset.
	if err == nil && (b.flashed.tier == "" || b.flashed.image != i) {
		b.flashed = flashed{i, tier, reason}
	}
	return err
}

// open prepares the current image and opens a session.
func (b *board) open(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, b.o.flashTimeout())
	defer cancel()
	if err := b.prepare(limited, b.image); err != nil {
		return err
	}
	return b.openSession(ctx)
}

// ensure puts firmware of a layout onto the place, with an open session: an image, or any that takes code if i is nil.
func (b *board) ensure(ctx context.Context, l *layout, i *image.Image) error {
	required := i
	if required == nil && (b.layout != l || b.window != l.window) {
		required = l.resident
	}
	if required == nil || required == b.image {
		return nil
	}

	b.closeSession()
	limited, cancel := context.WithTimeout(ctx, b.o.flashTimeout())
	defer cancel()

	oldImage, oldLayout := b.image, b.layout
	b.layout = l
	if err := b.prepare(limited, required); err != nil {
		b.image, b.layout = oldImage, oldLayout
		return err
	}
	return b.openSession(ctx)
}

// restart resets the place, puts an image of a layout onto it, and opens a session. try is as in place.Reset.
func (b *board) restart(ctx context.Context, try int, l *layout, i *image.Image) error {
	b.closeSession()
	limited, cancel := context.WithTimeout(ctx, b.o.flashTimeout())
	defer cancel()
	if err := b.place.Reset(limited, try); err != nil {
		return err
	}
	b.layout = l
	if err := b.prepare(limited, i); err != nil {
		return err
	}
	return b.openSession(ctx)
}

func (b *board) openSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.StepTimeout)
	defer cancel()
	session, err := b.place.Open(ctx, b.image)
	if err != nil {
		return err
	}

	b.session, b.args, b.fresh = session, nil, true
	if err := b.identify(ctx); err != nil {
		b.closeSession()
		return err
	}
	return b.firmware.setWindow(b.layout, b.image, b.window)
}

// identify reads the window for code and the platform from the device.
func (b *board) identify(ctx context.Context) error {
	windows, err := b.session.Windows(ctx)
	if errors.Is(err, rpc.ErrNotFound) && b.layout.spec.Options.UploadKiB == 0 {
		err = nil // the layout has no window
	}
	if err != nil {
		return err
	}
	if len(windows) > 1 {
		return failure.Errorf(failure.Transport, "%s has %d windows for code, not one", b.name, len(windows))
	}

	if b.platform, err = b.session.Platform(ctx); err != nil {
		return err
	}
	b.platform.ArenaUsed = nil // before any candidate, it says nothing of one

	b.window = rpc.Window{}
	if len(windows) == 1 {
		b.window = windows[0]
	}
	return nil
}

func (b *board) closeSession() {
	if b.session == nil {
		return
	}

	// The caller's context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.session.Close(ctx) // the link may be broken
	b.session, b.args = nil, nil
}

// confirm returns an error if the firmware on the place is damaged.
func (b *board) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.measureTimeout())
	defer cancel()
	return b.place.Confirm(ctx, b.session, b.image)
}

// acquireProcessors waits until the place may measure a candidate, which uses processors of this computer unless the
// place is a chip. The caller calls end after the measurement.
//
// A place whose times are measured with this computer's clock has the processors to itself until releaseProcessors:
// it measures all candidates that are built before compilers run again, since each change leaves processors idle.
func (b *board) acquireProcessors(ctx context.Context) (end func(), err error) {
	kind := b.firmware.board
	switch {
	case b.remote != nil || !kind.Link.OnHost():
		return func() {}, nil
	case !kind.KeepsHostTime():
		return b.firmware.gate.Work(ctx)
	}

	if b.endTiming == nil {
		b.endTiming, err = b.firmware.gate.Time(ctx)
	}
	return func() {}, err
}

// releaseProcessors lets compilers and other places use the processors.
func (b *board) releaseProcessors() {
	if b.endTiming != nil {
		b.endTiming()
		b.endTiming = nil
	}
}

// setProvenance sets the fields of a result that describe where and how it was measured.
func (b *board) setProvenance(j *job, r *Result) {
	r.Board, r.Image, r.Tier, r.Reason = b.name, b.image.ID(), RAM, j.reason
	if b.platform.Clock == rpc.InstructionClock {
		_, r.Instruction = b.firmware.board.InstructionClock()
	}
	if j.program == nil {
		r.Tier, r.Reason = b.flashed.tier, j.reason+"; "+b.flashed.reason
	}
}

func (b *board) emit(text string, err error) {
	b.o.emit(Event{Board: b.name, Text: text, Err: err})
}
