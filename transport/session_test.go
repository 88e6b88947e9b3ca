package transport_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantIs     = testkit.WantIs
	last       = testkit.Last
	wantError  = testkit.WantError
	within     = testkit.Within
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// quick is a session that retries fast, so that tests of lost messages do not wait.
var quick = transport.SessionOptions{Retry: 20 * time.Millisecond, FrameGap: 50 * time.Millisecond, Seed: 0x22}

// answered is a link to a device that answers every message with itself.
func answered() transport.Link {
	host, device := transporttest.Pair()
	go transporttest.Answer(device)
	return host
}

// talk is a whole host's session with such a device.
func talk(ctx context.Context, link transport.Link, messages int) error {
	s, err := transport.Dial(ctx, link, quick)
	if err != nil {
		return err
	}
	for i := range messages {
		msg := bytes.Repeat([]byte{byte(0xfa + i)}, 10*i+1)
		if err := s.Send(ctx, msg[:i], msg[i:]); err != nil {
			return err
		}
		got, err := s.Recv(ctx)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, msg) {
			return fmt.Errorf("sent % x, got % x", msg, got)
		}
	}
	return nil
}

// Without a seed, sessions begin with different nonces, so that a reply to an earlier one is not taken for this one's.
func TestNoncesDiffer(t *testing.T) {
	first := map[string]bool{}
	for range 16 {
		l := &firstWrite{}
		wantIs(t, last(transport.Dial(t.Context(), l, transport.SessionOptions{})), io.ErrClosedPipe)
		first[string(l.sent)] = true
	}
	if len(first) == 1 {
		t.Errorf("16 sessions began with the same bytes: %x", slices.Collect(maps.Keys(first)))
	}
}

// A firstWrite is a link that ends with the first write.
type firstWrite struct {
	transport.Link
	sent []byte
}

func (l *firstWrite) Lossy() bool { return true }

func (l *firstWrite) Write(_ context.Context, p []byte) error {
	l.sent = append(l.sent, p...)
	return io.ErrClosedPipe
}

// The captured handshake of wire.md §2.5, by bytes.
func TestHandshakeBytes(t *testing.T) {
	host, device := transporttest.Pair()
	defer host.Close()
	ctx := testkit.Context(t)
	boot := unhex("fe ff fd 03 00 00 00 00 00 02 66 77")
	must(t, device.Write(ctx, boot))
	must(t, device.Write(ctx, unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b")))
	s, err := transport.Dial(ctx, host, quick)
	must(t, err)
	request := unhex("25 00 00 00 00 00 00 00 09 00 00 00 01 00 00 00 0b 00 00 00 11 00 00 00 00 00 00 00 72 75 6e 74 " +
		"69 6d 65 2e 53 79 73 74 65 6d 4c 69 62")
	must(t, s.Send(ctx, request))
	want := join(boot, unhex("ff fd 04 00 00 00 42 00 00 01 df 5a"),
		unhex("ff fd 30 00 00 00 42 83 10"), request, unhex("5a 3c"))
	must(t, transporttest.ReadFull(ctx, device, want))
	reply := unhex("ff fd 1f 00 00 00 42 83 10 14 00 00 00 00 00 00 00 04 00 00 00 01 00 00 00 03 00 00 00 00 80 02 80 " +
		"00 00 00 00 a1 56")
	must(t, device.Write(ctx, reply))
	wantResult(t, reply[9:len(reply)-2], "received")(s.Recv(ctx))
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// A device that boots after the first attempts is found by the later ones, and a second host replaces the first.
func TestDialRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, device := transporttest.Pair()
		defer host.Close()
		lost := make([]byte, 1<<10)
		wantError(t, last(transport.Dial(within(t, 50*time.Millisecond), host, quick)), "")
		time.AfterFunc(70*time.Millisecond, func() {
			must(t, last(device.Read(within(t, time.Millisecond), lost))) // what preceded the boot
			transporttest.Answer(device)
		})
		for range 2 {
			must(t, talk(within(t, 5*time.Second), host, 3))
		}
	})
}

