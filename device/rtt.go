// This file reaches firmware through RTT: buffers in its RAM that the debug probe reads and writes while the core runs.

package device

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/transport"
)

// An expected firmware is what should run on a device: the image, or another one too.
type expected struct {
	image *image.Image // nil: unknown
	only  bool         // firmware of another image is an error
}

// rttSymbol is the control block in SEGGER's implementation.
const rttSymbol = "_SEGGER_RTT"

// openRTT runs the programmer's server of RTT channel 0 for as long as the link is open.
func openRTT(ctx context.Context, p flasher.Programmer, e expected, b *boards.Board) (transport.Link, error) {
	server, ok := p.(rttServer)
	if !ok {
		return nil, failure.New(failure.Config, "use "+nextstep.Option("Desk.Programmer", "openocd"),
			"board %s is reached through RTT, which only OpenOCD serves", b.Name)
	}

	ranges, err := rttRanges(e, b)
	if err != nil {
		return nil, err
	}

	port, err := freePort()
	if err != nil {
		return nil, err
	}

	// The server must outlast ctx, which limits only the opening: Close ends it.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &rttLink{stop: stop, ended: make(chan struct{})}
	opened := make(chan error, 2) // at the beginning and at the end
	go func() {
		defer close(l.ended)
		l.err = server.ServeRTT(serving, port, ranges, func(served context.Context) (err error) {
			address := fmt.Sprintf("127.0.0.1:%d", port)
			if l.Link, err = transport.DialTCP(served, transport.TCPConfig{Address: address, Lossy: true}); err != nil {
				return err
			}
			opened <- nil
			<-served.Done()
			return nil
		})
		opened <- l.err
	}()

	select {
	case err = <-opened:
	case <-ctx.Done():
		err = failure.Stopped(ctx, "open RTT")
	}

	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// rttRanges returns the memory that may have the control block: its symbol in the expected image, and, if another image
// may run, all RAM.
func rttRanges(e expected, b *boards.Board) (ranges []flasher.Range, err error) {
	if e.image != nil {
		if ranges, err = findRTTSymbol(e.image); err != nil {
			return nil, err
		}
	}

	switch {
	case !e.only:
		for _, r := range b.Memory {
			if !r.Nonvolatile && !r.Reserved {
				ranges = append(ranges, flasher.Range{Addr: uint64(r.Origin), Size: uint64(r.Size)})
			}
		}
	case len(ranges) == 0:
		return nil, failure.New(failure.Config, "choose RTT in the firmware, or another link in the board file",
			"%s has no %s, but board %s is reached through RTT", e.image.Path, rttSymbol, b.Name)
	}
	return ranges, nil
}

// findRTTSymbol returns the range of an image's control block, if it has one.
func findRTTSymbol(i *image.Image) ([]flasher.Range, error) {
	file, err := i.ELF()
	if err != nil {
		return nil, err
	}

	symbols, err := file.Symbols()
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", i.Path, err)
	}

	for _, s := range symbols {
		if s.Name == rttSymbol {
			return []flasher.Range{{Addr: s.Value, Size: s.Size}}, nil
		}
	}
	return nil, nil
}

// An rttLink is a connection to a server that ends with it.
type rttLink struct {
	transport.Link
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of the server, after ended
}

// Bounded returns true: OpenOCD drops what does not fit into the lower buffer, which holds a packet.
func (l *rttLink) Bounded() bool { return true }

// endsWithin is how much longer than its connections a server may run.
const endsWithin = 2 * time.Second

// Read implements transport.Link.
func (l *rttLink) Read(ctx context.Context, p []byte) (int, error) {
	n, err := l.Link.Read(ctx, p)
	return n, l.withCause(ctx, err)
}

// Write implements transport.Link.
func (l *rttLink) Write(ctx context.Context, p []byte) error {
	return l.withCause(ctx, l.Link.Write(ctx, p))
}

// withCause adds to the error of a lost connection the one that ended the server.
func (l *rttLink) withCause(ctx context.Context, err error) error {
	if !errors.Is(err, transport.ErrClosed) {
		return err
	}

	select {
	case <-l.ended:
		if l.err != nil {
			return fmt.Errorf("%w: %w", l.err, err)
		}
	case <-time.After(endsWithin):
	case <-ctx.Done():
	}
	return err
}

// Close implements transport.Link.
func (l *rttLink) Close() error {
	l.stop()
	<-l.ended

	if l.Link == nil { // the connection failed
		return nil
	}
	return l.Link.Close()
}

// freePort returns a TCP port on which no program listens.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("port for a server: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
