// This file opens sessions with firmware that has an RPC server and with standalone firmware, and queries its identity.

package device

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	retryWithin = 2 * time.Second // for a bridge to restart, or to detect that its last connection has ended
	retryEvery  = 50 * time.Millisecond
)

// An opener opens the link to a device.
type opener func(context.Context) (transport.Link, error)

// openerOf opens the link of firmware that must be an image.
func (d *Device) openerOf(i *image.Image) opener {
	return func(ctx context.Context) (transport.Link, error) { return d.openLink(ctx, i) }
}

// dial opens a link and a session on it, which owns the link. It retries as dialRetry does.
func dial(ctx context.Context, open opener, o transport.SessionOptions) (*transport.Session, error) {
	return dialRetry(ctx, open, func(link transport.Link) (*transport.Session, error) {
		return transport.Dial(ctx, link, o)
	})
}

// dialStandalone is dial for standalone firmware, whose identity it returns too.
func dialStandalone(
	ctx context.Context, open opener, o standalone.Options,
) (s *standalone.Session, answer *flashplan.Answer, err error) {
	s, err = dialRetry(ctx, open, func(link transport.Link) (s *standalone.Session, err error) {
		s = standalone.New(link, o)
		answer, err = queryStandalone(ctx, s)
		return s, err
	})
	return s, answer, err
}

// dialRetry opens a link and begins a session on it, for up to retryWithin while a bridge fails temporarily: it refuses
// connections while it restarts, and one that serves a single client closes them until it has detected the end of the
// last one. If begin fails, the link is closed.
func dialRetry[T any](ctx context.Context, open opener, begin func(transport.Link) (*T, error)) (*T, error) {
	for start := time.Now(); ; {
		link, err := open(ctx)
		if err == nil {
			s, failed := begin(link)
			if failed == nil {
				return s, nil
			}
			err = errors.Join(failed, link.Close())
		}

		if !errors.Is(err, transport.ErrTemporary) || time.Since(start) > retryWithin {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, failure.Stopped(ctx, "%w", err)
		case <-time.After(retryEvery):
		}
	}
}

// identityFunction is the firmware's function for queryIdentity.
const identityFunction = "boardsmith.build_id"

// queryIdentity calls identityFunction with a new nonce. The answer has the build id, the CRC-32 of the nonce and of
// the image's current flash, and the chip's id.
func queryIdentity(ctx context.Context, f rpc.Function) (*flashplan.Answer, error) {
	// The function takes the nonce as an integer, and its checksum begins with the integer's bytes.
	nonce := binary.LittleEndian.AppendUint64(nil, rand.Uint64())
	result, err := f.Call(ctx, int64(binary.LittleEndian.Uint64(nonce)))
	if err != nil {
		return nil, err
	}

	const idBytes, crcBytes = 16, 4
	b, ok := result.([]byte)
	if !ok || len(b) < idBytes+crcBytes {
		return nil, failure.Errorf(failure.Transport, identityFunction+" answered %T of %d bytes", result, len(b))
	}

	return &flashplan.Answer{
		BuildID: [16]byte(b), Nonce: nonce, CRC: binary.LittleEndian.Uint32(b[idBytes:]),
		Chip: hex.EncodeToString(b[idBytes+crcBytes:]),
	}, nil
}

// queryStandalone is queryIdentity for standalone firmware.
func queryStandalone(ctx context.Context, s *standalone.Session) (*flashplan.Answer, error) {
	nonce := rand.Uint64()
	id, err := s.Identify(ctx, nonce)
	if err != nil {
		return nil, err
	}

	return &flashplan.Answer{
		BuildID: id.BuildID, Nonce: binary.LittleEndian.AppendUint64(nil, nonce), CRC: id.CRC,
		Chip: hex.EncodeToString(id.Chip),
	}, nil
}
