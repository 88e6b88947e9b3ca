package tune

import (
	"testing"

	"github.com/boardsmith/boardsmith/rpc"
)

// TestTwinsFollow: a candidate that shares an unproven time has the new one when that is measured again, and stays the
// candidate that it is.
func TestTwinsFollow(t *testing.T) {
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	result := func(id, same, content string, median float64) Result {
		return Result{ID: id, Same: same, Content: content, Time: &rpc.Stats{N: 1, Median: median}, Unproven: true}
	}
	for _, r := range []Result{result("a", "", "of a", 9), result("b", "a", "of b", 9), result("a", "", "of a", 1)} {
		if err := s.add(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b"} {
		r, ok, err := s.find(id)
		if err != nil || !ok || r.Time.Median != 1 || r.Content != "of "+id || !r.Unproven {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if err := s.prove([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if r, _, err := s.find(id); err != nil || r.Unproven {
			t.Errorf("%s is unproven: %v", id, err)
		}
	}
}
