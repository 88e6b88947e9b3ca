// This file lets a client run firmware of its own on a board, as a place of its tuning run. These functions are not of
// TVM: docs/formats/rpc_tcp.md §6.

package serve

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Place is a Board that also runs firmware of a client: a run of package tune with tune.Remote. After Prepare, Reset
// or Link, the methods of Board other than Release and Close follow only Release. The caller has closed the link before
// any other call.
type Place interface {
	Board

	// Describe returns a JSON value by which the client checks that it has built its images for this board.
	Describe() (json.RawMessage, error)
	// Prepare puts an image onto the board, as its own images, and returns a JSON value about that. Image and description
	// are the client's, and hostile. An image of another board is an error of class config.
	Prepare(ctx context.Context, description, image []byte) (json.RawMessage, error)
	// Reset resets the board. try counts the resets in a row from 1; later ones use stronger means.
	Reset(ctx context.Context, try int) error
	// Link opens the byte link of the image that Prepare put onto the board. The caller closes it.
	Link(ctx context.Context) (transport.Link, error)
}

// A placeFunction is a function of a Place.
type placeFunction func(ctx context.Context, q *session, p Place, args []tvmrpc.Value) (json.RawMessage, error)

// ofPlace returns the server's function for one of a Place. It ends what the client had on the board before, and its
// time does not count as the session's.
func ofPlace(f placeFunction, types ...tvmrpc.TypeCode) ownFunction {
	return func(ctx context.Context, q *session, args []tvmrpc.Value) (*tvmrpc.Packet, error) {
		if err := checkTypes(args, types...); err != nil {
			return nil, err
		}

		p, ok := q.server.board.(Place)
		if !ok {
			// A result, not an Exception, so that the client gets the error's class.
			err := failure.Errorf(failure.Config, "firmware of a client cannot run on this board")
			return resultReply(tvmrpc.TypeStr, tvmrpc.Text(boardclient.NewReply(nil, err))), nil
		}

		ctx, done := q.limitLoad(ctx)
		defer done()
		result, err := f(ctx, q, p, args)
		return resultReply(tvmrpc.TypeStr, tvmrpc.Text(boardclient.NewReply(result, err))), nil
	}
}

func describe(_ context.Context, _ *session, p Place, _ []tvmrpc.Value) (json.RawMessage, error) {
	return p.Describe()
}

func prepare(ctx context.Context, q *session, p Place, args []tvmrpc.Value) (json.RawMessage, error) {
	q.takePlace()
	q.server.o.emit(Event{Client: q.client, Text: "loading"})
	return p.Prepare(ctx, args[0].Data, args[1].Data)
}

func reset(ctx context.Context, q *session, p Place, args []tvmrpc.Value) (json.RawMessage, error) {
	q.takePlace()
	return nil, p.Reset(ctx, int(min(args[0].Word, 1<<10)))
}

func openLink(ctx context.Context, q *session, p Place, _ []tvmrpc.Value) (json.RawMessage, error) {
	q.takePlace()
	link, err := p.Link(ctx)
	if err != nil {
		return nil, err
	}

	q.server.o.emit(Event{Client: q.client, Text: "measuring"})
	q.link = &placeLink{Link: link}
	bounded, ok := link.(interface{ Bounded() bool })
	return json.Marshal(boardclient.LinkFacts{Lossy: link.Lossy(), Bounded: ok && bounded.Bounded()})
}

// takePlace ends the session's earlier use of the board: TVM's requests fail from now on.
func (q *session) takePlace() {
	q.closeLink()
	q.forget()
	q.used, q.board = true, nil
	q.lost = failure.Errorf(failure.Config, "the board has firmware of this client")
}

// A placeLink is the open link of a session. One goroutine reads it, and the session's writes.
type placeLink struct {
	transport.Link
	stop func() // ends and awaits the goroutine that reads; nil: it was not started
	end  sync.Once
}

// closeLink closes the link, if there is one.
func (q *session) closeLink() {
	l := q.link
	if l == nil {
		return
	}

	q.link = nil
	if l.stop != nil {
		l.stop()
	}
	_ = l.Close()
}

// forward begins to send what the board sends, once the reply with the link was sent.
func (q *session) forward(ctx context.Context) {
	l := q.link
	if l == nil || l.stop != nil {
		return
	}

	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	l.stop = func() {
		cancel()
		<-done
	}

	q.server.goroutines.Go(func() {
		defer close(done)
		buf := make([]byte, boardclient.LinkChunk)
		for {
			n, err := l.Read(ctx, buf)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				q.sendEnd(l, err)
				return
			case q.send(boardclient.LinkPacket(boardclient.CodeLinkBytes, buf[:n])) != nil:
				_ = q.conn.Close() // an unknown part was sent
				return
			}
		}
	})
}

// sendEnd tells the client that the link has ended, once.
func (q *session) sendEnd(l *placeLink, err error) {
	l.end.Do(func() {
		if q.send(boardclient.LinkPacket(boardclient.CodeLinkEnd, []byte(boardclient.NewReply(nil, err)))) != nil {
			_ = q.conn.Close()
		}
	})
}

// writeLink writes bytes of the client to the link; without one, to nowhere: it may have ended meanwhile.
func (q *session) writeLink(ctx context.Context, data []byte) {
	l := q.link
	if l == nil || l.stop == nil {
		return
	}

	// A client that writes uses its session.
	q.restartClock()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := l.Write(ctx, data); err != nil {
		l.stop()
		q.sendEnd(l, err)
	}
}

// send sends a packet. The goroutine that reads the link sends beside the session's.
func (q *session) send(msg []byte) error {
	q.sending.Lock()
	defer q.sending.Unlock()
	return writeAll(q.conn, msg)
}
