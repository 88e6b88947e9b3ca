package serve_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	wantIs    = testkit.WantIs
	last      = testkit.Last
	wantError = testkit.WantError
)

// A board is a serve.Board of a simulated device, which restarts when its session is broken. Archives are texts: "new
// session" replaces the firmware, "endless" loads until ctx ends, those that begin with "bad" fail, and with "dies" end
// the board when they run.
type board struct {
	t       testing.TB
	entered chan struct{} // receives when the function "endless" or "slow" runs

	mu       sync.Mutex
	device   *rpctest.Device
	session  *rpc.Session
	stop     context.CancelFunc
	opened   int
	released int
	loaded   []string
}

func (b *board) Open(ctx context.Context) (*rpc.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		return b.session, nil
	}
	b.opened++
	running, stop := context.WithCancel(context.Background())
	waits := func(wait func()) rpctest.Func {
		return func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
			b.entered <- struct{}{}
			wait()
			return rpctest.Nothing(), nil
		}
	}
	d := &rpctest.Device{
		Globals: map[string]rpctest.Func{
			"echo": echo, "fail": fail, "array": array,
			"endless": waits(func() { <-running.Done() }), "slow": waits(func() { time.Sleep(time.Second) }),
			"tvm.contrib.random.random_fill": func(d *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
				content, err := d.Content(args[0].Tensor)
				for i := range content {
					content[i] = byte(i + 1)
				}
				return rpctest.Nothing(), err
			},
		},
		Module: map[string]rpctest.Func{"fail": fail},
		Packet: 4096,
	}
	b.device = d
	host, other := transporttest.Pair()
	d.Module["main"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.loaded); n > 0 && strings.HasPrefix(b.loaded[n-1], "dies") {
			_ = other.Close()
		}
		return rpctest.Nothing(), nil
	}
	go func() { _ = d.Serve(running, other) }()
	s, err := transport.Dial(ctx, host, transport.SessionOptions{})
	if err != nil {
		stop()
		return nil, err
	}
	b.session, b.stop = rpc.New(s, rpc.Options{}), stop
	return b.session, nil
}

func (b *board) Load(ctx context.Context, archive []byte) (rpc.Module, error) {
	b.mu.Lock()
	b.loaded = append(b.loaded, string(archive))
	b.mu.Unlock()
	if bytes.HasPrefix(archive, []byte("bad")) {
		return rpc.Module{}, failure.Errorf(failure.Compile, "lib0.c: no such operator")
	}
	if string(archive) == "endless" {
		<-ctx.Done()
		return rpc.Module{}, failure.Stopped(ctx, "compile lib0.c")
	}
	if string(archive) == "new session" {
		b.drop()
	}
	s, err := b.Open(ctx)
	if err != nil {
		return rpc.Module{}, err
	}
	return s.SystemLib(ctx)
}

func (b *board) Release(ctx context.Context) error {
	b.mu.Lock()
	b.released++
	s := b.session
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.Renew(ctx) != nil {
		b.drop()
	}
	return nil
}

func (b *board) Close() error { b.drop(); return nil }

// live returns the number of tensors on the device.
func (b *board) live() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return 0
	}
	return b.device.Live()
}

func (b *board) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		b.stop()
		_ = b.session.Close(testkit.Ended(b.t))
		b.session = nil
	}
}

func echo(_ *rpctest.Device, args []tvmrpc.Value) ([]tvmrpc.Value, error) {
	if len(args) == 0 {
		return nil, errors.New("no argument")
	}
	return rpctest.Result(args[0]), nil
}

// array returns a tensor, after a while.
func array(d *rpctest.Device, _ []tvmrpc.Value) ([]tvmrpc.Value, error) {
	time.Sleep(time.Millisecond)
	at := d.Allocate(8)
	bytes := ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}
	return rpctest.ArrayResult(&tvmrpc.DLTensor{Data: at, Device: tvmrpc.CPU, DType: bytes, Shape: []int64{8}}, at), nil
}

