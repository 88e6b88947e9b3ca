// This file debugs a device with gdb, through its probe.

package device

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// Debug runs the probe's gdb server, with the core halted after a reset, and calls use with the server's address.
// When use returns, the board is reset and runs. Errors: *LeaseError if the board was plugged in elsewhere and
// another process leases that place; those of flasher and of use.
func (d *Device) Debug(ctx context.Context, use func(ctx context.Context, address string) error) error {
	if d.attachment != nil {
		if err := d.attachment.again(ctx, d.board); err != nil && !notAttached(err) {
			return err
		}
	}
	server, err := d.debugServer()
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	err = server.Serve(ctx, port, func(ctx context.Context) error { return use(ctx, fmt.Sprintf("127.0.0.1:%d", port)) })
	if ctx.Err() != nil {
		return errors.Join(err, failure.Stopped(ctx, "debug"))
	}
	return errors.Join(err, d.attachment.programmer.Do(ctx, flasher.Job{Restart: true}))
}

func (d *Device) debugServer() (flasher.DebugServer, error) {
	if d.attachment == nil || !d.attachment.hasProbe() {
		return nil, failure.New(failure.Config, chooseProbe, "board %s has no debug probe", d.board.Name)
	}
	server, ok := d.attachment.programmer.(flasher.DebugServer)
	if !ok {
		return nil, failure.New(failure.Config, "use "+failure.Option("Desk.Programmer", "openocd")+" or "+
			failure.Option("Desk.Programmer", "pyocd"), "%s has no gdb server",
			d.attachment.programmerName)
	}
	return server, nil
}

// freePort returns a TCP port that was free just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("port for a server: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
