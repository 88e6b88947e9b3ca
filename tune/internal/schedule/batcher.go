package schedule

import "sync"

// A Batcher collects jobs for one firmware. It releases them as soon as Size are collected, or no other job in progress
// can join them. Many goroutines may use it.
type Batcher[J any] struct {
	Size    int        // jobs of a full batch
	Release func(...J) // receives a batch; must not call the Batcher

	mu         sync.Mutex
	inProgress int // between Begin and its end, with those that are collected or released
	collected  []J
	released   int // until Done
}

// Begin counts a job that may join a batch, until the caller calls end.
func (b *Batcher[J]) Begin() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inProgress++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.inProgress--
		b.releaseIfComplete()
	}
}

// Add adds a job to the next batch. Begin has counted it.
func (b *Batcher[J]) Add(job J) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.collected = append(b.collected, job)
	b.releaseIfComplete()
}

// Done removes a released job from the count. Its caller calls end of Begin afterwards.
func (b *Batcher[J]) Done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released--
}

func (b *Batcher[J]) releaseIfComplete() {
	n := len(b.collected)
	// A released job is in progress until its end, but joins no batch any more.
	if n > 0 && (n >= b.Size || n+b.released >= b.inProgress) {
		b.Release(b.collected...)
		b.released += n
		b.collected = nil
	}
}
