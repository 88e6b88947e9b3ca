package serve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// Options configure Serve. The zero value serves clients of any address, with the empty key, without a tracker.
type Options struct {
	Key     string         // of the board at the tracker, or of clients; no white space and no colon
	Tracker string         // host:port of TVM's tracker; "": none
	Address string         // under which clients reach the listener; "": the one that the tracker sees
	Allow   []netip.Prefix // networks of clients, those of IPv4 also as ::ffff:…; nil: all

	// Folder is where the uploads of a session are stored, which end with it; "": the system's for temporary files.
	Folder string
	// MaxUpload is the size in bytes of the longest packet of a client, and of all uploads of a session; 0: 64 MiB.
	MaxUpload int
	// SessionTimeout ends sessions of clients that name no time of their own; 0: an hour.
	SessionTimeout time.Duration
	// LoadTimeout is the time to build and load a module, which does not count as the session's; 0: 10 minutes.
	LoadTimeout time.Duration
	OnEvent     func(Event) // called from several goroutines; nil: not called
}

// An Event is a change of a served board.
type Event struct {
	Client string // address of the client; "": none
	Text   string // "idle", "waiting", "session", "loading", "measuring", or of the tracker: "joined tracker HOST:PORT"
	Err    error  // of a client's request, or of the tracker's connection
}

func (o *Options) emit(e Event) {
	if o.OnEvent != nil {
		o.OnEvent(e)
	}
}

const (
	maxSilent    = 128     // connections that have not begun a session; one more waits for a place, or closes the oldest
	maxWaiting   = 64      // clients that wait for the board; one more is refused
	maxAhead     = 1 << 20 // bytes of a packet that are received from a client that waits
	maxCopy      = 16 << 20
	silentTime   = 500 * time.Millisecond // after which a silent connection may be closed
	releaseLimit = 30 * time.Second
)

func (o Options) withDefaults() Options {
	if o.MaxUpload <= 0 {
		o.MaxUpload = 64 << 20
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = time.Hour
	}
	if o.LoadTimeout <= 0 {
		o.LoadTimeout = 10 * time.Minute
	}
	return o
}

// Check returns an error of class config for a key that TVM's clients and tracker cannot use. They split texts at white
// space and at colons.
func (o Options) Check() error {
	const longest = 255
	unusable := func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsGraphic(r) }

	switch {
	case o.Tracker != "" && o.Key == "":
		return failure.New(failure.Config, "choose a key", "tracker %s: a board needs a key there", o.Tracker)
	case len(o.Key) > longest || !utf8.ValidString(o.Key) || strings.ContainsFunc(o.Key, unusable):
		return failure.New(failure.Config, "choose another key", "key %.50q: TVM's keys have at most %d bytes, and neither "+
			"white space nor colons nor control characters", o.Key, longest)
	}
	return nil
}

// Serve serves a board to one client at a time until ctx ends, then ends the sessions and returns nil. It closes l, but
// not the board. TVM's protocol has neither passwords nor encryption: whoever reaches l runs code on the board. Errors:
// those of Check and of l.
func Serve(ctx context.Context, l net.Listener, b Board, o Options) error {
	if err := o.Check(); err != nil {
		return errors.Join(err, l.Close())
	}

	ctx, cancel := context.WithCancel(ctx)
	s := &server{
		o: o.withDefaults(), board: b, silent: silentConns{place: make(chan struct{}, 1)},
		waiting: make(chan struct{}, maxWaiting), turn: make(chan struct{}, 1),
	}
	s.keys.init(o)

	// Deferred calls run in reverse order: cancel, then Wait.
	defer s.goroutines.Wait()
	defer cancel()
	if o.Tracker != "" {
		s.goroutines.Go(func() { s.joinTracker(ctx, l.Addr()) })
	}

	s.goroutines.Go(func() {
		<-ctx.Done()
		_ = l.Close()
	})

	s.o.emit(Event{Text: "idle"})
	return s.accept(ctx, l)
}

// A server serves one board.
type server struct {
	o          Options
	board      Board
	silent     silentConns
	waiting    chan struct{} // holds a token per client that waits
	turn       chan struct{} // holds a token while a client is served
	goroutines sync.WaitGroup
	keys       keys
}

// accept accepts clients until ctx ends.
func (s *server) accept(ctx context.Context, l net.Listener) error {
	for reported := ""; ; {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return failure.Errorf(failure.Transport, "%w", err)
		case err != nil: // of one connection, or descriptors are short
			// One report for a series of equal errors.
			if err.Error() != reported {
				reported = err.Error()
				s.o.emit(Event{Text: "connection failed", Err: err})
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}

		s.silent.add(ctx, c)
		s.goroutines.Go(func() { s.serve(ctx, c) })
	}
}