func TestHandshakeErrors(t *testing.T) {
	start := hex.EncodeToString(frame(0, 0, 2))
	for name, c := range map[string]struct{ input, next string }{
		"silence":       {"", "sent nothing"},
		"garbage":       {"55 aa 55 aa", "no session reply"},
		"damage":        {"ff fd 04 00 00 00 42 83 01 01 e4 0c", "every byte unchanged"},
		"other version": {"ff fd 04 00 00 00 42 83 01 02 87 3b", "another version"},
		"many starts":   {strings.Repeat("0a2366 "+start, 3), "the firmware starts"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, device := transporttest.Pair()
				defer host.Close()
				must(t, device.Write(context.Background(), unhex(c.input)))
				o := quick
				o.StartTimeout, o.Retry = 60*time.Millisecond, 50*time.Millisecond
				_, err := transport.Dial(context.Background(), host, o)
				wantError(t, err, failure.Boot, c.next)
				var handshake *transport.HandshakeError
				if !errors.As(err, &handshake) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("%v is no DeadlineExceeded", err)
				}
				if !bytes.Equal(handshake.Text, unhex(c.input)) || handshake.Starts != strings.Count(c.input, start) {
					t.Errorf("%d starts, text % x", handshake.Starts, handshake.Text)
				}
			})
		})
	}
}

// TestLinksThatChangeBytes: a link that does not carry every byte is an error that names the bytes and the setting to
// change. One that loses some bytes, and each of them at times, is none.
func TestLinksThatChangeBytes(t *testing.T) {
	replace := func(old, with string) func(transporttest.Direction, []byte) []byte {
		return func(_ transporttest.Direction, p []byte) []byte {
			return bytes.ReplaceAll(p, []byte(old), []byte(with))
		}
	}
	var sent []byte
	for name, c := range map[string]struct {
		change     func(transporttest.Direction, []byte) []byte
		text, hint string
	}{
		"flow control": {func(_ transporttest.Direction, p []byte) []byte {
			return slices.DeleteFunc(p, func(b byte) bool { return b == 0x11 || b == 0x13 })
		}, "loses or changes the bytes 0x11, 0x13", "XON and XOFF"},
		"line ends":       {replace("\n", "\r\n"), "the bytes 0x0a", "line ends"},
		"carriage return": {replace("\r", "\n"), "the bytes 0x0d", "line ends"},
		"telnet": {func(d transporttest.Direction, p []byte) []byte {
			if d == transporttest.ToHost {
				return bytes.ReplaceAll(p, []byte{0xff}, []byte{0xff, 0xff})
			}
			return bytes.ReplaceAll(p, []byte{0xff, 0xff}, []byte{0xff})
		}, "the bytes 0xff", "telnet"},
		"seven bits": {func(_ transporttest.Direction, p []byte) []byte {
			for i := range p {
				p[i] &= 0x7f
			}
			return p
		}, "clears the highest bit", "8 data bits"},
		"echo": {func(d transporttest.Direction, p []byte) []byte {
			if d == transporttest.ToDevice {
				sent = append(sent, p...)
				return p
			}
			back := append(sent, p...)
			sent = nil
			return back
		}, "sends back", "echo"},
		"noise": {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				host, device := transporttest.LossyPair()
				defer host.Close()
				go transporttest.Answer(device)
				var link transport.Link
				if c.change == nil {
					link = transporttest.Damage(host, 1, transporttest.Noise{Drop: 0.01})
				} else {
					link = transporttest.Tamper(host, c.change)
				}
				_, err := transport.Dial(context.Background(), link, transport.SessionOptions{Seed: 0x22, CheckBytes: true})
				if c.change == nil {
					must(t, err)
				} else {
					wantError(t, err, failure.Transport, c.text, c.hint)
				}
			})
		})
	}
}

