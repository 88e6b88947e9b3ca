package rpc_test

// This file tests invalid answers.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// A fixedAnswer is a device that answers every request with the same bytes.
type fixedAnswer []byte

func (fixedAnswer) Send(context.Context, ...[]byte) error  { return nil }
func (fixedAnswer) Close() error                           { return nil }
func (fixedAnswer) Lossy() bool                            { return false }
func (s fixedAnswer) Recv(context.Context) ([]byte, error) { return s, nil }
func (s fixedAnswer) session() *rpc.Session                { return rpc.New(s, rpc.Options{}) }
func encoded(code tvmrpc.Code, args ...tvmrpc.Value) fixedAnswer {
	return (&tvmrpc.Packet{Code: code, Args: args}).Append(nil)
}
func returned(args ...tvmrpc.Value) fixedAnswer { return encoded(tvmrpc.CodeReturn, args...) }
func typed(t tvmrpc.TypeCode, args ...tvmrpc.Value) fixedAnswer {
	return returned(append([]tvmrpc.Value{tvmrpc.Int(int64(t))}, args...)...)
}

func bytesOf(b []byte) fixedAnswer { return typed(tvmrpc.TypeBytes, tvmrpc.Raw(b)) }

func shape(dims ...int64) *tvmrpc.DLTensor {
	return &tvmrpc.DLTensor{Device: tvmrpc.CPU, DType: i8, Shape: dims}
}

func lookUp(s *rpc.Session) error { return last(s.Function(context.Background(), "f")) }
func allocate(s *rpc.Session) error {
	return last(s.Empty(context.Background(), i8, []int64{1}))
}

func freeTensor(s *rpc.Session) error {
	t, err := s.Empty(context.Background(), i8, []int64{1})
	if err != nil {
		return err
	}
	return t.Free(context.Background())
}

// Invalid answers are protocol errors and end the session.
func TestInvalidAnswerEndsSession(t *testing.T) {
	good := returned(tvmrpc.Opaque(5))
	for name, c := range map[string]struct {
		answer fixedAnswer
		ask    func(*rpc.Session) error
	}{
		"garbage":                 {fixedAnswer("garbage, and more of it"), lookUp},
		"request":                 {encoded(tvmrpc.CodeGetGlobalFunc, tvmrpc.Text("f")), lookUp},
		"void for a handle":       {returned(tvmrpc.Null()), lookUp},
		"two handles":             {returned(tvmrpc.Opaque(1), tvmrpc.Opaque(2)), lookUp},
		"integer for a handle":    {returned(tvmrpc.Int(1)), allocate},
		"copy for a handle":       {(&tvmrpc.Packet{Code: tvmrpc.CodeCopyAck, Data: []byte{1}}).Append(nil), allocate},
		"exception without text":  {encoded(tvmrpc.CodeException), lookUp},
		"exception with a number": {encoded(tvmrpc.CodeException, tvmrpc.Int(1)), lookUp},
		"handle for void":         {good, freeTensor},
		"handle for a module":     {good, func(s *rpc.Session) error { return last(s.SystemLib(context.Background())) }},
	} {
		s := c.answer.session()
		if err, then := c.ask(s), lookUp(s); !isProtocol(err) || !errors.Is(then, rpc.ErrBroken) {
			t.Errorf("%s: %v, afterwards %v", name, err, then)
		}
	}
}

// isProtocol reports whether an error is about data that violate the protocol.
func isProtocol(err error) bool {
	return failure.Of(err) == failure.Transport && strings.Contains(err.Error(), "protocol: ")
}

// switching returns a device that answers the first request correctly and the others as given. It has no time
// budgets.
type switching struct {
	fixedAnswer
	first   fixedAnswer
	asked   bool
	request []byte
}

func (s *switching) Send(_ context.Context, parts ...[]byte) error {
	s.request = bytes.Join(parts, nil)
	return nil
}

func (s *switching) Recv(context.Context) ([]byte, error) {
	if bytes.Contains(s.request, []byte("boardsmith.budget")) {
		return returned(tvmrpc.Opaque(0)), nil
	}
	if !s.asked {
		s.asked = true
		return s.first, nil
	}
	return s.fixedAnswer, nil
}

// afterLookup returns a session with a device that answers so after a function was looked up.
func afterLookup(answer fixedAnswer) *rpc.Session {
	return rpc.New(&switching{fixedAnswer: answer, first: returned(tvmrpc.Opaque(5))}, rpc.Options{})
}

