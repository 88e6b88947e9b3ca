// This file carries packets over a link without frames.

package rpc_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/boardsmith/boardsmith/transport"
)

// A stream carries packets over a link one after the other, without frames and sessions, as over TCP (rpc_tcp.md §1).
type stream struct {
	link  transport.Link
	limit int
	in    []byte // bytes of the arriving packet
	whole bool   // in was returned
}

func newStream(link transport.Link, limit int) *stream { return &stream{link: link, limit: limit} }

const (
	lengthBytes = 8
	streamBlock = 64 << 10 // bytes allocated before data arrive
)

// Recv implements Transport. It skips empty packets. After an error of ctx the next Recv continues with the same
// packet. Nothing can be received after a packet that is too long.
func (s *stream) Recv(ctx context.Context) ([]byte, error) {
	for {
		if s.whole {
			s.in, s.whole = s.in[:0], false
		}
		if err := s.fill(ctx, lengthBytes); err != nil {
			return nil, err
		}
		n := binary.LittleEndian.Uint64(s.in)
		if n > uint64(s.limit) {
			return nil, fmt.Errorf("packet of %d bytes, at most %d are possible", n, s.limit)
		}
		if err := s.fill(ctx, lengthBytes+int(n)); err != nil {
			return nil, err
		}
		s.whole = true
		if n > 0 {
			return s.in, nil
		}
	}
}

// fill reads until n bytes of the packet have arrived.
func (s *stream) fill(ctx context.Context, n int) error {
	for len(s.in) < n {
		have := len(s.in)
		want := min(n-have, streamBlock)
		s.in = append(s.in, make([]byte, want)...)
		got, err := s.link.Read(ctx, s.in[have:])
		s.in = s.in[:have+got]
		if err != nil {
			return err
		}
	}
	return nil
}

// Send implements Transport.
func (s *stream) Send(ctx context.Context, parts ...[]byte) error {
	for _, p := range parts {
		if err := s.link.Write(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the link.
func (s *stream) Close() error { return s.link.Close() }

// Lossy returns false: packets have no checksum by which damage could be detected.
func (s *stream) Lossy() bool { return false }