// A cable pulled after any number of bytes is a clean error.
func TestCutCableIsCleanError(t *testing.T) {
	host := answered()
	counted, count := transporttest.Count(host)
	must(t, talk(testkit.Context(t), counted, 3))
	host.Close()
	for n := range count() {
		host := answered()
		wantIs(t, talk(testkit.Context(t), transporttest.CutAfter(n, host), 3), transport.ErrClosed, n, count())
		host.Close()
	}
}

// An established session, and raw access to the device's end of it. Its id is 42 83.
func established(t *testing.T, lossy bool) (*transport.Session, transport.Link) {
	t.Helper()
	host, device := transporttest.Pair()
	if lossy {
		host, device = transporttest.LossyPair()
	}
	t.Cleanup(func() { host.Close() })
	ctx := testkit.Context(t)
	must(t, device.Write(ctx, unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b")))
	s, err := transport.Dial(ctx, host, quick)
	must(t, err)
	return s, device
}

func frame(payload ...byte) []byte {
	var f framing.Framer
	return f.Append(nil, payload)[1:]
}

func TestRecv(t *testing.T) {
	good := frame(0x42, 0x83, 0x10, 'o', 'k')
	damaged := bytes.Clone(good)
	damaged[9] ^= 1
	terminate := frame(0, 0, 2)
	terminated, damage, timeout := transport.ErrTerminated, transport.ErrDamaged, context.DeadlineExceeded
	for name, c := range map[string]struct {
		input []byte
		want  error // nil for the message "ok"
	}{
		"message":                {good, nil},
		"stray reply first":      {join(unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b"), good), nil},
		"other session first":    {join(frame(0x42, 0x84, 0x10, 'n', 'o'), good), nil},
		"unknown type first":     {join(frame(0x42, 0x83, 0x77, 'n', 'o'), good), nil},
		"short message first":    {join(frame(0x42), frame(), good), nil},
		"log first":              {join(frame(0, 0, 3, 'h', 'i'), good), nil},
		"damaged log first":      {join(unhex("ff fd 05 00 00 00 00 00 03 68 69 1a 8e"), good), nil},
		"garbage first":          {join(unhex("00 ff ff fd 99 ff 99"), good), nil},
		"terminate":              {terminate, terminated},
		"reset":                  {join([]byte{0xfe}, terminate), terminated},
		"reset in mid-answer":    {join(good[:11], []byte{0xfe}, terminate), terminated},
		"check in mid-answer":    {join(good[:11], frame(0, 0, 3, 'o', 'w'), terminate), terminated},
		"session of its own":     {frame(7, 0, 0, 1), terminated},
		"damaged answer":         {damaged, damage},
		"answer cut by a log":    {join(good[:11], frame(0, 0, 3, 'o', 'w')), damage},
		"answer sent once more":  {join(good[:11], good), nil},
		"bad escape in answer":   {join(good[:11], []byte{0xff, 0x00}), damage},
		"damaged, not this one":  {unhex("ff fd 05 00 00 00 00 00 03 68 69 1a 8e"), timeout},
		"silence":                {nil, timeout},
		"length without content": {unhex("ff fd ff ff ff ff 00 01 00"), timeout},
	} {
		t.Run(name, func(t *testing.T) {
			s, device := established(t, false)
			must(t, device.Write(context.Background(), c.input))
			deadline := 20 * time.Second
			if c.want == timeout {
				deadline = 150 * time.Millisecond
			}
			msg, err := s.Recv(within(t, deadline))
			switch {
			case c.want == nil:
				if err != nil || string(msg) != "ok" {
					t.Errorf("got %q, %v", msg, err)
				}
			case !errors.Is(err, c.want):
				t.Errorf("got %q, %v; want %v", msg, err, c.want)
			}
		})
	}
}

// On a lossy link, half an answer counts as damaged as soon as no more bytes come.
func TestFrameGap(t *testing.T) {
	s, device := established(t, true)
	answer := frame(0x42, 0x83, 0x10, 'o', 'k')
	must(t, device.Write(context.Background(), answer[:11]))
	wantIs(t, last(s.Recv(testkit.Context(t))), transport.ErrDamaged)
	must(t, device.Write(context.Background(), answer))
	if msg, err := s.Recv(testkit.Context(t)); err != nil || string(msg) != "ok" {
		t.Errorf("after it: %q, %v", msg, err)
	}
}

// A device that never stops talking, sense or nonsense, does not outlast the deadline.
func TestFloodEndsAtDeadline(t *testing.T) {
	for name, unit := range map[string][]byte{
		"nonsense":      {0x55},
		"starts":        {0xff, 0xfd},
		"logs":          frame(0, 0, 3, 'x'),
		"stray replies": unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b"),
	} {
		t.Run(name, func(t *testing.T) {
			s, device := established(t, false)
			block := bytes.Repeat(unit, 1+4096/len(unit))
			go func() {
				for device.Write(context.Background(), block) == nil {
				}
			}()
			began := time.Now()
			_, err := s.Recv(within(t, 100*time.Millisecond))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 2*time.Second {
				t.Errorf("got %v after %v", err, time.Since(began))
			}
		})
	}
}

// The device's log lines reach the logger, and not as commands to a terminal.
func TestDeviceLog(t *testing.T) {
	var out bytes.Buffer
	host, device := transporttest.Pair()
	defer host.Close()
	o := quick
	o.Log = hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true})
	ctx := testkit.Context(t)
	input := join(frame(join([]byte{0, 0, 3}, []byte("hi \x1b[2J\xff there\n"))...),
		unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b"))
	must(t, device.Write(ctx, input))
	must(t, last(transport.Dial(ctx, host, o)))
	wantEqual(t, out.String(), "[INFO]  device: hi .[2J. there\n")
}

// Whatever noise does to a session, it ends in time, and the next one over a quiet link works.
func TestNoiseEndsInTime(t *testing.T) {
	for seed := range uint64(60) {
		host, device := transporttest.LossyPair()
		go transporttest.Answer(device)
		r := rand.New(rand.NewPCG(seed, 0))
		noise := transporttest.Noise{Flip: r.Float64() / 50, Drop: r.Float64() / 50, Duplicate: r.Float64() / 50}
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond)
		err := talk(ctx, transporttest.Damage(host, seed, noise), 5)
		cancel()
		if err != nil && failure.Of(err) == failure.Internal && !strings.HasPrefix(err.Error(), "sent ") {
			t.Errorf("seed %d: error without a class: %v", seed, err)
		}
		must(t, talk(testkit.Context(t), host, 5))
		host.Close()
	}
}

// FuzzSession has a hostile device that sends anything: the host's session ends in time, with an error that has a
// class, or with a message that was really in the input.
func FuzzSession(f *testing.F) {
	corpus.Add(f)
	reply := unhex("ff fd 04 00 00 00 42 83 01 01 e4 0b")
	answer := frame(0x42, 0x83, 0x10, 'o', 'k')
	f.Add(join(reply, answer), false)
	f.Add(join(unhex("fe ff fd 03 00 00 00 00 00 02 66 77"), reply, answer[:8],
		unhex("fe ff fd 03 00 00 00 00 00 02 66 77")), true)
	f.Add(join(frame(0x41, 0, 0, 1), frame(0x41, 0x49, 0x10, 1), frame(0x43, 0, 0, 1)), false)
	f.Add(join(reply, frame(0, 0, 3, 'l', 'o', 'g'), frame(7, 0, 0, 1), answer), false)
	f.Fuzz(func(t *testing.T, input []byte, lossy bool) {
		ctx := context.Background()
		link := &script{input: input, lossy: lossy, silences: 2}
		s, err := transport.Dial(ctx, link, transport.SessionOptions{Seed: 0x22})
		for err == nil {
			var msg []byte
			msg, err = s.Recv(ctx)
			switch {
			case err == nil && len(msg) > len(input):
				t.Fatalf("a message of %d bytes in %d", len(msg), len(input))
			case errors.Is(err, transport.ErrDamaged) || errors.Is(err, context.DeadlineExceeded):
				err = nil // the session goes on
			}
		}
		if failure.Of(err) == failure.Internal {
			t.Fatalf("error without a class: %v", err)
		}
	})
}

// script is a link with a scripted device, which sends, is silent a few times, and disconnects, all without delay.
type script struct {
	input    []byte
	lossy    bool
	silences int
}

func (l *script) Read(_ context.Context, p []byte) (int, error) {
	n := copy(p, l.input)
	l.input = l.input[n:]
	if n > 0 {
		return n, nil
	}
	if l.silences--; l.silences >= 0 {
		return 0, failure.Errorf(failure.Timeout, "read: %w", context.DeadlineExceeded)
	}
	return 0, transport.ErrClosed
}

func (l *script) Write(context.Context, []byte) error { return nil }
func (l *script) Close() error                        { return nil }
func (l *script) Lossy() bool                         { return l.lossy }

// restless is a device that answers each session's first message, and is reset in the middle of its second answer.
// What its wire still held of the old session comes after the new one's Terminate.
func restless(link transport.Link) {
	ctx := context.Background()
	for seed := byte(1); ; seed++ {
		s, err := transporttest.Boot(ctx, link, seed)
		if err != nil {
			return
		}
		msg, err := s.Recv(ctx)
		if err != nil || s.Send(ctx, msg) != nil {
			return
		}
		if _, err = s.Recv(ctx); err != nil {
			return
		}
		if link.Write(ctx, frame(9, 9, 0x10, 'h', 'a', 'l', 'f')[:8]) != nil {
			return
		}
	}
}

func TestRedialBeginsNewSession(t *testing.T) {
	for name, pair := range map[string]func() (transport.Link, transport.Link){
		"pipe": transporttest.Pair,
		"UART": transporttest.LossyPair,
	} {
		t.Run(name, func(t *testing.T) {
			host, device := pair()
			done := make(chan struct{})
			go func() {
				defer close(done)
				restless(device)
			}()
			ctx := testkit.Context(t)
			s, err := transport.Dial(ctx, host, quick)
			must(t, err)
			for i := range 20 {
				must(t, s.Send(ctx, []byte{byte(i)}))
				if msg, err := s.Recv(ctx); err != nil || len(msg) != 1 || msg[0] != byte(i) {
					t.Fatalf("session %d: %q, %v", i, msg, err)
				}
				must(t, s.Send(ctx, []byte("die")))
				wantIs(t, last(s.Recv(ctx)), transport.ErrTerminated, i)
				must(t, s.Redial(ctx))
			}
			_ = s.Close()
			<-done
		})
	}
}

func TestRedialFails(t *testing.T) {
	host, device := transporttest.Pair()
	accepted := make(chan error, 1)
	go func() {
		_, err := transporttest.Boot(context.Background(), device, 0)
		accepted <- err
	}()
	s, err := transport.Dial(testkit.Context(t), host, quick)
	must(t, err)
	defer s.Close()
	must(t, <-accepted)
	var failed *transport.HandshakeError
	if err := s.Redial(within(t, 100*time.Millisecond)); !errors.As(err, &failed) || failed.Received != 0 ||
		failed.Damaged != 0 {
		t.Errorf("no answer: %v", err)
	}
	wantError(t, s.Send(t.Context(), []byte("x")), failure.Fault)
	_ = device.Close()
	if err := s.Redial(within(t, time.Second)); !errors.As(err, &failed) {
		t.Errorf("the link is closed: %v", err)
	}
}
