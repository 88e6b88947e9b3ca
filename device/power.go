// This file cycles a board's power with desk.json's command, as the last attempt with a board that does not
// respond.

package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/ledger"
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

// helps cycles the power if err is that of a board that does not respond, and reports whether the operation may be
// repeated. It only logs a failure of the command, because the original error is the useful one.
func (c *powerCycle) helps(ctx context.Context, err error) bool {
	n := c.d.attachment
	if c.done || n == nil || n.power == "" || ctx.Err() != nil || !silent(err) {
		return false
	}
	c.done = true
	log := c.d.desk.log()
	log.Warn("the board does not respond: cycling its power", "command", n.power, "error", err)
	c.d.desk.Progress.Report(ProgressEvent{Step: "power", Detail: n.power})
	if err := n.cyclePower(ctx, c.d.board); err != nil {
		log.Warn("its power was not cycled", "command", n.power, "error", err)
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
	case d.attachment == nil || d.attachment.power == "":
		return false, nil
	}
	d.desk.Progress.Report(ProgressEvent{Step: "power", Detail: d.attachment.power})
	return true, d.attachment.cyclePower(ctx, d.board)
}

// silent reports whether an error is that of a board without a valid response.
func silent(err error) bool {
	var differs *flasher.VerifyError
	var worn *WearError
	var other *flasher.ChipError
	var shared *transport.SharedPortError
	if errors.As(err, &differs) || errors.As(err, &worn) || errors.As(err, &other) || errors.As(err, &shared) ||
		inUse(err) {
		return false
	}
	switch failure.Of(err) {
	case failure.ProbeMissing, failure.Flash, failure.Boot, failure.Transport, failure.Timeout, failure.BoardLost:
		return true
	}
	return false
}

// inUse reports whether an error is a *LeaseError.
func inUse(err error) bool {
	var taken *ledger.LeaseError
	return errors.As(err, &taken)
}

// cyclePower runs the command and waits until the board is attached again. Errors: *LeaseError if another process
// then leases it.
func (n *attachment) cyclePower(ctx context.Context, b *boards.Board) error {
	shell := command.Command{Path: "/bin/sh", Args: []string{"-c", n.power}, Timeout: powerWithin}
	if runtime.GOOS == "windows" {
		shell.Path, shell.Args = "cmd.exe", []string{"/C", n.power}
	}
	if err := shell.Run(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, backWithin)
	defer cancel()
	for {
		err := n.again(limited, b)
		if err == nil && b.Link.Remote() {
			err = n.listens(limited, b)
		}
		if err == nil || inUse(err) {
			return err
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("not attached again within %v: %w", backWithin, err)
		case <-time.After(backEvery):
		}
	}
}

// listens connects to the address of the device's link, once.
func (n *attachment) listens(ctx context.Context, b *boards.Board) error {
	link, err := n.openFound(ctx, b, expected{})
	if err != nil {
		return err
	}
	return link.Close()
}
