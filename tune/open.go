// This file opens runs.

package tune

import (
	"context"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/nextstep"
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

	// Boards go on after this call: Close ends them, not the end of ctx.
	boardsCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Run{
		dir: dir, desk: desk, o: o, schedulers: map[string]*scheduler{}, store: st, stop: stop, closed: boardsCtx.Done(),
	}

	err = st.keepSettings(o, boardFiles(words, o.Builder.Path))
	if err == nil {
		err = r.start(ctx, boardsCtx, boards)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// start builds the firmware of all kinds, and starts a goroutine for each board, which ends with boardsCtx.
func (r *Run) start(ctx, boardsCtx context.Context, words []string) error {
	var boards []*board
	for n, word := range words {
		name, _ := splitWord(word)
		s, err := r.schedulerOf(ctx, name)
		if err != nil {
			return err
		}

		s.firmware.addBoard()
		place := newPlace(r.desk, word, s.firmware.current().folder.Board(), &r.o)
		boards = append(boards, r.newBoard(s, place, fmt.Sprintf("%s#%d", word, n)))
	}

	var supplies []*supply
	for _, remote := range r.o.Remotes {
		s, err := r.newSupply(ctx, remote)
		if err != nil {
			return err
		}
		supplies = append(supplies, s)
	}

	// No board starts before all kinds are built: an error leaves none.
	for _, b := range boards {
		r.boards.Go(func() { _ = b.run(boardsCtx) }) // the scheduler has the error
	}
	for _, s := range supplies {
		s.grow(boardsCtx, s.first)
		r.boards.Go(func() { s.follow(boardsCtx) })
	}
	return nil
}

// newSupply checks that a tracker has boards of a key, and builds their firmware.
func (r *Run) newSupply(ctx context.Context, remote Remote) (*supply, error) {
	keys, err := boardclient.Keys(ctx, remote.Tracker)
	if err != nil {
		return nil, err
	}
	if keys[remote.Key] == 0 {
		return nil, failure.New(failure.Config, "offer a board with this key: "+nextstep.Target("serve"),
			"tracker %s has no board of key %q; its keys: %s", remote.Tracker, remote.Key, keyList(keys))
	}

	s, err := r.schedulerOf(ctx, remote.Board)
	if err != nil {
		return nil, err
	}

	// The supply counts as a board while boards may come, see follow.
	s.firmware.addBoard()
	return &supply{
		remote: remote, o: &r.o, desk: r.desk, scheduler: s, first: keys[remote.Key], gone: make(chan struct{}),
		start: func(ctx context.Context, p *remotePlace, end func(error)) {
			b := r.newBoard(s, p, p.name)
			r.boards.Go(func() { end(b.run(ctx)) })
		},
	}, nil
}
