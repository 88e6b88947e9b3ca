// Package report shows the results of tuning runs: as CSV, as a table for people, and as an HTML page that compares
// runs.
//
// It neither measures nor reads a run's folder (tune), and decides nothing: which times may be compared is tune.Rank's
// to say. It is apart from package tune so that a tuning loop links no library for charts.
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

// printable makes one line of any text, without what would steer a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}

// short is at most n characters of a printable text.
func short(s string, n int) string {
	all := []rune(printable(s))
	if len(all) <= n {
		return string(all)
	}
	return string(all[:n-1]) + "…"
}

// A unit writes times so that the shortest has four digits.
type unit struct {
	name     string
	second   float64 // in units
	decimals int
}

var units = []unit{{"s", 1, 3}, {"ms", 1e3, 3}, {"µs", 1e6, 3}, {"ns", 1e9, 3}}

// unitFor is the unit in which a time in seconds is at least 1.
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

// unitOf is the unit for the times of some rankings.
func unitOf(ks ...tune.Ranking) unit {
	least := math.Inf(1)
	for _, k := range ks {
		for _, r := range k.Results {
			if r.Time.Median > 0 {
				least = min(least, r.Time.Median)
			}
		}
	}
	if math.IsInf(least, 1) {
		least = 0
	}
	return unitFor(least)
}

// A row is one result of a ranking, as text.
type row struct {
	Rank                                             int
	ID, Time, Interval, SpeedUp, Board, Bytes, Notes string
}

// rowsOf are the fastest n results of a ranking.
func rowsOf(k tune.Ranking, u unit, n int) []row {
	var all []row
	for i, r := range k.Results[:min(n, len(k.Results))] {
		one := row{
			Rank: i + 1, ID: short(r.ID, 48), Time: u.text(r.Time.Median), Interval: "-", SpeedUp: "-",
			Board: short(r.Board, 32), Bytes: strconv.Itoa(r.Bytes), Notes: notes(r),
		}
		if r.Time.N > 1 {
			one.Interval = u.text(max(r.Time.Low, 0)) + "…" + u.text(r.Time.High) // no time is below 0
		}
		if s := k.SpeedUp(r.Time); s > 0 {
			one.SpeedUp = fmt.Sprintf("%.2f", s)
		}
		all = append(all, one)
	}
	return all
}

func notes(r tune.Result) string {
	var all []string
	if r.Cut {
		all = append(all, "cut short")
	}
	if r.Same != "" {
		all = append(all, "same bytes as "+short(r.Same, 48))
	}
	return strings.Join(all, ", ")
}

// A reason is why candidates have no time: all of one class, on one kind of board.
type reason struct {
	kind  string
	class failure.Class
	blame tune.Blame
	n     int
	first string // candidate and message
}

// reasonsOf sums failures up, the most frequent first.
func reasonsOf(results []tune.Result) []reason {
	var all []reason
	for _, r := range results {
		if r.Failure == nil {
			continue
		}
		f := *r.Failure
		i := slices.IndexFunc(all, func(x reason) bool {
			return x.kind == r.Kind && x.class == f.Class && x.blame == f.Blame
		})
		if i < 0 {
			i = len(all)
			first := short(r.ID, 48) + ": " + short(f.Message, 160)
			all = append(all, reason{kind: r.Kind, class: f.Class, blame: f.Blame, first: first})
		}
		all[i].n++
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(b.n, a.n) })
	return all
}

// A span is a time in which something was done.
type span struct {
	from, to time.Time
	before   time.Duration // of earlier spans
}

// work is the time in which a run worked on a candidate, without what lies between, when it was stopped: spans in
// order, which do not touch.
type work []span

func workOf(results []tune.Result) work {
	var all, merged work
	for _, r := range results {
		took := max(r.Build, 0) + max(r.Wait, 0) + max(r.Load, 0) + max(r.Run, 0)
		all = append(all, span{from: r.Finished.Add(-took), to: r.Finished})
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || s.from.After(merged[last].to):
			s.before = merged.total()
			merged = append(merged, s)
		case s.to.After(merged[last].to):
			merged[last].to = s.to
		}
	}
	return merged
}

func (w work) total() time.Duration {
	if len(w) == 0 {
		return 0
	}
	last := w[len(w)-1]
	return last.before + last.to.Sub(last.from)
}

// until is how long a run had worked at a moment when it worked.
func (w work) until(at time.Time) time.Duration {
	i := sort.Search(len(w), func(i int) bool { return !w[i].to.Before(at) })
	if i == len(w) {
		return w.total()
	}
	return w[i].before + max(at.Sub(w[i].from), 0)
}

// A board is what one place of a run has done.
type board struct {
	name, kind string
	candidates int
	busy       time.Duration // loading and calling
}

// boardsOf are a run's boards, by name.
func boardsOf(results []tune.Result) []board {
	var all []board
	for _, r := range results {
		if r.Board == "" || r.Same != "" { // measured nowhere, or as another candidate
			continue
		}
		i := slices.IndexFunc(all, func(b board) bool { return b.name == r.Board })
		if i < 0 {
			i = len(all)
			all = append(all, board{name: r.Board, kind: r.Kind})
		}
		all[i].candidates++
		all[i].busy += max(r.Load, 0) + max(r.Run, 0)
	}
	slices.SortFunc(all, func(a, b board) int { return cmp.Compare(a.name, b.name) })
	return all
}
