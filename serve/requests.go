// This file carries out system calls, copies and calls of functions; those of the server have handles of their own.

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// ownHandles begins the handles of the server. Those of boards are below 2^32 or are sign-extended from 32 bits.
const ownHandles = 0x4253_0000_0000_0000

// Codes of packets that boards do not have.
const codeCurrentStream tvmrpc.Code = 21

// maxOwn bounds the objects of the server that a session has at once.
const maxOwn = 1 << 16

// A function is one of the server's, by its name.
type function string

// A boardFunction is a global function of the board, by its name.
type boardFunction string

// An object is a function or a module of the board. It is lost with the firmware, and with the module that it is of.
type object struct {
	session *rpc.Session
	module  *module // that was loaded; nil: of the firmware
	kind    tvmrpc.TypeCode
	handle  uint64
}

// A module is one that was loaded. It is unlinked when the client has freed it, and all objects that are of it.
type module struct {
	rpc.Module
	objects int // that the client has
}

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
	// A board has one device, and has carried out a request before it replies.
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
		q.tensors++
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
	if err != nil || h == 0 {
		return handleReply(0), err
	}

	// Clients get a handle of the server, which stays valid when the firmware is replaced.
	if q.named[name] == 0 {
		q.named[name], err = q.add(boardFunction(name))
	}
	return handleReply(q.named[name]), err
}

// lookup returns the board's handle of a global function, 0 if it has none.
func (q *session) lookup(ctx context.Context, name string) (uint64, error) {
	// Of a board that is lost, the request returns the error.
	if h, ok := q.lookups[name]; ok && q.lost == nil {
		return h, nil
	}

	reply, err := q.do(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text(name)}})
	if err != nil {
		return 0, err
	}

	h := reply.Args[0].Word
	if h != 0 {
		q.lookups[name] = h
	}
	return h, nil
}

// add gives a function, a module or an evaluator a handle. Handles are not used again.
func (q *session) add(what any) (uint64, error) {
	if len(q.own) >= maxOwn {
		return 0, failure.New(failure.Config, "free functions and modules", "the session has %d of them", len(q.own))
	}

	if m := moduleOf(what); m != nil {
		m.objects++
	}

	q.created++
	h := ownHandles + q.created
	q.own[h] = what
	return h, nil
}

// moduleOf returns the loaded module that something is of, or nil.
func moduleOf(what any) *module {
	switch o := what.(type) {
	case *object:
		return o.module
	case *evaluator:
		return o.of.module
	}
	return nil
}

func isOwn(h uint64) bool { return h&^0xFFFF_FFFF == ownHandles }

