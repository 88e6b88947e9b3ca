// This file runs the session layer over a link.

package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
)

// SessionOptions configure a session. The zero value is the usual one.
type SessionOptions struct {
	Log          hclog.Logger  // takes the device's log lines, named "device"; nil drops them
	StartTimeout time.Duration // for the whole handshake; 0 means 10 s. ctx may end it earlier
	Retry        time.Duration // time between attempts of the handshake; doubles up to 2 s; 0 means 250 ms
	FrameGap     time.Duration // silence inside a frame after which it counts as damaged, on a lossy link; 0 means 1 s
	MaxMessage   int           // longest message accepted from the device, bytes; 0 means 16 MiB
	Seed         byte          // initial value of this side's nonces; 0 means a random one
	CheckBytes   bool          // makes Dial check that a lossy link carries every byte unchanged
}

const (
	defaultStartTimeout = 10 * time.Second
	defaultRetry        = 250 * time.Millisecond
	maxRetry            = 2 * time.Second
	defaultFrameGap     = time.Second
	readSize            = 64 << 10
)

// A Session is the host's end of a session: whole messages to and from the device (wire.md §2 and §5). Only
// one goroutine at a time may use it.
type Session struct {
	link  Link
	log   hclog.Logger
	gap   time.Duration
	start time.Duration // for a whole handshake
	retry time.Duration // first wait for an answer to it

	end     endpoint
	framer  framing.Framer
	un      framing.Unframer
	head    [headerSize]byte
	parts   [][]byte // of the message being sent, reused
	out     []byte   // frames to write, reused
	readBuf []byte
	in      []byte // the part of readBuf that is not decoded yet

	received int64 // bytes
	damaged  int   // frames
	starts   int   // of the device during the handshake
	version  bool  // the device answered with another version
	check    byteCheck
	text     tail // received during the handshake
}

// A HandshakeError reports a session that could not be opened: the firmware did not respond, or not correctly.
type HandshakeError struct {
	Attempts int
	Received int64  // bytes received from the device meanwhile
	Text     []byte // the last of them, at most 4 KiB
	Damaged  int    // damaged frames among them
	Starts   int    // messages with which firmware begins
	Version  bool   // the device answered, with another version of the session layer
	Err      error  // of the last wait

	Changed string // how the link changes bytes, as in "sends back what it receives"; "" if unknown
	advice  string // what to do about it
}

func (e *HandshakeError) Error() string {
	switch {
	case e.Changed != "":
		return "session start: the link " + e.Changed
	case e.Starts > 1:
		return fmt.Sprintf("session start: the firmware started %d times, and answered none of %d requests: %v", e.Starts,
			e.Attempts, e.Err)
	}
	return fmt.Sprintf("session start: %d attempts, %d bytes and %d damaged frames received: %v",
		e.Attempts, e.Received, e.Damaged, e.Err)
}

func (e *HandshakeError) Unwrap() error { return e.Err }

// FailureClass returns the class for firmware that never answered, or for a link that broke or changes bytes. If the
// caller's context ended, failure.Of returns that class instead.
func (e *HandshakeError) FailureClass() failure.Class {
	if e.Changed != "" {
		return failure.Transport
	}
	if errors.Is(e.Err, ErrClosed) && !errors.As(e.Err, new(*ProcessError)) { // the link ended, not the firmware
		return failure.Of(e.Err)
	}
	return failure.Boot
}

// NextStep returns the likely cause of the device's behaviour.
func (e *HandshakeError) NextStep() string {
	switch {
	case errors.Is(e.Err, ErrClosed), errors.Is(e.Err, ErrSharedPort):
		return "" // Err's own
	case e.advice != "":
		return e.advice
	case e.Version:
		return "the firmware uses another version of the session protocol; build and flash it again"
	case e.Starts > 0:
		return "the firmware starts, and does not get to its requests: check its constructors, its main and its watchdog"
	case e.Received == 0:
		return "the device sent nothing: check that it runs this firmware, and its link: wiring, speed, 8 data bits, and " +
			"that no other program reads it"
	case e.Damaged > 0:
		return failure.Next(ErrDamaged)
	default:
		return "the device sent data but no session reply: check the link's speed and the firmware"
	}
}

func newSession(link Link, o SessionOptions) (*Session, error) {
	s := &Session{
		link: link, log: hclog.NewNullLogger(), gap: o.FrameGap, start: o.StartTimeout, retry: o.Retry,
		readBuf: make([]byte, readSize),
	}

	if o.Log != nil {
		s.log = o.Log.Named("device")
	}
	if s.gap == 0 {
		s.gap = defaultFrameGap
	}
	if s.start == 0 {
		s.start = defaultStartTimeout
	}
	if s.retry == 0 {
		s.retry = defaultRetry
	}

	s.un.Limit = o.MaxMessage
	s.end.nonce = o.Seed
	if o.Seed == 0 {
		var random [1]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, fmt.Errorf("session nonce: %w", err)
		}
		s.end.nonce = random[0]
	}

	return s, nil
}

