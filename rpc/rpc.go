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
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// A Transport carries whole messages to the device and back, such as *transport.Session. One whose device may be reset
// has a method Redial(context.Context) error too: after a *transport.TerminatedError, it begins a new session over the
// same link. Deadlines are as for Recv.
type Transport interface {
	Send(ctx context.Context, parts ...[]byte) error // sends one message, the concatenation of parts
	Recv(ctx context.Context) ([]byte, error)        // the message is valid until the next Recv
	Close() error
	Lossy() bool
}

// A redialer is a Transport whose device may be reset.
type redialer interface {
	Redial(ctx context.Context) error
}

// Options configure a session. The zero value is the usual one.
type Options struct {
	Timeout time.Duration // for each request whose context has no deadline; 0 means 60 s
	Budget  time.Duration // as for SetBudget; 0 means that it follows each call's deadline
	Log     hclog.Logger  // nil: no log

	// Explain finds where in the program the device stopped, for a *fault.Error; with nil the error has addresses
	// only. It is called once for each fault, before the failed request returns. called is the function that the
	// host had called, or "" if unknown.
	Explain func(rec *fault.Record, called string) fault.Explanation
	// Locate finds the function and line of an address in uploaded code, by Program.ELF. Nil: faults there have
	// addresses only.
	Locate func(file []byte, pc uint64) []fault.Frame
}

const defaultTimeout = 60 * time.Second

// attempts limits how often a request is sent that a lossy link damages.
const attempts = 4

// lateAnswer is how long to wait for the answer to a request after the device's report of a damaged one.
const lateAnswer = 50 * time.Millisecond

// A Session is an RPC session with one device. Its methods, and those of its Functions, Modules and Tensors, may be
// called from several goroutines. One request runs at a time; the others wait for it or until their context ends.
//
// An error of the link, a timeout and a cancelled context end the session, because a late reply could be mistaken
// for the next one. Later requests return a *BrokenError. An error that the device reports does not end the
// session.
//
// Neither does a reset of the device, if the transport has Redial: the current request returns a *fault.Error or
// a *ResetError, objects from before the reset return a *StaleError when used, and new requests work.
type Session struct {
	transport Transport
	timeout   time.Duration
	log       hclog.Logger
	turn      chan struct{} // holds a token during a request
	broken    error

	lives // the state that outlasts a reset

	request, reply Packet
	out            []byte    // the encoded request, reused
	parts          [2][]byte // of the message, reused

	known      known // of the device
	damages    int   // damaged copies so far
	unresolved bool  // a damaged copy that was not acknowledged

	live  map[freeable]int // objects that Close frees, with the number of resets when they were made
	count int
}

// known caches the device's answers until a reset.
type known struct {
	moduleGet Function // tvm.rpc.server.ModuleGetFunction
	evaluator Function // runtime.RPCTimeEvaluator
	platform  Function // boardsmith.platform
	abilities abilities
	budgets   budgets
	functions map[string]Function // of boardsmith's runtime, by name

	interrupts Function // boardsmith.timed_interrupts
	samples    int      // of the last time evaluator
	fill       Function // boardsmith.fill
}

// A freeable is an object on the device that a request frees.
type freeable interface {
	free(ctx context.Context) error
}

// New returns a session over t and takes ownership of t. It sends nothing.
func New(t Transport, o Options) *Session {
	s := &Session{
		transport: t, timeout: o.Timeout, log: o.Log,
		turn: make(chan struct{}, 1), live: map[freeable]int{},
		lives: lives{explain: o.Explain, locate: o.Locate, budget: o.Budget, names: map[uint32]string{}},
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	if s.log == nil {
		s.log = hclog.NewNullLogger()
	}
	return s
}

// enter waits for this goroutine's turn, and continues the session if the device was reset. Unless it returns an
// error, leave must follow.
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

// take waits for this goroutine's turn, unless ctx has ended. Unless it returns an error, leave must follow.
func (s *Session) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "request")
	}
	return s.await(ctx)
}

// await waits for this goroutine's turn. It succeeds if the turn comes at once, even if ctx has ended.
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

// begin returns an empty request to fill.
func (s *Session) begin(c Code) *Packet {
	s.request = Packet{Code: c, Args: s.request.Args[:0]}
	return &s.request
}

