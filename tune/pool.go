package tune

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
)

// All measures candidates in parallel, and returns results in order of finishing. It draws from the sequence in a
// goroutine of its own, only a few candidates ahead of the builders and boards. It ends with the sequence, or after the
// first error. It does not wait for a sequence that blocks: such a sequence must end when ctx does.
func (r *Run) All(ctx context.Context, candidates iter.Seq[Candidate]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()

		drawn := make(chan Candidate)
		go func() {
			defer close(drawn)
			for c := range candidates {
				select {
				case drawn <- c:
				case <-ctx.Done():
					return
				}
			}
		}()

		outcomes := make(chan outcome)
		var goroutines sync.WaitGroup
		for range r.parallelism() {
			goroutines.Go(func() { r.measureEach(ctx, drawn, outcomes) })
		}
		go func() {
			goroutines.Wait()
			close(outcomes)
		}()

		for o := range outcomes {
			if !yield(o.result, o.err) || o.err != nil {
				cancel()
				goroutines.Wait()
				return
			}
		}

		if ctx.Err() != nil {
			yield(Result{}, failure.Stopped(ctx, "measure"))
		}
	}
}

// measureEach measures candidates until there are no more, or ctx ends.
func (r *Run) measureEach(ctx context.Context, candidates <-chan Candidate, outcomes chan<- outcome) {
	for {
		select {
		case c, ok := <-candidates:
			if !ok {
				return
			}
			result, err := r.Measure(ctx, c)
			select {
			case outcomes <- outcome{result, err}:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
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

	for _, s := range r.schedulers {
		n += 2 * s.firmware.boardCount()
	}
	n += 2 * lateRemotes * len(r.o.Remotes)
	return n
}