func fail(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
	return nil, errors.New("Assert fail: x.shape[0] == 3")
}

// start serves a simulated board.
func start(t testing.TB, o serve.Options) (*board, string) {
	t.Helper()
	return startAt(t, "127.0.0.1", o)
}

func startAt(t testing.TB, host string, o serve.Options) (*board, string) {
	t.Helper()
	b := &board{t: t, entered: make(chan struct{}, 1)}
	return b, serveAt(t, b, host, o)
}

// serveAt serves a board at an address of this computer until the test ends, and then closes the board.
func serveAt(t testing.TB, b serve.Board, host string, o serve.Options) (address string) {
	t.Helper()
	l := transporttest.Listen(t, host+":0").TCPListener
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- serve.Serve(ctx, l, b, o) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		must(t, b.Close())
	})
	return l.Addr().String()
}

// A client speaks the protocol of TVM 0.21 and later by hand.
type client struct {
	t testing.TB
	net.Conn
}

func connect(t testing.TB, address, key string) client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	c.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0xFF271), uint32(len(key))))
	must(t, last(io.WriteString(c, key)))
	return client{t, c}
}

// welcomed reads the server's part of the handshake.
func (c client) welcomed(want string) {
	c.t.Helper()
	got := make([]byte, 8+len(want))
	_, err := io.ReadFull(c, got)
	if err != nil || binary.LittleEndian.Uint32(got) != 0xFF271 || string(got[8:]) != want {
		c.t.Fatalf("handshake: % x, %v", got, err)
	}
}

// Requests.
const (
	initServer = "02000000 0500000000000000 302e382e30 00000000"
	alloc      = "0d000000 04000000 06000000 0100000000000000 01000000 0800000000000000 01000000 0800000000000000" +
		"05000000 0008010000000000" // of 8 bytes
	shutdown = "01000000"
)

// begin begins a session.
func (c client) begin() {
	c.t.Helper()
	c.wait()
	c.served()
}

// beginSession connects a client and begins its session.
func beginSession(t testing.TB, address string) client {
	t.Helper()
	c := connect(t, address, "client:")
	c.begin()
	return c
}

// wait begins a session, and does not await the board.
func (c client) wait() {
	c.t.Helper()
	c.welcomed("server:")
	c.send(initServer)
}

// served awaits the board.
func (c client) served() {
	c.t.Helper()
	wantEqual(c.t, c.reply(), "04000000 00000000", "InitServer")
}

// request sends a packet in hexadecimal, without its length, and returns the reply likewise.
func (c client) request(packet string) string {
	c.t.Helper()
	c.send(packet)
	return c.reply()
}

func (c client) send(packet string) {
	c.t.Helper()
	must(c.t, last(c.Write(encode(packet))))
}

// encode returns a packet that is given in hexadecimal, without its length.
func encode(packet string) []byte {
	body, err := hex.DecodeString(strings.ReplaceAll(packet, " ", ""))
	if err != nil {
		panic(err)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(body))), body...)
}

func (c client) reply() string {
	c.t.Helper()
	head := make([]byte, 8)
	if _, err := io.ReadFull(c, head); err != nil {
		return err.Error()
	}
	body := make([]byte, binary.LittleEndian.Uint64(head))
	must(c.t, last(io.ReadFull(c, body)))
	return fmt.Sprintf("%x %x", body[:4], body[4:])
}

// lookUp returns the handle of a global function, in hexadecimal.
func (c client) lookUp(name string) string {
	c.t.Helper()
	reply := c.request("09000000" + args(text(name)))
	head, handle, ok := strings.Cut(reply, "0100000004000000")
	if !ok || head != "04000000 " {
		c.t.Fatalf("looking up %s: %s", name, reply)
	}
	return handle
}

func (c client) call(handle string, args string) string {
	c.t.Helper()
	return c.request("03000000" + handle + args)
}

