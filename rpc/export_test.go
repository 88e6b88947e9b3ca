package rpc

import (
	"context"

	"github.com/boardsmith/boardsmith/internal/tvmrpc"
)

// CopyTo copies the content of t to another tensor on the device, as a gateway does.
func (t *Tensor) CopyTo(ctx context.Context, to *Tensor) error {
	_, err := t.memory.session.Do(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCopyAmongRemote, Args: []tvmrpc.Value{
		tvmrpc.TensorOf(&t.ref), tvmrpc.TensorOf(&to.ref), tvmrpc.Opaque(0),
	}})
	return err
}

// ParsePlatform gives the tests outside of the package access to the parser.
var ParsePlatform = parsePlatform
