// This file looks up and calls functions, and loads modules.

package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Handle is an opaque value of the device.
type Handle uint64

// A Function is a function on the device. It belongs to its session and is valid until the device is reset, or its
// module unlinked.
type Function struct {
	session *Session
	handle  uint64
	name    string
	life    int // the session's number of resets when it was looked up
	of      Module
}

// A Module is a set of functions on the device. It is valid until the device is reset.
type Module struct {
	session *Session
	handle  uint64
	life    int // the session's number of resets when it was returned
	upload  int // which of the session's uploads it is; 0: none
}

// Name returns the name that the function was looked up by, or a description of its origin.
func (f Function) Name() string { return f.name }

func (f Function) String() string { return fmt.Sprintf("function %s (handle %#x)", f.name, f.handle) }

func (m Module) String() string { return fmt.Sprintf("module (handle %#x)", m.handle) }

// Function looks up a global function of the device. Errors: *NotFoundError; those of a request.
func (s *Session) Function(ctx context.Context, name string) (Function, error) {
	if err := s.enter(ctx); err != nil {
		return Function{}, err
	}
	defer s.leave()
	return s.global(ctx, name)
}

// global looks up a global function. Those of boardsmith's runtime, which keep their handles, are asked for once.
func (s *Session) global(ctx context.Context, name string) (Function, error) {
	if f, ok := s.known.functions[name]; ok {
		return f, nil
	}
	p := s.begin(CodeGetGlobalFunc)
	p.Args = append(p.Args, Text(name))
	h, err := s.exchangeHandle(ctx)
	if err != nil {
		return Function{}, fmt.Errorf("looking up %s: %w", name, err)
	}
	if h == 0 {
		return Function{}, &NotFoundError{name, "device"}
	}
	f := s.function(h, name)
	if strings.HasPrefix(name, "boardsmith.") {
		if s.known.functions == nil {
			s.known.functions = map[string]Function{}
		}
		s.known.functions[name] = f
	}
	return f, nil
}

// function returns a function that is valid until the next reset.
func (s *Session) function(handle uint64, name string) Function {
	s.names[uint32(handle)] = name
	return Function{session: s, handle: handle, name: name, life: s.life}
}

// globalOnce looks up a function and caches the result.
func (s *Session) globalOnce(ctx context.Context, f *Function, name string) error {
	if f.session != nil {
		return nil
	}
	found, err := s.global(ctx, name)
	if err == nil {
		*f = found
	}
	return err
}

// SystemLib returns the module of the operators in the firmware.
func (s *Session) SystemLib(ctx context.Context) (Module, error) {
	f, err := s.Function(ctx, "runtime.SystemLib")
	if err != nil {
		return Module{}, err
	}
	result, err := f.Call(ctx)
	if err != nil {
		return Module{}, err
	}
	m, ok := result.(Module)
	if !ok {
		return Module{}, protocolErrorf("%s returned %T instead of a module", f.name, result)
	}
	return m, nil
}

// Function looks up a function of the module. Errors: *NotFoundError; those of a request.
func (m Module) Function(ctx context.Context, name string) (Function, error) {
	s := m.session
	if s == nil {
		return Function{}, errNoSession("module")
	}
	if err := s.enter(ctx); err != nil {
		return Function{}, err
	}
	defer s.leave()
	return s.ofModule(ctx, m, name)
}

func (s *Session) ofModule(ctx context.Context, m Module, name string) (Function, error) {
	if m.life != s.life {
		return Function{}, &StaleError{m.String()}
	}
	if err := s.unlinked(m); err != nil {
		return Function{}, err
	}
	if err := s.globalOnce(ctx, &s.known.moduleGet, moduleGetFunction); err != nil {
		return Function{}, err
	}
	p := s.begin(CodeCallFunc)
	p.Handle = s.known.moduleGet.handle
	p.Args = append(p.Args, Value{Type: TypeModule, Word: m.handle}, Text(name), Int(1))
	result, err := s.call(ctx, name)
	if err != nil {
		return Function{}, fmt.Errorf("looking up %s: %w", name, err)
	}
	switch f := result.(type) {
	case Function:
		f.of = m
		return f, nil
	case nil:
		return Function{}, &NotFoundError{name, "module"}
	}
	return Function{}, s.breakUp(protocolErrorf("looking up %s: got %T", name, result))
}