// Arguments in hexadecimal.
func text(s string) string   { return fmt.Sprintf("08000000 %016x %x", swap(len(s)), s) }
func blob(s []byte) string   { return fmt.Sprintf("09000000 %016x %x", swap(len(s)), s) }
func number(n int) string    { return fmt.Sprintf("01000000 %016x", swap(n)) }
func module(h string) string { return "49000000 " + h }

func swap(n int) uint64 {
	return binary.BigEndian.Uint64(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}

// args returns a packed sequence.
func args(values ...string) string {
	return fmt.Sprintf("%08x ", swap(len(values))>>32) + strings.Join(values, " ")
}

// result returns the handle at the end of a reply; an error for an Exception.
func result(reply string) (string, error) {
	if !strings.HasPrefix(reply, "04000000") || len(reply) < 16 {
		var message []byte
		fmt.Sscanf(reply[min(len(reply), 9+32):], "%x", &message)
		return "", fmt.Errorf("%s (%q)", reply, message)
	}
	return reply[len(reply)-16:], nil
}

// loadModule uploads a module, and returns its handle.
func (c client) loadModule(archive []byte) (string, error) {
	c.t.Helper()
	if _, err := result(c.call(c.lookUp("tvm.rpc.server.upload"), args(text("m.tar"), blob(archive)))); err != nil {
		return "", err
	}
	return result(c.call(c.lookUp("tvm.rpc.server.load_module"), args(text("m.tar"))))
}

// load uploads a module as MetaSchedule's runner does, and returns its time evaluator.
func (c client) load(archive []byte) (evaluator string, err error) {
	c.t.Helper()
	m, err := c.loadModule(archive)
	if err != nil {
		return "", err
	}
	return c.evaluator(m)
}

// evaluator returns the time evaluator of a module.
func (c client) evaluator(m string) (string, error) {
	c.t.Helper()
	return result(c.call(c.lookUp("runtime.RPCTimeEvaluator"), args(module(m), text("main"), number(1), number(0),
		number(1), number(1), number(0), number(100), number(0), number(1), number(0), text(""))))
}

func (c client) measure(archive []byte) error {
	c.t.Helper()
	e, err := c.load(archive)
	if err == nil {
		_, err = result(c.call(e, args()))
	}
	return err
}

// TestKilledClient: the board of a client that disappears during a call is free for the next client, which gets it in
// order, also if requests that were not read yet follow the call.
func TestKilledClient(t *testing.T) {
	b, address := start(t, serve.Options{})
	const sync = "0f000000 02000000 06000000 0100000000000000 04000000 0000000000000000"
	for n, c := range []struct {
		queued int // requests
		reset  bool
	}{{0, false}, {1, false}, {5, true}, {1000, false}, {50000, false}, {50000, true}} {
		first := beginSession(t, address)
		endless := first.lookUp("endless")
		second := connect(t, address, "client:")
		first.send("03000000" + endless + "00000000")
		<-b.entered
		begun := time.Now()
		_, _ = first.Write(bytes.Repeat(encode(sync), c.queued)) // too many end the connection
		if c.reset {
			must(t, first.Conn.(*net.TCPConn).SetLinger(0))
		}
		first.Close()
		second.begin()
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("%+v: the board was free after %v", c, took)
		}
		if reply := second.call(second.lookUp("echo"), "01000000 01000000 2a00000000000000"); !strings.HasSuffix(reply,
			"010000002a00000000000000") {
			t.Errorf("%+v: the next client: %s", c, reply)
		}
		second.Close()
		wantEqual(t, b.opened, n+2, c)
	}
}

