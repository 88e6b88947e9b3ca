// Package serve offers a board as a TVM RPC server on TCP, joined to TVM's tracker, so that TVM 0.9 to 0.27 measures on
// it (spec: docs/formats/rpc_tcp.md).
//
// It knows TVM's protocol. It builds no firmware and opens no device: a Board does.
package serve

import (
	"context"

	"github.com/boardsmith/boardsmith/rpc"
)

// A Board runs modules for one client at a time. One goroutine at a time uses it, and Close follows the last call. Each
// method begins by restoring a board whose session is broken or whose context ended in the middle of a request: it
// restarts a process or an emulator and resets a chip. An error of class config, compile, link or does-not-fit is the
// client's; after any error the board can be used again. Errors reach the client as their text.
type Board interface {
	// Open returns a session with firmware without modules: tensors, random numbers, copies. If the firmware runs, it
	// returns the session at once, and keeps everything that is on the board. The caller does not close the session.
	Open(ctx context.Context) (*rpc.Session, error)

	// Load builds the module in a tar archive, loads it and starts it. archive is a tar, gzipped or not, whose members
	// are C files or objects, or which is in model library format, with which AutoTVM's module loader begins a session
	// (TVM 0.9 to 0.18, rpc_tcp.md §5.4); or a single ELF object. It is hostile: its members are checked before a compiler
	// runs, and no error has a line of another file.
	// The module's session is that of Open, with its tensors, if it fits into RAM. Otherwise it is a new session, and what
	// was on the board is lost. The module is valid until the next Load that returns another session, or Release; the
	// caller may Unlink it. Its functions have the names that clients look up ("main",
	// "__tvm_main__", "default_function"), with the ABI hidden: an operator's error text is the error of the call.
	// Another Load may unlink earlier modules if they do not fit beside the new one.
	Load(ctx context.Context, archive []byte) (rpc.Module, error)

	// Release ends the use by a client: it frees the tensors and modules of the session, which is not valid any more, and
	// within a second or two restores a board that is stuck, so that the next Open succeeds at once.
	Release(ctx context.Context) error

	// Close releases the device.
	Close() error
}
