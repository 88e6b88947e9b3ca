package rpc_test

// This file tests invalid answers.

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/boardsmith/boardsmith/rpc"
)

// says returns a device that answers every request with the same bytes.
type says []byte

func (says) Send(context.Context, ...[]byte) error  { return nil }
func (says) Close() error                           { return nil }
func (says) Lossy() bool                            { return false }
func (s says) Recv(context.Context) ([]byte, error) { return s, nil }
func (s says) session() *rpc.Session                { return rpc.New(s, rpc.Options{}) }
func encoded(code rpc.Code, args ...rpc.Value) says {
	return (&rpc.Packet{Code: code, Args: args}).Append(nil)
}
func returned(args ...rpc.Value) says { return encoded(rpc.CodeReturn, args...) }
func typed(t rpc.TypeCode, args ...rpc.Value) says {
	return returned(append([]rpc.Value{rpc.Int(int64(t))}, args...)...)
}

func shape(dims ...int64) *rpc.DLTensor {
	return &rpc.DLTensor{Device: rpc.CPU, DType: i8, Shape: dims}
}

func callOf(s *rpc.Session, f rpc.Function) error {
	_, err := f.Call(context.Background())
	_ = s
	return err
}
func lookUp(s *rpc.Session) error { _, err := s.Function(context.Background(), "f"); return err }
func allocate(s *rpc.Session) error {
	_, err := s.Empty(context.Background(), i8, []int64{1})
	return err
}
func freeTensor(s *rpc.Session) error {
	t, err := s.Empty(context.Background(), i8, []int64{1})
	if err != nil {
		return err
	}
	return t.Free(context.Background())
}
func moduleOf(s *rpc.Session) (rpc.Module, error) { return s.SystemLib(context.Background()) }

// Invalid answers are protocol errors and end the session.
func TestHostileAnswers(t *testing.T) {
	good := returned(rpc.Opaque(5))
	for name, c := range map[string]struct {
		answer says
		ask    func(*rpc.Session) error
	}{
		"nothing":                 {nil, lookUp},
		"garbage":                 {says("garbage, and more of it"), lookUp},
		"empty packet":            {says(make([]byte, 8)), lookUp},
		"request":                 {encoded(rpc.CodeGetGlobalFunc, rpc.Text("f")), lookUp},
		"void for a handle":       {returned(rpc.Null()), lookUp},
		"two handles":             {returned(rpc.Opaque(1), rpc.Opaque(2)), lookUp},
		"integer for a handle":    {returned(rpc.Int(1)), allocate},
		"copy for a handle":       {(&rpc.Packet{Code: rpc.CodeCopyAck, Data: []byte{1}}).Append(nil), allocate},
		"exception without text":  {encoded(rpc.CodeException), lookUp},
		"exception with a number": {encoded(rpc.CodeException, rpc.Int(1)), lookUp},
		"handle for void":         {good, freeTensor},
		"handle for a module":     {good, func(s *rpc.Session) error { _, err := moduleOf(s); return err }},
	} {
		s := c.answer.session()
		err := c.ask(s)
		var e *rpc.ProtocolError
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
		var broken *rpc.BrokenError
		if err := lookUp(s); !errors.As(err, &broken) {
			t.Errorf("%s, afterwards: got %v", name, err)
		}
	}
}

// switching returns a device that answers the first request correctly and the others as given. It has no time
// budgets.
type switching struct {
	says
	first   says
	asked   bool
	request []byte
}

func (s *switching) Send(_ context.Context, parts ...[]byte) error {
	s.request = bytes.Join(parts, nil)
	return nil
}

func (s *switching) Recv(context.Context) ([]byte, error) {
	if bytes.Contains(s.request, []byte("boardsmith.budget")) {
		return returned(rpc.Opaque(0)), nil
	}
	if !s.asked {
		s.asked = true
		return s.first, nil
	}
	return s.says, nil
}

func TestHostileResults(t *testing.T) {
	for name, answer := range map[string]says{
		"no values":          returned(),
		"type only":          returned(rpc.Int(0)),
		"no type":            returned(rpc.Null(), rpc.Null()),
		"other value":        typed(rpc.TypeInt, rpc.Text("x")),
		"three values":       typed(rpc.TypeInt, rpc.Int(1), rpc.Int(2)),
		"object":             typed(8, rpc.Opaque(1)),
		"type 2^32":          typed(1<<30, rpc.Opaque(1)),
		"module by value":    typed(rpc.TypeModule, rpc.Int(1)),
		"tensor alone":       typed(rpc.TypeNDArray, rpc.TensorOf(shape(1))),
		"tensor without one": typed(rpc.TypeNDArray, rpc.Null(), rpc.Opaque(1)),
		"negative shape":     typed(rpc.TypeNDArray, rpc.TensorOf(shape(-1)), rpc.Opaque(1)),
		"petabyte":           typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<50)), rpc.Opaque(1)),
		"shape overflows":    typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<40, 1<<40)), rpc.Opaque(1)),
	} {
		s := rpc.New(&switching{says: answer, first: returned(rpc.Opaque(5))}, rpc.Options{})
		f := must[rpc.Function](t)(s.Function(context.Background(), "f"))
		var e *rpc.ProtocolError
		if err := callOf(s, f); !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// A tensor with a huge declared size takes no host memory until it is read, and then only what arrives.
	s := rpc.New(&switching{
		says:  typed(rpc.TypeNDArray, rpc.TensorOf(shape(1<<28)), rpc.Opaque(1)),
		first: returned(rpc.Opaque(5)),
	}, rpc.Options{})
	f := must[rpc.Function](t)(s.Function(context.Background(), "f"))
	tensor := must[any](t)(f.Call(context.Background())).(*rpc.Tensor)
	if _, err := tensor.Array(context.Background()); err == nil {
		t.Error("a quarter of a gigabyte was read")
	}
}

