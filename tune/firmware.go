// This file builds and holds the firmware of one kind of board.

package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune/internal/cpulock"
)

// A firmware builds the firmware of one kind of board: without candidates for each layout, and with candidates or
// constants. Many goroutines may use it.
type firmware struct {
	kind      string // name of the board
	dir       string // of the run
	o         *Options
	board     *boards.Board
	spec      project.Spec // without candidates and options
	toolchain string       // see setToolchain
	gate      *cpulock.Gate
	closed    <-chan struct{} // closed with the run
	onLayout  func(*layout)   // called for each layout after the first, so that a board takes it
	wanted    chan struct{}   // closed when something is to be measured: before, no board is opened
	want      sync.Once       // closes wanted

	building  sync.Mutex // held during builds, guards excess and constants
	excess    excess
	constants constantsImage

	mu      sync.Mutex
	layout  *layout   // current one, for which candidates are built
	layouts []*layout // all of the run
	boards  int       // that are not given up
	cause   error     // that the last one was given up; nil: none was
}

// An excess is the smallest arena that did not fit.
type excess struct {
	arenaKiB int
	err      error // nil: each arena did fit
}

// A constantsImage is firmware with arguments of candidates in flash.
type constantsImage struct {
	data  map[string][]byte // by name
	image *image.Image      // nil: none was built
}

// open builds the firmware of the first layout. word is the board as the user has named it.
func (f *firmware) open(ctx context.Context, word string) error {
	if err := os.RemoveAll(f.imagesDir()); err != nil { // left by a process that was killed
		return err
	}

	blank, err := project.Operators{}.Archive()
	if err != nil {
		return err
	}
	f.spec = f.o.Builder.Absolute(project.Spec{
		Board: word, Template: f.o.Template, Archive: blank, Libraries: f.o.Libraries,
	})

	l, err := f.buildLayout(ctx, 0, 0)
	if err != nil {
		return err
	}
	f.setCurrent(l)
	return f.setToolchain(l)
}

// setToolchain sets the compiler, flags and libraries of candidates, with a digest of the first layout's firmware and
// of the board, which determine times, too.
func (f *firmware) setToolchain(l *layout) error {
	compiler, err := l.folder.Toolchain()
	if err != nil {
		return err
	}
	board, err := boardDigest(f.board)
	if err != nil {
		return err
	}

	key := cachekey.New("firmware v1").Add("board", board).Add("image", l.resident.ID()).Key()
	f.toolchain = fmt.Sprintf("%s, firmware %x", compiler, key[:4])
	return nil
}

// close closes the projects and removes the images of candidates.
func (f *firmware) close() error {
	f.building.Lock()
	defer f.building.Unlock()
	var errs []error
	for _, l := range f.layouts {
		errs = append(errs, l.folder.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(f.imagesDir()))...)
}

// path returns the path of firmware, in the run's folder.
func (f *firmware) path(suffix string) string {
	return filepath.Join(f.dir, "firmware", boardfile.FileName(f.kind)+suffix)
}

func (f *firmware) imagesDir() string { return f.path(".images") }

// current returns the layout for which candidates are built.
func (f *firmware) current() *layout {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.layout
}

func (f *firmware) setCurrent(l *layout) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.layouts = append(f.layouts, l)
	f.layout = l
	// No board is left that would open it.
	if f.boards == 0 && f.cause != nil {
		l.open()
	}
}

func (f *firmware) addBoard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.boards++
}

func (f *firmware) boardCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.boards
}

// removeBoard removes a board that is given up. After the last one it ends waitWindow, and returns true.
func (f *firmware) removeBoard(cause error) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cause = cause
	f.boards--
	if f.boards == 0 {
		f.layout.open()
	}
	return f.boards == 0
}

// lost returns the error of a kind without boards, else nil.
func (f *firmware) lost() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boards > 0 {
		return nil
	}
	return fmt.Errorf("no board %s is left: %w", f.kind, f.cause)
}

