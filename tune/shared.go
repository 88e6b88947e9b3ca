// This file holds times and measurements that candidates share.

package tune

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/boardsmith/boardsmith/rpc"
)

// bestTimes are the best times of candidates, in seconds, by the digest of their arguments. Many goroutines may use it.
type bestTimes struct {
	mu    sync.Mutex
	times map[digest]float64
}

// get returns the best time; 0 if there is none.
func (b *bestTimes) get(args digest) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times[args]
}

func (b *bestTimes) add(args digest, samples []float64) {
	t := rpc.StatsOf(samples).Median
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.times == nil {
		b.times = map[digest]float64{}
	}
	if best := b.times[args]; best == 0 || t < best {
		b.times[args] = t
	}
}

// twins are measurements that candidates with the same bytes and arguments share. Many goroutines may use it.
type twins struct {
	mu  sync.Mutex
	all map[digest]*twin
}

// A twin is one measurement.
type twin struct {
	done    chan struct{} // closed when the measurement is finished
	content string        // of the measured candidate, valid once done; "": there is no result
}

// get returns the twin of a key. If there is none it makes one; then first is true, and the caller measures.
func (t *twins) get(key digest) (shared *twin, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[digest]*twin{}
	}
	shared, ok := t.all[key]
	if !ok {
		shared = &twin{done: make(chan struct{})}
		t.all[key] = shared
	}
	return shared, !ok
}

func (t *twins) remove(key digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// twinKey returns the digest of everything that determines a measurement: linked bytes, addresses, entry and arguments.
func twinKey(l load, entry string) digest {
	h, p := sha256.New(), l.program
	hashPart(h, p.Bytes)
	_ = binary.Write(h, binary.LittleEndian, []uint64{p.Base, p.Zero, p.Registry}) // a hash returns no error
	hashPart(h, []byte(entry))
	hashPart(h, l.args[:])
	return digest(h.Sum(nil))
}

// A contentLocks lets one goroutine at a time measure a content.
type contentLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed on release
}

// tryLock locks a content, or returns a channel that is closed when its holder releases it.
func (c *contentLocks) tryLock(content string) (release func(), released <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held, ok := c.held[content]; ok {
		return nil, held
	}
	if c.held == nil {
		c.held = map[string]chan struct{}{}
	}
	held := make(chan struct{})
	c.held[content] = held
	return func() {
		c.mu.Lock()
		delete(c.held, content)
		c.mu.Unlock()
		close(held)
	}, nil
}
