package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/trackertest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/transport"
)

// A placeBoard is a board that is also a place: its link sends back what it receives, twice.
type placeBoard struct {
	*board
	images []string
	resets []int
	open   atomic.Int32 // links
	end    chan error   // ends the link
}

func (b *placeBoard) Describe() (json.RawMessage, error) { return json.RawMessage(`"a kiln"`), nil }

func (b *placeBoard) Prepare(_ context.Context, description, image []byte) (json.RawMessage, error) {
	if bytes.Equal(image, []byte("bad")) {
		return nil, failure.New(failure.Flash, "use "+nextstep.Option("Desk.Reflash", "true"), "sector 7\x1b[2J is worn")
	}
	b.images = append(b.images, string(description)+string(image))
	return json.RawMessage(fmt.Sprint(len(b.images))), nil
}

func (b *placeBoard) Reset(_ context.Context, try int) error {
	b.resets = append(b.resets, try)
	return nil
}

func (b *placeBoard) Link(context.Context) (transport.Link, error) {
	if len(b.images) == 0 {
		return nil, failure.Errorf(failure.Config, "no image")
	}
	b.open.Add(1)
	host, other := transporttest.Pair()
	go func() {
		buf := make([]byte, 100)
		for {
			n, err := other.Read(context.Background(), buf)
			if err != nil || other.Write(context.Background(), append(buf[:n:n], buf[:n]...)) != nil {
				return
			}
		}
	}()
	return &endingLink{host, b}, nil
}

// An endingLink ends with an error of the board's.
type endingLink struct {
	transport.Link
	b *placeBoard
}

func (l *endingLink) Read(ctx context.Context, p []byte) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-l.b.end:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	n, err := l.Link.Read(ctx, p)
	if err != nil && context.Cause(ctx) != ctx.Err() {
		err = context.Cause(ctx)
	}
	return n, err
}

func (l *endingLink) Close() error {
	l.b.open.Add(-1)
	return l.Link.Close()
}

func newPlace(t *testing.T) *placeBoard {
	return &placeBoard{board: &board{t: t, entered: make(chan struct{}, 1)}, end: make(chan error)}
}

// startPlace serves a simulated place with a key at a tracker.
func startPlace(t *testing.T, key string) (*placeBoard, *trackertest.Tracker) {
	t.Helper()
	k := trackertest.Start(t)
	b := newPlace(t)
	serveAt(t, b, "127.0.0.1", serve.Options{Key: key, Tracker: k.Address()})
	return b, k
}

func dial(t *testing.T, k *trackertest.Tracker, key string) *boardclient.Client {
	t.Helper()
	c, err := boardclient.Dial(t.Context(), k.Address(), key, 1)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange writes to the link and reads twice as much.
func exchange(t *testing.T, l transport.Link, text string) {
	t.Helper()
	ctx := testkit.Context(t)
	must(t, l.Write(ctx, []byte(text)))
	var got []byte
	buf := make([]byte, 7)
	for len(got) < 2*len(text) {
		n, err := l.Read(ctx, buf)
		must(t, err)
		got = append(got, buf[:n]...)
	}
	if len(text) <= 100 && string(got) != text+text {
		t.Errorf("%q came back as %q", text, got)
	}
}

// TestPlace uses a board as a place, from the first image to the end of the connection.
func TestPlace(t *testing.T) {
	b, k := startPlace(t, "kiln")
	c, ctx := dial(t, k, "kiln"), t.Context()
	if text, err := c.Describe(ctx); string(text) != `"a kiln"` || err != nil {
		t.Errorf("Describe: %s, %v", text, err)
	}
	wantError(t, last(c.Link(ctx)), failure.Config)
	_, err := c.Prepare(ctx, []byte("x"), []byte("bad"))
	wantError(t, err, failure.Flash, "sector 7[2J is worn", "use Desk.Reflash=true")
	big := strings.Repeat("i", 5<<20)
	if n, err := c.Prepare(ctx, []byte("d"), []byte(big)); string(n) != "1" || err != nil || b.images[0] != "d"+big {
		t.Fatalf("Prepare: %s, %v", n, err)
	}
	first, err := c.Link(ctx)
	must(t, err)
	exchange(t, first, "hello")
	exchange(t, first, strings.Repeat("0123456789", 20000))
	_, err = first.Read(testkit.Within(t, 50*time.Millisecond), make([]byte, 1))
	if !errors.Is(err, context.DeadlineExceeded) || c.IsLost() {
		t.Errorf("a read without data: %v", err)
	}
	exchange(t, first, "again")
	// A read in another goroutine ends with the link, and the next link has no bytes of the last.
	read := make(chan error)
	go func() { _, err := first.Read(ctx, make([]byte, 1)); read <- err }()
	time.Sleep(20 * time.Millisecond)
	must(t, first.Close())
	wantIs(t, <-read, transport.ErrClosed, "a read of a closed link")
	must(t, c.Reset(ctx, 2))
	second, err := c.Link(ctx)
	must(t, err)
	must(t, second.Write(ctx, []byte("old")))
	third, err := c.Link(ctx)
	must(t, err)
	exchange(t, third, "new")
	if _, err := second.Read(ctx, make([]byte, 1)); !errors.Is(err, transport.ErrClosed) || b.open.Load() != 1 {
		t.Errorf("the link before: %v, %d are open", err, b.open.Load())
	}
	// The board's link ends.
	b.end <- failure.Errorf(failure.Boot, "the kiln is cold")
	_, err = third.Read(ctx, make([]byte, 1))
	if wantError(t, err, failure.Boot, "the kiln is cold"); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("a link that has ended: %v", err)
	}
	last, err := c.Link(ctx)
	must(t, err)
	exchange(t, last, "warm")
	if len(b.resets) != 1 || b.resets[0] != 2 {
		t.Errorf("resets: %v", b.resets)
	}
	// The end of the connection frees the board for the next client.
	must(t, c.Close())
	testkit.Await(t, "the board's release", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.released == 1 && b.open.Load() == 0
	})
	if _, err := c.Describe(ctx); err == nil || !c.IsLost() {
		t.Error("a closed client describes the board")
	}
	dial(t, k, "kiln")
}