// exchange sends s.request and receives its reply into s.reply, which is valid until the next exchange. It returns
// an error if the reply is an Exception. On a lossy link it sends again a request that the device rejected as
// damaged and so did not carry out.
func (s *Session) exchange(ctx context.Context) error {
	err := s.exchangeOnce(ctx)
	for tries := 1; tries < attempts && s.transport.Lossy() && isDamagedRequest(err); tries++ {
		if err = s.secondAnswer(ctx, err); isDamagedRequest(err) {
			err = s.exchangeOnce(ctx)
		}
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

// isDamagedRequest reports whether the device rejected a request because it arrived damaged: by its checksum, or by a
// length that another request would have.
func isDamagedRequest(err error) bool {
	if err == nil {
		return false
	}
	var e *DeviceError
	var tooLong *LimitError
	return errors.As(err, &e) && e.Message == damagedRequest || errors.As(err, &tooLong) && tooLong.Limit == 0
}

// secondAnswer waits briefly for a second answer to the request that the device rejected with err. If there is one, the
// first was a late one to an earlier frame: sending the request again would shift all further answers by one.
func (s *Session) secondAnswer(ctx context.Context, err error) error {
	short, cancel := context.WithTimeout(ctx, lateAnswer)
	defer cancel()
	for isDamagedRequest(err) {
		msg, recvErr := s.transport.Recv(short)
		var damaged *transport.DamagedError
		switch {
		case recvErr == nil:
			err = s.accept(msg)
		case ctx.Err() == nil && errors.Is(recvErr, context.DeadlineExceeded):
			return err
		case errors.As(recvErr, &damaged):
			return recvErr
		default:
			return s.breakUp(recvErr)
		}
	}
	return err
}

func (s *Session) exchangeOnce(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "%v", s.request.Code) // nothing was sent: the session is unaffected
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
			return err // the reply was received; the next one belongs to the next request
		}
		return s.breakUp(err)
	}
	return s.accept(msg)
}

// limit sets the session's timeout on a context without a deadline.
func (s *Session) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.timeout)
}

// breakUp ends the session or, after a reset, discards its state of the device.
func (s *Session) breakUp(err error) error {
	if _, again := s.transport.(redialer); again && wasReset(err) {
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

// exchangeVoid is exchange for a request with an empty answer.
func (s *Session) exchangeVoid(ctx context.Context) error {
	if err := s.exchange(ctx); err != nil {
		return err
	}
	return s.wantReply(TypeNull)
}

// exchangeHandle is exchange for a request that is answered by a handle.
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

// Sync waits until all requests have been carried out. On a microcontroller that is always so.
func (s *Session) Sync(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	p := s.begin(CodeStreamSync)
	p.Args = append(p.Args, OnDevice(CPU), Opaque(0))
	return s.exchangeVoid(ctx)
}

// Damages returns how many damaged copies to the device so far may have changed any of its memory. Errors: those of
// ctx.
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

// damaged records a copy that may have changed any memory.
func (s *Session) damaged(err error) {
	s.damages++
	s.unresolved = true
	s.log.Warn("damaged copy: contents of tensors on the device are unknown until written again", "error", err)
}

// own makes Close free f.
func (s *Session) own(f freeable) {
	s.count++
	s.live[f] = s.count
}

// Shutdown tells the device to stop serving and ends the session; the device does not answer. The transport must
// still be closed. TVM's firmware then serves no session until it is reset.
func (s *Session) Shutdown(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.broken = failure.Errorf(failure.Config, "the device was shut down")
	return s.transport.Send(ctx, s.begin(CodeShutdown).Append(nil))
}

// Close frees the session's objects on the device, newest first, and closes the transport. If the session is
// broken, or busy until ctx ends, Close only closes the transport; in the latter case it returns ctx's error.
func (s *Session) Close(ctx context.Context) error {
	if err := s.await(ctx); err != nil {
		return errors.Join(err, s.transport.Close())
	}
	defer s.leave()
	var err error
	if s.broken == nil {
		err = s.freeAll(ctx)
		s.broken = failure.Errorf(failure.Config, "the session was closed")
	}
	return errors.Join(err, s.transport.Close())
}

// freeAll frees all objects, and continues after those that the device does not free.
func (s *Session) freeAll(ctx context.Context) error {
	newestFirst := func(a, b freeable) int { return s.live[b] - s.live[a] }
	left := slices.SortedFunc(maps.Keys(s.live), newestFirst)
	clear(s.live)
	for _, f := range left {
		if err := f.free(ctx); err != nil && (s.broken != nil || ctx.Err() != nil) {
			return fmt.Errorf("freeing objects on the device: %w", err)
		}
	}
	return nil
}
