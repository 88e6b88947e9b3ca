// This file writes the report of a full test run.

package develop

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
)

// reportFile is written by a full run.
const reportFile = reportFolder + "/README.md"

func (r *repository) writeReport(ctx context.Context, t *tally, commit string, spent time.Duration) error {
	speed, err := r.measure(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Report of a full test run\n\n")
	b.WriteString("Written by `go tool mage test:full`.\n\n")
	fmt.Fprintf(&b, "| | |\n|---|---|\n| commit | %s |\n| day | %s |\n", commit, time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "| system | %s, %s/%s, %d cores |\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU())
	fmt.Fprintf(&b, "| took | %.0f s |\n", spent.Seconds())
	fmt.Fprintf(&b, "| result | **%d passed, 0 failed, %d skipped** |\n\n", t.passed, t.skipped)
	fmt.Fprintf(&b, "## Tests\n\n```\n%s\n```\n\n", strings.Join(t.sections, "\n"))
	b.WriteString("Tests that took longest:\n\n```\n")
	for _, s := range t.slowest {
		fmt.Fprintln(&b, s)
	}
	b.WriteString("```\n\n")
	writeList(&b, "Skipped", t.skips)
	fmt.Fprintf(&b, "## Speed\n\n```\n%s```\n\n## Tools\n\n```\n", r.goalTable(speed))
	all, err := toolbox.Look(ctx, func(int) {})
	if err != nil {
		return err
	}
	for _, f := range all {
		fmt.Fprintf(&b, "%-14s %s\n", f.Name, cmp.Or(f.Version, f.Reason))
	}
	b.WriteString("```\n")
	if len(t.systems) > 0 {
		fmt.Fprintf(&b, "\n## Tools of other systems\n\n```\n%s\n```\n", strings.Join(t.systems, "\n\n"))
	}
	return r.writePage(reportFile, b.String())
}

func writeList(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "## %s\n\n", title)
	for _, i := range items {
		fmt.Fprintf(b, "* %s\n", i)
	}
	b.WriteString("\n")
}

// isClean reports whether a text returned by commit names a commit without changes.
func isClean(commit string) bool {
	return !strings.HasSuffix(commit, "-dirty") && !strings.Contains(commit, " ")
}

// commit returns the checked-out commit. It is marked as dirty if files differ from it or are not under version
// control.
func (r *repository) commit(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	cmd.Dir = r.Dir
	printed, err := cmd.Output()
	if err != nil {
		return "not known (" + err.Error() + ")"
	}
	commit := strings.TrimSpace(string(printed))
	status := exec.CommandContext(ctx, "git", "status", "--porcelain")
	status.Dir = r.Dir
	if printed, err := status.Output(); (err != nil || len(printed) > 0) && isClean(commit) {
		commit += "-dirty"
	}
	return commit
}
