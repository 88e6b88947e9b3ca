//go:build linux

package device_test

// This file connects to real firmware over TCP: to a process, or to an emulated chip with an emulated probe, behind a
// bridge such as ser2net. Such a bridge reads the UART also without a client, and accepts one client at a time.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/transport"
)

// A bridge carries bytes between a board's link and its client.
type bridge struct {
	*transporttest.Listener
	board transport.Link

	mu     sync.Mutex
	client transport.Link // nil: none is connected
	tamper func(transport.Link) transport.Link
}

// openBridge starts a bridge before a board, which ends with the test.
func openBridge(t *testing.T, board transport.Link) *bridge {
	t.Helper()
	return openBridgeAt(t, "127.0.0.1:0", board)
}

func openBridgeAt(t *testing.T, address string, board transport.Link) *bridge {
	t.Helper()
	l := transporttest.Listen(t, address)
	b := &bridge{Listener: l, board: board}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { b.accept(ctx) })
	ended.Go(func() { b.fromBoard(ctx) })
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		b.serve(nil)
		_ = board.Close()
		ended.Wait()
	})
	return b
}

// serve replaces the client.
func (b *bridge) serve(client transport.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		_ = b.client.Close()
	}
	if b.client = client; client != nil && b.tamper != nil {
		b.client = b.tamper(client)
	}
}

// connected returns the client, or nil.
func (b *bridge) connected() transport.Link {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.client
}

// accept serves one client after the other, and closes the connections of others meanwhile.
func (b *bridge) accept(ctx context.Context) {
	for {
		conn, err := b.Accept(ctx)
		if err != nil {
			return
		}
		if b.connected() != nil {
			_ = conn.Close()
			continue
		}
		b.serve(conn)
		go b.fromClient(ctx, b.connected())
	}
}

func (b *bridge) fromClient(ctx context.Context, client transport.Link) {
	buf := make([]byte, 1024)
	for {
		n, err := client.Read(ctx, buf)
		if err != nil {
			b.serve(nil)
			return
		}
		_ = b.board.Write(ctx, buf[:n])
	}
}

func (b *bridge) fromBoard(ctx context.Context) {
	buf := make([]byte, 1024)
	for {
		n, err := b.board.Read(ctx, buf)
		if err != nil {
			return
		}
		if client := b.connected(); client != nil {
			_ = client.Write(ctx, buf[:n])
		}
	}
}

// bridged is a board like host, but behind a bridge and without a programmer.
const bridged = `{"inherits": "cpu/native", "templates": ["baremetal"], "sources": ["port/process.c"],
	"link": {"kind": "tcp"%s}, "flash": {"programmer": "none"}}`

// bridgedEnv returns an env with that board.
func bridgedEnv(t *testing.T) env {
	t.Helper()
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"bridged.json": fmt.Sprintf(bridged, "")})}
	e.LeaseDir, e.StateDir = filepath.Join(t.TempDir(), "lease"), t.TempDir()
	return e
}

// bridgedImage builds firmware for that board.
func bridgedImage(t *testing.T, e env, o boards.Options) (*boards.Board, *image.Image) {
	t.Helper()
	spec := project.Spec{Board: "bridged", Model: mlftest.Tiny(t, nil), Options: o}
	p := generated(t, spec, e)
	return p.Board(), built(t, p)
}

// process starts an image as a program.
func process(t *testing.T, i *image.Image) transport.Link {
	t.Helper()
	p, err := transport.StartProcess(t.Context(), transport.ProcessConfig{
		Path: i.Path, Env: []string{"BOARDSMITH_FAULT_FILE=" + filepath.Join(t.TempDir(), "fault")},
	})
	must(t, err)
	return p
}

// TestTCPBoard: firmware behind a bridge can be opened repeatedly, and another build is recognised.
func TestTCPBoard(t *testing.T) {
	t.Parallel()
	e := bridgedEnv(t)
	b, i := bridgedImage(t, e, boards.Options{})
	address := openBridge(t, process(t, i)).Address()
	d, err := attach(t.Context(), b, address, e)
	must(t, err)
	defer d.Close()

	r, err := d.Flash(t.Context(), i)
	if err != nil || r.Wrote != 0 || !r.Verified || !strings.Contains(r.Reason, i.ID()) || r.Device != "tcp:"+address {
		t.Errorf("flash of the image that the board has: %+v, %v", r, err)
	}
	for range 3 {
		s, err := d.Open(t.Context(), i)
		must(t, err)
		rpctest.CallTwice(t, s)
		must(t, s.Close(t.Context()))
	}
	link, err := d.Link(t.Context(), nil)
	must(t, err)
	if !link.Lossy() {
		t.Error("the link between bridge and firmware is not lossy")
	}
	must(t, link.Close())
	id, err := d.Identify(t.Context())
	if err != nil || !id.Responds || id.BuildID != i.ID() || id.Port != address || id.Link.Kind != "tcp" ||
		id.Link.Address != address {
		t.Errorf("identified as %+v, %v", id, err)
	}

	_, other := bridgedImage(t, e, boards.Options{ArenaKiB: 48})
	_, err = d.Flash(t.Context(), other)
	wantError(t, err, failure.Config, other.Path)
	wantError(t, err, "", "has no programmer", "not build "+other.ID())
	if _, err := d.Open(t.Context(), other); failure.Of(err) != failure.Verify ||
		strings.Contains(err.Error(), "has no programmer") {
		t.Errorf("open of another image: %v", err)
	}
	_, err = d.Erase(t.Context())
	wantError(t, err, failure.Config)
	wantError(t, d.Debug(t.Context(), device.Debugging{}, nil), failure.Config)
	if held, err := d.CurrentImage(t.Context()); err != nil || held.ID() != i.ID() {
		t.Errorf("it holds %v, %v", held, err)
	}
}

