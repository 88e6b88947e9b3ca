// This file holds functions and modules: looking them up, calling them with Go values, freeing them.

package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
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
	epoch   int    // the session's when it was looked up
	module  Module // of which it is a function; the zero value: a global function
}

// A Module is a set of functions on the device. It is valid until the device is reset.
type Module struct {
	session *Session
	handle  uint64
	epoch   int // the session's when it was returned
	upload  int // number of the upload; 0: not uploaded
}

// Name returns the name that the function was looked up by, or a description of its origin.
func (f Function) Name() string { return f.name }

func (f Function) String() string { return fmt.Sprintf("function %s (handle %#x)", f.name, f.handle) }

// Handle returns the device's handle of the module, for requests of Session.Do.
func (m Module) Handle() Handle { return Handle(m.handle) }

func (m Module) String() string { return fmt.Sprintf("module (handle %#x)", m.handle) }

// Function looks up a global function of the device. Errors: ErrNotFound; those of a request.
func (s *Session) Function(ctx context.Context, name string) (Function, error) {
	if err := s.enter(ctx); err != nil {
		return Function{}, err
	}
	defer s.leave()

	handle, err := s.lookup(ctx, name)
	if err != nil {
		return Function{}, err
	}
	return s.function(handle, name), nil
}

// function returns a function that is valid until the next reset.
func (s *Session) function(handle uint64, name string) Function {
	return Function{session: s, handle: handle, name: name, epoch: s.epoch}
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
		return Module{}, tvmrpc.Errorf("%s returned %T instead of a module", f.name, result)
	}
	return m, nil
}

// Session returns the session that the module was loaded in; nil for the zero value.
func (m Module) Session() *Session { return m.session }

// Function looks up a function of the module. Errors: ErrNotFound; those of a request.
func (m Module) Function(ctx context.Context, name string) (Function, error) {
	if err := m.enter(ctx); err != nil {
		return Function{}, err
	}
	defer m.session.leave()
	return m.session.moduleFunction(ctx, m, name)
}

// enter is Session.enter of the module's session, if it has one.
func (m Module) enter(ctx context.Context) error {
	if m.session == nil {
		return errNoSession("module")
	}
	return m.session.enter(ctx)
}

func (s *Session) moduleFunction(ctx context.Context, m Module, name string) (Function, error) {
	if err := s.checkModule(m); err != nil {
		return Function{}, err
	}

	get, err := s.lookup(ctx, moduleGetFunction)
	if err != nil {
		return Function{}, err
	}

	p := s.begin(tvmrpc.CodeCallFunc)
	// query_imports is 1, as TVM's host sends it.
	p.Handle, p.Args = get, append(p.Args, tvmrpc.Value{Type: tvmrpc.TypeModule, Word: m.handle},
		tvmrpc.Text(name), tvmrpc.Int(1))

	result, err := s.callObject(ctx, name)
	if err != nil {
		return Function{}, fmt.Errorf("looking up %s: %w", name, err)
	}

	switch f := result.(type) {
	case Function:
		f.module = m
		return f, nil
	case nil:
		return Function{}, fmt.Errorf("%w %q in the module", ErrNotFound, name)
	}
	return Function{}, s.breakUp(tvmrpc.Errorf("looking up %s: got %T", name, result))
}

// Check returns an error if the module's functions cannot be called any more: ErrStale after a reset of the
// device, one of class config after Unlink; else those of any call. It sends nothing, unless the link is to be opened
// again.
func (m Module) Check(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.session.leave()
	return m.session.checkModule(m)
}

// Free frees the module on the device. It does nothing for the system library, after a reset of the device, or again.
func (m Module) Free(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.session.leave()

	_, live := m.session.objects[m]
	delete(m.session.objects, m)

	// A reset has freed it, and its handle may now be another module's.
	if !live || m.epoch != m.session.epoch {
		return nil
	}
	return m.free(ctx)
}

func (m Module) free(ctx context.Context) error {
	return m.session.freeHandle(ctx, m.handle, tvmrpc.TypeModule)
}

// Call calls the function and waits for its result. An argument is nil, any integer, a float, a bool, a string, a
// []byte, an ndarray.DType, a *Tensor, a Module, a Function or a Handle. The result is nil, an int64, a
// uint64, a float64, a string, a []byte, an ndarray.DType, a device, a *Tensor (to be freed), a Module, a Function or a
// Handle. Errors: *DeviceError if the function fails; those of a request.
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
	if err := s.checkResolved(f.name); err != nil {
		return nil, err
	}
	if err := s.checkFunction(f); err != nil {
		return nil, err
	}
	if err := s.grant(ctx); err != nil {
		return nil, err
	}

	p := s.begin(tvmrpc.CodeCallFunc)
	p.Handle = f.handle
	for i, arg := range args {
		v, err := s.encode(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		p.Args = append(p.Args, v)
	}

	if err := s.checkLength(ctx, f.name); err != nil {
		return nil, err
	}

	// For a time evaluator it is the name of the function that is timed.
	name := cmp.Or(s.names[uint32(f.handle)], f.name)
	result, err := s.callObject(ctx, f.name)

	// returned is cleared when an object takes memory: this call had as much as the earlier one.
	var rejected *DeviceError
	switch {
	case err == nil:
		s.returned[name] = true
	case errors.As(err, &rejected) && rejected.Message == outOfWorkspace:
		rejected.Leaks = s.returned[name]
	}
	return result, err
}

