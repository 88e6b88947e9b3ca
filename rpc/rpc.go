// Package rpc calls functions on a device, moves tensors to it and from it, and times what it runs: the host's side
// of TVM's MinRPC, over any transport of whole messages.
//
// It knows calls, handles and tensors, not models: what to call in which order is package executor's. It opens no
// links and starts no firmware.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// A Transport carries whole messages to the device and back; *transport.Session is one.
type Transport interface {
	Send(ctx context.Context, parts ...[]byte) error // one message: the concatenation of parts
	Recv(ctx context.Context) ([]byte, error)        // valid until the next Recv
	Close() error
	Lossy() bool
}

// A Redialer is a Transport whose device may be reset: after a *transport.TerminatedError it can begin a new session
// over the same link. Deadlines are as for Recv.
type Redialer interface {
	Redial(ctx context.Context) error
}

// Options says how a session behaves. The zero value is the normal case.
type Options struct {
	Timeout time.Duration // for each request whose context has no deadline; 0 means 60 s
	Budget  time.Duration // as for SetBudget; 0 means that it follows each call's deadline
	Log     hclog.Logger  // nil drops what is logged

	// Explain tells for a *FaultError where in the program the device stood; nil leaves it at addresses. It is called
	// once for each fault, while the request that met it is still under way. called is the function that the host had
	// called, "" if that is not known.
	Explain func(rec *FaultRecord, called string) Explanation
}

const defaultTimeout = 60 * time.Second

// attempts is how often a request is tried that a lossy link damages.
const attempts = 4

// A Session is one device to call. Its methods, and those of the Functions, Modules and Tensors that it returns, may
// be called from several goroutines: one request goes on at a time, the others wait for it or for their context.
//
// An error of the link, a timeout and a cancelled context end the session, because a late reply would be taken for the
// next one's: everything after it is a *BrokenError. An error that the device reports does not.
//
// A reset of the device does not end it either, if the transport is a Redialer: the request under way ends with a
// *FaultError or a *ResetError, what was on the device before is a *StaleError when it is used, and new requests work.
type Session struct {
	transport Transport
	timeout   time.Duration
	log       hclog.Logger
	turn      chan struct{} // holds a token while a request is under way
	broken    error

	lives // what outlasts a reset of the device

	request, reply Packet
	out            []byte    // the encoded request, reused
	parts          [2][]byte // of the message, reused

	known      known // of the device
	damages    int   // damaged copies so far
	unresolved bool  // a damaged copy that nobody acknowledged

	live  map[freeable]int // what Close frees, and when it was made
	count int
}

// known is what was asked of the device, once it was. A reset forgets it.
type known struct {
	moduleGet Function // tvm.rpc.server.ModuleGetFunction
	evaluator Function // runtime.RPCTimeEvaluator
	platform  Function // boardsmith.platform
	abilities abilities
	budgets   budgets
}

// A freeable is something on the device that is freed by a request.
type freeable interface {
	free(ctx context.Context) error
}

// New returns a session over t, which it owns from then on. It sends nothing.
func New(t Transport, o Options) *Session {
	s := &Session{
		transport: t, timeout: o.Timeout, log: o.Log,
		turn: make(chan struct{}, 1), live: map[freeable]int{},
		lives: lives{explain: o.Explain, budget: o.Budget, names: map[uint32]string{}},
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	return s
}

// enter waits for this goroutine's turn, and takes up the session again if the device was reset. leave must follow
// unless there is an error.
func (s *Session) enter(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	err := s.reviveLater(ctx)
	if s.broken != nil {
		err = &BrokenError{s.broken}
	}
	if err != nil {
		s.leave()
	}
	return err
}

func (s *Session) leave() { <-s.turn }

// take waits for this goroutine's turn, unless ctx has ended. leave must follow unless there is an error.
func (s *Session) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "request")
	}
	return s.await(ctx)
}

// await waits for this goroutine's turn. One that comes at once is taken, whatever ctx says.
func (s *Session) await(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure.Stopped(ctx, "waiting for another request of the session")
	}
}

// begin is enter's inside: a fresh request to fill.
func (s *Session) begin(c Code) *Packet {
	s.request = Packet{Code: c, Args: s.request.Args[:0]}
	return &s.request
}

// exchange sends s.request and receives its reply into s.reply, which is valid until the next exchange. A reply that
// is an Exception is an error. On a lossy link a request that the device refused as damaged is sent again: it has not
// been carried out.
func (s *Session) exchange(ctx context.Context) error {
	err := s.exchangeOnce(ctx)
	for tries := 1; tries < attempts && s.transport.Lossy() && isDamagedRequest(err); tries++ {
		err = s.exchangeOnce(ctx)
	}
	if err == nil {
		return nil
	}
	if s.gone != nil {
		return s.revive(ctx, err)
	}
	var refused *LimitError
	if errors.As(err, &refused) {
		refused.What = s.request.Code.String()
	}
	return err
}

func isDamagedRequest(err error) bool {
	if err == nil {
		return false
	}
	var e *DeviceError
	return errors.As(err, &e) && e.Message == damagedRequest
}

