// This file loads modules of TVM's clients onto one board, for package serve.

package tune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune/internal/timegate"
)

// A servedBoard is one board with firmware beside which modules are loaded: into RAM, or else in firmware of their own.
// One goroutine at a time uses it.
type servedBoard struct {
	o        Options
	lock     *os.File
	gate     timegate.Gate
	places   places
	firmware *firmware
	station  *station
	stop     context.CancelFunc

	modules     []rpc.Module  // in RAM
	patience    time.Duration // with the next reply to probe
	took        time.Duration // of the last reply to probe
	programs    map[programKey]rpc.Program
	flashed     digest       // the module in image
	image       *image.Image // firmware with the last module that did not fit into RAM; nil: none
	clientImage *image.Image // which is on the board; nil: none
}

// A programKey determines a linked program.
type programKey struct {
	module digest
	window rpc.Window
}

// maxPrograms limits the linked modules that a served board keeps in memory.
const maxPrograms = 32

// OpenBoard builds firmware for a board in a folder, and does not open the board yet. word is as in OpenRun. Options
// that concern candidates' times have no effect; with a negative FlashBatch, modules that do not fit into RAM fail.
// Errors: those of OpenRun.
func OpenBoard(ctx context.Context, dir string, desk *device.Desk, word string, o Options) (serve.Place, error) {
	o, dir, err := o.prepare(dir, []string{word})
	if err != nil {
		return nil, err
	}

	name, which := splitWord(word)
	board, err := boards.Find(name, o.Builder.Path)
	if err != nil {
		return nil, err
	}

	lock, err := filelock.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, failure.New(failure.Config, "wait for it, or choose another folder", "another process uses %s", dir)
	}

	// The firmware is used after this call: the end of ctx does not close it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &servedBoard{o: o, lock: lock, stop: stop, patience: busyReply, programs: map[programKey]rpc.Program{}}
	b.places.add()
	b.firmware = &firmware{
		kind: board.Name, dir: dir, o: &b.o, board: board, gate: &b.gate, places: &b.places, closed: running.Done(),
		onLayout: func(*layout) {},
	}
	if err := b.firmware.open(ctx, name); err != nil {
		return nil, errors.Join(err, b.Close())
	}

	l := b.firmware.current()
	var place Place = &devicePlace{desk: desk, board: l.folder.Board(), which: which}
	if o.Place != nil {
		place = o.Place(word, place)
	}

	b.station = &station{
		place: place, name: word, o: &b.o, firmware: b.firmware, gate: &b.gate, layout: l, image: l.resident,
	}
	return b, nil
}

// Close releases the board and the folder.
func (b *servedBoard) Close() error {
	b.stop()
	var errs []error
	if b.station != nil {
		b.station.closeSession()
		errs = append(errs, b.station.place.Close())
	}
	return errors.Join(append(errs, b.firmware.close(), filelock.Release(b.lock))...)
}

// The time in which a board replies: one that no client uses, with ten times its last reply's, as its link may be slow;
// else, as the computer may be busy, and at most.
const (
	idleReply = time.Second
	busyReply = 10 * time.Second
)

// Open returns the session with the board, as serve.Board has it. It starts or restarts the board if it does not reply.
func (b *servedBoard) Open(ctx context.Context) (*rpc.Session, error) {
	var err error
	if b.station.bench.session == nil {
		err = b.station.open(ctx)
		switch failure.Of(err) {
		case failure.Config, failure.ToolMissing: // a reset cannot help
			return nil, err
		}
	}

	if err == nil {
		err = b.probe(ctx)
	}

	if err = b.restart(ctx, err); err != nil {
		return nil, err
	}
	return b.station.bench.session, nil
}

// probe returns an error if the board does not reply in time.
func (b *servedBoard) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	b.patience = busyReply

	begun := time.Now()
	_, err := b.station.bench.session.Windows(ctx)
	if errors.As(err, new(*rpc.DeviceError)) || errors.Is(err, rpc.ErrNotFound) {
		err = nil // firmware that takes no code
	}
	if err == nil {
		b.took = time.Since(begun)
	}
	return err
}

// restart resets the board after an error, each time by stronger means, until it replies. It does nothing without one.
func (b *servedBoard) restart(ctx context.Context, cause error) error {
	for try := 1; cause != nil && try <= b.o.MaxRecoveries; try++ {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "restart %s", b.station.name)
		}
		b.o.emit(Event{Board: b.station.name, Text: fmt.Sprintf("recovering, try %d", try), Err: cause})
		// the reset removes what was loaded
		b.modules = nil
		l := b.firmware.current()
		err := b.station.restart(ctx, try, l, l.resident)
		if err == nil {
			return nil
		}
		cause = errors.Join(cause, err)
	}
	return cause
}