// callObject exchanges the CallFunc in s.request and returns its result, which may be an object on the device. name is
// that of a function in the result.
func (s *Session) callObject(ctx context.Context, name string) (any, error) {
	args, err := s.call(ctx)
	if err != nil {
		return nil, err
	}

	result, err := s.result(args, name)
	if err != nil {
		return nil, s.breakUp(err)
	}
	return result, nil
}

// encode encodes an argument.
func (s *Session) encode(arg any) (tvmrpc.Value, error) {
	switch v := arg.(type) {
	case nil:
		return tvmrpc.Null(), nil
	case int, int8, int16, int32, int64:
		return tvmrpc.Int(reflect.ValueOf(v).Int()), nil
	case uint, uint8, uint16, uint32, uint64:
		return uintValue(reflect.ValueOf(v).Uint()), nil
	case float32, float64:
		return tvmrpc.Float(reflect.ValueOf(v).Float()), nil
	case bool:
		if v {
			return tvmrpc.Int(1), nil
		}
		return tvmrpc.Int(0), nil
	case string:
		return tvmrpc.Text(v), nil
	case []byte:
		return tvmrpc.Raw(v), nil
	case ndarray.DType:
		return tvmrpc.DType(v), nil
	case tvmrpc.DLDevice:
		return tvmrpc.OnDevice(v), nil
	case Handle:
		return tvmrpc.Opaque(uint64(v)), nil
	}
	return s.objectValue(arg)
}

func uintValue(v uint64) tvmrpc.Value {
	if v <= math.MaxInt64 {
		return tvmrpc.Int(int64(v))
	}
	return tvmrpc.Value{Type: tvmrpc.TypeUint, Word: v}
}

// objectValue encodes an argument that is an object on the device.
func (s *Session) objectValue(arg any) (tvmrpc.Value, error) {
	switch v := arg.(type) {
	case *Tensor:
		if err := v.usable(s); err != nil {
			return tvmrpc.Value{}, err
		}
		return tvmrpc.TensorOf(&v.ref), nil
	case Module:
		if v.session != s {
			return tvmrpc.Value{}, errOtherSession
		}
		return tvmrpc.Value{Type: tvmrpc.TypeModule, Word: v.handle}, s.checkModule(v)
	case Function:
		if v.session != s {
			return tvmrpc.Value{}, errOtherSession
		}
		return tvmrpc.Value{Type: tvmrpc.TypeFunction, Word: v.handle}, s.checkFunction(v)
	}
	return tvmrpc.Value{}, failure.Errorf(failure.Internal, "unsupported argument type %T", arg)
}

// checkModule returns an error for a module that the device lost in a reset, or that was unlinked.
func (s *Session) checkModule(m Module) error {
	if m.epoch != s.epoch {
		return fmt.Errorf("%v %w", m, ErrStale)
	}
	if _, ok := s.objects[m]; m.upload != 0 && !ok {
		return failure.New(failure.Config, "look up the function of a loaded module", "%v was unlinked", m)
	}
	return nil
}

// checkFunction returns an error for a function that the device lost in a reset, or whose module was unlinked.
func (s *Session) checkFunction(f Function) error {
	if f.epoch != s.epoch {
		return fmt.Errorf("%v %w", f, ErrStale)
	}
	if f.module.session == nil {
		return nil
	}
	return s.checkModule(f.module)
}

// result decodes the result of a call. A function in it gets the name.
func (s *Session) result(args []tvmrpc.Value, name string) (any, error) {
	kind, v, err := resultOf(args)
	if err != nil {
		return nil, err
	}
	switch kind {
	case tvmrpc.TypeNDArray, tvmrpc.TypeTensor:
		return s.tensorResult(args)
	case tvmrpc.TypeModule, tvmrpc.TypeFunction:
	default:
		return scalar(args)
	}

	if len(args) != 2 || v.Type != tvmrpc.TypeHandle {
		return nil, errResult
	}
	if v.Word == 0 {
		return nil, nil
	}
	if kind == tvmrpc.TypeFunction {
		s.names[uint32(v.Word)] = name
		return s.function(v.Word, name), nil
	}

	m := Module{session: s, handle: v.Word, epoch: s.epoch}
	s.track(m)
	return m, nil
}

// tensorResult returns a tensor that the device allocated, with the handle to free it.
func (s *Session) tensorResult(args []tvmrpc.Value) (any, error) {
	if len(args) != 3 || args[1].Type != tvmrpc.TypeTensor || args[2].Type != tvmrpc.TypeHandle {
		return nil, errResult
	}

	t, err := s.newTensor(*args[1].Tensor)
	if err != nil {
		return nil, tvmrpc.Errorf("a call's result: %v", err)
	}

	// The array is freed by its own handle, not by the address of its data.
	t.memory.handle, t.memory.kind = args[2].Word, array
	s.track(t.memory)
	return t, nil
}
