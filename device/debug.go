// This file debugs a device with gdb: through its probe, or through the gdb stub of its emulator.

package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/transport"
)

// A Debugging configures Debug. The zero value is the usual one for a device that keeps its image.
type Debugging struct {
	Image  *image.Image // what an emulator without a probe runs; not used for other devices
	Attach bool         // no reset: the core is halted where it is when gdb connects, and continues when that detaches
	Port   int          // TCP port of the gdb server on 127.0.0.1; 0: a free one
	// Timeout limits the wait until an emulator's gdb server listens; 0: 20 s
	Timeout time.Duration
}

// Time limits around a gdb server.
const (
	restartWithin = 10 * time.Second // for the reset at the end, after ctx has ended
	stubWithin    = 20 * time.Second // Debugging.Timeout
	stubEvery     = 10 * time.Millisecond
)

// Debug runs a gdb server, and calls use with its address. The server is the probe's, or that of QEMU, which is started
// for it. use's context ends with ctx or with the server. Without Debugging.Attach, the board was reset before and is
// halted; it is reset, and runs, when use has returned. Errors: class config for a device without either server;
// *LeaseError if the board was plugged in elsewhere and another process leases that place; those of flasher and of use.
func (d *Device) Debug(ctx context.Context, o Debugging, use func(ctx context.Context, address string) error) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "debug")
	}
	if d.closed {
		return errClosed(d.board)
	}

	if d.attachment == nil {
		return d.debugEmulator(ctx, o, use)
	}
	if err := d.relocateProbe(ctx); err != nil {
		return err
	}

	server, err := d.debugServer()
	if err != nil {
		return err
	}

	if o.Port, err = choosePort(o.Port); err != nil {
		return err
	}

	err = server.Serve(ctx, o.Attach, o.Port, func(ctx context.Context) error { return use(ctx, o.address()) })
	if ctx.Err() != nil {
		err = errors.Join(err, failure.Stopped(ctx, "debug"))
	}

	if o.Attach {
		return err
	}

	// The board must run again also if ctx has ended.
	resetCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restartWithin)
	defer cancel()
	if ctx.Err() == nil {
		resetCtx = ctx
	}

	return errors.Join(err, d.attachment.Programmer.Do(resetCtx, flasher.Job{Restart: true}))
}

func (o Debugging) address() string { return fmt.Sprintf("127.0.0.1:%d", o.Port) }

// stubArgs makes QEMU listen for gdb and halt before the first instruction.
func (o Debugging) stubArgs() []string { return []string{"-gdb", "tcp:" + o.address(), "-S"} }

// debugEmulator starts the emulator with its gdb stub for as long as use runs.
func (d *Device) debugEmulator(
	ctx context.Context, o Debugging, use func(ctx context.Context, address string) error,
) error {
	i, err := d.acceptDebugging(o)
	if err != nil {
		return err
	}

	if o.Port, err = choosePort(o.Port); err != nil {
		return err
	}

	link, err := d.startLink(ctx, i, o.stubArgs()...)
	if err != nil {
		return err
	}
	defer link.Close()

	ctx, cancel := context.WithCancelCause(ctx)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for buffer := make([]byte, 4096); ; { // else the firmware would wait for its UART
			if _, err := link.Read(ctx, buffer); err != nil {
				cancel(err)
				return
			}
		}
	}()

	err = awaitStub(ctx, o)
	if err == nil {
		err = use(ctx, o.address())
	}

	// If the emulator ended, its output explains what use returned.
	var ended *transport.ProcessError
	if lost := context.Cause(ctx); errors.As(lost, &ended) {
		err = errors.Join(d.emulatorError(lost, i), err)
	}

	// The reader must have ended before link is closed.
	cancel(nil)
	<-drained
	return err
}

// acceptDebugging returns the image that an emulator with a gdb stub is to run.
func (d *Device) acceptDebugging(o Debugging) (*image.Image, error) {
	switch {
	case !d.board.Link.IsEmulator():
		return nil, failure.New(failure.Config, chooseProbe, "board %s has no debug probe", d.board.Name)
	case o.Attach:
		return nil, failure.New(failure.Config, "leave out "+nextstep.Option("Debugging.Attach", "true"),
			"board %s starts when it is debugged: there is nothing to attach to", d.board.Name)
	case o.Image == nil:
		return nil, failure.New(failure.Config, "name the image to start", "board %s starts when it is debugged",
			d.board.Name)
	}
	return d.accept(o.Image)
}

// awaitStub waits until the emulator accepts connections. Its core stays halted after one that sends nothing.
func awaitStub(ctx context.Context, o Debugging) error {
	within := cmp.Or(o.Timeout, stubWithin)
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(limited, "tcp", o.address())
		if err == nil {
			return conn.Close()
		}

		select {
		case <-limited.Done():
			if ctx.Err() != nil {
				return failure.Stopped(ctx, "start of the emulator's gdb server")
			}
			return failure.New(failure.Timeout, "the emulator may hang; "+nextstep.Option("Debugging.Timeout", "2m")+
				" waits longer", "the emulator's gdb server did not listen on %s within %v: %w", o.address(), within, err)
		case <-time.After(stubEvery):
		}
	}
}

// stubCommand returns the command line of the emulator's gdb stub, or "" if the board has none.
func (d *Device) stubCommand(o Debugging) (string, error) {
	if !d.board.Link.IsEmulator() {
		return "", nil
	}

	i, err := d.acceptDebugging(o)
	if err != nil {
		return "", err
	}

	l := d.board.Link
	return command.Command{Path: l.Program, Args: emulatorArgs(l, i.Path, o.stubArgs()...), Dir: "/"}.Typed(), nil
}

func (d *Device) debugServer() (debugServer, error) {
	if !d.attachment.HasProbe() {
		return nil, failure.New(failure.Config, chooseProbe, "board %s has no debug probe", d.board.Name)
	}

	server, ok := d.attachment.Programmer.(debugServer)
	if !ok {
		return nil, failure.New(failure.Config, "use "+nextstep.Option("Desk.Programmer", "openocd")+" or "+
			nextstep.Option("Desk.Programmer", "pyocd"), "%s has no gdb server",
			d.attachment.ProgrammerName)
	}
	return server, nil
}

// choosePort returns a port if it is free, or for 0 a free one. Not every server reports that another program listens
// on its port, and connecting to it would reach the other program.
func choosePort(port int) (int, error) {
	if port == 0 {
		return freePort()
	}

	l, err := net.Listen("tcp", Debugging{Port: port}.address())
	if err != nil {
		return 0, failure.New(failure.Config, "choose another port, or none for a free one",
			"the gdb server cannot listen on port %d: %w", port, err)
	}
	return port, l.Close()
}
