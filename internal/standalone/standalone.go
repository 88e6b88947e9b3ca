// Package standalone talks to firmware that runs one model without an RPC server: lines of text over the board's link,
// each with a CRC-32 (boardsmith.md, "Standalone firmware").
//
// It neither builds nor flashes, and it does not know models: inputs and outputs are bytes. Package executor gives them
// types and names.
package standalone

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	lineBytes    = 128              // bytes of a tensor in one line
	attempts     = 4                // of one request, if a line was damaged or lost
	answerLimit  = 2 * time.Second  // for the answer to a request that runs nothing
	runLimit     = 60 * time.Second // for a run, if its context has no deadline
	startLimit   = 10 * time.Second // for firmware that is starting
	startAttempt = 500 * time.Millisecond
	noTicks      = math.MaxUint64
)

// Options are the choices for a session. The zero value is the normal case.
type Options struct {
	StartTimeout time.Duration // for firmware that is starting to answer; 0 means 10 s
	Log          hclog.Logger  // nil: no log
	// Explain finds a fault's place in the program; nil: errors have addresses only
	Explain func(rec *fault.Record, called string) fault.Explanation
}

// A Session is an open link to standalone firmware, whose first call is Identify. Only one goroutine at a time may use
// it.
type Session struct {
	link     transport.Link
	reader   reader
	o        Options
	last     uint16 // the last request's number
	alive    bool   // the firmware has answered
	starts   int    // of the firmware before that
	repeated []byte // the last line with a fault record, which firmware sends that starts with it again
	token    string // of inputs, runs and outputs, valid until the firmware restarts; "": none, begin fetches one
	clock    rpc.Clock
}

// An Identity identifies the firmware and the chip.
type Identity struct {
	BuildID [16]byte
	CRC     uint32 // over the nonce, least significant byte first, and the image in flash
	Chip    []byte // its unique id; nil if it has none
}

// A Model describes the firmware's model.
type Model struct {
	Inputs, Outputs int
	Samples         bool // the inputs are constants of the firmware, which SetInput cannot change
}

// A Tensor is the type and the shape of an input or output.
type Tensor struct {
	DType ndarray.DType
	Shape []int64
}

// New returns a session on a link, which it owns from then on.
func New(link transport.Link, o Options) *Session {
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	// The firmware may still answer a request of an earlier session: its number is another one.
	return &Session{link: link, reader: reader{link: link}, o: o, last: uint16(rand.Uint32())}
}

// Close closes the link, which ends a process or an emulator.
func (s *Session) Close() error { return s.link.Close() }

// Identify fetches the firmware's identity. The first call of a session repeats the request for StartTimeout, for
// firmware that is starting.
func (s *Session) Identify(ctx context.Context, nonce uint64) (Identity, error) {
	var b [8]byte
	for i := range b {
		b[i] = byte(nonce >> (8 * i))
	}

	s.token = ""
	words, err := s.request(ctx, "id", hex.EncodeToString(b[:]))
	if err != nil {
		return Identity{}, err
	}

	if len(words) == 4 {
		build, ok1 := data(words[1])
		crc, ok2 := number(words[2], 8)
		chip, ok3 := data(words[3])
		if ok1 && ok2 && ok3 && len(build) == 16 {
			// The firmware computes the same name of the session from the nonce.
			s.token = fmt.Sprintf("%08x", crc32.ChecksumIEEE(b[:]))
			return Identity{[16]byte(build), uint32(crc), chip}, nil
		}
	}
	return Identity{}, unexpected(words)
}

// Model fetches the description of the firmware's model.
func (s *Session) Model(ctx context.Context) (Model, error) {
	words, err := s.request(ctx, "model")
	if err != nil {
		return Model{}, err
	}

	n, ok := numbers(words[1:], 4, 4, 1)
	if !ok {
		return Model{}, unexpected(words)
	}

	return Model{int(n[0]), int(n[1]), n[2] == 1}, nil
}

