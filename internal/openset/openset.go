// Package openset closes together values that were opened one by one. It does not depend on their types.
package openset

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
)

// A Set is what is open. The zero value is empty. Many goroutines may use it at once; it must not be copied after its
// first use.
type Set[T interface {
	comparable
	io.Closer
}] struct {
	mu   sync.Mutex
	open map[T]bool
}

// Add notes a value that is open, and returns it.
func (s *Set[T]) Add(value T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[T]bool{}
	}
	s.open[value] = true
	return value
}

// Remove forgets a value. Its Close calls this.
func (s *Set[T]) Remove(value T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, value)
}

// Close closes all values, each of which removes itself. The set can be used again.
func (s *Set[T]) Close() error {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	var errs []error
	for _, value := range open {
		errs = append(errs, value.Close())
	}
	return errors.Join(errs...)
}