// TestTCPAddressIsLeased: an address is leased, also for a device that has it in desk.json.
func TestTCPAddressIsLeased(t *testing.T) {
	t.Parallel()
	const address = "Bridge.invalid:4000"
	e := bridgedEnv(t)
	b, err := boards.Find("bridged", e.Path)
	must(t, err)
	d, err := attach(t.Context(), b, address, e)
	must(t, err)
	left := device.DeskDevice{Name: "left", Board: "bridged"}
	left.Link.Kind, left.Link.Address = "tcp", strings.ToLower(address)
	e.File = &device.DeskFile{Devices: []device.DeskDevice{left}}
	_, err = attach(t.Context(), b, "left", e)
	var inUse *device.LeaseError
	if !errors.As(err, &inUse) || inUse.Device != "tcp:"+strings.ToLower(address) {
		t.Errorf("attached twice: %v", err)
	}
	must(t, d.Close())
	d, err = attach(t.Context(), b, "", e)
	must(t, err)
	must(t, d.Close())
}

// TestTCPErrorsHaveNextStep: each cause for which a bridge cannot be reached has a class and a next step.
func TestTCPErrorsHaveNextStep(t *testing.T) {
	t.Parallel()
	e := bridgedEnv(t)
	b, i := bridgedImage(t, e, boards.Options{})
	br := openBridge(t, process(t, i))
	d, err := attach(t.Context(), b, br.Address(), e)
	must(t, err)
	defer d.Close()
	s, err := d.Open(t.Context(), i)
	must(t, err)

	_, second := d.Open(t.Context(), i) // as another computer would
	wantError(t, second, failure.Transport, "client")
	if !errors.Is(second, transport.ErrClosed) {
		t.Errorf("a second client: %v", second)
	}
	rpctest.CallTwice(t, s)

	br.serve(nil) // the bridge ends the connection
	_, err = s.Function(t.Context(), "runtime.SystemLib")
	wantError(t, err, failure.Transport, "peer still runs")
	if !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the bridge has closed the connection: %v", err)
	}
	_ = s.Close(t.Context())

	must(t, br.Close())
	_, openErr := d.Open(t.Context(), i)
	_, flashErr := d.Flash(t.Context(), i)
	for _, err := range []error{openErr, flashErr} {
		wantError(t, err, failure.ProbeMissing, "start the program")
		if errors.Is(err, transport.ErrClosed) {
			t.Errorf("the bridge does not run: %v", err)
		}
	}
}

// TestOpenWaitsForBridge: Open waits for a bridge that refuses connections while it restarts.
func TestOpenWaitsForBridge(t *testing.T) {
	t.Parallel()
	e := bridgedEnv(t)
	b, i := bridgedImage(t, e, boards.Options{})
	board := process(t, i)
	l := transporttest.Listen(t, "127.0.0.1:0")
	client, err := transport.DialTCP(t.Context(), transport.TCPConfig{Address: l.Address()})
	must(t, err)
	defer client.Close()
	open, err := l.Accept(t.Context()) // it keeps the port from other tests
	must(t, err)
	defer open.Close()
	must(t, l.Close()) // the port refuses connections
	d, err := attach(t.Context(), b, l.Address(), e)
	must(t, err)
	defer d.Close()
	started := make(chan struct{})
	time.AfterFunc(300*time.Millisecond, func() {
		defer close(started)
		openBridgeAt(t, l.Address(), board)
	})
	s, err := d.Open(t.Context(), i)
	<-started
	must(t, err)
	rpctest.CallTwice(t, s)
	must(t, s.Close(t.Context()))
}