// Tensors fetches the types and shapes of the model's inputs and, after these, of its outputs. It is nil of firmware of
// an earlier version.
func (s *Session) Tensors(ctx context.Context, m Model) (all []Tensor, err error) {
	for i := range m.Inputs + m.Outputs {
		t, err := s.tensor(ctx, i)
		if errors.Is(err, errRejected) && i == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %d: %w", i, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// tensor fetches the type and the shape of an input or output.
func (s *Session) tensor(ctx context.Context, i int) (t Tensor, err error) {
	words, err := s.request(ctx, "tensor", fmt.Sprintf("%04x", i))
	if err != nil {
		return t, err
	}

	digits := []int{2, 2, 4}
	for range words[min(len(words), 4):] {
		digits = append(digits, 8)
	}
	n, ok := numbers(words[1:], digits...)
	if !ok {
		return t, unexpected(words)
	}

	t.DType = ndarray.DType{Code: uint8(n[0]), Bits: uint8(n[1]), Lanes: uint16(n[2])}
	for _, extent := range n[3:] {
		t.Shape = append(t.Shape, int64(extent))
	}
	return t, nil
}

// begin begins a session of the firmware if there is none, as after a restart.
func (s *Session) begin(ctx context.Context) error {
	if s.token != "" {
		return nil
	}

	_, err := s.Identify(ctx, rand.Uint64())
	return err
}

// SetInput sends input i. Firmware with samples refuses it.
func (s *Session) SetInput(ctx context.Context, i int, value []byte) error {
	if err := s.begin(ctx); err != nil {
		return fmt.Errorf("input %d: %w", i, err)
	}

	for at := 0; at < len(value); at += lineBytes {
		part := value[at:min(at+lineBytes, len(value))]
		index, at := fmt.Sprintf("%04x", i), fmt.Sprintf("%08x", at)
		words, err := s.request(ctx, "in", s.token, index, at, hex.EncodeToString(part))
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		if len(words) != 1 {
			return unexpected(words)
		}
	}
	return nil
}

// Ticks is a time in counts of the device's timer.
type Ticks struct {
	Count uint64
	Hz    uint32 // counts per second
}

// Seconds returns the time in seconds.
func (t Ticks) Seconds() float64 { return float64(t.Count) / float64(t.Hz) }

// Run is RunTicks for callers that need no counts.
func (s *Session) Run(ctx context.Context, times int) (time.Duration, error) {
	t, err := s.RunTicks(ctx, times)
	if err != nil {
		return 0, err
	}
	return time.Duration(t.Seconds() * 1e9), nil
}

// RunTicks runs the model a number of times, 0 to math.MaxUint32, until a run fails, and returns the time of all of
// them: an error of class fault if the device's timer overflowed. The firmware has until shortly before ctx's deadline,
// or for a minute without one, for all of them together; if they take longer it restarts, and RunTicks returns a
// *fault.Error of fault.ReasonTimeout. If the request or its answer is lost, RunTicks waits until then and returns the
// link's error; if one arrives damaged, the model may run again. Other errors: class fault if the model returns
// another value than 0, *fault.Error, those of the link.
func (s *Session) RunTicks(ctx context.Context, times int) (Ticks, error) {
	if times < 0 || uint64(times) > math.MaxUint32 {
		return Ticks{}, failure.Errorf(failure.Config, "a model runs 0 to %d times in one request, not %d",
			uint32(math.MaxUint32), times)
	}
	if err := s.begin(ctx); err != nil {
		return Ticks{}, err
	}
	words, err := s.requestRun(ctx, uint32(times))
	if err != nil {
		return Ticks{}, err
	}

	n, ok := numbers(words[1:], 8, 16, 8)
	if !ok {
		return Ticks{}, unexpected(words)
	}
	code, t := int32(uint32(n[0])), Ticks{n[1], uint32(n[2])}
	switch {
	case code != 0:
		return Ticks{}, failure.New(failure.Fault, "tvm/runtime/crt/error_codes.h has the runtime's codes; any other is of "+
			"an operator, or of a model in plain C or its init", "the model's run returned the error %d (0x%x)", code,
			uint32(code))
	case t.Count == noTicks || t.Hz == 0:
		return Ticks{}, failure.Errorf(failure.Fault, "the device's timer has lost the time of the run")
	case t.Seconds() > math.MaxInt64/1e9:
		return Ticks{}, unexpected(words)
	}
	return t, nil
}

// Timer fetches the device's counter, its rate and, of an emulated device, its counts by instructions. Other items of
// the result are unknown; so are all of them from firmware that was built without this request.
func (s *Session) Timer(ctx context.Context) (rpc.Platform, error) {
	words, err := s.request(ctx, "clock")
	if errors.Is(err, errRejected) {
		return rpc.Platform{}, nil
	}
	if err != nil {
		return rpc.Platform{}, err
	}

	n, ok := numbers(words[1:], 16, 8, 8, 8)
	if !ok {
		return rpc.Platform{}, unexpected(words)
	}
	p := rpc.Platform{Ticks: &n[0], TicksHz: new(uint32(n[1]))}
	if n[3] != 0 {
		p.CountedInstructions, p.CountedTicks = uint32(n[2]), uint32(n[3])
	}
	return p, nil
}

// SetClock records what the rate of the device's timer was compared with.
func (s *Session) SetClock(c rpc.Clock) { s.clock = c }

// Clock returns what SetClock recorded.
func (s *Session) Clock() rpc.Clock { return s.clock }

// A Stack is the highest use of the stack of the firmware's thread since its start. Both are 0 if the firmware does not
// measure it.
type Stack struct{ Used, Size int64 } // bytes

// Stack fetches the highest use of the stack.
func (s *Session) Stack(ctx context.Context) (Stack, error) {
	words, err := s.request(ctx, "stack")
	if err != nil {
		return Stack{}, err
	}

	n, ok := numbers(words[1:], 8, 8)
	if !ok || n[0] > n[1] {
		return Stack{}, unexpected(words)
	}

	return Stack{int64(n[0]), int64(n[1])}, nil
}

// requestRun requests runs. A repetition is a new request, with the remaining time. After a timeout there is none:
// the firmware may still be running, and would run the model again before it reads another request.
func (s *Session) requestRun(ctx context.Context, times uint32) ([]string, error) {
	end := time.Now().Add(runLimit)
	if d, ok := ctx.Deadline(); ok {
		end = d
	}

	for sent := 1; ; sent++ {
		// The firmware ends a run before the host's deadline, as it needs time to restart and to report the reason.
		limit := time.Until(end)
		margin := min(max(limit/10, 200*time.Millisecond), 2*time.Second, limit/2)
		budget := max(limit-margin, time.Millisecond).Milliseconds()
		request := []string{"run", s.token, fmt.Sprintf("%08x", times), fmt.Sprintf("%08x", min(budget, math.MaxInt32))}

		words, err := s.exchange(ctx, request, limit, 1)
		if sent == attempts || !errors.Is(err, errDamaged) {
			return words, s.restartError(ctx, err)
		}
	}
}

// Output fetches output i of the last run, of this many bytes.
func (s *Session) Output(ctx context.Context, i, bytes int) ([]byte, error) {
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("output %d: %w", i, err)
	}

	value := make([]byte, 0, bytes)
	for len(value) < bytes {
		index, at := fmt.Sprintf("%04x", i), fmt.Sprintf("%08x", len(value))
		words, err := s.request(ctx, "out", s.token, index, at)
		if err != nil {
			return nil, fmt.Errorf("output %d: %w", i, err)
		}

		if len(words) != 4 || words[1] != index || words[2] != at {
			return nil, unexpected(words)
		}

		part, ok := data(words[3])
		if !ok || len(part) == 0 || len(part) > bytes-len(value) {
			return nil, unexpected(words)
		}

		value = append(value, part...)
	}
	return value, nil
}

// PriorFault returns the fault from before the session, nil if there is none. The firmware then discards its record.
func (s *Session) PriorFault(ctx context.Context) (*fault.Error, error) {
	e, err := s.fault(ctx, nil)
	if e != nil {
		e.Prior = true
		s.o.Log.Warn("fault before this session", "fault", e)
	}
	return e, s.restartError(ctx, err)
}

// fault fetches the record of a fault, and explains it. It returns the fault with an error if the firmware may still
// have the record.
func (s *Session) fault(ctx context.Context, cause error) (*fault.Error, error) {
	var record []byte
	for {
		words, err := s.exchange(ctx, []string{"fault", fmt.Sprintf("%08x", len(record))}, answerLimit, attempts)
		if err != nil {
			return nil, err
		}

		if len(words) != 3 {
			return nil, unexpected(words)
		}
		length, ok1 := number(words[1], 4)
		part, ok2 := data(words[2])
		if !ok1 || !ok2 || len(record)+len(part) > int(length) || len(part) == 0 && length > 0 {
			return nil, unexpected(words)
		}

		if length == 0 {
			return nil, nil
		}
		if record = append(record, part...); len(record) == int(length) {
			break
		}
	}

	// It is discarded when all of it has arrived.
	_, discardErr := s.exchange(ctx, []string{"forget"}, answerLimit, attempts)
	s.repeated = nil

	parsed, err := fault.ParseRecord(record)
	if err != nil {
		return nil, err
	}
	return s.explained(parsed, cause), discardErr
}

// explained returns the error of a record.
func (s *Session) explained(rec *fault.Record, cause error) *fault.Error {
	e := &fault.Error{Record: rec, Err: cause}
	if s.o.Explain != nil {
		e.Explanation = s.o.Explain(rec, "")
	}
	return e
}

func unexpected(words []string) error {
	return failure.New(failure.Transport, "build and flash the firmware again",
		"the firmware's answer is not one to the request: %.60q", words)
}

// ErrRestarted is wrapped by the error of a call during which the device restarted.
var ErrRestarted = errors.New("the device restarted")

// request is exchange for a call of this package's user. If the device restarts meanwhile, the error is a *fault.Error,
// or of class fault without a record; the inputs are then lost.
func (s *Session) request(ctx context.Context, words ...string) ([]string, error) {
	answer, err := s.exchange(ctx, words, answerLimit, attempts)
	return answer, s.restartError(ctx, err)
}

// exchange sends a request and returns the words of its answer. It sends the request up to `times` times if a line was
// damaged or, within limit, lost; until StartTimeout has passed, but once at least, if the firmware has not answered
// yet. It returns ErrRestarted if the device restarted meanwhile.
func (s *Session) exchange(ctx context.Context, words []string, limit time.Duration, times int) ([]string, error) {
	s.last++
	if s.last == 0 {
		s.last++ // 0 is no request's
	}

	request, start := encode(s.last, words), time.Now()
	repeat := func(sent int) bool { return sent < times }

	if !s.alive {
		// Firmware that is starting reads nothing, so each attempt is short.
		end := start.Add(cmp.Or(s.o.StartTimeout, startLimit))
		limit = min(startAttempt, time.Until(end))
		repeat = func(int) bool { limit = min(startAttempt, time.Until(end)); return limit > 0 }
	}

	var lastErr error
	sent := 0
	for first := true; first || repeat(sent); first = false {
		sent++
		answer, err := s.ask(ctx, request, limit)
		switch {
		// The firmware has lost the session, so it has restarted.
		case err == nil && slices.Equal(answer, []string{"no", "session"}):
			return nil, ErrRestarted
		case err == nil && answer[0] == "no":
			return nil, fmt.Errorf("%w %.40q", errRejected, words)
		case err == nil:
			s.alive = true
			return answer, nil
		case ctx.Err() != nil:
			return nil, failure.Stopped(ctx, "request %s: %w", words[0], err)
		case !errors.Is(err, errDamaged) && !errors.Is(err, context.DeadlineExceeded):
			if !s.alive {
				err = s.silence(sent, err)
			}
			return nil, err
		}

		lastErr = err
		s.o.Log.Debug("no usable answer", "request", words[0], "error", err)
	}

	lastErr = transport.Shared(s.link, lastErr)
	if !s.alive {
		return nil, s.silence(sent, lastErr)
	}

	return nil, fmt.Errorf("request %q, sent %d times: %w", words[0], sent, lastErr)
}

// silence returns the error of firmware that has not answered since the link was opened.
func (s *Session) silence(sent int, err error) error {
	return &transport.HandshakeError{
		Attempts: sent, Received: s.reader.received, Starts: s.starts, Text: s.repeated, Err: err,
	}
}

// errRejected is wrapped by the error of a request that the firmware does not support, or with arguments out of range.
var errRejected = failure.Errorf(failure.Transport, "the firmware refused the request")

// errDamaged is wrapped by the error of a line that arrived damaged, here or in the firmware.
var errDamaged = failure.New(failure.Transport, "check the link: its wires, ground and baud rate",
	"a line arrived damaged")

// ask sends the last request and waits for its answer.
func (s *Session) ask(ctx context.Context, request []byte, limit time.Duration) ([]string, error) {
	if err := s.link.Write(ctx, request); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		text, err := s.reader.next(ctx)
		if err != nil {
			return nil, err
		}
		l, isLine, err := parse(text)
		switch {
		case !isLine:
			if RecordIn(text) != nil {
				s.repeated = bytes.Clone(text)
			}
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		case !l.answer && (l.words[0] == "start" || l.words[0] == "faulted"):
			// Before its first answer the firmware may start.
			if s.alive {
				return nil, ErrRestarted
			}
			s.starts++
		case !l.answer:
		case l.number == s.last:
			return l.words, nil
		case l.number == 0:
			return nil, fmt.Errorf("%w: the firmware did not read the request", errDamaged)
		}
	}
}

// restartError returns the error for a device that restarted while a request waited, instead of ErrRestarted; any other
// err unchanged. The next inputs belong to a new session of the firmware.
func (s *Session) restartError(ctx context.Context, err error) error {
	if !errors.Is(err, ErrRestarted) {
		return err
	}
	s.token = ""

	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()

	e, err := s.fault(limited, ErrRestarted)
	if rec := RecordIn(s.repeated); e == nil && rec != nil { // it faulted again before the record was fetched
		e, s.repeated = s.explained(rec, ErrRestarted), nil
	}

	const next = "check what the firmware does after its start, and its power supply"
	switch {
	case e != nil:
		return e
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "%w, while its record of a fault was fetched", ErrRestarted)
	case errors.Is(err, ErrRestarted):
		return failure.New(failure.Fault, next, "%w, and again before its record of a fault was fetched", err)
	case err != nil: // %v: the end of `limited` is not that of the caller's context
		return failure.New(failure.Fault, next, "%w, and its record of a fault could not be fetched: %v", ErrRestarted, err)
	}

	return failure.New(failure.Fault, next, "%w and left no record of a fault", ErrRestarted)
}
