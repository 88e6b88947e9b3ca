// This file takes the power of a board away and gives it again, where desk.json has a command for that: the last thing to
// try with a board that does not answer.

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
	"github.com/boardsmith/boardsmith/progress"
)

const (
	powerWithin = 30 * time.Second // for the command to end
	backWithin  = 15 * time.Second // for the board to be attached again
	backEvery   = 200 * time.Millisecond
)

// A powerCycle is tried once in what a Device does.
type powerCycle struct {
	d    *Device
	done bool
}

// helps says whether the power was cycled because of err, so that it may be tried again. What the power cannot be blamed for
// is left alone. The command's own failure is logged only: what did not answer is what the user wants to know.
func (c *powerCycle) helps(ctx context.Context, err error) bool {
	n := c.d.attachment
	if c.done || n == nil || n.power == "" || ctx.Err() != nil || !silent(err) {
		return false
	}
	c.done = true
	log := c.d.desk.log()
	log.Warn("the board does not answer: its power is taken away and given again", "command", n.power, "error", err)
	c.d.desk.Progress.Tell(progress.Event{Step: "power", Detail: n.power})
	if err := n.cyclePower(ctx, c.d.board); err != nil {
		log.Warn("its power was not cycled", "command", n.power, "error", err)
		return false
	}
	return true
}

// silent says whether an error is that of a board that does not answer, or not sensibly.
func silent(err error) bool {
	var differs *flasher.VerifyError
	var worn *WearError
	var other *flasher.ChipError
	if errors.As(err, &differs) || errors.As(err, &worn) || errors.As(err, &other) || inUse(err) {
		return false
	}
	switch failure.Of(err) {
	case failure.ProbeMissing, failure.Flash, failure.Boot, failure.Transport, failure.Timeout, failure.BoardLost:
		return true
	}
	return false
}

// inUse says whether an error is that of a device that another process leases.
func inUse(err error) bool {
	var taken *ledger.LeaseError
	return errors.As(err, &taken)
}

// cyclePower runs the command, and waits until the board is attached again: *LeaseError where another process
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
			return fmt.Errorf("it is not attached again within %v: %w", backWithin, err)
		case <-time.After(backEvery):
		}
	}
}

// listens connects to the address of the device's link, once.
func (n *attachment) listens(ctx context.Context, b *boards.Board) error {
	link, err := n.openFound(ctx, b)
	if err != nil {
		return err
	}
	return link.Close()
}
