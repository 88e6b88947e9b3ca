package device

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/transport"
)

// This file gives access to internals for tests that build firmware and are therefore outside of the package.

var (
	ResetCause = resetCause
	Plugged    = plugged

	EmulatedDir = emulatedDir
)

func (d *Device) Board() *boards.Board              { return d.board }
func (d *Device) Desk() *Desk                       { return d.desk }
func (d *Device) Port() *string                     { return &d.attachment.port }
func (d *Device) Chip() *string                     { return &d.attachment.chip }
func (d *Device) Programmer() flasher.Programmer    { return d.attachment.programmer }
func (d *Device) ProgrammerConfig() *flasher.Config { return &d.attachment.conf }
func (d *Device) ProbeSerial() string               { return d.attachment.probe.Serial }

// OpenPort opens the board's UART.
func (d *Device) OpenPort(ctx context.Context) (transport.Link, error) {
	return d.attachment.open(ctx, d.board, nil)
}

// NotedPower is the command that b has for the device as a board of that kind.
func (d *Device) NotedPower(b *DeskFile, board string) string {
	return b.noted(board, d.attachment.address(), d.attachment.probe).Power
}
