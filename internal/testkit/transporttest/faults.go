// This file makes links that lose or change bytes, or end.

package transporttest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/boardsmith/boardsmith/transport"
)

// CutAfter returns a link that ends after n bytes in both directions together, as if its cable were unplugged.
func CutAfter(n int, link transport.Link) transport.Link { return &cutter{Link: link, left: n} }

type cutter struct {
	transport.Link
	mu   sync.Mutex
	left int
}

// take returns how many of n bytes may still pass.
func (c *cutter) take(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, c.left)
	c.left -= n
	return n
}

func (c *cutter) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += n
}

func (c *cutter) Read(ctx context.Context, p []byte) (int, error) {
	room := c.take(len(p))
	if room == 0 && len(p) > 0 {
		return 0, transport.ErrClosed
	}
	n, err := c.Link.Read(ctx, p[:room])
	c.give(room - n)
	return n, err
}

func (c *cutter) Write(ctx context.Context, p []byte) error {
	n := c.take(len(p))
	if err := c.Link.Write(ctx, p[:n]); err != nil {
		return err
	}
	if n < len(p) {
		return transport.ErrClosed
	}
	return nil
}

// Count returns a link and a function that returns how many bytes it has carried, in both directions together.
func Count(link transport.Link) (transport.Link, func() int) {
	const plenty = math.MaxInt
	c := &cutter{Link: link, left: plenty}
	return c, func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return plenty - c.left
	}
}

// A Direction is a direction of transfer.
type Direction bool

// The two directions.
const (
	ToDevice Direction = false
	ToHost   Direction = true
)

// Tamper returns a lossy link that passes the bytes of each write and each read through change. Its result may have
// another length; it must not retain its argument.
func Tamper(link transport.Link, change func(Direction, []byte) []byte) transport.Link {
	return &tamperer{Link: link, change: change, buf: make([]byte, 4<<10)}
}

type tamperer struct {
	transport.Link
	change func(Direction, []byte) []byte
	buf    []byte
	ready  []byte // changed, not yet read
}

func (t *tamperer) Lossy() bool { return true }

func (t *tamperer) Read(ctx context.Context, p []byte) (int, error) {
	for len(t.ready) == 0 && len(p) > 0 {
		n, err := t.Link.Read(ctx, t.buf)
		if err != nil {
			return 0, err
		}
		t.ready = t.change(ToHost, t.buf[:n])
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

func (t *tamperer) Write(ctx context.Context, p []byte) error {
	return t.Link.Write(ctx, t.change(ToDevice, bytes.Clone(p)))
}

// Noise holds the probabilities, from 0 to 1, of each kind of damage to a byte.
type Noise struct{ Flip, Drop, Duplicate float64 }

// Damage returns a lossy link that damages bytes in both directions, reproducibly for a seed and the same reads and
// writes.
func Damage(link transport.Link, seed uint64, noise Noise) transport.Link {
	r := [2]*rand.Rand{rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))}
	return Tamper(link, func(d Direction, p []byte) []byte {
		if d == ToHost {
			return noise.apply(r[1], p)
		}
		return noise.apply(r[0], p)
	})
}

func (n Noise) apply(r *rand.Rand, p []byte) []byte {
	out := make([]byte, 0, len(p)+8)
	for _, b := range p {
		if r.Float64() < n.Flip {
			b ^= 1 << r.IntN(8)
		}
		if r.Float64() < n.Drop {
			continue
		}
		out = append(out, b)
		if r.Float64() < n.Duplicate {
			out = append(out, b)
		}
	}
	return out
}
