// This file loads modules of TVM's clients onto one board, for package serve.

package tune

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune/internal/cpulock"
	"github.com/boardsmith/boardsmith/tune/internal/record"
)

// A servedBoard is one board with firmware beside which modules are loaded: into RAM, or else in firmware of their own.
// One goroutine at a time uses it.
type servedBoard struct {
	*board
	lock *os.File
	stop context.CancelFunc

	modules     []rpc.Module  // in RAM
	patience    time.Duration // with the next reply to probe
	took        time.Duration // of the last reply to probe
	programs    map[programKey]rpc.Program
	moduleImage *image.Image // firmware with the last module that did not fit into RAM; nil: none
	module      digest       // in moduleImage
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

	name, _ := splitWord(word)
	kind, err := boards.Find(name, o.Builder.Path)
	if err != nil {
		return nil, err
	}

	lock, err := record.Lock(dir)
	if err != nil {
		return nil, err
	}

	// The firmware is used after this call: the end of ctx does not close it.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &firmware{
		kind: kind.Name, dir: dir, o: &o, board: kind, gate: &cpulock.Gate{}, boards: 1, closed: running.Done(),
		onLayout: func(*layout) {},
	}
	b := &servedBoard{
		board: &board{firmware: f}, lock: lock, stop: stop, patience: busyReply, programs: map[programKey]rpc.Program{},
	}
	if err := f.open(ctx, name); err != nil {
		return nil, errors.Join(err, b.Close())
	}

	b.board = newBoard(newPlace(desk, word, f.current().folder.Board(), &o), word, f)
	return b, nil
}

// Close releases the board and the folder.
func (b *servedBoard) Close() error {
	b.stop()
	var errs []error
	if b.place != nil {
		b.closeSession()
		errs = append(errs, b.place.Close())
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
	if b.session == nil {
		if err := b.start(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.restart(ctx, b.probe(ctx)); err != nil {
		return nil, err
	}
	return b.session, nil
}

// probe returns an error if the board does not reply in time.
func (b *servedBoard) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	b.patience = busyReply

	begun := time.Now()
	_, err := b.session.Windows(ctx)
	if errors.As(err, new(*rpc.DeviceError)) || errors.Is(err, rpc.ErrNotFound) {
		err = nil // firmware that takes no code
	}
	if err == nil {
		b.took = time.Since(begun)
	}
	return err
}

// restart resets the board after an error until it replies, which removes what was loaded. It does nothing without one.
func (b *servedBoard) restart(ctx context.Context, cause error) error {
	if cause == nil {
		return nil
	}
	b.modules = nil
	return b.recover(ctx, cause)
}

// Load builds a module and loads it, as serve.Board has it. The module may come from anywhere.
func (b *servedBoard) Load(ctx context.Context, module []byte) (rpc.Module, error) {
	o, err := project.ReadOperators(module)
	if err != nil {
		return rpc.Module{}, err
	}
	session, err := b.Open(ctx)
	if err != nil {
		return rpc.Module{}, err
	}

	sum := sha256.Sum256(module)
	m, err := b.loadRAM(ctx, session, o, sum)
	var large *project.FitError
	if !errors.As(err, &large) || b.o.FlashBatch < 0 {
		return m, err
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

	p, err := b.firmware.link(ctx, b.layout, o, largest)
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
func (b *servedBoard) loadFlash(ctx context.Context, sum digest, archive newArchive) (rpc.Module, error) {
	if b.moduleImage == nil || b.module != sum {
		b.firmware.building.Lock()
		defer b.firmware.building.Unlock()
		i, err := b.firmware.buildImage(ctx, archive)
		if err != nil {
			return rpc.Module{}, err
		}
		b.moduleImage, b.module = i, sum
	}

	// The new image removes what is in RAM.
	b.modules = nil
	err := b.ensure(ctx, b.layout, b.moduleImage)
	if err == nil {
		return b.session.SystemLib(ctx)
	}
	return rpc.Module{}, errors.Join(err, b.restart(ctx, err))
}

// Release begins a new session with the board, which frees all that the last one has there, as serve.Board has it. It
// restarts a board that does not reply.
func (b *servedBoard) Release(ctx context.Context) error {
	if b.session == nil {
		return nil
	}

	b.modules, b.patience = nil, min(idleReply+10*b.took, busyReply)
	limited, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	return b.restart(ctx, b.session.Renew(limited))
}
