package serve_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
)

// prompt is how soon a client is served whom nobody may delay, on a busy computer.
const prompt = 5 * time.Second

// serveOne is a client that must be served at once.
func serveOne(t *testing.T, address, after string) {
	t.Helper()
	begun := time.Now()
	c := beginSession(t, address)
	reply := c.call(c.lookUp("echo"), args(number(42)))
	if !strings.HasSuffix(reply, "2a00000000000000") {
		t.Errorf("after %s: %s", after, reply)
	}
	if took := time.Since(begun); took > prompt {
		t.Errorf("after %s: served after %v", after, took)
	}
	c.Close()
}

// TestSilentClients: connections that send nothing, or stop anywhere, hold neither the board nor a place in its queue.
func TestSilentClients(t *testing.T) {
	_, address := start(t, serve.Options{})
	hello := "\x71\xf2\x0f\x00\x07\x00\x00\x00client:"
	first := string(encode(initServer))
	for name, sent := range map[string]string{
		"nothing":           "",
		"half a handshake":  hello[:6],
		"half a key":        hello[:12],
		"a handshake":       hello,
		"half a length":     hello + first[:5],
		"half a packet":     hello + first[:20],
		"empty packets":     hello + strings.Repeat("\x00", 80),
		"the packet's head": hello + "\x00\x00\x00\x02\x00\x00\x00\x00\x02\x00\x00\x00", // of 32 MiB
	} {
		t.Run(name, func(t *testing.T) {
			for range drawn.Count(100, 500) {
				c, err := net.Dial("tcp", address)
				must(t, err)
				defer c.Close()
				if _, err := io.WriteString(c, sent); err != nil { // it may be closed already
					continue
				}
			}
			serveOne(t, address, name)
		})
	}
	t.Run("slow bytes", func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		for range 100 {
			c, err := net.Dial("tcp", address)
			must(t, err)
			defer c.Close()
			go func() {
				for _, b := range []byte(hello + first) {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						c.Write([]byte{b})
					}
				}
			}()
		}
		serveOne(t, address, "slow bytes")
	})
}

// TestWaitingClients: those that wait for the board are served in order, whoever connects meanwhile; one that
// disconnects leaves the queue.
func TestWaitingClients(t *testing.T) {
	queued := make(chan struct{}, 100)
	_, address := start(t, serve.Options{OnEvent: func(e serve.Event) {
		if e.Text == "waiting" {
			queued <- struct{}{}
		}
	}})
	holder := beginSession(t, address)
	var waiting []client
	join := func(n int) {
		for range n {
			c := connect(t, address, "client:")
			c.wait()
			<-queued
			time.Sleep(2 * time.Millisecond)
			waiting = append(waiting, c)
		}
	}
	join(3)
	for range 200 {
		c, err := net.Dial("tcp", address)
		must(t, err)
		defer c.Close()
	}
	join(2)
	waiting[1].Close()
	served := make(chan int, len(waiting))
	for i, c := range waiting {
		go func() {
			if head := make([]byte, 8); i != 1 {
				io.ReadFull(c, head)
				served <- i
			}
		}()
	}
	last := holder
	for _, want := range []int{0, 2, 3, 4} {
		last.Close()
		wantEqual(t, <-served, want, "client")
		last = waiting[want]
	}
	last.Close()

	holder = beginSession(t, address)
	waiting = nil
	join(64)
	reason := fmt.Sprintf("%x", "64 clients wait for the board")
	for request, exception := range map[string]string{
		"09000000 01000000 08000000 0100000000000000 78": "05000000 0100000008000000", // TVM 0.21 and later
		"09000000 01000000 0b000000 0100000000000000 78": "05000000 010000000b000000", // earlier
	} {
		refused := beginSession(t, address)
		if reply := refused.request(request); !strings.HasPrefix(reply, exception) || !strings.Contains(reply, reason) {
			t.Errorf("a client too many: %s", reply)
		}
		wantEqual(t, refused.reply(), "EOF", "a client too many, after its exception")
	}
	long := connect(t, address, "client:")
	long.welcomed("server:")
	go long.Write(encode("02000000 0500000000000000 302e382e30" + args(text("constructor"), blob(make([]byte, 2<<20)))))
	if reply := long.reply(); reply != "EOF" && !strings.Contains(reply, "reset") {
		t.Errorf("a client too many with an archive: %s", reply)
	}
	for _, c := range waiting {
		c.Close()
	}
	holder.Close()
	for begun := time.Now(); ; { // the server notices within an instant that they have left
		c := beginSession(t, address)
		if !strings.Contains(c.request("09000000 01000000 08000000 0100000000000000 78"), reason) {
			break
		}
		if took := time.Since(begun); took > prompt {
			t.Fatalf("after a full queue: no client is served for %v", took)
		}
	}
}

