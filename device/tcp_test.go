//go:build linux

package device_test

// This file connects to real firmware over TCP: to a process, or to an emulated chip with an emulated probe, behind a
// bridge such as ser2net. Such a bridge reads the UART also without a client, and accepts one client at a time.

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
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
}

// openBridgeAt starts a bridge before a board, which ends with the test.
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
	b.client = client
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
	"link": {"kind": "tcp"}, "flash": {"programmer": "none"}}`

// A bridgedRig is that board, its firmware as a program, and its bridge.
type bridgedRig struct {
	env    env
	board  *boards.Board
	image  *image.Image
	link   transport.Link
	bridge *bridge
}

// openBridged starts the firmware of that board; unless delayed, also its bridge.
func openBridged(t *testing.T, delayed bool) (r bridgedRig) {
	t.Helper()
	r.env = testEnv()
	r.env.Path = []string{boardstest.Shelf(t, map[string]string{"bridged.json": bridged})}
	r.env.LeaseDir, r.env.StateDir = filepath.Join(t.TempDir(), "lease"), t.TempDir()
	p := generated(t, project.Spec{Board: "bridged"}, r.env)
	r.board, r.image = p.Board(), built(t, p)
	link, err := transport.StartProcess(t.Context(), transport.ProcessConfig{
		Path: r.image.Path, Env: []string{"BOARDSMITH_FAULT_FILE=" + filepath.Join(t.TempDir(), "fault")},
	})
	must(t, err)
	if r.link = link; !delayed {
		r.bridge = openBridgeAt(t, "127.0.0.1:0", link)
	}
	return r
}

// attach attaches the board at an address until the test ends.
func (r bridgedRig) attach(t *testing.T, address string) *device.Device {
	t.Helper()
	d, err := attach(t.Context(), r.board, address, r.env)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// TestTCPBoard: firmware behind a bridge can be opened repeatedly, and another build is recognised.
func TestTCPBoard(t *testing.T) {
	t.Parallel()
	r := openBridged(t, false)
	i, address := r.image, r.bridge.Address()
	d := r.attach(t, address)
	ctx := t.Context()
	report, err := d.Flash(ctx, i)
	if err != nil || report.Wrote != 0 || !report.Verified || !strings.Contains(report.Reason, i.ID()) ||
		report.Device != "tcp:"+address {
		t.Errorf("flash of the image that the board has: %+v, %v", report, err)
	}
	for range 3 {
		mustAnswer(t, d, i)
	}
	link, err := d.Link(ctx, nil)
	must(t, err)
	if !link.Lossy() {
		t.Error("the link between bridge and firmware is not lossy")
	}
	must(t, link.Close())
	id, err := d.Identify(ctx)
	if err != nil || !id.Responds || id.BuildID != i.ID() || id.Port != address || id.Link.Kind != "tcp" ||
		id.Link.Address != address {
		t.Errorf("identified as %+v, %v", id, err)
	}

	spec := project.Spec{Board: "bridged", Options: boards.Options{ArenaKiB: 48}}
	other := built(t, generated(t, spec, r.env))
	wantError(t, last(d.Flash(ctx, other)), failure.Config, other.Path, "has no programmer",
		"not build "+other.ID())
	wantError(t, last(d.Open(ctx, other)), failure.Verify)
	wantError(t, last(d.Erase(ctx)), failure.Config)
	wantError(t, d.Debug(ctx, device.Debugging{}, nil), failure.Config)
	if held, err := d.CurrentImage(ctx); err != nil || held.ID() != i.ID() {
		t.Errorf("it holds %v, %v", held, err)
	}
}

// TestTCPErrorsHaveNextStep: each cause for which a bridge cannot be reached has a class and a next step.
func TestTCPErrorsHaveNextStep(t *testing.T) {
	t.Parallel()
	r := openBridged(t, false)
	d := r.attach(t, r.bridge.Address())
	ctx := t.Context()
	s, err := d.Open(ctx, r.image)
	must(t, err)
	wantError(t, last(d.Open(ctx, r.image)), failure.Transport, "client") // as another computer would
	rpctest.CallTwice(t, s)

	r.bridge.serve(nil) // the bridge ends the connection
	wantError(t, last(s.Function(ctx, "runtime.SystemLib")), failure.Transport, "peer still runs")
	_ = s.Close(ctx)

	must(t, r.bridge.Close())
	for _, err := range []error{last(d.Open(ctx, r.image)), last(d.Flash(ctx, r.image))} {
		wantError(t, err, failure.ProbeMissing, "start the program")
	}
}

// TestOpenWaitsForBridge: Open waits for a bridge that refuses connections while it restarts.
func TestOpenWaitsForBridge(t *testing.T) {
	t.Parallel()
	r := openBridged(t, true)
	address, started := transporttest.Refusing(t), make(chan struct{})
	d := r.attach(t, address)
	time.AfterFunc(300*time.Millisecond, func() {
		defer close(started)
		openBridgeAt(t, address, r.link)
	})
	defer func() { <-started }()
	mustAnswer(t, d, r.image)
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
	ctx := t.Context()
	chip, err := d.env.desk().StartEmulated(ctx, b)
	must(t, err)
	uart, err := transport.OpenSerial(chip.Port, 0)
	must(t, err)
	address := openBridgeAt(t, "127.0.0.1:0", uart).Address()
	left := device.DeskDevice{Name: "left", Board: "microbit", Probe: chip.Probe}
	left.Link.Kind, left.Link.Address = "tcp", address
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{left}}
	dev, err := attach(ctx, b, "left", d.env)
	must(t, err)
	defer dev.Close()
	i := d.image("")
	for n, wrote := range []bool{true, false} {
		r, err := dev.Flash(ctx, i)
		if err != nil || r.Wrote > 0 != wrote || !r.Verified {
			t.Fatalf("flash %d: %+v, %v", n, r, err)
		}
	}
	mustAnswer(t, dev, i)
	id, err := dev.Identify(ctx)
	if err != nil || !id.Responds || id.Probe != chip.Probe || id.Port != address || id.Link.Address != address {
		t.Errorf("identified as %+v, %v", id, err)
	}
}