// allows reports whether a client may connect from an address.
func (s *server) allows(a net.Addr) bool {
	if s.o.Allow == nil {
		return true
	}

	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return false
	}

	address := at.Addr().Unmap().WithZone("") // networks have no zones
	mapped := netip.AddrFrom16(address.As16())
	return slices.ContainsFunc(s.o.Allow, func(p netip.Prefix) bool {
		return p.Contains(address) || p.Addr().Is4In6() && p.Contains(mapped)
	})
}

// serve serves one connection.
func (s *server) serve(ctx context.Context, c net.Conn) {
	defer s.silent.remove(c)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A closed connection ends its reads and writes.
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	defer func() { _ = c.Close() }()

	if !s.allows(c.RemoteAddr()) {
		s.o.emit(Event{Text: "refused " + c.RemoteAddr().String(), Err: failure.Errorf(failure.Config,
			"the address is in none of the allowed networks")})
		return
	}

	detectLoss(c)
	h, err := readHello(c)
	if err != nil {
		return
	}

	if !s.keys.accept(h.key) {
		_ = writeAll(c, le.AppendUint32(nil, keyMismatch))
		return
	}
	defer s.keys.release()
	if welcome(c, s.o.Key) != nil {
		return
	}

	packets := newReceiver(c, s.o.MaxUpload, cancel)
	defer close(packets.done)
	s.goroutines.Go(packets.run)

	// A client may wait for the board once it has sent a request: until then it counts as silent.
	select {
	case <-packets.begun:
	case <-ctx.Done():
		return
	}

	select {
	case s.waiting <- struct{}{}:
	default:
		s.turnAway(ctx, c, packets)
		return
	}

	s.silent.remove(c)
	if !s.wait(ctx, c) {
		return
	}
	defer func() { <-s.turn }()
	close(packets.open)
	s.serveSession(ctx, c, h, packets)
}

// turnAway tells a client for which there is no room among those that wait why it is not served: with the reply to its
// first request from which its encoding is known.
func (s *server) turnAway(ctx context.Context, c net.Conn, packets *receiver) {
	err := failure.New(failure.Network, "try again later", "%d clients wait for the board", maxWaiting)
	s.o.emit(Event{Text: "refused " + c.RemoteAddr().String(), Err: err})

	q := &session{server: s, conn: c}
	select {
	case msg := <-packets.packets:
		q.era = detect(msg)
	default: // a long packet, which is not received
		return
	}

	// Without arguments, InitServer is the same in both encodings: the next request decides.
	if q.era == unknownEra {
		if q.send((&tvmrpc.Packet{Code: tvmrpc.CodeReturn}).Append(nil)) != nil {
			return
		}
		packets.limit = maxAhead
		close(packets.open)
		select {
		case msg := <-packets.packets:
			q.era = detect(msg)
		case <-time.After(helloTimeout):
		case <-ctx.Done():
		}
	}

	if q.era != unknownEra {
		_ = q.send(q.exception(err))
	}
}

// wait waits for a client's turn: clients are served in order. It returns false if the client has disconnected. The
// caller has put a token into s.waiting.
func (s *server) wait(ctx context.Context, c net.Conn) bool {
	defer func() { <-s.waiting }()
	select {
	case s.turn <- struct{}{}:
		return true
	default:
	}

	s.o.emit(Event{Client: c.RemoteAddr().String(), Text: "waiting"})
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// silentConns are the connections whose clients have not sent a request, or wait for the error that turns them away.
// Many goroutines may use them.
type silentConns struct {
	mu    sync.Mutex
	all   []silentConn  // oldest first
	place chan struct{} // receives when one was removed
}

type silentConn struct {
	net.Conn
	since time.Time
}

// add adds a connection once there is a place: one of another client that has sent its request, or of the oldest, which
// it closes after silentTime. At the end of ctx, which closes all connections, it does not wait.
func (s *silentConns) add(ctx context.Context, c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) >= maxSilent && ctx.Err() == nil {
		if left := time.Until(s.all[0].since.Add(silentTime)); left > 0 {
			s.mu.Unlock()
			select {
			case <-time.After(left):
			case <-s.place:
			case <-ctx.Done():
			}
			s.mu.Lock()
			continue // others may have been removed meanwhile
		}

		_ = s.all[0].Close()
		s.all = slices.Delete(s.all, 0, 1)
	}

	s.all = append(s.all, silentConn{c, time.Now()})
}

func (s *silentConns) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(other silentConn) bool { return other.Conn == c })

	select {
	case s.place <- struct{}{}:
	default:
	}
}
