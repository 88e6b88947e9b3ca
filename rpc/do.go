// This file passes on requests of other clients, such as a gateway's.

package rpc

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

// An Answer is the device's reply to a request that Do passed through.
type Answer struct {
	Packet  Packet // a Return, a CopyAck or an Exception
	Created []Resource
	Freed   []Resource
}

// A Resource is memory, a module or an array on the device that a request created and that has to be freed. It is
// comparable. An array that the device returned twice has to be freed twice.
type Resource struct {
	session *Session
	epoch   int
	kind    TypeCode // as in FreeHandle; TypeHandle: memory, for FreeData
	handle  uint64
}

// Free frees it, unless the device was reset since. The caller must not free anything twice. Errors: those of a
// request.
func (r Resource) Free(ctx context.Context) error {
	s := r.session
	if s == nil {
		return errNoSession("memory")
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if r.epoch != s.epoch {
		return nil
	}
	if r.kind == TypeHandle {
		return s.freeData(ctx, r.handle)
	}
	return s.freeHandle(ctx, r.handle, r.kind)
}

// Do passes a request through to the device. A copy may have any length: Do splits it into as many messages as the
// device needs. The answer is an Exception if the device rejects the request, or if the request would hang a
// reference firmware (a system call with wrong arguments); an error means that there is no answer. ctx's deadline
// is a call's time budget; boardsmith.budget does not affect later calls. Handles are the device's: those from
// before a reset must not be used after it.
//
// The caller frees the resources that a request created; Close does not. A gateway adds Created to its client's
// resources, removes Freed, and frees the rest, newest first, when the client disconnects.
//
// Do returns an error of class config for a packet that is not a request, and for Shutdown, which would stop the
// device for all clients. It does not change p; the answer shares no memory with p or the session.
func (s *Session) Do(ctx context.Context, p *Packet) (*Answer, error) {
	switch p.Code {
	case CodeNone, CodeShutdown, CodeReturn, CodeException, CodeCopyAck:
		return nil, failure.Errorf(failure.Config, "%v cannot be passed through", p.Code)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	reply, err := s.pass(ctx, p)
	if text, ok := exceptionText(err); ok {
		return &Answer{Packet: *Exception(text)}, nil
	}
	if err != nil {
		return nil, err
	}
	owner := Resource{session: s, epoch: s.epoch}
	a := &Answer{Created: owner.created(p, reply), Freed: owner.freed(p)}
	return a, a.Packet.Parse(reply.Append(nil)) // a copy
}

// Exception returns the reply to a request that cannot be carried out.
func Exception(text string) *Packet { return &Packet{Code: CodeException, Args: []Value{Text(text)}} }

// exceptionText returns the text of an Exception for an error that ended a request but not the session.
func exceptionText(err error) (text string, ok bool) {
	var device *DeviceError
	var limit *LimitError
	var damaged *DamagedCopyError
	var arguments *argumentsError
	switch {
	case errors.As(err, &device):
		return device.Message, true
	case errors.As(err, &limit), errors.As(err, &damaged), errors.As(err, &arguments):
		return err.Error(), true
	}
	return "", false
}

// kindsOfHandle lists the types that FreeHandle accepts. Functions need not be freed.
var kindsOfHandle = []TypeCode{TypeModule, TypeFunction, TypeNDArray}

// An argumentsError reports a request that was not sent because no device can carry it out.
type argumentsError struct{ error }

// pass sends the caller's request and receives the reply, which is valid until the next exchange.
func (s *Session) pass(ctx context.Context, p *Packet) (*Packet, error) {
	if err := p.CheckArgs(); err != nil {
		return nil, &argumentsError{err}
	}
	switch p.Code {
	case CodeFreeHandle:
		if kind := TypeCode(p.Args[1].Word); !slices.Contains(kindsOfHandle, kind) {
			return nil, &argumentsError{protocolErrorf("a handle of type %d cannot be freed", kind)}
		}
	case CodeCopyToRemote:
		return &Packet{Code: CodeReturn, Args: []Value{Null()}}, s.write(ctx, p.Tensor, p.Data)
	case CodeCopyFromRemote:
		if p.Size > math.MaxInt32 {
			return nil, &argumentsError{protocolErrorf("invalid size of a copy: %d bytes", p.Size)}
		}
		data, err := s.read(ctx, p.Tensor, int(p.Size), nil)
		return &Packet{Code: CodeCopyAck, Data: data}, err
	case CodeCallFunc:
		if err := s.grant(ctx); err != nil {
			return nil, err
		}
	}
	r := s.begin(p.Code)
	r.Handle, r.Version, r.Args = p.Handle, p.Version, append(r.Args, p.Args...)
	if err := s.checkLength(ctx, p.Code.String()); err != nil {
		return nil, err
	}
	if err := s.exchange(ctx); err != nil {
		return nil, err
	}
	s.observe(p)
	return &s.reply, nil
}

// observe records the names of functions, for fault reports, and that the caller may have set a budget.
func (s *Session) observe(p *Packet) {
	args, results := p.Args, s.reply.Args
	switch {
	case p.Code == CodeGetGlobalFunc && len(results) == 1:
		s.names[uint32(results[0].Word)] = string(args[0].Data)
	case p.Code != CodeCallFunc:
	case s.names[uint32(p.Handle)] == moduleGetFunction && len(args) > 1 && len(results) == 2:
		s.names[uint32(results[1].Word)] = string(args[1].Data)
	case s.names[uint32(p.Handle)] == budgetFunction:
		s.grants.granted = 0
	}
}

// created lists the resources that a request created on the device, for the owner r.
func (r Resource) created(p, reply *Packet) []Resource {
	args := reply.Args
	resource := func(kind TypeCode, i int) []Resource {
		if i >= len(args) || args[i].Type != TypeHandle || args[i].Word == 0 {
			return nil
		}
		return []Resource{{r.session, r.epoch, kind, args[i].Word}}
	}
	switch {
	case p.Code == CodeAllocData, p.Code == CodeAllocDataWithScope:
		return resource(TypeHandle, 0)
	case p.Code != CodeCallFunc || len(args) < 2 || args[0].Type != TypeInt:
		return nil
	case TypeCode(args[0].Word) == TypeModule:
		return resource(TypeModule, 1)
	case TypeCode(args[0].Word) == TypeNDArray:
		return resource(TypeNDArray, 2)
	}
	return nil
}

// freed lists the resources that a request freed, for the owner r.
func (r Resource) freed(p *Packet) []Resource {
	switch p.Code {
	case CodeFreeData:
		return []Resource{{r.session, r.epoch, TypeHandle, p.Args[1].Word}}
	case CodeFreeHandle:
		if kind := TypeCode(p.Args[1].Word); kind != TypeFunction {
			return []Resource{{r.session, r.epoch, kind, p.Args[0].Word}}
		}
	}
	return nil
}
