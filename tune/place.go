// This file declares the places at which programs are measured, and implements them for devices.

package tune

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Place is somewhere that programs can be loaded and called: an attached device, or what else knows how. One
// goroutine at a time uses it.
type Place interface {
	// Prepare makes it hold the firmware, which may take as long as writing flash does. It returns how much was written
	// for that, and why.
	Prepare(ctx context.Context, i *image.Image) (Tier, string, error)
	// Open begins a session with the firmware. The caller closes it.
	Open(ctx context.Context, i *image.Image) (*rpc.Session, error)
	// Confirm fails if the firmware at the other end of the session is no longer whole.
	Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error
	// Reset brings it back as far as it can, by stronger means the more often it was tried in a row, from 1 on. Prepare
	// follows.
	Reset(ctx context.Context, try int) error
	// Close lets others use it.
	Close() error
}

// A devicePlace is a Place on the desk.
type devicePlace struct {
	desk   *device.Desk
	board  *boards.Board
	which  string
	device *device.Device
}

func (p *devicePlace) Prepare(ctx context.Context, i *image.Image) (Tier, string, error) {
	if p.device == nil {
		var err error
		if p.device, err = p.desk.Attach(ctx, p.board, p.which); err != nil {
			return "", "", err
		}
	}
	report, err := p.device.Flash(ctx, i)
	if report.Erased < report.Sectors {
		return Sectors, report.Why, err
	}
	return Image, report.Why, err
}

// Link is the raw link below a session, for a Place around this one.
func (p *devicePlace) Link(ctx context.Context, i *image.Image) (transport.Link, error) {
	return p.device.Link(ctx, i)
}

func (p *devicePlace) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	return p.device.Open(ctx, i)
}

func (p *devicePlace) Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error {
	if !p.device.KeepsImage() && len(p.board.Memory) == 0 {
		return nil // a process has no flash
	}
	return p.device.Confirm(ctx, s, i)
}

// resetByProbe is the try from which on Reset uses a device's probe.
const resetByProbe = 2

// Reset detaches the device, so that a process or an emulator starts anew; one with a probe is reset by it from the
// second try on, and looked for again.
func (p *devicePlace) Reset(ctx context.Context, try int) error {
	if p.device == nil {
		return nil
	}
	if p.device.KeepsImage() && try >= resetByProbe {
		if err := p.device.Reset(ctx); err != nil {
			return err
		}
	}
	err := p.device.Close()
	p.device = nil
	return err
}

func (p *devicePlace) Close() error {
	if p.device == nil {
		return nil
	}
	return p.device.Close()
}

// A place is one Place of a run, and what it has at the moment.
type place struct {
	Place
	name string
	kind *kind
	run  *Run

	image    *image.Image // that it holds, or is to hold
	layout   *layout      // of that image
	prepared *image.Image // the last that came there, by
	tier     Tier
	why      string
	window   rpc.Window // for code

	session  *rpc.Session // nil: none is open
	platform rpc.Platform
	held     *arguments // on the device; nil: none
	idle     bool       // it waits for a job
	fresh    bool       // nothing ran since its reset that could have changed more than its own memory
	unproven []*job     // measured since the reference was right the last time
	expected float64    // the reference's time; 0: not measured yet
	load     *load      // of the reference; nil: not built yet
	quiet    func()     // ends the timing that the gate has admitted; nil: there is none
}

// newPlace makes the place that a word of OpenRun names, and its kind's firmware where it is the first.
func (r *Run) newPlace(ctx context.Context, desk *device.Desk, word string, n int) (*place, error) {
	name, which, _ := strings.Cut(word, "=")
	b, err := boards.Find(name, r.o.Builder.Path)
	if err != nil {
		return nil, err
	}
	k := r.kinds[b.Name]
	if k == nil {
		k = &kind{
			name: b.Name, board: b, run: r, queue: newQueue(2), measured: map[[sha256.Size]byte]*twin{},
			references: map[string]float64{}, best: map[[sha256.Size]byte]float64{}, programs: programs{dir: r.dir},
		}
		r.kinds[b.Name] = k
		if err := errors.Join(os.RemoveAll(k.imagesDir()), k.resume()); err != nil { // images of a process that was killed
			return nil, err
		}
		if err := k.firmware(ctx, name); err != nil {
			return nil, err
		}
	}
	k.places++
	var at Place = &devicePlace{desk: desk, board: k.layout.folder.Board(), which: which}
	if r.o.Place != nil {
		at = r.o.Place(word, at)
	}
	return &place{
		Place: at, layout: k.layout, image: k.layout.resident, name: fmt.Sprintf("%s#%d", word, n), kind: k, run: r,
	}, nil
}

// firmware generates and builds what all boards of the kind run first: the runtime, without a model.
func (k *kind) firmware(ctx context.Context, name string) error {
	blank, err := project.BlankArchive()
	if err != nil {
		return err
	}
	k.spec = k.run.o.Builder.Absolute(project.Spec{
		Board: name, Template: k.run.o.Template, Archive: blank, Libraries: k.run.o.Libraries,
	})
	l, err := k.divide(ctx, 0, 0)
	if err == nil {
		k.use(l)
	}
	if err == nil {
		k.made, err = l.folder.MadeWith()
	}
	return err
}