// layoutFor returns the current layout if its arena has minKiB and room for the arguments. Otherwise it builds a new
// one. Errors: those of buildLayout.
func (f *firmware) layoutFor(ctx context.Context, args []Arg, minKiB int) (*layout, error) {
	f.building.Lock()
	defer f.building.Unlock()
	l := f.current()
	switch {
	case isClosed(f.closed): // close would not close a new layout
		return nil, failure.Errorf(failure.Interrupted, "the run was closed")
	case l.fixed && minKiB > l.arenaKiB:
		return nil, failure.Errorf(failure.DoesNotFit, "the option arena_kib of board %s is %d", f.kind, l.arenaKiB)
	case l.fixed:
		return l, nil
	}

	if minKiB = max(minKiB, int((arenaBytes(args)+1023)/1024)); minKiB <= l.arenaKiB {
		return l, nil
	}

	if f.excess.err != nil && minKiB >= f.excess.arenaKiB {
		return nil, f.excess.err
	}
	f.o.emit(Event{Text: fmt.Sprintf("building firmware of %s with an arena of at least %d KiB", f.kind, minKiB)})
	if minKiB > maxArenaKiB {
		return nil, failure.Errorf(failure.DoesNotFit, "an arena has at most %d KiB", maxArenaKiB)
	}

	next, err := f.buildLayout(ctx, minKiB, min(2*minKiB, maxArenaKiB))
	// larger ones do not fit either
	if failure.Of(err) == failure.DoesNotFit {
		f.excess = excess{minKiB, err}
	}
	if err != nil {
		return nil, err
	}

	f.setCurrent(next)
	// they are in firmware of the former layout
	f.constants = constantsImage{}
	f.onLayout(next)
	return next, nil
}

// buildLayout builds firmware with an arena of at least minKiB: of the board's own size or up to maxKiB, if there is
// room. Options of the run are fixed. Errors: those of layout.build.
func (f *firmware) buildLayout(ctx context.Context, minKiB, maxKiB int) (*layout, error) {
	end, err := f.gate.Work(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "build firmware")
	}
	defer end()

	ctx, cancel := untilClosed(ctx, f.closed)
	defer cancel()
	ctx, expire := context.WithTimeout(ctx, f.o.firmwareTimeout())
	defer expire()

	o, err := f.o.memory(f.kind)
	if err != nil {
		return nil, err
	}
	b := f.board.Placed(o)
	suffix := ""
	if n := len(f.layouts); n > 0 {
		suffix = fmt.Sprintf(".%d", n)
	}

	l := &layout{builder: f.o.Builder, dir: f.path(suffix), spec: f.spec, opened: make(chan struct{})}
	if err := l.build(ctx, b, o, minKiB, max(b.ArenaKiB, maxKiB)); err != nil {
		return nil, f.adviseOption(err)
	}
	return l, nil
}

// adviseOption adds the option of the run that helps to an error of firmware that does not fit.
func (f *firmware) adviseOption(err error) error {
	var large *project.FitError
	if !errors.As(err, &large) || large.Option == "" {
		return err
	}
	return failure.New(failure.DoesNotFit, "repeat with "+nextstep.Option("Options.Memory", f.kind+":"+large.Option),
		"%w", err)
}

// setWindow sets the window of a layout, which the first place reports, and opens the layout. It returns an error if
// another place with the same firmware reported another window.
func (f *firmware) setWindow(l *layout, i *image.Image, w rpc.Window) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !l.isOpen() {
		l.window = w
		l.open()
	}

	if l.window != w && i == l.resident {
		return failure.Errorf(failure.Internal, "boards %s have different windows: %v and %v", f.kind, l.window, w)
	}
	return nil
}

// waitWindow waits until a place has opened the layout, and returns the window for code. Places open with its first
// call.
func (f *firmware) waitWindow(ctx context.Context, l *layout) (rpc.Window, error) {
	f.want.Do(func() { close(f.wanted) })
	select {
	case <-l.opened:
	case <-ctx.Done():
		return rpc.Window{}, failure.Stopped(ctx, "wait for a board %s", f.kind)
	case <-f.closed:
		return rpc.Window{}, failure.Errorf(failure.Interrupted, "the run was closed")
	}

	// The layout opens also when the last board is given up.
	if err := f.lost(); err != nil {
		return rpc.Window{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return l.window, nil
}

// untilClosed returns a context that also ends when closed is closed.
func untilClosed(ctx context.Context, closed <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// boardDigest returns the digest of what determines images of a board, and how they are written: all of its file but
// texts and how this computer reaches the board.
func boardDigest(b *boards.Board) (string, error) {
	// a copy, of which the fields that do not count are cleared
	same := *b
	same.Doc, same.Toolchain.Install, same.Link.Install = "", "", ""
	same.Link.USB, same.Link.Interface, same.Link.Address = "", nil, ""
	same.Flash = boards.Flash{Emulated: b.Flash.Emulated}
	text, err := json.Marshal(same)
	if err != nil {
		return "", err
	}
	text = append(text, b.Name...)
	// a process is compiled for this computer
	if b.ELF.Machine == "native" {
		text = append(text, runtime.GOOS+runtime.GOARCH...)
	}
	return cachekey.Digest(text), nil
}
