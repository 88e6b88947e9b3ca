// This file cycles a board's power with desk.json's command: on request, and as the last attempt with a board that does
// not respond.

package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	powerWithin = 30 * time.Second // limit for the command
	backWithin  = 15 * time.Second // limit until the board is attached again
	backEvery   = 200 * time.Millisecond
)

// A powerCycle is tried once per operation of a Device.
type powerCycle struct {
	d    *Device
	done bool
}

// cycle cycles the power if err is that of a board that does not respond, and reports whether the operation may be
// repeated. It only logs a failure of the command, because the original error is the useful one.
func (c *powerCycle) cycle(ctx context.Context, err error) bool {
	a := c.d.attachment
	if c.done || a == nil || a.Power == "" || ctx.Err() != nil || !isUnresponsive(err) {
		return false
	}

	// Once only, even if the command fails.
	c.done = true
	log := c.d.desk.log()
	log.Warn("the board does not respond: cycling its power", "command", a.Power, "error", err)
	c.d.desk.Report(ProgressEvent{Step: "power", Detail: a.Power})

	if err := c.d.runPowerCommand(ctx); err != nil {
		log.Warn("its power was not cycled", "command", a.Power, "error", err)
		return false
	}
	return true
}

// PowerCycle switches the device's power off and on with the command in Desk.File, and waits until the device is
// attached again. It returns false if there is no command. Errors: those of the command; *LeaseError if another process
// then leases the device.
func (d *Device) PowerCycle(ctx context.Context) (bool, error) {
	switch {
	case ctx.Err() != nil:
		return false, failure.Stopped(ctx, "power cycle")
	case d.closed:
		return false, errClosed(d.board)
	case d.attachment == nil || d.attachment.Power == "":
		return false, nil
	}

	d.desk.Report(ProgressEvent{Step: "power", Detail: d.attachment.Power})
	return true, d.runPowerCommand(ctx)
}

// isUnresponsive reports whether an error is that of a board without a valid response.
func isUnresponsive(err error) bool {
	var worn *WearError
	var handshake *transport.HandshakeError

	// These stay after a power cycle.
	if errors.As(err, &worn) || errors.Is(err, flasher.ErrOtherChip) || errors.Is(err, transport.ErrSharedPort) ||
		isInUse(err) || errors.As(err, &handshake) && handshake.Changed != "" {
		return false
	}

	switch failure.Of(err) {
	case failure.ProbeMissing, failure.Flash, failure.Boot, failure.Transport, failure.Timeout, failure.BoardLost:
		return true
	}
	return false
}

// isInUse reports whether an error is a *LeaseError.
func isInUse(err error) bool {
	var lease *LeaseError
	return errors.As(err, &lease)
}

// runPowerCommand runs the command and waits until the board is attached again. Errors: *LeaseError if another process
// then leases it.
func (d *Device) runPowerCommand(ctx context.Context) error {
	power := d.attachment.Power
	shell := command.Command{Path: "/bin/sh", Args: []string{"-c", power}, Timeout: powerWithin}
	if runtime.GOOS == "windows" {
		shell.Path, shell.Args = "cmd.exe", []string{"/C", power}
	}

	if err := shell.Run(ctx); err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	for {
		err := d.relocate(limited)

		// Relocating finds a probe, but does not show whether the bridge is back.
		if err == nil && d.board.Link.Remote() {
			err = d.tryConnect(limited)
		}
		if err == nil || isInUse(err) {
			return err
		}

		select {
		case <-limited.Done():
			return fmt.Errorf("not attached again within %v: %w", backWithin, err)
		case <-time.After(backEvery):
		}
	}
}

// tryConnect opens and closes the device's link, once.
func (d *Device) tryConnect(ctx context.Context) error {
	link, err := d.openRelocated(ctx, d.board.Link, expected{})
	if err != nil {
		return err
	}
	return link.Close()
}
