package report

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		writeFile(t, path, got)
	}
	if got != string(readFile(t, path)) {
		t.Errorf("%s differs (go test ./tune/report -update rewrites it); got:\n%s", path, got)
	}
}

// withHostile is a search with one more candidate, whose texts are hostile.
func withHostile() []tune.Result {
	all := search("", 1.2e-3).Results
	x := failed(hostile, "mps2_an385", failure.Link, tune.BlameCandidate, "\t"+hostile)
	x.Finished = day.Add(2 * time.Hour)
	return append(all, x)
}

func TestTableIsGolden(t *testing.T) {
	for name, n := range map[string]int{"table.txt": 0, "table-5.txt": 5} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			must(t, (Run{Results: withHostile()}).WriteTable(&b, n))
			for _, r := range b.String() {
				if r != '\n' && !unicode.IsPrint(r) {
					t.Errorf("%s has the character %q", name, r)
				}
			}
			golden(t, name, b.String())
		})
	}
	var b strings.Builder
	must(t, (Run{}).WriteTable(&b, 5))
	testkit.Equal(t, "without results", b.String(), "no results\n")
}

func TestCSVIsGolden(t *testing.T) {
	var b strings.Builder
	must(t, Run{Results: withHostile()}.WriteCSV(&b))
	golden(t, "results.csv", b.String())
}

// TestIntervalOfOneSample: there is none.
func TestIntervalOfOneSample(t *testing.T) {
	for n, want := range map[int]string{1: "", 2: "3"} {
		testkit.Equal(t, n, csvRow(tune.Result{Time: &rpc.Stats{N: n, Low: 3}})[11], want)
	}
}

// TestColumnsAreDocumented: docs/tuning.md has a row for each column.
func TestColumnsAreDocumented(t *testing.T) {
	doc := readFile(t, "../../docs/tuning.md")
	for _, c := range columns {
		if !regexp.MustCompile("(?m)^\\| .*`" + c + "`.* \\|").Match(doc) {
			t.Errorf("docs/tuning.md does not describe column %s", c)
		}
	}
}

// TestWriteErrorsAreReturned: each writer reports a disk that is full.
func TestWriteErrorsAreReturned(t *testing.T) {
	results := search("", 1e-3).Results
	for name, write := range map[string]func() error{
		"csv":   func() error { return Run{Results: results}.WriteCSV(full{}) },
		"table": func() error { return Run{Results: results}.WriteTable(full{}, 0) },
		"html":  func() error { return WriteHTML(full{}, Run{Results: results}) },
	} {
		if err := write(); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errFull = errors.New("disk is full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestShortestTimeHasFourDigits(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		want    string
	}{
		{1234, "1234 s"},
		{1, "1.000 s"},
		{0.999, "999.0 ms"},
		{8.124e-4, "812.4 µs"},
		{3e-9, "3.000 ns"},
		{3e-12, "0.003 ns"},
		{0, "0.000 ns"},
	} {
		u := unitFor(c.seconds)
		testkit.Equal(t, c.seconds, u.text(c.seconds)+" "+u.name, c.want)
	}
}

// TestWorkExcludesPauses: a stop of the run and what was done at the same time do not count.
func TestWorkExcludesPauses(t *testing.T) {
	at := func(s int) time.Time { return day.Add(time.Duration(s) * time.Second) }
	var results []tune.Result
	for _, s := range [][2]int{{0, 10}, {5, 12}, {6, 7}, {100, 104}, {104, 105}} { // from, to
		results = append(results, tune.Result{Finished: at(s[1]), Run: at(s[1]).Sub(at(s[0])), Board: "b"})
	}
	w := workOf(results)
	if len(w) != 2 || w.total() != 17*time.Second {
		t.Errorf("%v, in total %v", w, w.total())
	}
	for moment, want := range map[int]int{-1: 0, 0: 0, 3: 3, 12: 12, 50: 12, 100: 12, 103: 15, 105: 17, 200: 17} {
		testkit.Equal(t, moment, w.until(at(moment)), time.Duration(want)*time.Second)
	}
	if w := workOf(nil); w.total() != 0 || w.until(day) != 0 {
		t.Errorf("a run without results has worked %v", w.total())
	}
}

// TestPageIsSelfContained: the same runs give the same page, whatever their names are, and it names nothing that a
// browser could load.
func TestPageIsSelfContained(t *testing.T) {
	runs := []Run{search("grid", 1.2e-3), search(hostile, 0.9e-3)}
	for i := range runs[1].Results {
		r := &runs[1].Results[i]
		r.ID, r.Board = hostile+r.ID, hostile+r.Board
		if r.Failure != nil {
			r.Failure.Message, r.Failure.Class = hostile, hostile
		}
		if i%2 == 0 {
			r.Kind = hostile
		}
	}
	var b, again bytes.Buffer
	must(t, errors.Join(WriteHTML(&b, runs...), WriteHTML(&again, runs...)))
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("two pages of the same runs differ")
	}
	page := b.String()
	for _, bad := range []string{"<script", "<img", "<image", "<link", "url(", "@import", "\x1b", "\xff"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(page, "1: grid") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("the page does not have the runs' names")
	}
}

