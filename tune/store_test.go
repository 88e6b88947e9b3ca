package tune

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
)

var must = testkit.Must

func stored(t *testing.T) *store {
	t.Helper()
	s, err := openStore(t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = s.close() }) // the test has read what it wrote
	return s
}

// unprovenTime returns a result of a content with an unproven time.
func unprovenTime(id, content string, median float64) *Result {
	return &Result{ID: id, Content: content, Time: &rpc.Stats{N: 1, Median: median}, Unproven: true}
}

// shared shares the result of a key, and returns it under the ID.
func shared(t *testing.T, s *store, id, content, key string) Result {
	t.Helper()
	r, _, err := s.share(Result{ID: id, Content: content}, key)
	must(t, err)
	return r
}

func check(t *testing.T, err error) {
	t.Helper()
	must(t, err)
}

// TestTwinsShareNewestResult replaces an unproven time that two candidates share.
func TestTwinsShareNewestResult(t *testing.T) {
	s := stored(t)
	check(t, s.append(resultLine{Result: unprovenTime("a", "of a", 9)}))
	shared(t, s, "b", "of b", "of a")
	shared(t, s, "c", "of b", "of b") // another ID of b
	check(t, s.append(resultLine{Result: unprovenTime("a", "of a", 1), Again: true}))
	for proven, lines := range []int{4, 5} {
		all, err := ReadResults(s.dir)
		if err != nil || len(all) != 3 {
			t.Errorf("%d results, %v", len(all), err)
		}
		for i, r := range all {
			want := Result{ID: []string{"a", "b", "c"}[i], Content: []string{"of a", "of b", "of b"}[i]}
			if r.ID != want.ID || r.Content != want.Content || r.Time.Median != 1 || r.Unproven != (proven == 0) ||
				r.SameAs != []string{"", "a", "a"}[i] {
				t.Errorf("%+v", r)
			}
			if is := shared(t, s, r.ID, r.Content, "of a"); is.Time.Median != 1 || is.Unproven != r.Unproven {
				t.Errorf("%+v", is)
			}
		}
		data, err := os.ReadFile(filepath.Join(s.dir, "results.jsonl"))
		if n := bytes.Count(data, []byte("\n")); n != lines || err != nil {
			t.Errorf("%d lines, want %d: %v", n, lines, err)
		}
		check(t, s.append(resultLine{Proven: []string{"of a"}}))
	}
}

// TestReplacedResultMovesNoLabel replaces the result of an earlier content of an ID.
func TestReplacedResultMovesNoLabel(t *testing.T) {
	s := stored(t)
	check(t, s.append(resultLine{Result: unprovenTime("x", "first", 9)}))
	shared(t, s, "y", "twin", "first")
	check(t, s.append(resultLine{Result: unprovenTime("x", "second", 5)}))             // x has another content
	check(t, s.append(resultLine{Result: unprovenTime("y", "other", 6)}))              // and so has y
	check(t, s.append(resultLine{Result: unprovenTime("x", "first", 1), Again: true})) // the reference was wrong
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
		if r, _, _ := s.find(content); r.Time.Median != want {
			t.Errorf("%s: %+v", content, r)
		}
	}
	again, err := openAgain(s)
	check(t, err)
	for id, want := range map[string]string{"x": "second", "y": "other"} {
		x := again.index
		if got := x.lines[x.labels[label{"", id}]].key(); got != want {
			t.Errorf("after the run was opened again, %s stands for %s", id, got)
		}
	}
	_ = again.close()
}

// TestDamagedLinesAreErrors reads lines that no run writes.
func TestDamagedLinesAreErrors(t *testing.T) {
	for _, lines := range []string{
		`{"content":"c","time":{"n":1}}`,
		`{"id":"a","content":"c"}`,
		`{"id":"a","shares":"c"}`,
		`{"id":"a","content":"c","shares":"c","time":{"n":1}}`,
		`{"id":"a","content":"c","shares":"d"}` + "\n" + `{"id":"b","content":"d","shares":"c"}`,
	} {
		t.Run(lines, func(t *testing.T) {
			dir := t.TempDir()
			check(t, os.WriteFile(filepath.Join(dir, "results.jsonl"), []byte(lines+"\n"), 0o600))
			if _, err := ReadResults(dir); failure.Of(err) != failure.Config {
				t.Errorf("%s: %v", lines, err)
			}
			if s, err := openStore(dir); failure.Of(err) != failure.Config {
				t.Errorf("%s: opened %v, %v", lines, s, err)
			}
		})
	}
}

func openAgain(s *store) (*store, error) {
	if err := s.close(); err != nil {
		return nil, err
	}
	return openStore(s.dir)
}

// TestLeftOutIsNoResult leaves out a candidate that Confirm measured, until a line has its ID again.
func TestLeftOutIsNoResult(t *testing.T) {
	s := stored(t)
	check(t, s.append(resultLine{Result: unprovenTime("a", "of a", 2)}))
	check(t, s.append(resultLine{Result: unprovenTime("b", "of b", 3)}))
	must(t, s.append(resultLine{Result: &Result{
		ID: "a@flash", Confirms: "a", Content: "of a@flash", Time: &rpc.Stats{N: 1, Median: 4},
	}}))
	ids := func() (all []string) {
		results, err := ReadResults(s.dir)
		must(t, err)
		for _, r := range results {
			all = append(all, r.ID)
		}
		return all
	}
	if got := ids(); !slices.Equal(got, []string{"a", "b", "a@flash"}) {
		t.Errorf("%q", got)
	}
	must(t, s.append(resultLine{LeftOut: []label{{"", "a"}}}))
	if got := ids(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("without a: %q", got)
	}
	check(t, s.append(resultLine{Result: unprovenTime("a", "of a", 5), Again: true})) // the reference was wrong
	if got := ids(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("without a: %q", got)
	}
	check(t, s.append(resultLine{Result: unprovenTime("a", "of another", 1)}))
	if got := ids(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("of another version of a: %q", got)
	}
}

// TestOthersChangeTheFolder: a folder that is in use, one whose candidates were changed, and one with other lines.
func TestOthersChangeTheFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	must(t, err)
	if _, err := openStore(dir); !strings.Contains(err.Error(), dir) ||
		failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("in use: %v", err)
	}
	c := Candidate{ID: "a", Entry: "f", Args: []Arg{{Data: []byte{}}}, Record: []byte(`{"a": "<"}`)}
	check(t, errors.Join(s.keep("host", "", &c), s.close()))
	result := Result{ID: "a", Kind: "host", Content: c.content, Record: []byte(`{"a":"\u003c"}`)}
	if kept, err := ReadCandidate(dir, result); err != nil || kept.Entry != "f" || kept.Args[0].Data == nil {
		t.Errorf("%+v, %v", kept, err)
	}
	result.Toolchain = "another"
	_, changed := ReadCandidate(dir, result)
	check(t, os.RemoveAll(filepath.Join(dir, argumentsFolder)))
	_, noArguments := ReadCandidate(dir, result)
	_, noFolder := openStore(filepath.Join(dir, "results.jsonl"))
	check(t, os.WriteFile(filepath.Join(dir, "results.jsonl"), []byte("{\"settings\":[]}\n"), 0o644))
	_, noSettings := ReadResults(dir)
	check(t, os.WriteFile(filepath.Join(dir, "results.jsonl"), []byte("[]\n"), 0o644))
	_, noResult := ReadResults(dir)
	for _, err := range []error{changed, noArguments, noFolder, noSettings, noResult} {
		if failure.Of(err) != failure.Config || failure.Next(err) == "" || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%v; %s", err, failure.Next(err))
		}
	}
}