func (s *Session) exchangeOnce(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "%v", s.request.Code) // nothing was sent: the session is as good as before
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	s.out = s.request.AppendHead(s.out[:0])
	s.parts = [2][]byte{s.out, s.request.Data}
	parts := s.parts[:1]
	if len(s.request.Data) > 0 {
		parts = s.parts[:]
	}
	if err := s.transport.Send(ctx, parts...); err != nil {
		return s.breakUp(err)
	}
	msg, err := s.transport.Recv(ctx)
	if err != nil {
		var damaged *transport.DamagedError
		if errors.As(err, &damaged) {
			return err // it was the reply; the next one belongs to the next request again
		}
		return s.breakUp(err)
	}
	return s.accept(msg)
}

// limit gives a request the session's deadline if it has none.
func (s *Session) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// breakUp ends the session, or, where the device was reset, what it knew of the device.
func (s *Session) breakUp(err error) error {
	if _, again := s.transport.(Redialer); again && wasReset(err) {
		s.lose(err)
		return err
	}
	s.broken = err
	return err
}

// accept decodes a reply.
func (s *Session) accept(msg []byte) error {
	if err := s.reply.Parse(msg); err != nil {
		return s.breakUp(err)
	}
	want := CodeReturn
	if s.request.Code == CodeCopyFromRemote {
		want = CodeCopyAck
	}
	switch s.reply.Code {
	case want:
		return nil
	case CodeException:
		if args := s.reply.Args; len(args) == 1 && args[0].Type == TypeStr {
			return exception(string(args[0].Data))
		}
	}
	return s.breakUp(protocolErrorf("%v in answer to %v", s.reply.Code, s.request.Code))
}

// exchangeVoid is exchange for a request whose answer is nothing.
func (s *Session) exchangeVoid(ctx context.Context) error {
	if err := s.exchange(ctx); err != nil {
		return err
	}
	return s.wantReply(TypeNull)
}

// exchangeHandle is exchange for a request whose answer is a handle.
func (s *Session) exchangeHandle(ctx context.Context) (uint64, error) {
	if err := s.exchange(ctx); err != nil {
		return 0, err
	}
	if err := s.wantReply(TypeHandle); err != nil {
		return 0, err
	}
	return s.reply.Args[0].Word, nil
}

func (s *Session) wantReply(t TypeCode) error {
	if args := s.reply.Args; len(args) != 1 || args[0].Type != t {
		return s.breakUp(protocolErrorf("answer to %v is not one value of type %d", s.request.Code, t))
	}
	return nil
}

// Sync waits until everything that was asked for is done. On a microcontroller it is.
func (s *Session) Sync(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	p := s.begin(CodeStreamSync)
	p.Args = append(p.Args, OnDevice(CPU), Opaque(0))
	return s.exchangeVoid(ctx)
}

// Damages returns how many copies to the device were damaged so far in a way that may have hit any of its memory. Errors:
// those of ctx.
func (s *Session) Damages(ctx context.Context) (int, error) {
	if err := s.take(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	return s.damages, nil
}

// AcknowledgeDamage says that the caller has noticed a damaged copy, and is going to write again all that its
// functions work on. Until it is called, no function can be called after such a copy. Errors: those of ctx.
func (s *Session) AcknowledgeDamage(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.unresolved = false
	return nil
}

// damaged notes a copy that may have gone anywhere.
func (s *Session) damaged(err error) {
	s.damages++
	s.unresolved = true
	s.log.Warn("damaged copy: contents of tensors on the device are unknown until written again", "error", err)
}

// own notes that f is to be freed by Close.
func (s *Session) own(f freeable) {
	s.count++
	s.live[f] = s.count
}

// Shutdown tells the device to stop serving, to which it gives no answer, and ends the session. The transport is still
// to be closed. TVM's own firmware serves nobody after it, until it is reset.
func (s *Session) Shutdown(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.broken = failure.New(failure.Config, "", "the device was shut down")
	return s.transport.Send(ctx, s.begin(CodeShutdown).Append(nil))
}

// Close frees what the session still holds on the device, newest first, and closes the transport. On a session that
// is broken it closes the transport only; so it does, with ctx's error, on one that is busy until ctx ends.
func (s *Session) Close(ctx context.Context) error {
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.transport.Close())
	}
	defer s.leave()
	var err error
	if s.broken == nil {
		err = s.freeAll(ctx)
		s.broken = failure.New(failure.Config, "", "the session was closed")
	}
	return errors.Join(err, s.transport.Close())
}

// freeAll frees all that is left. What the device refuses to free, it keeps.
func (s *Session) freeAll(ctx context.Context) error {
	newestFirst := func(a, b freeable) int { return s.live[b] - s.live[a] }
	left := slices.SortedFunc(maps.Keys(s.live), newestFirst)
	clear(s.live)
	for _, f := range left {
		if err := f.free(ctx); err != nil && (s.broken != nil || ctx.Err() != nil) {
			return fmt.Errorf("freeing what is left: %w", err)
		}
	}
	return nil
}
