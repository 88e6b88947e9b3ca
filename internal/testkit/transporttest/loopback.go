// Package transporttest tests links and their users: a contract suite that every transport.Link passes, a link in
// memory, and links that cut, damage or reroute traffic.
//
// Package rpctest provides a simulated device.
package transporttest

import (
	"context"
	"errors"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// pipeSize is the buffer size of one direction of a loopback.
const pipeSize = 64 << 10

// Pair returns the two ends of a link in memory.
func Pair() (host, device transport.Link) {
	toDevice, toHost := newPipe(), newPipe()
	return &loopback{in: toHost, out: toDevice}, &loopback{in: toDevice, out: toHost}
}

// LossyPair is Pair with ends whose Lossy returns true. They lose no bytes.
func LossyPair() (host, device transport.Link) {
	host, device = Pair()
	host.(*loopback).lossy, device.(*loopback).lossy = true, true
	return host, device
}

type loopback struct {
	in, out *pipe
	lossy   bool
}

func (l *loopback) Read(ctx context.Context, p []byte) (n int, err error) {
	if len(p) == 0 {
		if ctx.Err() != nil {
			return 0, ended(ctx, "read")
		}
		return 0, nil
	}
	err = l.in.wait(ctx, "read", func() bool {
		n = copy(p, l.in.data)
		l.in.data = l.in.data[n:]
		return n > 0
	})
	return n, err
}

func (l *loopback) Write(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		err := l.out.wait(ctx, "write", func() bool {
			n := min(len(p), pipeSize-len(l.out.data))
			if l.out.closed || n == 0 {
				return false
			}
			l.out.data = append(l.out.data, p[:n]...)
			p = p[n:]
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loopback) Close() error {
	l.in.close()
	l.in.drop()
	l.out.close()
	return nil
}

func (l *loopback) Lossy() bool { return l.lossy }

// A pipe is one direction.
type pipe struct {
	mu      sync.Mutex
	data    []byte
	closed  bool
	changed chan struct{} // closed and replaced at every change
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

func (p *pipe) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.signal()
	}
}

func (p *pipe) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = nil
}

// wait runs try, with the pipe locked, until it succeeds.
func (p *pipe) wait(ctx context.Context, op string, try func() bool) error {
	for {
		if ctx.Err() != nil {
			return ended(ctx, op)
		}
		p.mu.Lock()
		done := try()
		if done {
			p.signal()
		}
		closed, changed := p.closed, p.changed
		p.mu.Unlock()
		switch {
		case done:
			return nil
		case closed:
			return transport.ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// timeout returns a Link's error for a deadline.
func timeout(op string, cause error) error {
	return failure.Errorf(failure.Timeout, "%s: %w", op, errors.Join(context.DeadlineExceeded, cause))
}

// ended returns a Link's error for a wait that ctx ended.
func ended(ctx context.Context, op string) error {
	if ctx.Err() == context.Canceled {
		return failure.Stopped(ctx, "%s", op)
	}
	return timeout(op, context.Cause(ctx))
}