// work measures what the queue holds until ctx ends or the place is given up.
func (p *place) work(ctx context.Context) {
	err := p.begin(ctx)
	if err == nil {
		p.run.tell(Event{Board: p.name, What: "ready"})
		err = p.serve(ctx)
	}
	if p.idle && len(p.unproven) > 0 {
		// The run is closed. What cannot be confirmed now is measured again when it is opened the next time.
		_ = p.reference(context.WithoutCancel(ctx))
	}
	p.letWork()
	p.closeSession()
	err = errors.Join(err, p.Close())
	if ctx.Err() == nil && err != nil {
		p.run.tell(Event{Board: p.name, What: "given up", Err: err})
		p.kind.lose(err)
	}
}

// begin prepares and opens the place, with as many tries as it has.
func (p *place) begin(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 10*p.run.o.StepTimeout) // flash may have to be written
	defer cancel()
	err := p.prepare(limited, p.image)
	if err == nil {
		err = p.openSession(ctx)
	}
	switch failure.Of(err) {
	case failure.Config, failure.ToolMissing: // no reset helps
		return err
	}
	if err != nil {
		return p.recover(ctx, err)
	}
	return nil
}

// prepare makes the place hold an image.
func (p *place) prepare(ctx context.Context, i *image.Image) (err error) {
	p.image = i
	tier, why, err := p.Prepare(ctx, i)
	if err == nil && (p.tier == "" || p.prepared != i) {
		p.tier, p.why, p.prepared = tier, why, i
	}
	return err
}

// needs makes the place hold what a job needs, with a session open.
func (p *place) needs(ctx context.Context, l *load) error {
	i := l.image
	if i == nil && (p.layout != l.layout || p.window != l.layout.window) {
		i = l.layout.resident
	}
	if i == nil || i == p.image {
		return nil
	}
	p.closeSession()
	limited, cancel := context.WithTimeout(ctx, 10*p.run.o.StepTimeout) // flash may have to be written
	defer cancel()
	image, layout := p.image, p.layout
	p.layout = l.layout
	if err := p.prepare(limited, i); err != nil {
		p.image, p.layout = image, layout
		return err
	}
	return p.openSession(ctx)
}

func (p *place) openSession(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.run.o.StepTimeout)
	defer cancel()
	s, err := p.Open(ctx, p.image)
	if err != nil {
		return err
	}
	p.session, p.held, p.fresh = s, nil, true
	windows, err := s.Windows(ctx)
	var absent *rpc.NotFoundError
	if errors.As(err, &absent) && p.layout.spec.Options.UploadKiB == 0 {
		err = nil // its layout has no window
	}
	if err == nil && len(windows) > 1 {
		err = failure.Errorf(failure.Transport, "%s has %d windows for code, not one", p.name, len(windows))
	}
	if err == nil {
		p.platform, err = s.Platform(ctx)
	}
	if err != nil {
		p.closeSession()
		return err
	}
	p.window = rpc.Window{}
	if len(windows) == 1 {
		p.window = windows[0]
	}
	return p.kind.accept(p.layout, p.image, p.window)
}

func (p *place) closeSession() {
	if p.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.session.Close(ctx) // it may be broken
	p.session, p.held = nil, nil
}

// useProcessors waits until the place may measure a candidate, which takes processors of this computer unless the place
// is a chip. One that is timed by this computer's clock has it to itself, until letWork: several candidates that are
// built are measured one after the other, since each wait for the compilers leaves processors idle. The caller calls
// end after the measurement.
func (p *place) useProcessors(ctx context.Context) (end func(), err error) {
	b := p.kind.board
	switch {
	case !b.Link.OnHost():
		return func() {}, nil
	case !b.KeepsHostTime():
		return p.run.gate.Work(ctx)
	}
	if p.quiet == nil {
		p.quiet, err = p.run.gate.Time(ctx)
	}
	return func() {}, err
}

// letWork lets compilers and other places use the processors.
func (p *place) letWork() {
	if p.quiet != nil {
		p.quiet()
		p.quiet = nil
	}
}

// accept takes the window of the first place with a layout, and compares it with all others' that hold the same image.
// From then on candidates can be built: the reference too, which a place may need before it is ready.
func (k *kind) accept(l *layout, i *image.Image, w rpc.Window) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-l.opened:
	default:
		l.window = w
		l.open()
	}
	if l.window != w && i == l.resident {
		return failure.Errorf(failure.Internal, "boards %s have different windows: %v and %v", k.name, l.window, w)
	}
	return nil
}

// lose counts a place that was given up; without the last one the queue ends.
func (k *kind) lose(err error) {
	k.mu.Lock()
	k.places--
	k.lost = err
	last := k.places == 0
	if last {
		k.layout.open()
	}
	k.mu.Unlock()
	if last {
		k.queue.close()
	}
}

// recover brings a place back after an error that may be its own: reset after reset, each stronger, until the
// reference's time is what it was.
func (p *place) recover(ctx context.Context, why error) error {
	p.letWork() // it may take long, and the reference may have to be built
	for try := 1; try <= p.run.o.MaxRecoveries; try++ {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "recover %s", p.name)
		}
		p.run.tell(Event{Board: p.name, What: fmt.Sprintf("recovering, try %d", try), Err: why})
		p.closeSession()
		limited, cancel := context.WithTimeout(ctx, 10*p.run.o.StepTimeout)
		err := p.Reset(limited, try)
		if err == nil { // firmware with candidates may be why
			p.layout = p.kind.current()
			err = p.prepare(limited, p.layout.resident)
		}
		cancel()
		if err == nil {
			err = p.openSession(ctx)
		}
		if err == nil {
			err = p.reference(ctx)
		}
		if err == nil {
			return nil
		}
		why = errors.Join(why, err)
	}
	return why
}
