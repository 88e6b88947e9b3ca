package tune

import (
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/rpc"
)

// stored returns a store and a function that adds results of contents to it.
func stored(t *testing.T) (s *store, add func(id, of, content string, median float64)) {
	t.Helper()
	s, err := openStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() }) // the test has read what it wrote
	return s, func(id, of, content string, median float64) {
		t.Helper()
		err := s.add(Result{
			ID: id, Content: content, Time: &rpc.Stats{N: 1, Median: median}, Unproven: true, of: of,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwinsFollow: a candidate that shares an unproven time has the new one when that is measured again, and stays the
// candidate that it is.
func TestTwinsFollow(t *testing.T) {
	s, add := stored(t)
	add("a", "", "of a", 9)
	add("b", "of a", "of b", 9)
	add("c", "of b", "of b", 9) // another ID of b
	add("a", "", "of a", 1)
	for _, content := range []string{"of a", "of b"} {
		r, _, ok, err := s.find(content)
		if err != nil || !ok || r.Time.Median != 1 || r.Content != content || !r.Unproven {
			t.Errorf("%s: %+v, %v", content, r, err)
		}
	}
	all, err := ReadResults(s.dir)
	if err != nil || len(all) != 3 {
		t.Errorf("%d results, %v", len(all), err)
	}
	for _, r := range all {
		if r.Time.Median != 1 || !r.Unproven {
			t.Errorf("%+v", r)
		}
	}
	if err := s.prove([]string{"of a"}); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"of a", "of b"} {
		if r, _, _, err := s.find(content); err != nil || r.Unproven {
			t.Errorf("%s is unproven: %v", content, err)
		}
	}
	all, err = ReadResults(s.dir)
	for _, r := range all {
		if err != nil || r.Unproven {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestLabelMoves: when a result of an earlier content of an ID is measured again, the ID stands for what it stood for,
// and candidates that share no time with it keep theirs.
func TestLabelMoves(t *testing.T) {
	s, add := stored(t)
	add("x", "", "first", 9)
	add("y", "first", "twin", 9)
	add("x", "", "second", 5) // x has another content
	add("y", "", "other", 6)  // and so has y
	add("x", "", "first", 1)  // the reference was wrong
	all, err := ReadResults(s.dir)
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, r := range all {
		if want := map[string]string{"x": "second", "y": "other"}[r.ID]; r.Content != want {
			t.Errorf("%s stands for %s, want %s", r.ID, r.Content, want)
		}
	}
	for content, want := range map[string]float64{"first": 1, "twin": 1, "second": 5, "other": 6} {
		if r, _, _, err := s.find(content); err != nil || r.Time.Median != want {
			t.Errorf("%s: %+v, %v", content, r, err)
		}
	}
	again, err := openAgain(s)
	if err != nil || !again.stands("x", "second") || !again.stands("y", "other") {
		t.Errorf("after the run was opened again: %v, %v", again.labels, err)
	}
	_ = again.close()
}

func openAgain(s *store) (*store, error) {
	if err := s.close(); err != nil {
		return nil, err
	}
	return openStore(s.dir)
}

// TestLeftOut: what was left out is no result, with what Confirm measured of it, until a line has its ID again.
func TestLeftOut(t *testing.T) {
	s, add := stored(t)
	add("a", "", "of a", 2)
	add("b", "", "of b", 3)
	if err := s.add(Result{
		ID: "a@flash", Of: "a", Content: "of a@flash", Time: &rpc.Stats{N: 1, Median: 4},
	}); err != nil {
		t.Fatal(err)
	}
	ids := func() (all []string) {
		results, err := ReadResults(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			all = append(all, r.ID)
		}
		return all
	}
	if got := ids(); !slices.Equal(got, []string{"a", "b", "a@flash"}) {
		t.Errorf("%q", got)
	}
	if err := s.leaveOut([]string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := ids(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("without a: %q", got)
	}
	if s.stands("a", "of a") {
		t.Error("a stands for its content")
	}
	add("a", "", "of another", 1)
	if got := ids(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("of another version of a: %q", got)
	}
}
