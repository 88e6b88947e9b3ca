// Package parallel runs a few calls at a time.
package parallel

import (
	"runtime"
	"sync/atomic"
)

// Do calls do for 0 to n-1, a few at a time, and returns the first error; after it no more are begun.
func Do(n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	workers := min(n, runtime.NumCPU(), 8)
	errs := make(chan error, workers)
	for range workers {
		go func() {
			for i := int(next.Add(1) - 1); i < n && !failed.Load(); i = int(next.Add(1) - 1) {
				if err := do(i); err != nil {
					failed.Store(true)
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range workers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
