// This file declares what a programmer may be able to do besides the methods of flasher.Programmer.

package device

import (
	"context"

	"github.com/boardsmith/boardsmith/flasher"
)

// A flashReader reads back, erases and writes single sectors, and resets. Any other programmer only writes: of a job,
// Write must be a whole image and Verify empty.
type flashReader interface {
	// Read returns the content of the ranges, in their order. It changes no memory, but resets the board.
	Read(ctx context.Context, ranges []flasher.Range) ([]flasher.Segment, error)
}

// An inspector reads a board's state without a reset.
type inspector interface {
	// Inspect halts the core, reads its program counter and the ranges, and resumes it. Errors: those of the programmer
	// and of ctx.
	Inspect(ctx context.Context, ranges []flasher.Range) (pc uint32, got []flasher.Segment, err error)
}

// A debugServer has a gdb server.
type debugServer interface {
	// Serve runs a gdb server on a local TCP port, and calls use when gdb can connect. The core is reset and halted
	// before; with attach it runs until gdb connects, and continues when that detaches. The server ends when use returns,
	// before Serve returns. Errors: those of the programmer, of use and of ctx.
	Serve(ctx context.Context, attach bool, port int, use func(context.Context) error) error
	// ServeCommand returns the server's command line, for display.
	ServeCommand(attach bool, port int) string
}

// An rttServer serves RTT's channel 0: bytes in buffers of the firmware's RAM, while the core runs.
type rttServer interface {
	// ServeRTT searches the ranges for RTT's control block, for as long as firmware may need to write it after a reset.
	// It then listens on a local TCP port and calls use, whose client's bytes are the channel's. The server ends when use
	// returns, before ServeRTT returns. If it ends sooner, such as when the probe is unplugged, use's context does. The
	// core is neither halted nor reset. Errors: those of the programmer, of class boot if there is no control block, of
	// class transport if the server ended sooner; those of use and of ctx.
	ServeRTT(ctx context.Context, port int, ranges []flasher.Range, use func(context.Context) error) error
}
