// This file carries out the requests of one client.

package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A session is the use of the board by one client. One goroutine uses it.
type session struct {
	server   *server
	client   string // address
	era      era
	begun    bool // InitServer was answered
	timeout  time.Duration
	deadline time.Time
	uploads  uploads

	board   *rpc.Session               // nil: not opened yet
	lost    error                      // ended what the client had on the board; nil: nothing is lost
	kinds   map[uint64]tvmrpc.TypeCode // of the board's tensors that the client has had; TypeHandle: memory
	tensors int                        // of the board that the client has not freed
	lookups map[string]uint64          // handles of the board's global functions
	named   map[string]uint64          // handles in own of the board's global functions
	own     map[uint64]any             // functions, objects and evaluators by handle
	created uint64                     // objects in own, with those that were freed
	model   *object                    // the module with which the session began; nil: none
	latest  *evaluator                 // that the board has
	used    bool                       // the board

	conn    net.Conn
	sending sync.Mutex
	link    *placeLink // of the client's own firmware; nil: none is open
}

// errSession ends a session without a reply.
var errSession = errors.New("session ended")

// serveSession serves a client until it disconnects, its time is over, or ctx ends.
func (s *server) serveSession(ctx context.Context, c net.Conn, h hello, packets *receiver) {
	q := &session{
		server: s, client: c.RemoteAddr().String(), kinds: map[uint64]tvmrpc.TypeCode{}, lookups: map[string]uint64{},
		named: map[string]uint64{}, own: map[uint64]any{}, timeout: h.timeout, conn: c,
		uploads: uploads{parent: s.o.Folder, limit: int64(s.o.MaxUpload)},
	}
	if q.timeout == 0 {
		q.timeout = s.o.SessionTimeout
	}

	q.restartClock()
	s.o.emit(Event{Client: q.client, Text: "session"})

	defer func() {
		// ctx has ended if the client has disconnected: the board is released all the same.
		err := q.end(context.WithoutCancel(ctx))
		s.o.emit(Event{Text: "idle", Err: err})
	}()

	for {
		reply, err := q.next(ctx, packets)
		if reply != nil && q.send(reply) != nil || err != nil {
			return
		}
		q.forward(ctx)
	}
}

func (q *session) restartClock() { q.deadline = time.Now().Add(q.timeout) }

// next waits for a packet and returns the reply, nil for none. After an error the session ends.
func (q *session) next(ctx context.Context, packets *receiver) ([]byte, error) {
	ended := time.NewTimer(time.Until(q.deadline))
	defer ended.Stop()

	select {
	case msg, ok := <-packets.packets:
		if !ok {
			if errors.Is(packets.err, errLong) {
				return q.era.encode(tvmrpc.Exception(packets.err.Error())), errSession
			}
			return nil, errSession
		}
		packets.ahead.Add(-int64(len(msg)))
		return q.respond(ctx, msg)
	case <-ended.C:
		if q.era == unknownEra {
			return nil, errSession // in which encoding?
		}
		return q.expire()
	case <-ctx.Done():
		return nil, errSession
	}
}

// expire returns the Exception by which a client learns that its time is over.
func (q *session) expire() ([]byte, error) {
	text := fmt.Sprintf(`RPCSessionTimeoutError: Your %ss session has expired, try to increase the "session_timeout" value.`,
		seconds(q.timeout))
	return q.era.encode(tvmrpc.Exception(text)), errSession
}

// seconds is Python's text of a floating point number of seconds.
func seconds(d time.Duration) string {
	text := fmt.Sprintf("%g", d.Seconds())
	if d%time.Second == 0 {
		text = fmt.Sprintf("%.1f", d.Seconds())
	}
	return text
}

// respond carries out a request and returns the reply.
func (q *session) respond(ctx context.Context, msg []byte) ([]byte, error) {
	if data, ok := boardclient.LinkBytes(msg); ok {
		q.writeLink(ctx, data)
		return nil, nil
	}

	if q.era == unknownEra {
		q.era = detect(msg)
	}

	p, err := q.era.decode(msg)
	switch {
	case err != nil && !q.begun:
		return q.exception(err), errSession
	case err != nil:
		return q.exception(err), nil
	case p.Code == tvmrpc.CodeShutdown:
		return nil, errSession
	case !q.begun:
		reply, err := q.initServer(ctx, p)
		if err != nil {
			return q.exception(err), errSession
		}
		return q.era.encode(reply), nil
	}

	reply, err := q.handle(ctx, p)
	switch {
	case ctx.Err() != nil:
		return nil, errSession
	// A call's budget ends with the session's time.
	case err != nil && (time.Now().After(q.deadline) || isBudget(err)):
		return q.expire()
	case err != nil:
		q.server.o.emit(Event{Client: q.client, Text: p.Code.String(), Err: err})
		return q.exception(err), nil
	}
	return q.era.encode(reply), nil
}

// isBudget reports whether the board stopped a call because the session's time was over.
func isBudget(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Record != nil && f.Record.Reason == fault.ReasonTimeout
}

func (q *session) exception(err error) []byte {
	text := err.Error()
	var device *rpc.DeviceError
	if errors.As(err, &device) {
		text = strings.TrimPrefix(device.Error(), "device: ")
	} else if next := failure.Next(err); next != "" {
		text += "\n" + next
	}
	return q.era.encode(tvmrpc.Exception(text))
}