func TestInvalidResultIsProtocolError(t *testing.T) {
	ctx := t.Context()
	for name, answer := range map[string]fixedAnswer{
		"no values":          returned(),
		"type only":          returned(tvmrpc.Int(0)),
		"no type":            returned(tvmrpc.Null(), tvmrpc.Null()),
		"other value":        typed(tvmrpc.TypeInt, tvmrpc.Text("x")),
		"three values":       typed(tvmrpc.TypeInt, tvmrpc.Int(1), tvmrpc.Int(2)),
		"object":             typed(8, tvmrpc.Opaque(1)),
		"type 2^32":          typed(1<<30, tvmrpc.Opaque(1)),
		"module by value":    typed(tvmrpc.TypeModule, tvmrpc.Int(1)),
		"tensor alone":       typed(tvmrpc.TypeNDArray, tvmrpc.TensorOf(shape(1))),
		"tensor without one": typed(tvmrpc.TypeNDArray, tvmrpc.Null(), tvmrpc.Opaque(1)),
		"negative shape":     typed(tvmrpc.TypeNDArray, tvmrpc.TensorOf(shape(-1)), tvmrpc.Opaque(1)),
		"petabyte":           typed(tvmrpc.TypeNDArray, tvmrpc.TensorOf(shape(1<<50)), tvmrpc.Opaque(1)),
		"shape overflows":    typed(tvmrpc.TypeNDArray, tvmrpc.TensorOf(shape(1<<40, 1<<40)), tvmrpc.Opaque(1)),
	} {
		if got, err := global(t, afterLookup(answer), "f").Call(ctx); !isProtocol(err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// A tensor with a huge declared size takes no host memory until it is read, and then only what arrives.
	s := afterLookup(typed(tvmrpc.TypeNDArray, tvmrpc.TensorOf(shape(1<<28)), tvmrpc.Opaque(1)))
	tensor := value(global(t, s, "f").Call(ctx))(t).(*rpc.Tensor)
	wantError(t, last(tensor.Array(ctx)), "")
}

// TestInvalidWindowIsProtocolError: answers about a window and a measurement that cannot be right are protocol errors.
func TestInvalidWindowIsProtocolError(t *testing.T) {
	ctx := context.Background()
	window := func(count byte, base, size uint64, alignment uint32) []byte {
		b := []byte{1, count}
		b = binary.LittleEndian.AppendUint64(b, base)
		b = binary.LittleEndian.AppendUint64(b, size)
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 1), alignment)
	}
	good := afterLookup(bytesOf(window(1, 0x20000000, 4096, 32)))
	wantResult(t, []rpc.Window{{Base: 0x20000000, Bytes: 4096, Alignment: 32}})(good.Windows(ctx))
	for name, answer := range map[string]fixedAnswer{
		"nothing":           typed(tvmrpc.TypeNull, tvmrpc.Null()),
		"a number":          typed(tvmrpc.TypeInt, tvmrpc.Int(1)),
		"no bytes":          bytesOf(nil),
		"another version":   bytesOf(append([]byte{2}, window(1, 0, 32, 32)[1:]...)),
		"too many":          bytesOf(window(2, 0, 32, 32)),
		"too few":           bytesOf(window(0, 0, 32, 32)),
		"cut":               bytesOf(window(1, 0, 32, 32)[:20]),
		"no alignment":      bytesOf(window(1, 0, 32, 0)),
		"alignment 24":      bytesOf(window(1, 0, 48, 24)),
		"unaligned":         bytesOf(window(1, 8, 32, 32)),
		"beyond all memory": bytesOf(window(1, 1<<63, 1<<63+32, 32)),
	} {
		if got, err := afterLookup(answer).Windows(ctx); !isProtocol(err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, answer := range map[string]fixedAnswer{
		"a number": typed(tvmrpc.TypeInt, tvmrpc.Int(1)), "counts of no samples": bytesOf([]byte{1}),
	} {
		if got, err := afterLookup(answer).TimedInterrupts(ctx); !isProtocol(err) {
			t.Errorf("interrupts, %s: %v, %v", name, got, err)
		}
	}
}

// A script is a device with these answers, one after the other. It has no time budgets.
type script struct {
	switching
	answers []fixedAnswer
}

func (s *script) Recv(ctx context.Context) ([]byte, error) {
	if bytes.Contains(s.request, []byte("boardsmith.budget")) {
		return returned(tvmrpc.Opaque(0)), nil
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, nil
}

// Samples that are not what was asked for are a protocol error, which ends the session.
func TestInvalidSamplesEndSession(t *testing.T) {
	handle, evaluator := returned(tvmrpc.Opaque(5)), typed(tvmrpc.TypeFunction, tvmrpc.Opaque(7))
	for name, c := range map[string]struct {
		evaluator, samples fixedAnswer
		good               bool
	}{
		"two samples":    {evaluator, bytesOf(make([]byte, 16)), true},
		"one sample":     {evaluator, bytesOf(make([]byte, 8)), false},
		"three samples":  {evaluator, bytesOf(make([]byte, 24)), false},
		"a number":       {evaluator, typed(tvmrpc.TypeInt, tvmrpc.Int(16)), false},
		"nothing":        {evaluator, typed(tvmrpc.TypeNull, tvmrpc.Null()), false},
		"not a function": {bytesOf(make([]byte, 16)), nil, false},
		"no function":    {typed(tvmrpc.TypeNull, tvmrpc.Null()), nil, false},
	} {
		module := typed(tvmrpc.TypeModule, tvmrpc.Opaque(3))
		s := rpc.New(&script{answers: []fixedAnswer{handle, module, handle, c.evaluator, c.samples}}, rpc.Options{})
		got, err := library(t, s).Time(t.Context(), "f", rpc.TimeOptions{Repeat: 2})
		if c.good != (err == nil && len(got) == 2) || !c.good && !(isProtocol(err) && errors.Is(lookUp(s), rpc.ErrBroken)) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A countingLink is a transport that counts calls of Close.
type countingLink struct {
	rpc.Transport
	closed int
}

func (l *countingLink) Close() error { l.closed++; return nil }

// TestSecondCloseClosesNothing: a deferred Close may follow another one.
func TestSecondCloseClosesNothing(t *testing.T) {
	link := &countingLink{}
	s := rpc.New(link, rpc.Options{})
	must(t, s.Close(t.Context()))
	must(t, s.Close(t.Context()))
	wantEqual(t, link.closed, 1, "closed")
}
