package tune

import (
	"bytes"
	"errors"
	"os"
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

// TestTwinsShareNewestResult replaces an unproven time that two candidates share.
func TestTwinsShareNewestResult(t *testing.T) {
	s := stored(t)
	must(t, s.append(resultLine{Result: unprovenTime("a", "of a", 9)}))
	shared(t, s, "b", "of b", "of a")
	shared(t, s, "c", "of b", "of b") // another ID of b
	must(t, s.append(resultLine{Result: unprovenTime("a", "of a", 1), Again: true}))
	for proven, lines := range []int{4, 5} {
		all, err := ReadResults(s.dir)
		must(t, err)
		testkit.Equal(t, "results", len(all), 3)
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
		testkit.Equal(t, "lines", bytes.Count(testkit.ReadFile(t, s.dir+"/results.jsonl"), []byte("\n")), lines)
		must(t, s.append(resultLine{Proven: []string{"of a"}}))
	}
}

// TestReplacedResultMovesNoLabel replaces the result of an earlier content of an ID.
func TestReplacedResultMovesNoLabel(t *testing.T) {
	s := stored(t)
	must(t, s.append(resultLine{Result: unprovenTime("x", "first", 9)}))
	shared(t, s, "y", "twin", "first")
	must(t, s.append(resultLine{Result: unprovenTime("x", "second", 5)}))             // x has another content
	must(t, s.append(resultLine{Result: unprovenTime("y", "other", 6)}))              // and so has y
	must(t, s.append(resultLine{Result: unprovenTime("x", "first", 1), Again: true})) // the reference was wrong
	all, err := ReadResults(s.dir)
	must(t, err)
	testkit.Equal(t, "results", len(all), 2)
	for _, r := range all {
		testkit.Equal(t, r.ID, r.Content, map[string]string{"x": "second", "y": "other"}[r.ID])
	}
	for content, want := range map[string]float64{"first": 1, "twin": 1, "second": 5, "other": 6} {
		r, _, _ := s.find(content)
		testkit.Equal(t, content, r.Time.Median, want)
	}
	must(t, s.close())
	again, err := openStore(s.dir)
	must(t, err)
	for id, want := range map[string]string{"x": "second", "y": "other"} {
		x := again.index
		testkit.Equal(t, id, x.lines[x.labels[label{"", id}]].key(), want)
	}
	_ = again.close()
}

// TestDamagedLinesAreErrors reads lines that no run writes.
func TestDamagedLinesAreErrors(t *testing.T) {
	for _, lines := range []string{
		"", "{}", "null", "[]", `{"id": ""}`, `{"id": "a", "time": {"Median": -1}}`, `{"id": "a", "time": {"Median": 1e999}}`,
		`{"id": "a", "time": {"Median": 1}, "failure": {"class": "link"}}`,
		`{"content":"c","time":{"n":1}}`,
		`{"id":"a","content":"c"}`,
		`{"id":"a","shares":"c"}`,
		`{"id":"a","content":"c","shares":"c","time":{"n":1}}`,
		`{"id":"a","content":"c","shares":"d"}` + "\n" + `{"id":"b","content":"d","shares":"c"}`,
	} {
		t.Log(lines)
		dir := t.TempDir()
		testkit.WriteFile(t, dir+"/results.jsonl", lines+"\n")
		_, err := ReadResults(dir)
		testkit.WantError(t, err, failure.Config)
		_, err = openStore(dir)
		testkit.WantError(t, err, failure.Config)
	}
}

// TestLeftOutIsNoResult leaves out a candidate that Confirm measured, until a line has its ID again.
func TestLeftOutIsNoResult(t *testing.T) {
	s := stored(t)
	must(t, s.append(resultLine{Result: unprovenTime("a", "of a", 2)}))
	must(t, s.append(resultLine{Result: &Result{
		ID: "a@flash", Confirms: "a", Content: "of a@flash", Time: &rpc.Stats{N: 1, Median: 4},
	}}))
	for _, step := range []struct {
		line resultLine
		ids  []string
	}{
		{resultLine{Result: unprovenTime("b", "of b", 3)}, []string{"a", "a@flash", "b"}},
		{resultLine{LeftOut: []label{{"", "a"}}}, []string{"b"}},
		{resultLine{Result: unprovenTime("a", "of a", 5), Again: true}, []string{"b"}}, // the reference was wrong
		{resultLine{Result: unprovenTime("a", "of another", 1)}, []string{"b", "a"}},
	} {
		must(t, s.append(step.line))
		results, err := ReadResults(s.dir)
		must(t, err)
		var ids []string
		for _, r := range results {
			ids = append(ids, r.ID)
		}
		testkit.Equal(t, step.line, ids, step.ids)
	}
}

// TestOthersChangeTheFolder: a folder that is in use, one whose candidates were changed, and one with other lines.
func TestOthersChangeTheFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir)
	must(t, err)
	_, err = openStore(dir)
	testkit.WantError(t, err, failure.Config, dir)
	c := Candidate{ID: "a", Entry: "f", Args: []Arg{{Data: []byte{}}}, Record: []byte(`{"a": "<"}`)}
	must(t, errors.Join(s.keep("host", "", &c), s.close()))
	result := Result{ID: "a", Kind: "host", Content: c.content, Record: []byte(`{"a":"\u003c"}`)}
	if kept, err := ReadCandidate(dir, result); err != nil || kept.Entry != "f" || kept.Args[0].Data == nil {
		t.Errorf("%+v, %v", kept, err)
	}
	result.Toolchain = "another"
	_, changed := ReadCandidate(dir, result)
	must(t, os.RemoveAll(dir+"/"+argumentsFolder))
	_, noArguments := ReadCandidate(dir, result)
	_, noFolder := openStore(dir + "/results.jsonl")
	testkit.WriteFile(t, dir+"/results.jsonl", "{\"settings\":[]}\n")
	_, noSettings := ReadResults(dir)
	testkit.WriteFile(t, dir+"/results.jsonl", "[]\n")
	_, noResult := ReadResults(dir)
	for _, err := range []error{changed, noArguments, noFolder, noSettings, noResult} {
		if failure.Of(err) != failure.Config || failure.Next(err) == "" || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%v; %s", err, failure.Next(err))
		}
	}
}