var (
	void = &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Null()}}
	none = &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Int(int64(tvmrpc.TypeNull)), tvmrpc.Null()}}
)

func handleReply(h uint64) *tvmrpc.Packet {
	return &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Opaque(h)}}
}

// resultReply is the reply to a call with a result of a type that is sent as v.
func resultReply(kind tvmrpc.TypeCode, v tvmrpc.Value) *tvmrpc.Packet {
	return &tvmrpc.Packet{Code: tvmrpc.CodeReturn, Args: []tvmrpc.Value{tvmrpc.Int(int64(kind)), v}}
}

// modelSession is the constructor by which AutoTVM's module loader begins a session (rpc_tcp.md §5.4).
const modelSession = "tvm.micro.compile_and_create_micro_session"

// initServer begins the session with its first request. Its reply has no value, which both eras accept.
func (q *session) initServer(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	switch {
	case p.Code != tvmrpc.CodeInitServer:
		return nil, failure.Errorf(failure.Config, "%v before InitServer", p.Code)
	case string(p.Version) != protocol:
		return nil, failure.Errorf(failure.Config, "RPC protocol version %.40q: it must be %s", p.Version, protocol)
	}

	if len(p.Args) > 0 {
		if err := q.construct(ctx, p.Args); err != nil {
			return nil, err
		}
	}

	q.begun = true
	return &tvmrpc.Packet{Code: tvmrpc.CodeReturn}, nil
}

// construct begins a session with a model's archive.
func (q *session) construct(ctx context.Context, args []tvmrpc.Value) error {
	if args[0].Type != tvmrpc.TypeStr || string(args[0].Data) != modelSession || len(args) < 2 {
		return failure.Errorf(failure.Config, "session constructor %.100q: the only one of a board is %s, with an archive",
			args[0].Data, modelSession)
	}
	if args[1].Type != tvmrpc.TypeBytes {
		return failure.Errorf(failure.Config, "%s: the archive is not bytes", modelSession)
	}

	h, err := q.load(ctx, func(ctx context.Context) (rpc.Module, error) {
		return q.server.board.Load(ctx, args[1].Data)
	})
	q.model, _ = q.own[h].(*object) // it stays until the session ends
	return err
}

// limitLoad limits a use of the board that does not count as the session's time. done ends it.
func (q *session) limitLoad(ctx context.Context) (limited context.Context, done func()) {
	d := q.server.o.LoadTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("it took longer than %v", d))
	return ctx, func() {
		cancel()
		q.restartClock()
	}
}

// load loads a module, which does not count as the session's time, takes its session, and returns the module's handle.
func (q *session) load(ctx context.Context, load func(context.Context) (rpc.Module, error)) (uint64, error) {
	q.server.o.emit(Event{Client: q.client, Text: "loading"})
	ctx, done := q.limitLoad(ctx)
	defer done()

	// Also after a load that fails, Release must follow.
	q.used = true
	m, err := load(ctx)
	if err != nil {
		return 0, err
	}

	if q.board != nil && q.board != m.Session() {
		q.forget()
	}
	q.board = m.Session()
	return q.add(&object{q.board, &module{Module: m}, tvmrpc.TypeModule, uint64(m.Handle())})
}

// forget records that new firmware replaced what the client had on the board.
func (q *session) forget() {
	if q.tensors > 0 {
		q.lost = failure.New(failure.Config, "load the module before tensors are allocated",
			"the tensors were lost because the module did not fit beside the firmware, which was replaced")
	}

	q.lookups, q.kinds = map[string]uint64{}, map[uint64]tvmrpc.TypeCode{}
	q.tensors, q.latest = 0, nil
}

// open returns the session with the board, which it opens at the first use: clients connect without using it.
func (q *session) open(ctx context.Context) (*rpc.Session, error) {
	if q.lost != nil {
		return nil, fmt.Errorf("what the session had on the board is lost: %w", q.lost)
	}
	if q.board != nil {
		return q.board, nil
	}

	ctx, done := q.limitLoad(ctx)
	defer done()
	q.used = true
	board, err := q.server.board.Open(ctx)
	if err != nil {
		return nil, err
	}

	q.board = board
	return board, nil
}

// do passes a request to the board. An Exception is an error.
func (q *session) do(ctx context.Context, p *tvmrpc.Packet) (*tvmrpc.Packet, error) {
	board, err := q.open(ctx)
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithDeadline(ctx, q.deadline)
	defer cancel()
	a, err := board.Do(ctx, p)
	if err != nil {
		// There is no answer: see rpc.Session.Do.
		q.lost = err
		return nil, fmt.Errorf("the board stopped: %w", err)
	}
	if a.Code == tvmrpc.CodeException {
		return nil, &rpc.DeviceError{Message: string(a.Args[0].Data)}
	}
	return a, nil
}

// end removes what the client left on the board and in its folder.
func (q *session) end(ctx context.Context) error {
	if q.link != nil {
		_ = q.conn.Close() // sending to a client that does not read would wait
		q.closeLink()
	}

	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()

	err := q.uploads.remove()
	if q.used {
		err = errors.Join(err, q.server.board.Release(ctx))
	}
	return err
}
