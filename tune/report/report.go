// Package report shows the results of tuning runs: as CSV, as a table for people, and as an HTML page that compares
// runs.
//
// It neither measures nor reads a run's folder: package tune does, and tune.Rank determines which times are compared.
// It is a package of its own so that a tuning loop links no library for charts.
package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune"
)

// printable returns a text as one line, with a dot for each character that is not printable, such as an escape.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}

// short returns at most n characters of a text, printable, with its end, in which the IDs of a space differ.
func short(s string, n int) string {
	all, end := []rune(printable(s)), n*5/12

	if len(all) <= n {
		return string(all)
	}

	return string(all[:n-1-end]) + "…" + string(all[len(all)-end:])
}

// A unit formats times so that the shortest has four digits.
type unit struct {
	name     string
	second   float64 // length of a second in units
	decimals int
}

var units = []unit{{"s", 1, 3}, {"ms", 1e3, 3}, {"µs", 1e6, 3}, {"ns", 1e9, 3}}

// unitFor returns the unit in which a time in seconds is at least 1.
func unitFor(seconds float64) unit {
	for _, u := range units {
		if scaled := seconds * u.second; scaled >= 1 {
			u.decimals = max(0, 3-int(math.Log10(scaled)))
			return u
		}
	}
	return units[len(units)-1]
}

func (u unit) text(seconds float64) string {
	return strconv.FormatFloat(seconds*u.second, 'f', u.decimals, 64)
}

// instructions is the name of the unit of boards that count them.
const instructions = "instructions"

// unitOf returns the unit for the shortest time of rankings.
func unitOf(rankings []member) unit {
	shortest := math.Inf(1)
	for _, k := range rankings {
		if each := k.Baseline.Instruction; each > 0 {
			return unit{instructions, 1 / each.Seconds(), 0}
		}
		shortest = min(shortest, k.Results[0].Time.Median)
	}
	return unitFor(shortest)
}

// fastest returns the n fastest results of a ranking.
func fastest(k tune.Ranking, u unit, n int) *table {
	cost := "time, " + u.name
	if u.name == instructions {
		cost = u.name
	}

	t := &table{Head: []string{
		"rank", "candidate", cost, "mean, 95 %", "speed-up", "board", "bytes", "notes",
	}}
	for i, r := range k.Results[:min(n, len(k.Results))] {
		interval, speedUp, notes := "-", "-", []string(nil)
		if r.Time.N > 1 && u.name != instructions { // a count has no distribution
			interval = u.text(r.Time.Low) + "…" + u.text(r.Time.High)
		}

		if s := k.SpeedUp(r.Time); s > 0 {
			speedUp = fmt.Sprintf("%.2f", s)
		}

		if r.Cut {
			notes = append(notes, "cut short")
		}
		if r.SameAs != "" {
			notes = append(notes, "same bytes as "+short(r.SameAs, 48))
		}

		t.add(i+1, short(r.ID, 48), u.text(r.Time.Median), interval, speedUp, short(r.Board, 32), r.Bytes,
			strings.Join(notes, ", "))
	}
	return t
}

// reasonHead is the header of addReasons.
var reasonHead = []string{"kind", "class", "blame", "number", "first"}

// addReasons adds a row, which begins with some cells, for the failures of one class and blame on one kind of board:
// their number, and candidate and message of the first. The most frequent come first.
func (t *table) addReasons(results []tune.Result, begin ...any) {
	type reason struct {
		kind  string
		class failure.Class
		blame tune.Blame
	}

	all := map[reason][]tune.Result{}
	var order []reason
	for _, r := range results {
		if r.Failure == nil {
			continue
		}

		x := reason{r.Kind, r.Failure.Class, r.Failure.Blame}
		if all[x] == nil {
			order = append(order, x)
		}
		all[x] = append(all[x], r)
	}

	// Stable: of equal numbers, the reason that occurred first comes first.
	slices.SortStableFunc(order, func(a, b reason) int { return cmp.Compare(len(all[b]), len(all[a])) })

	for _, x := range order {
		first := all[x][0]
		t.add(append(begin, x.kind, x.class, x.blame, len(all[x]),
			short(first.ID, 48)+": "+short(first.Failure.Message, 160))...)
	}
}

// A span is a period of work on a candidate.
type span struct {
	from, to time.Time
	before   time.Duration // of earlier spans
}

// work is the periods in which a run worked on any candidate, in order and without overlaps. The gaps are those in
// which the run was stopped.
type work []span

func workOf(results []tune.Result) (w work) {
	var all []span
	for _, r := range results {
		duration := max(r.Build, 0) + max(r.Wait, 0) + max(r.Load, 0) + max(r.Run, 0)
		all = append(all, span{from: r.Finished.Add(-duration), to: r.Finished})
	}

	// Candidates are worked on in parallel, so their spans overlap.
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range all {
		last := len(w) - 1
		switch {
		case last < 0 || s.from.After(w[last].to):
			s.before = w.total()
			w = append(w, s)
		case s.to.After(w[last].to):
			w[last].to = s.to
		}
	}

	return w
}

func (w work) total() time.Duration {
	if len(w) == 0 {
		return 0
	}

	last := w[len(w)-1]
	return last.before + last.to.Sub(last.from)
}

// until returns how long a run had worked at a time within one of its spans.
func (w work) until(t time.Time) time.Duration {
	i := sort.Search(len(w), func(i int) bool { return !w[i].to.Before(t) })

	if i == len(w) {
		return w.total()
	}

	return w[i].before + max(t.Sub(w[i].from), 0)
}
