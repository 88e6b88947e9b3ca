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
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	supplyPoll  = 3 * time.Second // of the tracker, for boards that come
	remoteRetry = time.Second     // between attempts to reach a board that the tracker has handed out
	maxRemotes  = 64              // boards of one key in one run
	// lateRemotes is the number of boards of one key for which candidates are in progress before they come.
	lateRemotes = 4
)

// A boardFacts is what Describe of another computer returns.
type boardFacts struct {
	Board  string `json:"board"`
	Digest string `json:"digest"`  // boardDigest
	Name   string `json:"machine"` // the computer's
}

// A prepared is what Prepare of another computer returns.
type prepared struct {
	Tier   Tier              `json:"tier"`
	Reason string            `json:"reason"`
	Keeps  bool              `json:"keeps_image,omitempty"` // as Device.KeepsImage
	Worn   *device.WearError `json:"worn,omitempty"`        // why it was not written
}

// A supply starts boards for those of one Remote. Many goroutines may use it.
type supply struct {
	remote    Remote
	o         *Options
	desk      *device.Desk
	scheduler *scheduler
	first     int           // boards when the run was opened
	gone      chan struct{} // closed when no boards are expected any more
	// start measures at a place in a goroutine, until ctx ends or the board is given up; end receives the cause.
	start func(ctx context.Context, p *remotePlace, end func(error))

	mu     sync.Mutex
	number int   // of the next place
	served int   // boards of the tracker that have, or had, a place
	live   int   // places that are not given up
	used   int   // boards in use
	cause  error // that the last place was given up; nil: none was
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

// follow starts boards that come, until ctx ends or no board is expected any more.
func (s *supply) follow(ctx context.Context) {
	seen := time.Now() // when the tracker had a board, or one was in use
	for {
		select {
		case <-time.After(supplyPoll):
		case <-ctx.Done():
			return
		}

		keys, err := boardclient.Keys(ctx, s.remote.Tracker)
		if ctx.Err() != nil {
			return
		}
		n := keys[s.remote.Key]
		live, used, cause := s.grow(ctx, n)
		if n > 0 || used > 0 {
			seen = time.Now()
		}

		if live > 0 && time.Since(seen) < s.o.flashTimeout() {
			continue
		}

		if cause == nil {
			cause = failure.Errorf(failure.BoardLost, "%v: no board is left", s.remote)
		}
		close(s.gone)
		s.scheduler.removeBoard(errors.Join(cause, err))
		return
	}
}

// grow starts places until n boards have one, or had one that was given up. It returns how many are live, how many
// boards they use, and why the last one was given up.
func (s *supply) grow(ctx context.Context, n int) (live, used int, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = max(s.live, min(s.served, n)) // a board that was given up may come again

	for ; s.served < min(n, maxRemotes); s.served++ {
		s.live++
		s.scheduler.firmware.addBoard()
		p := &remotePlace{
			attached: attached{board: s.scheduler.firmware.board}, supply: s,
			name: fmt.Sprintf("%s#%d", s.remote.Key, s.number),
		}
		s.number++
		s.start(ctx, p, func(err error) {
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

// A remotePlace is a place on another computer, one after the other.
type remotePlace struct {
	attached
	supply *supply
	name   string              // while it waits for a board
	client *boardclient.Client // nil: no board is in use
	keeps  bool                // the device keeps its image
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
			p.supply.o.emit(Event{Board: p.name, Text: "waiting for a board", Err: err})
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
	c, err := boardclient.Dial(ctx, r.Tracker, r.Key, r.Priority)
	if err != nil {
		return "", err
	}

	limited, cancel := context.WithTimeout(ctx, p.supply.o.StepTimeout)
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
	own, err := boardDigest(p.board)
	switch {
	case err != nil:
		return err
	case facts.Board != p.board.Name:
		return failure.New(failure.Config, "give boards of each kind a key of their own",
			"machine %.100q offers a board %.100q, not %s", facts.Name, facts.Board, p.board.Name)
	case facts.Digest != own:
		return failure.New(failure.Config, "use the same version of boardsmith and the same board file on both machines",
			"machine %.100q has another board file of %s", facts.Name, p.board.Name)
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
		p.device = p.supply.desk.AttachRemote(p.supply.scheduler.firmware.current().folder.Board(), p.keeps,
			func(ctx context.Context) (transport.Link, error) { return p.client.Link(ctx) })
	}
	return done.Tier, done.Reason, nil
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
