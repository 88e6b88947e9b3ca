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

// claims are measurements that candidates with the same key share. Many goroutines may use it.
type claims[K comparable] struct {
	mu  sync.Mutex
	all map[K]*measurement
}

// A measurement is in progress, or finished.
type measurement struct {
	done    chan struct{} // closed when it is finished
	content string        // of the measured candidate, valid once done; "": there is no result
}

// get returns the measurement of a key. If there is none it makes one; then first is true, and the caller measures.
func (c *claims[K]) get(key K) (m *measurement, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[K]*measurement{}
	}

	m, ok := c.all[key]
	if !ok {
		m = &measurement{done: make(chan struct{})}
		c.all[key] = m
	}
	return m, !ok
}

func (c *claims[K]) remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, key)
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