// call calls a function of the server or of the board.
func (q *session) call(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	if !isOwn(p.Handle) {
		return q.callBoard(ctx, p, nil)
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

	m, err := q.toBoard(ctx, &p.Handle)
	if err != nil {
		return nil, err
	}
	return q.callBoard(ctx, p, m)
}

// callBoard calls a function of the board, which is of module m. So are the objects that it returns; of a function of
// the firmware, they are of the module among the arguments.
func (q *session) callBoard(ctx context.Context, p *tvmrpc.Packet, m *module) (*tvmrpc.Packet, error) {
	for i, v := range p.Args {
		if v.Type != tvmrpc.TypeModule && v.Type != tvmrpc.TypeFunction || !isOwn(v.Word) {
			continue
		}
		of, err := q.toBoard(ctx, &p.Args[i].Word)
		if err != nil {
			return nil, err
		}
		m = cmp.Or(m, of)
	}

	reply, err := q.do(ctx, p)
	if err != nil || len(reply.Args) < 2 {
		return reply, err
	}

	switch kind := tvmrpc.TypeCode(reply.Args[0].Word); kind {
	case tvmrpc.TypeModule, tvmrpc.TypeFunction:
		if reply.Args[1].Word == 0 { // none
			return reply, nil
		}
		reply.Args[1].Word, err = q.add(&object{q.board, m, kind, reply.Args[1].Word})
	case tvmrpc.TypeNDArray:
		// The last value is the handle that frees the array.
		q.kinds[reply.Args[len(reply.Args)-1].Word] = kind
		q.tensors++
	}
	return reply, err
}

// toBoard replaces a handle of the server by the board's. It returns the loaded module that the object is of, or nil.
func (q *session) toBoard(ctx context.Context, handle *uint64) (m *module, err error) {
	switch o := q.own[*handle].(type) {
	case nil:
		return nil, failure.Errorf(failure.Config, "the function or module was freed")
	case boardFunction:
		if *handle, err = q.lookup(ctx, string(o)); err == nil && *handle == 0 {
			err = failure.Errorf(failure.Config, "the firmware that replaced the former one has no function %s", string(o))
		}
		return nil, err
	case *object:
		*handle = o.handle
		return o.module, q.check(ctx, o)
	}
	return nil, failure.Errorf(failure.Config, "an argument is a function of the server, not of the board")
}

// check returns an error if the board has lost an object. Its handle may be another one's by now.
func (q *session) check(ctx context.Context, o *object) error {
	switch {
	case q.lost != nil:
		return nil // the request reports it
	case o.session != q.board:
		return failure.New(failure.Config, "load the module again",
			"the module was lost: a later one did not fit beside the firmware, which was replaced")
	case o.module == nil:
		return nil
	}

	err := o.module.Check(ctx)
	if errors.Is(err, rpc.ErrBroken) {
		return err
	}

	if failure.Of(err) == failure.Config || errors.Is(err, rpc.ErrStale) {
		return failure.New(failure.Config, "load the module again, and free those that are not used any more",
			"the module was unlinked: a later one did not fit beside it")
	}
	return err
}

// freeHandle frees an object. Handles that are unknown are ignored: TVM 0.21 to 0.23 free a returned tensor by the
// address of its data.
func (q *session) freeHandle(ctx context.Context, h uint64) (*tvmrpc.Packet, error) {
	if isOwn(h) {
		return q.freeOwn(ctx, h)
	}

	kind, ok := q.kinds[h]
	// TypeHandle is memory, which FreeData frees.
	if !ok || q.lost != nil || kind == tvmrpc.TypeHandle {
		return void, nil
	}

	reply, err := q.freeOnBoard(ctx, h, kind)
	if err == nil {
		delete(q.kinds, h)
		q.tensors--
	}
	return reply, err
}

func (q *session) freeOnBoard(ctx context.Context, h uint64, kind tvmrpc.TypeCode) (*tvmrpc.Packet, error) {
	return q.do(ctx, &tvmrpc.Packet{
		Code: tvmrpc.CodeFreeHandle, Args: []tvmrpc.Value{tvmrpc.Opaque(h), tvmrpc.Int(int64(kind))},
	})
}

// freeOwn frees what has a handle of the server. Global functions stay: their handles are given again.
func (q *session) freeOwn(ctx context.Context, h uint64) (*tvmrpc.Packet, error) {
	what := q.own[h]
	if _, ok := what.(boardFunction); ok {
		return void, nil
	}

	delete(q.own, h)
	if q.lost != nil {
		return void, nil
	}

	// A loaded module's own handle is freed by Unlink.
	o, _ := what.(*object)
	if o != nil && o.kind == tvmrpc.TypeModule && (o.module == nil || o.handle != uint64(o.module.Handle())) &&
		q.check(ctx, o) == nil {
		if _, err := q.freeOnBoard(ctx, o.handle, o.kind); err != nil {
			return nil, err
		}
	}

	m := moduleOf(what)
	if m == nil {
		return void, nil
	}

	// A module is unlinked with the last of its objects.
	if m.objects--; m.objects > 0 || m.Check(ctx) != nil {
		return void, nil
	}

	ctx, cancel := context.WithDeadline(ctx, q.deadline)
	defer cancel()
	return void, m.Unlink(ctx)
}

// freeData frees memory that the client allocated.
func (q *session) freeData(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	h := p.Args[1].Word
	if q.kinds[h] != tvmrpc.TypeHandle || q.lost != nil {
		return void, nil
	}

	delete(q.kinds, h)
	q.tensors--
	return q.do(ctx, p)
}
