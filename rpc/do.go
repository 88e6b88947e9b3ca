// This file passes on requests of other clients, such as a gateway's.

package rpc

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// Do passes a request through to the device. It is for servers inside of this module, such as package serve: a program
// calls functions. A copy may have any length: Do splits it into as many messages as the device needs. The answer is an
// Exception if the device rejects the request, or if the request would hang a reference firmware (a system call with
// wrong arguments); an error means that there is no answer. ctx's deadline is a call's time budget; boardsmith.budget
// does not affect later calls. Handles are the device's: those from before a reset must not be used after it. What
// requests create, the caller frees by further requests, or Renew at once.
//
// Do returns an error of class config for a packet that is not a request, and for Shutdown, which would stop the
// device for all clients. It does not change p; the answer shares no memory with p or the session.
func (s *Session) Do(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	switch p.Code {
	case tvmrpc.CodeNone, tvmrpc.CodeShutdown, tvmrpc.CodeReturn, tvmrpc.CodeException, tvmrpc.CodeCopyAck:
		return nil, failure.Errorf(failure.Config, "%v cannot be passed through", p.Code)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()

	if err := checkRequest(p); err != nil {
		return tvmrpc.Exception(err.Error()), nil
	}

	reply, err := s.pass(ctx, p)
	if text, ok := exceptionText(err); ok {
		return tvmrpc.Exception(text), nil
	}
	if err != nil {
		return nil, err
	}

	var answer tvmrpc.Packet
	return &answer, answer.Parse(reply.Append(nil)) // a copy
}

// exceptionText returns the text of an Exception for an error that ended a request but not the session.
func exceptionText(err error) (text string, ok bool) {
	var device *DeviceError
	switch {
	case errors.As(err, &device):
		return device.Message, true
	case errors.Is(err, errTooLong), errors.Is(err, ErrDamagedCopy):
		return err.Error(), true
	}
	return "", false
}

// kindsOfHandle lists the types that FreeHandle accepts. Functions need not be freed.
var kindsOfHandle = []tvmrpc.TypeCode{tvmrpc.TypeModule, tvmrpc.TypeFunction, tvmrpc.TypeNDArray}

// checkRequest returns an error for a request that no device can carry out.
func checkRequest(p *tvmrpc.Packet) error {
	if err := p.CheckArgs(); err != nil {
		return err
	}

	switch p.Code {
	case tvmrpc.CodeFreeHandle:
		if kind := tvmrpc.TypeCode(p.Args[1].Word); !slices.Contains(kindsOfHandle, kind) {
			return tvmrpc.Errorf("a handle of type %d cannot be freed", kind)
		}
	case tvmrpc.CodeCopyFromRemote:
		if p.Size > math.MaxInt32 {
			return tvmrpc.Errorf("invalid size of a copy: %d bytes", p.Size)
		}
	}
	return nil
}

// pass sends the caller's request and receives the reply, which is valid until the next exchange.
func (s *Session) pass(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	switch p.Code {
	case tvmrpc.CodeCopyToRemote:
		// Copies may take several messages, and damage to them is repaired.
		return &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Null()}}, s.write(ctx, p.Tensor, p.Data)
	case tvmrpc.CodeCopyFromRemote:
		data, err := s.read(ctx, p.Tensor, int(p.Size), nil)
		return &tvmrpc.Packet{Code: tvmrpc.CodeCopyAck, Data: data}, err
	case tvmrpc.CodeCallFunc:
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
func (s *Session) observe(p *tvmrpc.Packet) {
	args, results := p.Args, s.reply.Args

	switch {
	case p.Code == tvmrpc.CodeGetGlobalFunc && len(results) == 1:
		s.names[uint32(results[0].Word)] = string(args[0].Data)
	case p.Code != tvmrpc.CodeCallFunc:
	case s.names[uint32(p.Handle)] == moduleGetFunction && len(args) > 1 && len(results) == 2:
		s.names[uint32(results[1].Word)] = string(args[1].Data)
	case s.names[uint32(p.Handle)] == budgetFunction:
		// It may differ from the session's: the next call sends its own.
		s.grants.granted = 0
	}
}