// TestOddRunsHaveAPage: whatever can be in results gives a page.
func TestOddRunsHaveAPage(t *testing.T) {
	p := platform(25e6, 0)
	at := func(s ...float64) (r Run) {
		for i, x := range s {
			one := timed(strconv.Itoa(i), "k", "b", p, x)
			one.Finished = day.Add(time.Duration(i) * time.Second)
			r.Results = append(r.Results, one)
		}
		return r
	}
	long := at(1, 2)
	long.Results[0].Build, long.Results[1].Run, long.Results[1].Load = math.MaxInt64, math.MaxInt64, -1
	never := at(1)
	never.Results[0].Finished = time.Time{}
	many := Run{}
	for i := range 3 * maxDots {
		many.Results = append(many.Results, timed(strconv.Itoa(i), "k", "b", p, 1+float64(i%7)))
		many.Results[i].Finished = day.Add(time.Duration(i) * time.Minute)
	}
	none := at(1)
	none.Results[0].Time = &rpc.Stats{N: 1, Median: math.NaN()}
	for name, runs := range map[string][]Run{
		"no run": nil, "no result": {{}}, "a result": {at(1)}, "all 0": {at(0, 0)}, "one 0": {at(0, 1e-3)},
		"equal": {at(2, 2, 2)}, "far apart": {at(1e-9, 1, 1e6)}, "endless": {at(math.Inf(1), 1)},
		"extremes":  {at(math.SmallestNonzeroFloat64, math.MaxFloat64)},
		"no number": {none}, "long": {long}, "never": {never}, "many": {many},
		"eight":    {at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8)},
		"failures": {{Results: []tune.Result{failed("a", "k", failure.Compile, tune.BlameCandidate, "")}}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := WriteHTML(&b, runs...); err != nil || !strings.HasSuffix(b.String(), "</html>\n") {
				t.Errorf("%d bytes, %v", b.Len(), err)
			}
			if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), `-Inf`) {
				t.Error("the page has no numbers in it")
			}
			for _, r := range runs {
				must(t, Run{Results: r.Results}.WriteTable(&b, 0))
			}
		})
	}
}

// TestThinKeepsAtMostMaxDots: at most maxDots are drawn, and the first is.
func TestThinKeepsAtMostMaxDots(t *testing.T) {
	for _, n := range []int{1, maxDots, maxDots + 1, 10 * maxDots} {
		c := series{}
		for i := range n {
			c.dots = append(c.dots, struct{ X, Y float64 }{float64(i), 1})
		}
		if got := thin(c.dots); len(got) > maxDots || len(got) < min(n, maxDots/2) || got[0].X != 0 {
			t.Errorf("%d dots of %d", len(got), n)
		}
	}
}

// TestTonesHaveContrast: series are told from the page by 3:1 and texts by 4.5:1, on light and on dark pages (WCAG
// 2.1, 1.4.3 and 1.4.11).
func TestTonesHaveContrast(t *testing.T) {
	colours := func(name string) []string {
		var all []string
		for _, m := range regexp.MustCompile(name+`: (#[0-9A-F]{6});`).FindAllStringSubmatch(pageText, -1) {
			all = append(all, m[1])
		}
		if len(all) != 2 {
			t.Fatalf("--%s has the colours %q, not a light and a dark one", name, all)
		}
		return all
	}
	pages, texts := colours("--page"), colours("--text")
	check := func(a, b string, least float64) {
		if got := contrast(t, a, b); got < least {
			t.Errorf("%s on %s has a contrast of %.2f, less than %v", a, b, got, least)
		}
	}
	for i, p := range pages {
		check(texts[i], p, 4.5)
		for _, tone := range tones {
			check([]string{tone.Light, tone.Dark}[i], p, 3)
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	light := func(s string) float64 {
		v, err := strconv.ParseUint(s[1:], 16, 24)
		must(t, err)
		sum := 0.0
		for shift, weight := range map[int]float64{16: 0.2126, 8: 0.7152, 0: 0.0722} {
			c := float64(v>>shift&255) / 255
			if c <= 0.03928 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum + 0.05
	}
	x, y := light(a), light(b)
	return max(x, y) / min(x, y)
}

// TestInstructionsAreCounts shows the results of a board whose timer counts instructions, with an ID that is cut.
func TestInstructionsAreCounts(t *testing.T) {
	id := "TILE=1 " + strings.Repeat("UNROLL=4 ", 6) + "0123456789abcdef"
	r := tune.Result{
		ID: id, Kind: "k", Time: &rpc.Stats{N: 3, Median: 1e-3, Low: 0.9e-3, High: 1.1e-3}, Instruction: 40,
	}
	var b strings.Builder
	must(t, (Run{Results: []tune.Result{r}}).WriteTable(&b, 5))
	got := b.String()
	if !strings.Contains(got, "instructions") || strings.Contains(got, "time,") || !strings.Contains(got, "25000") ||
		!strings.Contains(got, " 0123456789abcdef ") {
		t.Errorf("%s", got)
	}
}
