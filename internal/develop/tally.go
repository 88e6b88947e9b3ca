// This file counts the results of checks, and prints them.

package develop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/jsonlines"
)

// A tally counts results, and keeps the texts for the end of the run and for the report.
type tally struct {
	passed, failed, skipped int
	failures                []string          // names
	skips                   map[string]string // name to reason
	order                   []string          // names of skips
	sections                []string          // one line each, for the report
	systems                 []systemReport    // results of other systems
	times                   []testTime        // of Go tests
}

type testTime struct {
	name    string
	seconds float64 // without waiting for its turn among parallel tests
}

// slowest returns lines with the n tests that took longest.
func (t *tally) slowest(n int) (lines []string) {
	byTime := slices.SortedStableFunc(slices.Values(t.times), func(a, b testTime) int {
		return cmp.Compare(b.seconds, a.seconds)
	})
	for _, x := range byTime[:min(n, len(byTime))] {
		lines = append(lines, fmt.Sprintf("%-60s %6.1f s", x.name, x.seconds))
	}
	return lines
}

func (r *repository) pass(t *tally, name string, d time.Duration) {
	t.passed++
	line := fmt.Sprintf("%-48s %11s %6.1f s", name, "", d.Seconds())
	r.Printf("%-7s %s", verdict(true), line)
	t.sections = append(t.sections, line)
}

func (r *repository) fail(t *tally, name, why string) {
	t.failed++
	t.failures = append(t.failures, name)
	r.Printf("FAILED  %s\n%s", name, strings.TrimRight(why, "\n"))
	r.JSONLine(jsonlines.CheckFailed{
		Status: jsonlines.StatusFailed, Name: name, Class: string(failure.Internal), Error: why,
	})
}

func (r *repository) skip(t *tally, name, reason string) {
	t.skipped++
	if t.skips == nil {
		t.skips = map[string]string{}
	}
	if _, twice := t.skips[name]; !twice {
		t.order = append(t.order, name)
	}
	t.skips[name] = reason
	r.Printf("skipped %s: %s", name, reason)
}

// conclude prints the tests that took longest and the closing line, and returns an error if there were failures.
func (r *repository) conclude(t *tally) error {
	for _, line := range t.slowest(10) {
		r.Printf("slow    %s", line)
	}
	for _, name := range t.failures {
		r.Printf("failed: %s", name)
	}
	r.Printf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	if t.failed > 0 {
		return failure.New(failure.Internal, "", "%d of %d checks failed", t.failed, t.failed+t.passed)
	}
	r.JSONLine(jsonlines.Checks{Passed: t.passed, Failed: t.failed, Skipped: t.skipped})
	return nil
}