// TestManyAtOnce: of many clients at once, each is served, or told why not. On a busy computer, one that comes to its
// request only when its connection may be closed as silent tries again.
func TestManyAtOnce(t *testing.T) {
	_, address := start(t, serve.Options{})
	request := func() string {
		c := connect(t, address, "client:")
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, len("magic...server:")))
		_, _ = c.Write(encode(initServer)) // reply has the error
		c.reply()
		_, _ = c.Write(encode("09000000 01000000 08000000 0400000000000000 6563686f"))
		reply := c.reply()
		time.Sleep(10 * time.Millisecond)
		return reply
	}
	const clients, silent = 300, 500 * time.Millisecond
	reason := fmt.Sprintf("%x", "64 clients wait for the board")
	outcomes := make(chan string, clients)
	for range clients {
		go func() {
			for {
				begun := time.Now()
				got := request()
				if strings.HasPrefix(got, "04000000") || strings.Contains(got, reason) {
					got = ""
				}
				if got == "" || time.Since(begun) < silent || t.Context().Err() != nil {
					outcomes <- got
					return
				}
			}
		}()
	}
	for range clients {
		wantEqual(t, <-outcomes, "", clients)
	}
}

// TestKilledAnywhere: a client that is killed at any moment of a session frees the board, and its tensors on it.
func TestKilledAnywhere(t *testing.T) {
	b, address := start(t, serve.Options{})
	for _, name := range []string{"request", "half a request", "reply"} {
		for n := range drawn.Count(60, 600) {
			c := beginSession(t, address)
			requests := []string{alloc, alloc, "03000000" + c.lookUp("array") + "00000000", alloc}
			for _, r := range requests[:n%len(requests)] {
				c.request(r)
			}
			packet := encode(requests[n%len(requests)])
			if name == "half a request" {
				packet = packet[:len(packet)/2]
			}
			c.Write(packet)
			if name == "reply" {
				io.ReadFull(c, make([]byte, 9))
			}
			c.Close()
			begun := time.Now()
			next := beginSession(t, address)
			if took := time.Since(begun); took > prompt {
				t.Errorf("killed after a %s: the board was free after %v", name, took)
			}
			if live := b.live(); live > 0 {
				t.Fatalf("killed after %d requests and a %s: %d tensors are left on the board", n%len(requests), name, live)
			}
			next.Close()
		}
	}
}

// TestModelSession begins sessions with an archive, as AutoTVM's module loader does, while another client has the
// board: of a long one, the server receives the beginning only. Its module is there for each that the client makes of
// it.
func TestModelSession(t *testing.T) {
	b, address := start(t, serve.Options{})
	begin := func(archive string) client {
		packet := encode("02000000 0500000000000000 302e382e30" + // takes seconds under the race detector
			args(text("tvm.micro.compile_and_create_micro_session"), blob([]byte(archive)), text("/templates"), text("{}")))
		c := connect(t, address, "client:")
		c.welcomed("server:")
		must(t, last(c.Write(packet)))
		return c
	}
	for _, archive := range []string{"good", "good " + strings.Repeat("x", 3<<20)} {
		holder := beginSession(t, address)
		received := make(chan client)
		go func() { received <- begin(archive) }()
		select {
		case c := <-received: // the connection buffers the rest
			go func() { received <- c }()
		case <-time.After(50 * time.Millisecond):
		}
		holder.Close()
		c := <-received
		c.served()
		library := c.lookUp("runtime.SystemLib")
		freed, err := result(c.call(library, args()))
		must(t, err)
		m, err := result(c.call(library, args()))
		must(t, err)
		c.request("0a000000" + args("04000000 "+freed)) // by the first of two modules of the client
		must(t, last(c.evaluator(m)))
		c.Close()
		serveOne(t, address, "a session with a model")
		wantEqual(t, b.loaded[len(b.loaded)-1], archive, "bytes arrived of")
	}
	c := begin("bad")
	wantError(t, last(result(c.reply())), "", "no such operator")
	wantEqual(t, c.reply(), "EOF", "after an archive that cannot be built")
	serveOne(t, address, "an archive that cannot be built")
}

// TestHalfClosed: a client that sends no more gets the replies to what it has sent.
func TestHalfClosed(t *testing.T) {
	_, address := start(t, serve.Options{})
	c := beginSession(t, address)
	array := c.lookUp("array")
	const calls = 5
	for range calls {
		c.send("03000000" + array + "00000000")
	}
	must(t, c.Conn.(*net.TCPConn).CloseWrite())
	for n := range calls {
		if reply := c.reply(); !strings.HasPrefix(reply, "04000000") {
			t.Fatalf("reply %d of %d: %s", n+1, calls, reply)
		}
	}
	wantEqual(t, c.reply(), "EOF", "after the last reply")
	serveOne(t, address, "a client that sends no more")
}
