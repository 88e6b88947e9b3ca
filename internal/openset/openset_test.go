package openset

import (
	"errors"
	"sync"
	"testing"
)

type thing struct {
	in     *Set[*thing]
	closed int
	err    error
}

func (t *thing) Close() error {
	t.closed++
	t.in.Remove(t)
	return t.err
}

// TestSet closes what is open, once, and reports all errors.
func TestSet(t *testing.T) {
	var s Set[*thing]
	bad := errors.New("bad")
	things := []*thing{{in: &s}, {in: &s, err: bad}, {in: &s}}
	var all sync.WaitGroup
	for _, x := range things {
		all.Go(func() { s.Add(x) })
	}
	all.Wait()
	if err := things[0].Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	for i, x := range things {
		if x.closed != 1 {
			t.Errorf("%d was closed %d times", i, x.closed)
		}
	}
	if s.Add(things[0]) != things[0] || s.Close() != nil || things[0].closed != 2 {
		t.Error("it cannot be used again")
	}
	if err := s.Close(); err != nil || len(s.open) > 0 {
		t.Errorf("%d are left, %v", len(s.open), err)
	}
}
