// This file opens sessions with devices of other computers.

package device

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/transport"
)

// AttachRemote returns a device of another computer, for Open and Confirm: open opens the link of the image that this
// computer has put onto the device, or runs. keepsImage is what Device.KeepsImage returns there. Flash and Reset do
// nothing.
func (k *Desk) AttachRemote(
	b *boards.Board, keepsImage bool, open func(context.Context) (transport.Link, error),
) *Device {
	return &Device{board: b, desk: k, remote: &remote{open, keepsImage}}
}