// TestTCPSilentBoardTimesOut: a session with a bridge whose board sends nothing ends by a time limit, with another
// error than for a missing bridge.
func TestTCPSilentBoardTimesOut(t *testing.T) {
	t.Parallel()
	e := bridgedEnv(t)
	b, i := bridgedImage(t, e, boards.Options{})
	board, far := transporttest.LossyPair()
	t.Cleanup(func() { _ = far.Close() })
	d, err := attach(t.Context(), b, openBridge(t, board).Address(), e)
	must(t, err)
	defer d.Close()
	_, err = d.Flash(t.Context(), i)
	wantError(t, err, failure.Config, i.Path)
	wantError(t, err, "", "has no programmer")
}

// TestTCPNoiseIsDetected: after bytes of an earlier session, with one byte changed or lost, each call returns the right
// answer or an error of the link, and the device works afterwards.
func TestTCPNoiseIsDetected(t *testing.T) {
	t.Parallel()
	e := bridgedEnv(t)
	b, i := bridgedImage(t, e, boards.Options{})
	br := openBridge(t, process(t, i))
	d, err := attach(t.Context(), b, br.Address(), e)
	must(t, err)
	defer d.Close()
	stale := []byte("\xff\xff\x00boot\xff\xfd\xff")
	damaged := map[transporttest.Direction]*atomic.Int64{transporttest.ToHost: {}, transporttest.ToDevice: {}}
	round := func(within time.Duration, tamper func(transporttest.Direction, int64, []byte) []byte) error {
		for _, n := range damaged {
			n.Store(0)
		}
		br.mu.Lock()
		br.tamper = func(l transport.Link) transport.Link {
			_ = l.Write(context.Background(), stale)
			return transporttest.Tamper(l, func(way transporttest.Direction, p []byte) []byte {
				way = !way // seen from the bridge
				return tamper(way, damaged[way].Add(int64(len(p)))-int64(len(p)), p)
			})
		}
		br.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return writeAndRead(ctx, t, d, i)
	}
	must(t, round(20*time.Second, func(_ transporttest.Direction, _ int64, p []byte) []byte { return p }))
	toHost, toDevice := damaged[transporttest.ToHost].Load(), damaged[transporttest.ToDevice].Load()
	const rounds = 8
	for n := range int64(rounds) {
		way, all := transporttest.ToHost, toHost
		if n%2 == 0 {
			way, all = transporttest.ToDevice, toDevice
		}
		at := all * (2*n + 1) / (2 * rounds)
		err := round(3*time.Second, func(direction transporttest.Direction, first int64, p []byte) []byte {
			k := at - first
			switch {
			case direction != way || k < 0 || k >= int64(len(p)):
			case n%4 < 2:
				p[k] ^= 0x10
			default:
				return slices.Delete(p, int(k), int(k)+1)
			}
			return p
		})
		if c := failure.Of(err); err != nil && c != failure.Transport && c != failure.Timeout && c != failure.Boot {
			t.Errorf("byte %d of %d tampered with: %v of class %s", at, all, err, c)
		}
		t.Logf("byte %d of %d tampered with: %v", at, all, err)
		must(t, round(20*time.Second, func(_ transporttest.Direction, _ int64, p []byte) []byte { return p }))
	}
}

// TestTCPBesideProbe: a chip is programmed through its probe and reached through a bridge.
func TestTCPBesideProbe(t *testing.T) {
	t.Parallel()
	text := readFile(t, filepath.Join("..", "boards", "microbit.json"))
	link := regexp.MustCompile(`"link": \{[^}]*\}`)
	board := link.ReplaceAllString(string(text), `"replaces": true, "link": {"kind": "tcp", "address": "127.0.0.1:1"}`)
	path := boardstest.Shelf(t, map[string]string{"microbit.json": board})
	d := deskWith(t, path, "microbit", "openocd")
	b, err := boards.Find("microbit", d.env.Path)
	must(t, err)
	chip, err := d.env.desk().StartEmulated(t.Context(), b)
	must(t, err)
	uart, err := transport.OpenSerial(chip.Port, 0)
	must(t, err)
	address := openBridge(t, uart).Address()
	left := device.DeskDevice{Name: "left", Board: "microbit", Probe: chip.Probe}
	left.Link.Kind, left.Link.Address = "tcp", address
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{left}}
	dev, err := attach(t.Context(), b, "left", d.env)
	must(t, err)
	defer dev.Close()
	i := d.image(boards.Options{})
	for n, wrote := range []bool{true, false} {
		r, err := dev.Flash(t.Context(), i)
		if err != nil || r.Wrote > 0 != wrote || !r.Verified {
			t.Fatalf("flash %d: %+v, %v", n, r, err)
		}
	}
	s, err := dev.Open(t.Context(), i)
	must(t, err)
	rpctest.CallTwice(t, s)
	must(t, s.Close(t.Context()))
	id, err := dev.Identify(t.Context())
	if err != nil || !id.Responds || id.Probe != chip.Probe || id.Port != address || id.Link.Address != address {
		t.Errorf("identified as %+v, %v", id, err)
	}
}