// Free frees the module on the device. It does nothing for the system library or after a reset of the device.
func (m Module) Free(ctx context.Context) error {
	s := m.session
	if s == nil {
		return errNoSession("module")
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	delete(s.live, m)
	if m.life != s.life {
		return nil
	}
	return m.free(ctx)
}

func (m Module) free(ctx context.Context) error {
	return m.session.freeHandle(ctx, m.handle, TypeModule)
}

// Free frees the function's handle. boardsmith's runtime stores nothing per function, so that calling Free is
// optional.
func (f Function) Free(ctx context.Context) error {
	s := f.session
	if s == nil {
		return errNoSession("function")
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if f.life != s.life {
		return nil
	}
	return s.freeHandle(ctx, f.handle, TypeFunction)
}

func (s *Session) freeHandle(ctx context.Context, handle uint64, kind TypeCode) error {
	p := s.begin(CodeFreeHandle)
	p.Args = append(p.Args, Opaque(handle), Int(int64(kind)))
	if err := s.exchangeVoid(ctx); err != nil {
		return fmt.Errorf("freeing handle %#x: %w", handle, err)
	}
	return nil
}

func errNoSession(what string) error {
	return failure.Errorf(failure.Internal, "%s of no session", what)
}

// Call calls the function and waits for its result. An argument is nil, any integer, a float, a bool, a string, a
// []byte, an ndarray.DType, a Device, a *Tensor, a Module, a Function or a Handle. The result is nil, an int64, a
// uint64, a float64, a string, a []byte, an ndarray.DType, a Device, a *Tensor (to be freed), a Module, a Function
// or a Handle. Errors: *DeviceError if the function fails; those of a request.
func (f Function) Call(ctx context.Context, args ...any) (any, error) {
	s := f.session
	if s == nil {
		return nil, errNoSession("function")
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	result, err := s.callFunction(ctx, f, args)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", f.name, err)
	}
	return result, nil
}

func (s *Session) callFunction(ctx context.Context, f Function, args []any) (any, error) {
	if s.unresolved {
		return nil, &DamagedCopyError{What: "an earlier copy may have changed what " + f.name + " works on"}
	}
	if f.life != s.life {
		return nil, &StaleError{f.String()}
	}
	if err := s.unlinked(f.of); err != nil {
		return nil, err
	}
	if err := s.grant(ctx); err != nil {
		return nil, err
	}
	p := s.begin(CodeCallFunc)
	p.Handle = f.handle
	for i, arg := range args {
		v, err := s.value(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		p.Args = append(p.Args, v)
	}
	if err := s.checkLength(ctx, f.name); err != nil {
		return nil, err
	}
	return s.call(ctx, f.name)
}

// call exchanges the CallFunc in s.request and returns its result.
func (s *Session) call(ctx context.Context, name string) (any, error) {
	if err := s.regrant(ctx); err != nil {
		return nil, err
	}
	if err := s.exchange(ctx); err != nil {
		return nil, err
	}
	result, err := s.result(s.reply.Args, name)
	if err != nil {
		return nil, s.breakUp(err)
	}
	return result, nil
}

// value encodes an argument.
func (s *Session) value(arg any) (Value, error) {
	switch v := arg.(type) {
	case nil:
		return Null(), nil
	case int:
		return Int(int64(v)), nil
	case int8:
		return Int(int64(v)), nil
	case int16:
		return Int(int64(v)), nil
	case int32:
		return Int(int64(v)), nil
	case int64:
		return Int(v), nil
	case uint:
		return uintValue(uint64(v)), nil
	case uint8:
		return Int(int64(v)), nil
	case uint16:
		return Int(int64(v)), nil
	case uint32:
		return Int(int64(v)), nil
	case uint64:
		return uintValue(v), nil
	case bool:
		if v {
			return Int(1), nil
		}
		return Int(0), nil
	case float32:
		return Float(float64(v)), nil
	case float64:
		return Float(v), nil
	case string:
		return Text(v), nil
	case []byte:
		return Raw(v), nil
	case ndarray.DType:
		return DType(v), nil
	case DLDevice:
		return OnDevice(v), nil
	case Handle:
		return Opaque(uint64(v)), nil
	}
	return s.ownValue(arg)
}

func uintValue(v uint64) Value {
	if v <= math.MaxInt64 {
		return Int(int64(v))
	}
	return Value{Type: TypeUint, Word: v}
}

var errOtherSession = failure.Errorf(failure.Internal, "belongs to another session")

// ownValue encodes an argument that is an object on the device.
func (s *Session) ownValue(arg any) (Value, error) {
	switch v := arg.(type) {
	case *Tensor:
		if err := v.usable(s); err != nil {
			return Value{}, err
		}
		return TensorOf(&v.ref), nil
	case Module:
		if v.session != s {
			return Value{}, errOtherSession
		}
		if v.life != s.life {
			return Value{}, &StaleError{v.String()}
		}
		if err := s.unlinked(v); err != nil {
			return Value{}, err
		}
		return Value{Type: TypeModule, Word: v.handle}, nil
	case Function:
		if v.session != s {
			return Value{}, errOtherSession
		}
		if v.life != s.life {
			return Value{}, &StaleError{v.String()}
		}
		if err := s.unlinked(v.of); err != nil {
			return Value{}, err
		}
		return Value{Type: TypeFunction, Word: v.handle}, nil
	}
	return Value{}, failure.Errorf(failure.Internal, "unsupported argument type %T", arg)
}

var errResult = errors.New("invalid result of a call")

// result decodes the result of a call: its type, then its value (rpc.md §4.2).
func (s *Session) result(args []Value, name string) (any, error) {
	if len(args) < 2 || args[0].Type != TypeInt {
		return nil, &ProtocolError{errResult.Error()}
	}
	kind, v := TypeCode(args[0].Word), args[1]
	if kind == TypeNDArray || kind == TypeTensor {
		return s.tensorResult(args)
	}
	onWire := kind
	if kind == TypeModule || kind == TypeFunction {
		onWire = TypeHandle
	}
	if len(args) != 2 || args[0].Word > math.MaxInt8 || v.Type != onWire {
		return nil, &ProtocolError{errResult.Error()}
	}
	switch kind {
	case TypeInt:
		return int64(v.Word), nil
	case TypeUint:
		return v.Word, nil
	case TypeFloat:
		return math.Float64frombits(v.Word), nil
	case TypeDType:
		return wordDType(v.Word), nil
	case TypeDevice:
		return wordDevice(v.Word), nil
	case TypeStr:
		return string(v.Data), nil
	case TypeBytes:
		return append([]byte(nil), v.Data...), nil
	case TypeHandle:
		return Handle(v.Word), nil
	}
	if kind == TypeNull || v.Word == 0 {
		return nil, nil
	}
	if kind == TypeFunction {
		return s.function(v.Word, name), nil
	}
	m := Module{session: s, handle: v.Word, life: s.life}
	s.own(m)
	return m, nil
}

// tensorResult returns a tensor that the device made, with the handle to free it.
func (s *Session) tensorResult(args []Value) (any, error) {
	if len(args) != 3 || args[1].Type != TypeTensor || args[2].Type != TypeHandle {
		return nil, &ProtocolError{errResult.Error()}
	}
	t, err := s.newTensor(*args[1].Tensor)
	if err != nil {
		return nil, protocolErrorf("a call's result: %v", err)
	}
	t.memory.handle, t.memory.kind = args[2].Word, array
	s.own(t.memory)
	return t, nil
}