// TestTimeout: an idle session, and one during a call, end with TVM's text, and the connection is closed.
func TestTimeout(t *testing.T) {
	b, address := start(t, serve.Options{})
	want := fmt.Sprintf("%x", `RPCSessionTimeoutError: Your 0.2s session has expired, try to increase the "session_timeout" value.`)
	for _, name := range []string{"echo", "endless"} {
		c := connect(t, address, "client: -timeout=0.2")
		c.begin()
		handle := c.lookUp(name)
		reply := ""
		if name == "endless" {
			reply = c.call(handle, "00000000")
			<-b.entered
		} else {
			reply = c.reply()
		}
		if !strings.HasPrefix(reply, "05000000") || !strings.HasSuffix(reply, want) {
			t.Errorf("%s: %s", name, reply)
		}
		wantEqual(t, c.reply(), "EOF", name)
	}
}

// TestLoadTimeout: a module that takes too long is an error of its own, and does not end the session.
func TestLoadTimeout(t *testing.T) {
	_, address := start(t, serve.Options{LoadTimeout: 50 * time.Millisecond})
	c := beginSession(t, address)
	wantError(t, last(c.load([]byte("endless"))), "", "compile lib0.c: it took longer than 50ms")
	must(t, last(c.load([]byte("good"))))
}

// TestLongPacket: a client that sends a packet that is too long gets an exception, once it has sent it.
func TestLongPacket(t *testing.T) {
	_, address := start(t, serve.Options{MaxUpload: 1 << 20})
	c := beginSession(t, address)
	const size = 32 << 20
	packet := make([]byte, 8+size)
	binary.LittleEndian.PutUint64(packet, size)
	must(t, last(c.Write(packet)))
	reply := c.reply()
	if !strings.HasPrefix(reply, "05000000") || !strings.Contains(reply, fmt.Sprintf("%x", "at most 1048576 are acc")) {
		t.Errorf("a packet of 32 MiB: %.200s", reply)
	}
	wantEqual(t, c.reply(), "EOF", "after a packet that is too long")
}

// TestFailingListener: an error that lasts is reported once.
func TestFailingListener(t *testing.T) {
	var failed []error
	err := serve.Serve(t.Context(), &failingListener{left: 3}, &board{t: t}, serve.Options{OnEvent: func(e serve.Event) {
		if e.Err != nil {
			failed = append(failed, e.Err)
		}
	}})
	if len(failed) != 1 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("reported: %v, then %v", failed, err)
	}
}

// A failingListener fails some times and is then closed.
type failingListener struct{ left int }

func (l *failingListener) Accept() (net.Conn, error) {
	if l.left--; l.left < 0 {
		return nil, net.ErrClosed
	}
	return nil, errors.New("too many open files")
}

