// Package rpc calls functions on a device, copies tensors to and from it, and measures run times. It implements the
// host's side of TVM's MinRPC, over any transport of whole messages.
//
// It does not run models (see package executor), open links or start firmware.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// Options configure a session. The zero value is the usual one.
type Options struct {
	Timeout time.Duration // for each request whose context has no deadline; 0 means 60 s
	Log     hclog.Logger  // nil: no log

	// Explain finds the place in the program where the device stopped, for a *fault.Error; with nil the error has
	// addresses only. It is called once for each fault, before the failed request returns. called is the function
	// that the host called, or "" if unknown.
	Explain func(rec *fault.Record, called string) fault.Explanation
	// Locate finds the function and line of an address in uploaded code, by Program.ELF. Nil: faults there have
	// addresses only.
	Locate func(file []byte, pc uint64) []fault.Frame
}

// A Session is an RPC session with one device. Its methods, and those of its Functions, Modules and Tensors, may be
// called from several goroutines. One request runs at a time; the others wait for it or until their context ends.
//
// An error of the link, a timeout and a cancelled context end the session, because a late reply could be mistaken
// for the next one. Later requests return ErrBroken. An error that the device reports does not end the session.
//
// Neither does a reset of the device, if the transport has Redial: the current request returns a *fault.Error or
// another error of class fault, objects from before the reset return ErrStale when used, and new requests work.
type Session struct {
	recovery // above copier, caller and channel

	objects map[object]int       // that Close frees, with their numbers
	created int                  // objects so far
	loaded  map[object]codeRange // uploaded modules
	samples int                  // of the last Module.Time
	clock   Clock                // of SetClock
	unlink  func() error         // closes the transport, once
}

// An object is something on the device that a request frees.
type object interface {
	free(ctx context.Context) error
}

// New returns a session over t and takes ownership of t. It sends nothing.
func New(t Transport, o Options) *Session {
	s := &Session{objects: map[object]int{}, loaded: map[object]codeRange{}}
	s.transport, s.timeout, s.log, s.turn = t, o.Timeout, o.Log, make(chan struct{}, 1)
	s.unlink = sync.OnceValue(t.Close)
	s.names, s.handles, s.returned = map[uint32]string{}, map[string]uint64{}, map[string]bool{}
	s.explain, s.locate = o.Explain, o.Locate
	s.onReset, s.revive = s.forget, s.reviveRequest

	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	return s
}

// forget discards the state of everything that the device lost in a reset.
func (s *Session) forget() {
	// The fault that caused the reset is explained by what was there before.
	s.uploaded, s.granted = slices.Collect(maps.Values(s.loaded)), s.grants.granted

	clear(s.loaded)
	clear(s.objects)
	clear(s.handles)
	clear(s.returned)
	s.grants, s.limits, s.unresolved, s.samples = grants{}, limits{}, false, 0
}

// enter waits for this goroutine's turn, and continues the session if the device was reset. Unless it returns an
// error, leave must follow.
func (s *Session) enter(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}

	err := s.resume(ctx)
	if s.broken != nil {
		err = failure.New(failure.Of(s.broken), "open the device again", "%w: %w", ErrBroken, s.broken)
	}
	if err != nil {
		s.leave()
	}
	return err
}

// SetBudget fixes the time budget of each following call of a function on the device, whatever its deadline. With 0,
// the initial value, the budget follows each call's deadline (its context's, else Options.Timeout), less a tenth,
// which is limited to 200 ms to 2 s and to half the time. Module.Time has it for each sample. A call that exceeds its
// budget returns a *fault.Error of fault.ReasonTimeout, and the device is reset. On a device without boardsmith.budget
// only the host's timeout ends a call, and with it the session. Errors: those of ctx.
func (s *Session) SetBudget(ctx context.Context, d time.Duration) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.budget = d
	return nil
}

// PriorFault returns a fault that no call reported, because it happened before the session or while no request was
// waiting, or nil. The first call fetches it from the device. An invalid record is only logged.
func (s *Session) PriorFault(ctx context.Context) (*fault.Error, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.priorFault(ctx)
}

// Damages returns the number of damaged copies to the device so far that may have changed any of its memory. Errors:
// those of ctx.
func (s *Session) Damages(ctx context.Context) (int, error) {
	if err := s.take(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	return s.damages, nil
}

// AcknowledgeDamage confirms a damaged copy: the caller is going to write again all data that its functions use.
// After such a copy, function calls return an error until then. Errors: those of ctx.
func (s *Session) AcknowledgeDamage(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.unresolved = false
	return nil
}

// track makes Close free o.
func (s *Session) track(o object) {
	s.created++
	s.objects[o] = s.created
	clear(s.returned) // functions have less memory now
}

// Close frees the session's objects on the device, newest first, and closes the transport. If the session is
// broken, or busy until ctx ends, Close only closes the transport; in the latter case it returns ctx's error. A second
// Close returns the transport's error again.
func (s *Session) Close(ctx context.Context) error {
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.unlink())
	}
	defer s.leave()

	var err error
	if s.broken == nil {
		err = s.freeAll(ctx)
		// Whatever freeAll returned, no request may follow.
		s.broken = failure.Errorf(failure.Config, "the session was closed")
	}

	return errors.Join(err, s.unlink())
}

// freeAll frees all objects, and continues after those that the device does not free.
func (s *Session) freeAll(ctx context.Context) error {
	newestFirst := func(a, b object) int { return s.objects[b] - s.objects[a] }
	objects := slices.SortedFunc(maps.Keys(s.objects), newestFirst)
	clear(s.objects)

	for _, o := range objects {
		if err := o.free(ctx); err != nil && (s.broken != nil || ctx.Err() != nil) {
			return fmt.Errorf("freeing objects on the device: %w", err)
		}
	}
	return nil
}
