package tune

import (
	"sync"
	"testing"
)

// TestQueueEnds ends a queue from several goroutines: the last place that is lost, and the run's Close.
func TestQueueEnds(t *testing.T) {
	for range 100 {
		q := newQueue(2)
		j := &job{answer: make(chan answer, 1)}
		q.again <- j
		var all sync.WaitGroup
		for range 4 {
			all.Go(q.close)
		}
		all.Wait()
		if a := <-j.answer; a.err == nil {
			t.Fatal("a queued job was not told")
		}
	}
}
