// This file counts the results of checks, and prints them.

package develop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
)

// A tally counts results, and keeps the texts for the end of the run and for the report.
type tally struct {
	passed, failed, skipped int
	failures                []string   // names
	skips                   []string   // name and reason
	sections                []string   // one line each, for the report
	systems                 []string   // versions of the tools of other systems
	slowest                 []slowTest // the longest first
}

// A slowTest is one of the Go tests that took longest.
type slowTest struct {
	name string
	took time.Duration
}

func (s slowTest) String() string { return fmt.Sprintf("%-60s %6.1f s", s.name, s.took.Seconds()) }

// add adds the results of a run beside this one.
func (t *tally) add(other *tally) {
	t.passed, t.failed, t.skipped = t.passed+other.passed, t.failed+other.failed, t.skipped+other.skipped
	t.failures = append(t.failures, other.failures...)
	t.skips = append(t.skips, other.skips...)
	t.sections = append(t.sections, other.sections...)
	t.systems = append(t.systems, other.systems...)
	t.addSlowest(other.slowest)
}

// addSlowest adds tests to those that took longest.
func (t *tally) addSlowest(more []slowTest) {
	t.slowest = append(t.slowest, more...)
	slices.SortStableFunc(t.slowest, func(a, b slowTest) int { return cmp.Compare(b.took, a.took) })
	t.slowest = t.slowest[:min(slowestKept, len(t.slowest))]
}

func (r *repository) pass(t *tally, name string, d time.Duration) {
	t.passed++
	line := fmt.Sprintf("%-48s %11s %6.1f s", name, "", d.Seconds())
	r.Printf("%-7s %s", verdict(true), line)
	t.sections = append(t.sections, line)
}

func (r *repository) fail(t *tally, name, why string) {
	r.failShown(t, name, why)
	r.Printf("%s", strings.TrimRight(why, "\n"))
}

// failShown counts a failure whose reason was printed before.
func (r *repository) failShown(t *tally, name, why string) {
	t.failed++
	t.failures = append(t.failures, name)
	r.Printf("FAILED  %s", name)
	r.JSONLine(jsonlines.CheckFailed{
		Status: jsonlines.StatusFailed, Name: name, Class: string(failure.Internal), Error: why,
	})
}

func (r *repository) skip(t *tally, name, reason string) {
	t.skipped++
	t.skips = append(t.skips, name+": "+reason)
	r.Printf("skipped %s: %s", name, reason)
}

// conclude prints the tests that took longest and the closing line, and returns an error if there were failures.
func (r *repository) conclude(t *tally) error {
	for _, s := range t.slowest[:min(10, len(t.slowest))] {
		r.Printf("slow    %v", s)
	}
	for _, name := range t.failures {
		r.Printf("failed: %s", name)
	}
	r.Printf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	if t.failed > 0 {
		return failure.Errorf(failure.Internal, "%d of %d checks failed", t.failed, t.failed+t.passed)
	}
	r.JSONLine(jsonlines.Checks{Passed: t.passed, Failed: t.failed, Skipped: t.skipped})
	return nil
}