// TestPlaceForTVM: a client's firmware on the board excludes TVM's requests of this session, not of the next.
func TestPlaceForTVM(t *testing.T) {
	b := newPlace(t)
	address := serveAt(t, b, "127.0.0.1", serve.Options{})
	c := beginSession(t, address)
	c.lookUp("echo")
	if reply := c.call(c.lookUp("boardsmith.place.reset"), args(number(3))); strings.HasPrefix(reply, "05") {
		t.Errorf("reset: %s", reply)
	}
	if reply := c.request("09000000" + args(text("fail"))); !strings.HasPrefix(reply, "05") {
		t.Errorf("TVM's lookup on a board with other firmware: %s", reply)
	}
	c.Close()
	c = beginSession(t, address)
	c.lookUp("echo")
}

// TestPlaceRefusals dials servers whose boards are no places, and some that send anything.
func TestPlaceRefusals(t *testing.T) {
	k := trackertest.Start(t)
	serveAt(t, &board{t: t}, "127.0.0.1", serve.Options{Key: "plain", Tracker: k.Address()})
	_, err := dial(t, k, "plain").Describe(t.Context())
	wantError(t, err, failure.Config, "cannot run on this board")
	other := transporttest.Listen(t, "127.0.0.1:0")
	go func() {
		if c, err := other.TCPListener.Accept(); err == nil {
			io.WriteString(c, "SSH-2.0")
			c.Close()
		}
	}()
	wantError(t, last(boardclient.Keys(t.Context(), other.Address())), failure.Config, "is no tracker of TVM")
	accepted := "71f20f00 07000000 7365727665723a "
	for name, c := range map[string]struct {
		sends string
		want  failure.Class
	}{
		"TVM 0.27": {accepted + "1400000000000000 04000000 01000000 00000000 0000000000000000", failure.Config},
		"TVM 0.14": {accepted + "0c00000000000000 04000000 01000000 04000000", failure.Config},
		"a full queue": {
			accepted + "0800000000000000 04000000 00000000 1500000000000000 05000000 01000000 0b000000 0100000000000000 78",
			failure.Network,
		},
		"another key":     {"73f20f00", failure.Network},
		"silent":          {"", failure.Network},
		"a long key":      {"71f20f00 ffffffff", failure.Transport},
		"a long packet":   {accepted + "ffffffffffffff7f 04000000", failure.Transport},
		"an empty packet": {accepted + "0000000000000000 04000000", failure.Transport},
		"a link's bytes":  {accepted + strings.Repeat("0500000000000000 01005342 00 ", 9), failure.Transport},
		"another code":    {accepted + "0400000000000000 63000000", failure.Transport},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, l := trackertest.Start(t), sender(t, c.sends)
			k.Offer("any", l)
			ctx := testkit.Context(t)
			wantError(t, last(boardclient.Dial(ctx, k.Address(), "any", 1)), c.want)
		})
	}
}

// sender listens for one client, sends it bytes in hexadecimal, and closes the connection after five seconds.
func sender(t *testing.T, text string) (port int) {
	t.Helper()
	var data []byte
	fmt.Sscanf(strings.ReplaceAll(text, " ", ""), "%x", &data)
	l := transporttest.Listen(t, "127.0.0.1:0")
	go func() {
		c, err := l.TCPListener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.Write(data)
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		io.Copy(io.Discard, c)
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestJoinedAgain: each connection with a tracker is an event, and each loss of one, also for the same reason.
func TestJoinedAgain(t *testing.T) {
	k := trackertest.Start(t)
	events := make(chan serve.Event, 20)
	start(t, serve.Options{Key: "kiln", Tracker: k.Address(), OnEvent: func(e serve.Event) {
		if strings.Contains(e.Text, "tracker") {
			events <- e
		}
	}})
	next := func() (e serve.Event) {
		t.Helper()
		select {
		case e = <-events:
		case <-testkit.Context(t).Done():
			t.Fatal("no event")
		}
		return e
	}
	joined := "joined tracker " + k.Address()
	for _, want := range []string{joined, joined + " again", joined + " again"} {
		if e := next(); e.Text != want || e.Err != nil {
			t.Errorf("%+v, want %s", e, want)
		}
		k.Drop()
		if e := next(); e.Err == nil {
			t.Errorf("%+v, want the end of the connection", e)
		}
	}
}
