// This file measures on boards of other computers, which serve offers at TVM's tracker.

package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	supplyPoll  = 3 * time.Second // of the tracker, for boards that come
	remoteRetry = time.Second     // between attempts to reach a board that the tracker has handed out
	maxRemotes  = 64              // boards of one key in one run
	// lateRemotes is the number of boards of one key for which candidates are in progress before they come.
	lateRemotes = 4
)

// A supply has workers for the boards of one Remote. Many goroutines may use it.
type supply struct {
	remote Remote
	run    *Run
	kind   *boardKind
	first  int           // boards when the run was opened
	gone   chan struct{} // closed when no boards are expected any more

	mu     sync.Mutex
	number int   // of the next worker
	served int   // boards of the tracker that have, or had, a worker
	live   int   // workers that have not ended
	used   int   // boards in use
	cause  error // that the last worker has ended; nil: none has
}

// newSupply checks that the tracker has boards of the key, and builds their firmware.
func (r *Run) newSupply(ctx context.Context, remote Remote) (*supply, error) {
	keys, err := serve.Keys(ctx, remote.Tracker)
	if err != nil {
		return nil, err
	}
	if keys[remote.Key] == 0 {
		return nil, failure.New(failure.Config, "offer a board with this key: "+failure.Target("serve"),
			"tracker %s has no board of key %q; its keys: %s", remote.Tracker, remote.Key, keyList(keys))
	}

	k, err := r.kindOfBoard(ctx, remote.Board)
	if err != nil {
		return nil, err
	}

	// The supply counts as a place while boards may come, see follow.
	k.places.add()
	return &supply{remote: remote, run: r, kind: k, first: keys[remote.Key], gone: make(chan struct{})}, nil
}