// TestHostileWindows: answers about a window and a measurement that cannot be right are protocol errors.
func TestHostileWindows(t *testing.T) {
	ctx := context.Background()
	window := func(count byte, base, size uint64, alignment uint32) []byte {
		b := []byte{1, count}
		b = binary.LittleEndian.AppendUint64(b, base)
		b = binary.LittleEndian.AppendUint64(b, size)
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 1), alignment)
	}
	bytesOf := func(b []byte) says { return typed(rpc.TypeBytes, rpc.Value{Type: rpc.TypeBytes, Data: b}) }
	ask := func(answer says) *rpc.Session {
		return rpc.New(&switching{says: answer, first: returned(rpc.Opaque(5))}, rpc.Options{})
	}
	good, err := ask(bytesOf(window(1, 0x20000000, 4096, 32))).Windows(ctx)
	if err != nil || len(good) != 1 || good[0] != (rpc.Window{Base: 0x20000000, Bytes: 4096, Alignment: 32}) {
		t.Errorf("a window: %v, %v", good, err)
	}
	for name, answer := range map[string]says{
		"nothing":           typed(rpc.TypeNull, rpc.Null()),
		"a number":          typed(rpc.TypeInt, rpc.Int(1)),
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
		var e *rpc.ProtocolError
		if got, err := ask(answer).Windows(ctx); !errors.As(err, &e) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, answer := range map[string]says{
		"a number": typed(rpc.TypeInt, rpc.Int(1)), "counts of no samples": bytesOf([]byte{1}),
	} {
		var e *rpc.ProtocolError
		if got, err := ask(answer).TimedInterrupts(ctx); !errors.As(err, &e) {
			t.Errorf("interrupts, %s: %v, %v", name, got, err)
		}
	}
}

// A script is a device with these answers, one after the other. It has no time budgets.
type script struct {
	switching
	answers []says
}

func (s *script) Recv(ctx context.Context) ([]byte, error) {
	if bytes.Contains(s.request, []byte("boardsmith.budget")) {
		return returned(rpc.Opaque(0)), nil
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, nil
}

// Samples that are not what was asked for are a protocol error, which ends the session.
func TestHostileSamples(t *testing.T) {
	bytesOf := func(b []byte) says { return typed(rpc.TypeBytes, rpc.Value{Type: rpc.TypeBytes, Data: b}) }
	handle, evaluator := returned(rpc.Opaque(5)), typed(rpc.TypeFunction, rpc.Opaque(7))
	for name, c := range map[string]struct {
		answers []says
		good    bool
	}{
		"two samples":    {[]says{handle, evaluator, bytesOf(make([]byte, 16))}, true},
		"one sample":     {[]says{handle, evaluator, bytesOf(make([]byte, 8))}, false},
		"three samples":  {[]says{handle, evaluator, bytesOf(make([]byte, 24))}, false},
		"no samples":     {[]says{handle, evaluator, bytesOf(nil)}, false},
		"a number":       {[]says{handle, evaluator, typed(rpc.TypeInt, rpc.Int(16))}, false},
		"nothing":        {[]says{handle, evaluator, typed(rpc.TypeNull, rpc.Null())}, false},
		"not a function": {[]says{handle, bytesOf(make([]byte, 16))}, false},
		"no function":    {[]says{handle, typed(rpc.TypeNull, rpc.Null())}, false},
	} {
		ctx := context.Background()
		library := []says{handle, typed(rpc.TypeModule, rpc.Opaque(3))}
		s := rpc.New(&script{answers: append(library, c.answers...)}, rpc.Options{})
		got, err := must[rpc.Module](t)(s.SystemLib(ctx)).Time(ctx, "f", rpc.TimeOptions{Repeat: 2})
		if c.good {
			if err != nil || len(got) != 2 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		var e *rpc.ProtocolError
		var broken *rpc.BrokenError
		if !errors.As(err, &e) || !errors.As(lookUp(s), &broken) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