// Dial opens a session as its initiator: it sends Terminate and Init until the device replies (wire.md §5). The
// session takes ownership of link. After an error, a *HandshakeError, the caller still owns link.
func Dial(ctx context.Context, link Link, o SessionOptions) (*Session, error) {
	s, err := newSession(link, o)
	if err != nil {
		return nil, err
	}

	if o.CheckBytes && link.Lossy() {
		s.check.unproven = slices.Clone(suspects)
	}
	if err := s.dial(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Redial opens a new session on the same link, with the same options, after Send or Recv returned a
// ErrTerminated. It drops messages of the old session. Errors: *HandshakeError, after which Redial may be called
// again.
func (s *Session) Redial(ctx context.Context) error {
	s.received, s.damaged, s.starts, s.version, s.check, s.text = 0, 0, 0, false, byteCheck{}, tail{}
	return s.dial(ctx)
}

func (s *Session) dial(caller context.Context) error {
	ctx, cancel := context.WithTimeout(caller, s.start)
	defer cancel()

	for attempt, wait := 1, s.retry; ; attempt++ {
		err := s.attempt(ctx, wait)
		if err == nil {
			if s.check.rounds++; len(s.check.unproven) == 0 {
				return nil
			}
			if s.check.rounds < checkRounds {
				continue
			}
		}

		// Here err is nil if each handshake succeeded, but some suspects never had a reply.
		if caller.Err() != nil {
			if err == nil {
				err = caller.Err()
			}
			err = failure.Stopped(caller, "%w", err)
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return s.handshakeError(attempt, err)
		}
		wait = min(2*wait, maxRetry)
	}
}

func (s *Session) handshakeError(attempts int, err error) error {
	e := &HandshakeError{
		Attempts: attempts, Received: s.received, Text: s.text.bytes, Damaged: s.damaged, Starts: s.starts,
		Version: s.version, Err: err,
	}

	e.Changed, e.advice = s.check.changed(err == nil)
	return e
}

// attempt sends one Init, after those of the check, and waits at most wait for its reply.
func (s *Session) attempt(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	init := s.end.begin()
	// The session's own Init is last, because each Init replaces the session before it.
	messages := append([][]byte{terminate}, s.check.inits(s.end.nonce)...)
	if err := s.write(ctx, append(messages, init)...); err != nil {
		return err
	}
	return s.establish(ctx)
}

// establish receives messages until a session is established.
func (s *Session) establish(ctx context.Context) error {
	for s.end.state != established {
		msg, err := s.next(ctx)
		if err != nil {
			return err
		}
		if err := s.handshake(ctx, msg); err != nil {
			return err
		}
	}
	return nil
}

// handshake handles a message before the session is established.
func (s *Session) handshake(ctx context.Context, msg []byte) error {
	echo := s.check.message(msg, s.end.nonce)
	switch {
	case s.check.echoes >= mostEchoes:
		return errEcho
	case echo:
		return nil
	}

	// Firmware sends Terminate when it starts.
	booted := s.end.state == startSent && len(msg) >= headerSize && msg[2] == typeTerminate
	if booted {
		s.starts++
	}

	n, reply := s.end.receive(msg)
	switch {
	case n == gotLog:
		s.logLine(msg)
	case n == wrongVersion:
		s.version = true
	case booted && s.link.Lossy():
		// The device has just booted and probably missed the Init; on a pipe the Init waits to be read.
		reply = s.end.begin()
	}

	if reply == nil {
		return nil
	}
	return s.write(ctx, reply)
}

// Lossy reports whether the session's link is lossy.
func (s *Session) Lossy() bool { return s.link.Lossy() }

// Bounded reports whether the link drops bytes for which the device has no room.
func (s *Session) Bounded() bool {
	b, ok := s.link.(bounded)
	return ok && b.Bounded()
}

// Close closes the link without a message to the device: the next initiator replaces this session.
func (s *Session) Close() error { return s.link.Close() }

// Send sends one message, the concatenation of parts. After an error the device may have received any part of it:
// close the session. It drops messages that were received and not passed to Recv: no later request has these answers.
func (s *Session) Send(ctx context.Context, parts ...[]byte) error {
	s.dropStale()
	if s.end.state != established {
		return terminated("no session")
	}

	size := headerSize
	for _, p := range parts {
		size += len(p)
	}
	if uint64(size) > math.MaxUint32 {
		return failure.Errorf(failure.Config, "message of %d bytes: a frame holds less than 4 GiB", size)
	}

	s.head = s.end.header()
	s.parts = append(append(s.parts[:0], s.head[:]), parts...)
	s.out = s.framer.Append(s.out[:0], s.parts...)
	return s.flush(ctx)
}

// dropStale handles the bytes received after the last message: a duplicated or late answer, log lines, Terminate.
func (s *Session) dropStale() {
	for len(s.in) > 0 {
		n, ev := s.un.Next(s.in)
		s.in = s.in[n:]
		if ev != framing.Frame {
			continue
		}

		msg := s.un.Payload()
		switch n, _ := s.end.receive(msg); n {
		case gotMessage:
			s.log.Debug("dropped an answer that no request waits for", "bytes", len(msg))
		case gotLog:
			s.logLine(msg)
		}
	}
}

// write sends each of messages... as one frame.
func (s *Session) write(ctx context.Context, messages ...[]byte) error {
	s.out = s.out[:0]
	for _, m := range messages {
		s.out = s.framer.Append(s.out, m)
	}
	return s.flush(ctx)
}

func (s *Session) flush(ctx context.Context) error {
	err := s.link.Write(ctx, s.out)
	if err != nil {
		// An unknown part of a frame was sent: the next one begins with the reset nop.
		s.framer.Reset()
	}
	return err
}

// Recv waits for the next message of the session and returns its body, which is valid until the next call. It logs
// preceding log lines and ignores messages of other sessions. Errors: those of Link.Read, ErrTerminated, and
// ErrDamaged if the answer arrived damaged.
func (s *Session) Recv(ctx context.Context) ([]byte, error) {
	body, err := s.receive(ctx)
	if err == nil {
		return body, nil
	}
	if errors.Is(err, errCut) {
		body, err = s.receiveAfterCut(ctx)
	}
	if errors.Is(err, ErrDamaged) {
		err = Shared(s.link, err)
	}
	return body, err
}

// receiveAfterCut waits briefly for messages after a truncated answer: a device that fails a check or is reset
// while it answers sends perhaps a log line, then Terminate.
func (s *Session) receiveAfterCut(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.gap)
	defer cancel()
	body, err := s.receive(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, errCut
	}
	return body, err
}

func (s *Session) receive(ctx context.Context) ([]byte, error) {
	damaged := s.damaged
	for {
		msg, err := s.next(ctx)
		if err != nil {
			if n := s.damaged - damaged; n > 0 && errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w and %d damaged frames", err, n) // one of which may have been the answer
			}
			return nil, err
		}

		n, reply := s.end.receive(msg)
		if reply != nil {
			if err := s.write(ctx, reply); err != nil {
				return nil, err
			}
		}

		switch n {
		case gotMessage:
			return msg[headerSize:], nil
		case gotLog:
			s.logLine(msg)
		case sessionEnded:
			return nil, terminated("Terminate")
		case newInitiator:
			return nil, terminated("it began a session of its own")
		default:
			s.log.Debug("ignored a message of another session", "bytes", len(msg))
		}
	}
}

