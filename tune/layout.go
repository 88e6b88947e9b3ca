// This file divides a board's memory between candidates and the arena.

package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

const (
	minArenaKiB  = 2 // enough for a session and small arguments
	maxArenaKiB  = 1 << 20
	maxWindowKiB = 64 // of a window without an option
	stackUnit    = 16 // bytes: a stack's size is a multiple
)

// A layout is one division of the memory of a kind of board, with the firmware that uses it. Candidates are linked for
// one layout.
type layout struct {
	builder  *project.Builder
	dir      string       // of the firmware's project
	spec     project.Spec // of the firmware without candidates
	folder   *project.Project
	resident *image.Image // the firmware without candidates
	linker   *project.OperatorLinker
	arenaKiB int
	fixed    bool // arenaKiB is an option of the run

	opened chan struct{} // closed when the first place has opened, or the last one is given up
	window rpc.Window    // for code, valid once opened; of 0 bytes: there is none, candidates lie in firmware
}

// build builds the layout's firmware with the largest window for code beside an arena of minKiB to maxKiB. The size of
// the window halves as often as needed. Options of o that are not 0 are fixed. Errors: those of Generate and Build,
// also of class does-not-fit.
func (l *layout) build(ctx context.Context, b *boards.Board, o boards.Options, minKiB, maxKiB int) error {
	windows := []int{o.UploadKiB}
	if o.UploadKiB == 0 {
		windows = windowSizes(b)
	}

	var err error
	for _, o.UploadKiB = range windows {
		if err = l.buildArena(ctx, b, o, minKiB, maxKiB); failure.Of(err) != failure.DoesNotFit {
			break
		}
	}

	if err == nil {
		l.linker, err = l.folder.OperatorLinker(ctx)
	}
	if err != nil && l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return err
}

// windowSizes returns the sizes in KiB that the window of a board may have, largest first.
func windowSizes(b *boards.Board) (sizes []int) {
	region, mapped := b.Region(b.Place.UploadRegion())
	size := b.UploadKiB
	if size == 0 {
		size = maxWindowKiB
		for mapped && uint64(size)*1024 > uint64(region.Size)/4 {
			size /= 2
		}
	}

	// Without a memory map there is no region that could be too small.
	if !mapped {
		return []int{size}
	}
	for ; size > 0; size /= 2 {
		sizes = append(sizes, size)
	}
	// 0: candidates come into firmware
	if b.UploadKiB == 0 {
		sizes = append(sizes, 0)
	}
	return sizes
}

// buildArena builds the firmware with the largest arena that fits, from maxKiB down to minKiB.
func (l *layout) buildArena(ctx context.Context, b *boards.Board, o boards.Options, minKiB, maxKiB int) error {
	l.fixed = o.ArenaKiB > 0
	if !l.fixed {
		o.ArenaKiB = maxKiB
	}

	for {
		l.spec.Options = o
		err := l.generateAndBuild(ctx)
		if err == nil {
			effective, err := l.folder.Board().Settle(o)
			l.arenaKiB = effective.ArenaKiB
			return err
		}

		var large *project.FitError
		if !errors.As(err, &large) || large.Part != "memory" || large.Region != b.Place.ArenaRegion() {
			return err
		}

		least := max(minKiB, minArenaKiB)
		if l.fixed || o.ArenaKiB <= least {
			return leastArena(b, o, large)
		}

		o.ArenaKiB = max(o.ArenaKiB-int((large.Over+1023)/1024), least)
	}
}

// leastArena returns the error of an arena that cannot be smaller. It names the stack that would make room, if the
// stack lies beside the arena.
func leastArena(b *boards.Board, o boards.Options, large *project.FitError) error {
	settled, err := b.Settle(o)
	stack := (int64(settled.StackBytes) - large.Over) &^ (stackUnit - 1)
	if err != nil || stack <= 0 || b.Place.StackRegion() != b.Place.ArenaRegion() {
		return fmt.Errorf("an arena of %d KiB: %w", o.ArenaKiB, large)
	}

	exact := *large
	exact.Option = fmt.Sprintf("stack_bytes=%d", stack)
	return fmt.Errorf("an arena of %d KiB fits with %s at most: %w", o.ArenaKiB, exact.Option, &exact)
}

func (l *layout) generateAndBuild(ctx context.Context) (err error) {
	if l.folder == nil {
		l.folder, err = l.builder.Generate(ctx, l.dir, l.spec)
	} else {
		err = l.folder.Generate(ctx, l.spec)
	}
	if err == nil {
		l.resident, err = l.folder.Build(ctx)
	}
	return err
}

func (l *layout) isOpen() bool { return isClosed(l.opened) }

// open lets candidates be built for the layout. The caller holds the firmware's mu.
func (l *layout) open() {
	if !l.isOpen() {
		close(l.opened)
	}
}

// isClosed reports whether a channel is closed; nil is not.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