func keyList(keys map[string]int) string {
	var all []string
	for k := range keys {
		all = append(all, k)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// follow starts workers for boards that come, until ctx ends or no board is expected any more.
func (s *supply) follow(ctx context.Context) {
	seen := time.Now() // when the tracker had a board, or one was in use
	for {
		select {
		case <-time.After(supplyPoll):
		case <-ctx.Done():
			return
		}

		keys, err := serve.Keys(ctx, s.remote.Tracker)
		if ctx.Err() != nil {
			return
		}
		n := keys[s.remote.Key]
		live, used, cause := s.grow(ctx, n)
		if n > 0 || used > 0 {
			seen = time.Now()
		}

		if live > 0 && time.Since(seen) < s.run.o.flashTimeout() {
			continue
		}

		if cause == nil {
			cause = failure.Errorf(failure.BoardLost, "%v: no board is left", s.remote)
		}
		close(s.gone)
		s.kind.removePlace(errors.Join(cause, err))
		return
	}
}

// grow starts workers until n boards have one, or had one that was given up. It returns how many are live, how many
// boards they use, and why the last one was given up.
func (s *supply) grow(ctx context.Context, n int) (live, used int, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = max(s.live, min(s.served, n)) // a board that was given up may come again

	for ; s.served < min(n, maxRemotes); s.served++ {
		s.live++
		s.kind.places.add()
		name := fmt.Sprintf("%s#%d", s.remote.Key, s.number)
		s.number++
		w := s.run.workerAt(s.kind, &remotePlace{supply: s, name: name}, name)
		s.run.workers.Go(func() {
			err := w.run(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.live--
			s.cause = err
		})
	}
	return s.live, s.used, s.cause
}

func (s *supply) use(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

// A remotePlace is a Place on another computer, one after the other.
type remotePlace struct {
	supply *supply
	name   string        // while it waits for a board
	client *serve.Client // nil: no board is in use
	device *device.Device
	keeps  bool // the device keeps its image
}

// acquire waits for a board, and returns its name. It repeats all but errors of class config.
func (p *remotePlace) acquire(ctx context.Context) (name string, err error) {
	waiting, cancel := untilClosed(ctx, p.supply.gone)
	defer cancel()
	reported := ""
	for {
		name, err = p.connect(waiting)
		switch {
		case err == nil:
			return name, nil
		case ctx.Err() != nil:
			return "", failure.Stopped(ctx, "wait for a board")
		case waiting.Err() != nil:
			return "", failure.Errorf(failure.BoardLost, "%v: no board is left", p.supply.remote)
		case failure.Of(err) == failure.Config:
			return "", err
		// once, not at each attempt
		case err.Error() != reported:
			reported = err.Error()
			p.supply.run.o.emit(Event{Board: p.name, Text: "waiting for a board", Err: err})
		}

		select {
		case <-time.After(remoteRetry):
		case <-waiting.Done():
		}
	}
}

// connect waits for a board, and checks that it is of the kind.
func (p *remotePlace) connect(ctx context.Context) (string, error) {
	r := p.supply.remote
	c, err := serve.Dial(ctx, r.Tracker, r.Key, r.Priority)
	if err != nil {
		return "", err
	}

	limited, cancel := context.WithTimeout(ctx, p.supply.run.o.StepTimeout)
	defer cancel()
	text, err := c.Describe(limited)
	var facts boardFacts
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err == nil {
		err = p.check(facts)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("key %s: server %s: %w", r.Key, c.Address(), err), c.Close())
	}

	p.client = c
	p.supply.use(1)
	return fmt.Sprintf("%s@%s", r.Key, machine(facts.Name, c.Address())), nil
}

// check returns an error of class config unless the board is of the kind, with the same board file.
func (p *remotePlace) check(facts boardFacts) error {
	b := p.supply.kind.firmware.board
	own, err := boardDigest(b)
	switch {
	case err != nil:
		return err
	case facts.Board != b.Name:
		return failure.New(failure.Config, "give boards of each kind a key of their own",
			"machine %.100q offers a board %.100q, not %s", facts.Name, facts.Board, b.Name)
	case facts.Digest != own:
		return failure.New(failure.Config, "use the same version of boardsmith and the same board file on both machines",
			"machine %.100q has another board file of %s", facts.Name, b.Name)
	}
	return nil
}

// machine returns the name of a computer with the port of its server, of characters that a name has.
func machine(name, address string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return -1
	}, name)
	return name[:min(len(name), 64)] + address[strings.LastIndex(address, ":"):]
}

// isLost reports whether the board that was in use has gone.
func (p *remotePlace) isLost() bool { return p.client != nil && p.client.IsLost() }

func (p *remotePlace) Prepare(ctx context.Context, i *image.Image) (Tier, string, error) {
	if p.client == nil {
		return "", "", failure.Errorf(failure.Internal, "%v: no board is in use", p.supply.remote)
	}
	file, err := os.ReadFile(i.Path)
	if err != nil {
		return "", "", err
	}

	// without paths, which are those of this computer
	description, err := json.Marshal(image.Image{Board: i.Board, BuildID: i.BuildID, Landmarks: i.Landmarks})
	if err != nil {
		return "", "", err
	}

	text, err := p.client.Prepare(ctx, description, file)
	if err != nil {
		return "", "", err
	}

	var done prepared
	switch err := json.Unmarshal(text, &done); {
	case err != nil:
		return "", "", failure.Errorf(failure.Transport, "server %s: %w", p.client.Address(), err)
	case done.Worn != nil:
		return done.Tier, done.Reason, done.Worn
	}

	if p.device == nil || p.keeps != done.Keeps {
		p.keeps = done.Keeps
		p.device = p.supply.run.desk.AttachRemote(p.supply.kind.firmware.current().folder.Board(), p.keeps,
			func(ctx context.Context) (transport.Link, error) { return p.client.Link(ctx) })
	}
	return done.Tier, done.Reason, nil
}

func (p *remotePlace) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	return p.device.Open(ctx, i)
}

func (p *remotePlace) Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error {
	return confirmImage(ctx, p.device, p.supply.kind.firmware.board, s, i)
}

func (p *remotePlace) Reset(ctx context.Context, try int) error {
	if p.client == nil {
		return nil
	}
	return p.client.Reset(ctx, try)
}

// Close ends the use of the board.
func (p *remotePlace) Close() error {
	if p.client == nil {
		return nil
	}
	err := p.client.Close()
	p.client, p.device = nil, nil
	p.supply.use(-1)
	return err
}
