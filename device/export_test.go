package device

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/transport"
)

// This file gives access to internals for tests that build firmware and are therefore outside of the package.

var (
	ResetCause  = resetCause
	EmulatedDir = emulatedDir
)

func (d *Device) Board() *boards.Board              { return d.board }
func (d *Device) Desk() *Desk                       { return d.desk }
func (d *Device) Port() *string                     { return &d.attachment.Port }
func (d *Device) Programmer() flasher.Programmer    { return d.attachment.Programmer }
func (d *Device) ProgrammerConfig() *flasher.Config { return &d.attachment.Config }

// OpenPort opens the board's UART.
func (d *Device) OpenPort(ctx context.Context) (transport.Link, error) {
	return d.openLink(ctx, nil)
}