// next returns the next message of an undamaged frame, header included, valid until the next call.
func (s *Session) next(ctx context.Context) ([]byte, error) {
	for {
		n, ev := s.un.Next(s.in)
		s.in = s.in[n:]
		switch ev {
		case framing.Frame:
			// A shorter one belongs to no session.
			if msg := s.un.Payload(); len(msg) >= headerSize {
				return msg, nil
			}
		case framing.NeedMore:
			if err := s.fill(ctx); err != nil {
				return nil, err
			}
		default:
			if err := s.damage(ev); err != nil {
				return nil, err
			}
		}
	}
}

// damage counts a damaged frame. It returns an error if the frame was this session's, and so the expected answer.
func (s *Session) damage(ev framing.Event) error {
	s.damaged++
	s.log.Debug("damaged frame", "reason", ev, "bytes", len(s.un.Payload()))

	if s.end.belongs(s.un.Payload()) {
		if ev == framing.Abandoned {
			return errCut
		}
		return fmt.Errorf("%w: %v", ErrDamaged, ev)
	}
	return nil
}

// fill reads from the link. Inside a frame on a lossy link it waits at most the frame gap: after a lost byte the
// frame's end would never come.
func (s *Session) fill(ctx context.Context) error {
	if !s.link.Lossy() || s.un.Idle() {
		return s.read(ctx)
	}

	gap, cancel := context.WithTimeout(ctx, s.gap)
	defer cancel()
	err := s.read(gap)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.damage(s.un.Abandon())
}

func (s *Session) read(ctx context.Context) error {
	// All of s.in has been decoded: its memory is used again.
	n, err := s.link.Read(ctx, s.readBuf)
	s.in = s.readBuf[:n]
	s.received += int64(n)

	if s.end.state != established {
		s.check.received(s.in)
		s.text.add(s.in)
	}
	return err
}

// logLine logs a device's log message without control characters.
func (s *Session) logLine(msg []byte) {
	if s.log.IsInfo() {
		s.log.Info(printable(msg[headerSize:]))
	}
}

// printable converts any bytes to one line without control characters.
func printable(b []byte) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '.'
		}
		return r
	}, strings.TrimRight(string(b), "\r\n"))
}
