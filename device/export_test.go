package device

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/transport"
)

// This file gives access to internals for tests that build firmware and are therefore outside of the package.

const ErasedByte = erasedByte

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
	return d.attachment.open(ctx, d.board)
}

// NotedPower is the command that b has for the device as a board of that kind.
func (d *Device) NotedPower(b *DeskFile, board string) string {
	return b.noted(board, d.attachment.address(), d.attachment.probe).Power
}

// A FlashSector is a sector and the image's bytes in it.
type FlashSector struct {
	flasher.Sector
	Data   []byte
	Digest string
}

// SectorsOf cuts an image into the sectors of the board's flash.
func SectorsOf(b *boards.Board, i *image.Image) ([]FlashSector, error) {
	img, err := flashImageOf(b, i)
	if err != nil {
		return nil, err
	}
	var list []FlashSector
	for _, s := range img.sectors {
		list = append(list, FlashSector{s.Sector, s.data, s.digest})
	}
	return list, nil
}