func (l *failingListener) Close() error   { return nil }
func (l *failingListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestHostilePeers: the board stays available after each of them.
func TestHostilePeers(t *testing.T) {
	_, address := start(t, serve.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	send := func(packets ...string) func(client) {
		return func(c client) {
			c.begin()
			for _, p := range packets {
				if reply := c.request(p); reply != "EOF" && !strings.HasPrefix(reply, "05000000") {
					t.Errorf("%s: %s", p, reply)
				}
			}
		}
	}
	for _, attack := range []func(client){
		func(client) {},
		func(c client) { c.begin(); c.request("09000000 01000000 63000000") },            // of another era
		send("63000000 00000000", "ffffffff", "04000000 00000000"),                       // unknown
		send("03000000", "09000000 ffffffff", "07000000 00"),                             // cut short
		send("03000000 ffffffff00005342 00000000", "03000000 0000000000005342 00000000"), // own handles
		send(initServer),
		func(c client) {
			c.begin()
			binary.Write(c, binary.LittleEndian, uint64(1)<<63)
			if reply := c.reply(); !strings.HasPrefix(reply, "05000000") {
				t.Errorf("a packet of 2^63 bytes: %s", reply)
			}
		},
		func(c client) {
			c.begin()
			upload := c.lookUp("tvm.rpc.server.upload")
			for _, path := range []string{"../x", "/tmp/serve-climb", "a/../../x", "", ".", strings.Repeat("a/", 200) + "x"} {
				if reply := c.call(upload, args(text(path), blob([]byte("x")))); !strings.HasPrefix(reply, "05000000") {
					t.Errorf("upload of %q: %s", path, reply)
				}
			}
		},
	} {
		c := connect(t, address, "client:")
		attack(c)
		c.Close()
		next := beginSession(t, address)
		next.Close()
	}
	for _, hello := range []string{"client:x", "server:", ""} {
		c := connect(t, address, hello)
		got, _ := io.ReadAll(c)
		wantEqual(t, got, []byte{0x73, 0xf2, 0x0f, 0}, hello)
	}
	c, err := net.Dial("tcp", address)
	must(t, err)
	io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	if got, _ := io.ReadAll(c); len(got) > 0 {
		t.Errorf("a browser received % x", got)
	}
}

// TestReplacedFirmware: a module that replaces the firmware ends what the session had on the board.
func TestReplacedFirmware(t *testing.T) {
	b, address := start(t, serve.Options{})
	c := beginSession(t, address)
	echo := c.lookUp("echo")
	if reply := c.request(alloc); !strings.HasPrefix(reply, "04000000 0100000004000000") {
		t.Fatal(reply)
	}
	freed, err := result(c.call(c.lookUp("array"), args()))
	must(t, err)
	for range 2 { // the second time is no other tensor's
		c.request("0a000000" + args("04000000 "+freed))
	}
	must(t, last(c.loadModule([]byte("new session"))))
	wantError(t, last(result(c.call(echo, args()))), "", "tensors were lost", `\nload the module before tensors are allocated`)
	if reply := c.request(alloc); !strings.HasPrefix(reply, "05000000") {
		t.Errorf("allocation after the firmware was replaced: %s", reply)
	}
	wantEqual(t, b.opened, 2, "the board was opened")
}

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	b := &board{t: t}
	place, k := startPlace(t, "kiln")
	stopped := func(call failuretest.Call) failuretest.Call { // of what need not fail
		return func(ctx context.Context) error { return errors.Join(call(ctx), failure.Stopped(ctx, "called")) }
	}
	failuretest.Ended(t, failuretest.Calls{
		"Board.Open": failuretest.Of(b.Open), "Board.Load": failuretest.Of(b.Load, nil),
		"Board.Release": stopped(b.Release), "Place.Link": stopped(failuretest.Of(place.Link)),
		"Place.Reset":   stopped(failuretest.Of(place.Reset, 1)),
		"Place.Prepare": stopped(failuretest.Of(place.Prepare, nil, nil)),
		"Serve": stopped(func(ctx context.Context) error {
			return serve.Serve(ctx, transporttest.Listen(t, "127.0.0.1:0").TCPListener, b, serve.Options{})
		}),
	})
	failuretest.EndedCalls(t, failuretest.Calls{
		"Dial":            failuretest.Of(boardclient.Dial, k.Address(), "kiln", 1),
		"Keys":            failuretest.Of(boardclient.Keys, k.Address()),
		"Client.Describe": func(ctx context.Context) error { return last(dial(t, k, "kiln").Describe(ctx)) },
		"Client.Prepare":  func(ctx context.Context) error { return last(dial(t, k, "kiln").Prepare(ctx, nil, nil)) },
		"Client.Reset":    func(ctx context.Context) error { return dial(t, k, "kiln").Reset(ctx, 1) },
		"Client.Link":     func(ctx context.Context) error { return last(dial(t, k, "kiln").Link(ctx)) },
	})
}

// BenchmarkCandidate is a candidate's whole session, as TVM's runners have it, on a simulated board: what a candidate
// costs besides its compiler, its board and the tracker. It contains a client's part.
func BenchmarkCandidate(b *testing.B) {
	_, address := start(b, serve.Options{Folder: b.TempDir()})
	for b.Loop() {
		c := beginSession(b, address)
		must(b, c.measure([]byte("candidate")))
		c.send(shutdown)
		c.Close()
	}
}
