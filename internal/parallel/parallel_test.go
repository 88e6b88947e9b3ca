package parallel

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestDo(t *testing.T) {
	t.Parallel()
	const n = 1000
	var done [n]atomic.Int32
	if err := Do(n, func(i int) error { done[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if got := done[i].Load(); got != 1 {
			t.Errorf("%d was done %d times", i, got)
		}
	}
	if err := Do(0, nil); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	failing := make(chan struct{})
	var begun atomic.Int32
	err := Do(n, func(i int) error {
		begun.Add(1)
		if i == 0 {
			close(failing)
			return broken
		}
		<-failing
		time.Sleep(time.Millisecond)
		return nil
	})
	if !errors.Is(err, broken) || begun.Load() == n {
		t.Errorf("got %v; %d were begun", err, begun.Load())
	}
}