// Load builds a module and loads it, as serve.Board has it. The module may come from anywhere.
func (b *servedBoard) Load(ctx context.Context, module []byte) (serve.Loaded, error) {
	o, err := project.ReadOperators(module)
	if err != nil {
		return serve.Loaded{}, err
	}
	session, err := b.Open(ctx)
	if err != nil {
		return serve.Loaded{}, err
	}

	sum := sha256.Sum256(module)
	m, err := b.loadRAM(ctx, session, o, sum)
	var large *project.FitError
	if !errors.As(err, &large) || b.o.FlashBatch < 0 {
		return serve.Loaded{Session: session, Module: m}, err
	}
	return b.loadFlash(ctx, sum, func(ctx context.Context, l *project.OperatorLinker) (*mlf.Archive, error) {
		return l.ModuleArchive(ctx, o)
	})
}

// loadRAM links operators for the largest free part of the RAM for code and uploads them. If they do not fit beside
// earlier modules, it unlinks these. A *project.FitError means that the RAM is too small.
func (b *servedBoard) loadRAM(
	ctx context.Context, s *rpc.Session, o project.Operators, sum digest,
) (rpc.Module, error) {
	if err := context.Cause(ctx); err != nil {
		return rpc.Module{}, err // no module can be checked
	}

	// A reset has removed some.
	b.modules = slices.DeleteFunc(b.modules, func(m rpc.Module) bool { return m.Check(ctx) != nil })

	for {
		program, err := b.link(ctx, s, o, sum)
		var m rpc.Module
		if err == nil {
			m, err = s.Upload(ctx, program)
		}
		if err == nil {
			b.modules = append(b.modules, m)
			return m, nil
		}

		var large *project.FitError
		var refused *rpc.DeviceError // a device holds a fixed number of modules
		if !errors.As(err, &large) && !errors.As(err, &refused) || len(b.modules) == 0 {
			return m, err
		}

		// The next attempt has all of the RAM for code.
		modules := b.modules
		b.modules = nil
		for _, m := range modules {
			if err := m.Unlink(ctx); err != nil {
				return m, err
			}
		}
	}
}

// link links operators for the largest free part of the RAM for code, unless that was done before.
func (b *servedBoard) link(ctx context.Context, s *rpc.Session, o project.Operators, sum digest) (rpc.Program, error) {
	var largest rpc.Window
	windows, err := s.Windows(ctx)
	if err != nil && !errors.Is(err, rpc.ErrNotFound) {
		return rpc.Program{}, err
	}
	if len(windows) > 0 {
		largest = slices.MaxFunc(windows, func(a, b rpc.Window) int { return cmp.Compare(a.Bytes, b.Bytes) })
	}

	key := programKey{sum, largest}
	if p, ok := b.programs[key]; ok {
		return p, nil
	}

	p, err := b.firmware.link(ctx, b.station.layout, o, largest)
	if err != nil {
		return p, err
	}
	if len(b.programs) >= maxPrograms {
		clear(b.programs)
	}
	b.programs[key] = p
	return p, nil
}

// loadFlash builds firmware with a module, unless that is the last one, and writes it to the board.
func (b *servedBoard) loadFlash(ctx context.Context, sum digest, archive newArchive) (serve.Loaded, error) {
	if b.image == nil || b.flashed != sum {
		b.firmware.building.Lock()
		defer b.firmware.building.Unlock()
		i, err := b.firmware.buildImage(ctx, archive)
		if err != nil {
			return serve.Loaded{}, err
		}
		b.image, b.flashed = i, sum
	}

	// The new image removes what is in RAM.
	b.modules = nil
	err := b.station.ensure(ctx, &load{image: b.image, layout: b.station.layout})
	if err == nil {
		s := b.station.bench.session
		m, err := s.SystemLib(ctx)
		return serve.Loaded{Session: s, Module: m}, err
	}
	return serve.Loaded{}, errors.Join(err, b.restart(ctx, err))
}

// Release begins a new session with the board, which frees all that the last one has there, as serve.Board has it. It
// restarts a board that does not reply.
func (b *servedBoard) Release(ctx context.Context) error {
	if b.station.bench.session == nil {
		return nil
	}

	b.modules, b.patience = nil, min(idleReply+10*b.took, busyReply)
	limited, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return b.restart(ctx, b.station.bench.session.Renew(limited))
}
