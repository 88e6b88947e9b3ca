// This file carries out system calls, copies and calls of functions; those of the server have handles of their own.

package serve

import (
	"context"
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// ownHandles begins the handles of the server. Those of boards are below 2^32 or are sign-extended from 32 bits.
const ownHandles = 0x4253_0000_0000_0000

// Codes of packets that boards do not have.
const codeCurrentStream tvmrpc.Code = 21

// maxOwn bounds the objects of the server that a session has at once.
const maxOwn = 1 << 16

// A function is one of the server's, by its name.
type function string

// A module is one that was loaded: the board's handle.
type module struct{ handle uint64 }

// handle carries out a request.
func (q *session) handle(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	if p.Code == tvmrpc.CodeFreeHandle && len(p.Args) == 1 { // TVM 0.21 and later name no type
		p.Args = append(p.Args, tvmrpc.Int(0))
	}
	if p.Code >= tvmrpc.CodeGetGlobalFunc && p.Code <= tvmrpc.CodeSetStream {
		if err := p.CheckArgs(); err != nil {
			return nil, err
		}
	}
	switch p.Code {
	case tvmrpc.CodeSetDevice, tvmrpc.CodeStreamSync, tvmrpc.CodeFreeStream, tvmrpc.CodeSetStream:
		return void, nil
	case tvmrpc.CodeCreateStream, codeCurrentStream:
		return handleReply(0), nil
	case tvmrpc.CodeGetAttr:
		return attribute(p.Args[1].Word), nil
	case tvmrpc.CodeGetGlobalFunc:
		return q.getGlobal(ctx, string(p.Args[0].Data))
	case tvmrpc.CodeCallFunc:
		return q.call(ctx, p)
	case tvmrpc.CodeFreeHandle:
		return q.freeHandle(ctx, p.Args[0].Word)
	case tvmrpc.CodeFreeData:
		return q.freeData(ctx, p)
	case tvmrpc.CodeAllocData, tvmrpc.CodeAllocDataWithScope:
		return q.remember(ctx, p, 0, tvmrpc.TypeHandle)
	case tvmrpc.CodeCopyAmongRemote, tvmrpc.CodeCopyToRemote:
		return q.do(ctx, p)
	case tvmrpc.CodeCopyFromRemote:
		if p.Size > uint64(q.server.o.MaxUpload) {
			return nil, failure.Errorf(failure.Config, "a copy of %d bytes: at most %d are possible", p.Size,
				q.server.o.MaxUpload)
		}
		return q.do(ctx, p)
	}
	return nil, failure.Errorf(failure.Config, "a board does not carry out %v", p.Code)
}

// attribute is the reply to a query of the CPU: it exists, and has no further attributes.
func attribute(kind uint64) *tvmrpc.Packet {
	if kind == 0 {
		return &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Int(1)}}
	}
	return void
}

// remember passes on a request whose reply has a handle at position i, and records the type of the handle.
func (q *session) remember(ctx context.Context, p *tvmrpc.Packet, i int, kind tvmrpc.TypeCode) (*tvmrpc.Packet, error) {
	reply, err := q.do(ctx, p)
	if err == nil && i < len(reply.Args) && reply.Args[i].Type == tvmrpc.TypeHandle && reply.Args[i].Word != 0 {
		q.kinds[reply.Args[i].Word] = kind
	}
	return reply, err
}

// getGlobal looks up a function of the server or of the board.
func (q *session) getGlobal(ctx context.Context, name string) (*tvmrpc.Packet, error) {
	if ownFunctions[name] != nil {
		h, err := q.add(function(name))
		return handleReply(h), err
	}
	if same, ok := boardNames[name]; ok {
		name = same
	}
	h, err := q.lookup(ctx, name)
	return handleReply(h), err
}

// lookup returns the board's handle of a global function, 0 if it has none.
func (q *session) lookup(ctx context.Context, name string) (uint64, error) {
	if h, ok := q.lookups[name]; ok && q.lost == nil {
		return h, nil
	}
	reply, err := q.remember(ctx, &tvmrpc.Packet{
		Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text(name)},
	}, 0, tvmrpc.TypeFunction)
	if err != nil {
		return 0, err
	}
	h := reply.Args[0].Word
	if h != 0 {
		q.lookups[name] = h
	}
	return h, nil
}

// add gives an object of the server a handle.
func (q *session) add(object any) (uint64, error) {
	if len(q.own) >= maxOwn {
		return 0, failure.Errorf(failure.Config, "the session has %d objects of the server", len(q.own))
	}
	q.created++
	h := ownHandles + q.created
	q.own[h] = object
	return h, nil
}

func isOwn(h uint64) bool { return h&^0xFFFF_FFFF == ownHandles }

// call calls a function of the server or of the board.
func (q *session) call(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	if !isOwn(p.Handle) {
		return q.callBoard(ctx, p)
	}
	switch f := q.own[p.Handle].(type) {
	case function:
		reply, err := ownFunctions[string(f)](ctx, q, p.Args)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", string(f), err)
		}
		return reply, nil
	case *evaluator:
		return q.evaluate(ctx, f, p.Args)
	}
	return nil, failure.Errorf(failure.Config, "the function was freed")
}

// callBoard calls a function of the board.
func (q *session) callBoard(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	for i := range p.Args {
		if err := q.toBoard(&p.Args[i]); err != nil {
			return nil, err
		}
	}
	reply, err := q.do(ctx, p)
	if err != nil || len(reply.Args) < 2 {
		return reply, err
	}
	switch kind := tvmrpc.TypeCode(reply.Args[0].Word); kind {
	case tvmrpc.TypeModule, tvmrpc.TypeFunction:
		q.kinds[reply.Args[1].Word] = kind
	case tvmrpc.TypeNDArray:
		q.kinds[reply.Args[len(reply.Args)-1].Word] = kind
	}
	return reply, nil
}

// toBoard replaces the server's handle of a module by the board's.
func (q *session) toBoard(v *tvmrpc.Value) error {
	if v.Type != tvmrpc.TypeModule && v.Type != tvmrpc.TypeFunction || !isOwn(v.Word) {
		return nil
	}
	m, ok := q.own[v.Word].(*module)
	if !ok {
		return failure.Errorf(failure.Config, "an argument is an object of the server, not of the board")
	}
	v.Word = m.handle
	return nil
}

// freeHandle frees an object. Handles that are unknown are ignored: TVM 0.21 to 0.23 free a returned tensor by the
// address of its data.
func (q *session) freeHandle(ctx context.Context, h uint64) (*tvmrpc.Packet, error) {
	if isOwn(h) {
		delete(q.own, h)
		return void, nil
	}
	kind, ok := q.kinds[h]
	if !ok || q.lost != nil || kind == tvmrpc.TypeFunction || kind == tvmrpc.TypeHandle {
		return void, nil
	}
	reply, err := q.do(ctx, &tvmrpc.Packet{
		Code: tvmrpc.CodeFreeHandle, Args: []tvmrpc.Value{tvmrpc.Opaque(h), tvmrpc.Int(int64(kind))},
	})
	return reply, err
}

// freeData frees memory that the client allocated.
func (q *session) freeData(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	h := p.Args[1].Word
	if q.kinds[h] != tvmrpc.TypeHandle || q.lost != nil {
		return void, nil
	}
	delete(q.kinds, h)
	return q.do(ctx, p)
}
