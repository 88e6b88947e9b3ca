// This file opens runs.

package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
)

// OpenRun opens a new run, or continues the one in the folder. Each word of boards is a place to measure: the name of a
// board, or NAME=DEVICE for one of several that are attached, as Desk.Attach expects it. A process or an emulated board
// may be named more than once. Firmware is built for each kind of board, and written to boards that have other
// firmware as soon as there is something to measure. There may be none if Options.Remotes has some. Errors: those of
// project and device; of class config for a folder that another process uses, and for a Remote without boards.
func OpenRun(ctx context.Context, dir string, desk *device.Desk, boards []string, o Options) (*Run, error) {
	if o.Reference != nil {
		if err := checkCandidate(*o.Reference); err != nil {
			return nil, fmt.Errorf("the reference: %w", err)
		}
	}

	words := o.words(boards)
	if len(words) == 0 {
		return nil, failure.New(failure.Config, "name at least one board", "a run without boards")
	}
	o, dir, err := o.prepare(dir, words)
	if err != nil {
		return nil, err
	}

	st, err := openStore(dir)
	if err != nil {
		return nil, err
	}

	// Workers go on after this call: Close ends them, not the end of ctx.
	workersCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Run{
		dir: dir, desk: desk, o: o, kinds: map[string]*boardKind{}, store: st, stop: stop, closed: workersCtx.Done(),
		current: currentContents{byLabel: map[label]string{}},
	}

	err = st.keepSettings(o, boardFiles(words, o.Builder.Path))
	if err == nil {
		err = r.start(ctx, workersCtx, boards)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// start builds the firmware of all kinds, and starts a worker for each place, which ends with workersCtx.
func (r *Run) start(ctx, workersCtx context.Context, boards []string) error {
	var workers []*worker
	for n, word := range boards {
		w, err := r.newWorker(ctx, word, n)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}

	var supplies []*supply
	for _, remote := range r.o.Remotes {
		s, err := r.newSupply(ctx, remote)
		if err != nil {
			return err
		}
		supplies = append(supplies, s)
	}

	// No worker starts before all kinds are built: an error leaves none.
	for _, w := range workers {
		r.workers.Go(func() { _ = w.run(workersCtx) }) // the kind has the error
	}
	for _, s := range supplies {
		s.grow(workersCtx, s.first)
		r.workers.Go(func() { s.follow(workersCtx) })
	}
	return nil
}

// newWorker returns a worker for the place that word n of OpenRun names.
func (r *Run) newWorker(ctx context.Context, word string, n int) (*worker, error) {
	name, which := splitWord(word)
	k, err := r.kindOfBoard(ctx, name)
	if err != nil {
		return nil, err
	}

	k.places.add()
	var place Place = &devicePlace{desk: r.desk, board: k.firmware.current().folder.Board(), which: which}
	if r.o.Place != nil {
		place = r.o.Place(word, place)
	}
	return r.workerAt(k, place, fmt.Sprintf("%s#%d", word, n)), nil
}
