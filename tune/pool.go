package tune

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
)

// All measures candidates in parallel, and returns results in order of finishing. It draws from the sequence in a
// goroutine of its own, only a few candidates ahead of the builders and places. It ends with the sequence, or after the
// first error. It does not wait for a sequence that blocks: such a sequence must end when ctx does.
func (r *Run) All(ctx context.Context, candidates iter.Seq[Candidate]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		p := pool{run: r, outcomes: make(chan outcome), slots: make(chan struct{}, r.parallelism())}

		drawn := make(chan struct{})
		go func() {
			defer close(drawn)
			for c := range candidates {
				if !p.start(ctx, c) {
					return
				}
			}
		}()

		// A sequence that blocks does not keep the pool open after ctx has ended.
		go func() {
			select {
			case <-drawn:
			case <-ctx.Done():
			}
			p.close()
		}()

		for o := range p.outcomes {
			if !yield(o.result, o.err) || o.err != nil {
				cancel()
				// wait for the goroutines: outcomes is closed after them
				for range p.outcomes {
				}
				return
			}
		}

		if ctx.Err() != nil {
			yield(Result{}, failure.Stopped(ctx, "measure"))
		}
	}
}

// parallelism returns how many candidates are in progress at once: one for each builder, and two for each place, also
// for some that may come.
func (r *Run) parallelism() int {
	n := runtime.NumCPU()
	if r.o.Builder.Jobs > 0 {
		n = r.o.Builder.Jobs
	}

	for _, k := range r.kinds {
		n += 2 * k.places.number()
	}
	n += 2 * lateRemotes * len(r.o.Remotes)
	return n
}

// A pool is the goroutines of one call of All.
type pool struct {
	run      *Run
	outcomes chan outcome
	slots    chan struct{} // has a token for each candidate in progress

	mu         sync.Mutex
	closed     bool // no goroutine starts any more
	goroutines sync.WaitGroup
}

// start measures a candidate in a goroutine once there is a slot. It returns false when the pool ends.
func (p *pool) start(ctx context.Context, c Candidate) bool {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}

	// No goroutine starts after close, which waits for them.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.goroutines.Go(func() {
		defer func() { <-p.slots }()
		result, err := p.run.Measure(ctx, c)
		select {
		case p.outcomes <- outcome{result, err}:
		case <-ctx.Done():
		}
	})
	return true
}

// close waits for the goroutines, and closes outcomes.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.goroutines.Wait()
	close(p.outcomes)
}
