//go:build linux

package tune_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/tune"
)

// switched returns a candidate that executes the statement while a file exists.
func switched(id, file, statement string) tune.Candidate {
	return operator(id, fmt.Sprintf(`extern int access(const char*, int); if (access("%s", 0) == 0) { %s } %s`, file,
		statement, right))
}

// byID returns the results in a run's folder by ID.
func byID(t *testing.T, dir string) map[string]tune.Result {
	t.Helper()
	of := map[string]tune.Result{}
	for _, r := range results(t, dir) {
		of[r.ID] = r
	}
	return of
}

// TestLabelsFollowContent checks that each ID of a content, and each candidate with its bytes, has the newest result:
// after a run was killed before the reference confirmed the time, and after a retried failure.
func TestLabelsFollowContent(t *testing.T) {
	file := t.TempDir() + "/file"
	writeFile(t, file, "")
	reference := operator("reference", right)
	twin := func(id string, c tune.Candidate) tune.Candidate { // other content, equal bytes
		c.ID = id
		c.Operators.Files[0].Data = append(c.Operators.Files[0].Data, "\n/* twin */\n"...)
		return c
	}
	slow := func(id string) tune.Candidate {
		return switched(id, file, "for (volatile int i = 0; i < 1000000; i++) {}")
	}
	fails := func(id string) tune.Candidate { return switched(id, file, "return -1;") }
	all := []tune.Candidate{
		slow("one"), slow("two"), twin("three", slow("three")),
		fails("four"), fails("five"), twin("six", fails("six")),
	}
	o := tune.Options{Reference: &reference, Drift: 1000, Retry: true}
	r, dir := opened(t, o, "host")
	for _, c := range all {
		result := measured(t, r, c)
		if fails := c.ID[0] == 'f' || c.ID == "six"; (result.Failure != nil) != fails {
			t.Errorf("%s: %+v", c.ID, result.Failure)
		}
	}
	killed := t.TempDir() + "/a killed run"
	must(t, os.CopyFS(killed, os.DirFS(dir))) // nothing is confirmed yet
	must(t, os.Remove(file))

	before := byID(t, killed)
	r = openedIn(t, killed, o, "host")
	now := map[string]tune.Result{}
	for _, c := range all {
		now[c.ID] = measured(t, r, c)
	}
	must(t, r.Close())
	after := byID(t, killed)
	testkit.Equal(t, "results", len(after), len(all))
	for i, c := range all {
		root := all[i/3*3].ID
		is, was := after[c.ID], before[c.ID]
		if is.Failure != nil || is.Time == nil || is.Unproven {
			t.Errorf("%s: %+v, %+v", c.ID, is.Time, is.Failure)
			continue
		}
		if *is.Time != *now[c.ID].Time || *is.Time != *now[root].Time {
			t.Errorf("%s: the folder has %+v, measured was %+v", c.ID, is.Time, now[c.ID].Time)
		}
		if was.Time != nil && *was.Time == *is.Time {
			t.Errorf("%s has the time that nothing confirmed", c.ID)
		}
		testkit.Equal(t, c.ID+" is the same as", is.SameAs, map[bool]string{true: "", false: root}[c.ID == root])
		if is.Content != now[c.ID].Content || is.Content != was.Content {
			t.Errorf("%s has content %s", c.ID, is.Content)
		}
	}
}

// TestTwinIsConfirmedAfterLeaveOut leaves out the candidate with which another one shares its measurement, and then
// gives the other one's ID to another content, which is confirmed in its place.
func TestTwinIsConfirmedAfterLeaveOut(t *testing.T) {
	r, dir := opened(t, tune.Options{}, "host")
	first, twin := operator("a", right), operator("b", right+" /* the same bytes */")
	measured(t, r, first)
	measured(t, r, twin)
	testkit.Equal(t, "what b is the same as", byID(t, dir)["b"].SameAs, "a")
	must(t, r.Close())
	r = openedIn(t, dir, tune.Options{}, "host")
	must(t, r.LeaveOut(func(c tune.Candidate) bool { return c.ID == "a" }))
	measured(t, r, twin)
	confirmed := confirm(t, r, 1)
	measured(t, r, operator("b", right+"volatile int k = 1; (void)k;"))
	second := confirm(t, r, 1)
	must(t, r.Close())
	if confirmed[0].Confirms != "b" || second[0].Content == confirmed[0].Content {
		t.Errorf("confirmed %+v, then %+v", confirmed, second)
	}
	if left := byID(t, dir); len(left) != 2 || left["b"].SameAs != "" || left["b@flash"].Failure != nil {
		t.Errorf("%+v", left)
	}
}

// TestLabelBelongsToKind measures candidates of the same ID on two kinds of board, one after the other in one folder
// and then in one run.
func TestLabelBelongsToKind(t *testing.T) {
	dir := t.TempDir() + "/one folder"
	kinds := []string{"host", "mps2_an385"}
	for _, opened := range [][]string{{"host"}, {"mps2_an385"}, kinds} {
		r := openedIn(t, dir, tune.Options{}, opened...)
		for _, kind := range opened {
			for _, body := range []string{right, right + " /* the same bytes */"} {
				c := operator(map[bool]string{true: "one", false: "twin"}[body == right], body)
				c.Kind = kind
				result := measured(t, r, c)
				if result.Kind != kind || result.Time == nil || (result.SameAs == "one") != (c.ID == "twin") {
					t.Errorf("%s on %s: %+v", c.ID, kind, result)
				}
			}
		}
		must(t, r.Close())
	}

	all := results(t, dir)
	// two lines have settings
	if n := strings.Count(record(t, dir), "\n"); len(all) != 4 || len(tune.Rank(all)) != 2 || n != 6 {
		t.Errorf("%d results in %d rankings, %d lines", len(all), len(tune.Rank(all)), n)
	}
	for _, result := range all {
		testkit.Equal(t, result.ID, stored(t, dir, result).Kind, result.Kind)
	}

	_, _, err := tune.Reproduce(t.Context(), dir, "one", desk(t), "", tune.Options{})
	wantError(t, err, failure.Config, "boards host and mps2_an385")
	was, is, err := tune.Reproduce(t.Context(), dir, "on…", desk(t), "mps2_an385", tune.Options{})
	if err != nil || was.Kind != "mps2_an385" || is.Time == nil || *is.Time != *was.Time {
		t.Errorf("%+v, then %+v: %v", was, is, err)
	}

	r := openedIn(t, dir, tune.Options{}, kinds...)
	must(t, r.LeaveOut(func(c tune.Candidate) bool { return c.ID == "one" && c.Kind == "host" }))
	must(t, r.Close())
	testkit.Equal(t, "results without one", len(results(t, dir)), 3)
}
