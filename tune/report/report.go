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
	"github.com/boardsmith/boardsmith/internal/valuetext"
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

// short returns at most n characters of a text, printable.
func short(s string, n int) string {
	all := []rune(printable(s))
	if len(all) <= n {
		return string(all)
	}
	return string(all[:n-1]) + "…"
}

// shortID returns an ID of at most 48 characters, with its end, in which the IDs of a space differ.
func shortID(id string) string {
	const begin, end = 27, 20
	all := []rune(printable(id))
	if len(all) <= begin+1+end {
		return string(all)
	}
	return string(all[:begin]) + "…" + string(all[len(all)-end:])
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
func unitOf(ks ...tune.Ranking) unit {
	shortest := math.Inf(1)
	for _, k := range ks {
		if each := k.Baseline.Instruction; each > 0 {
			return unit{instructions, 1 / each.Seconds(), 0}
		}
		for _, r := range k.Results {
			if r.Time.Median > 0 {
				shortest = min(shortest, r.Time.Median)
			}
		}
	}
	if math.IsInf(shortest, 1) {
		shortest = 0
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
		interval, speedUp := "-", "-"
		if r.Time.N > 1 && u.name != instructions { // a count has no distribution
			interval = u.text(r.Time.Low) + "…" + u.text(r.Time.High)
		}
		if s := k.SpeedUp(r.Time); s > 0 {
			speedUp = fmt.Sprintf("%.2f", s)
		}
		t.add(strconv.Itoa(i+1), shortID(r.ID), u.text(r.Time.Median), interval, speedUp, short(r.Board, 32),
			valuetext.Thousands(float64(r.Bytes)), notes(r))
	}
	return t
}

func notes(r tune.Result) string {
	var all []string
	if r.Cut {
		all = append(all, "cut short")
	}
	if r.SameAs != "" {
		all = append(all, "same bytes as "+shortID(r.SameAs))
	}
	return strings.Join(all, ", ")
}

// A reason is the failures of one class and blame on one kind of board.
type reason struct {
	kind  string
	class failure.Class
	blame tune.Blame
	n     int
	first string // candidate and message
}

// reasonsOf groups failures, the most frequent first.
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

// A span is a period of work on a candidate.
type span struct {
	from, to time.Time
	before   time.Duration // of earlier spans
}

// work is the periods in which a run worked on any candidate, in order and without overlaps. The gaps are those in
// which the run was stopped.
type work []span

func workOf(results []tune.Result) work {
	var all, merged work
	for _, r := range results {
		duration := max(r.Build, 0) + max(r.Wait, 0) + max(r.Load, 0) + max(r.Run, 0)
		all = append(all, span{from: r.Finished.Add(-duration), to: r.Finished})
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

// until returns how long a run had worked at a time within one of its spans.
func (w work) until(t time.Time) time.Duration {
	i := sort.Search(len(w), func(i int) bool { return !w[i].to.Before(t) })
	if i == len(w) {
		return w.total()
	}
	return w[i].before + max(t.Sub(w[i].from), 0)
}

// A board is the work of one place of a run.
type board struct {
	name, kind string
	candidates int
	busy       time.Duration // loading and calling
}

// boardsOf returns the boards of a run, by name.
func boardsOf(results []tune.Result) []board {
	var all []board
	for _, r := range results {
		if r.Board == "" || r.SameAs != "" { // not measured
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
