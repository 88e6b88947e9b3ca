package develop

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

const runtimeRows = `                          measured   ceiling    budget  TVM 0.14
image, bytes                  9496      9496      9500     29184
  runtime                3895
CopyToRemote, by 1           31.27     31.28      40.0     309.5
  8 KiB buffer, by 1         32.36     32.37      40.0     309.5
call, 3 tensors, by 128       2500      2502      3000          
`

// allSpeeds has a figure for each goal.
func allSpeeds() speeds {
	all := speeds{}
	for _, g := range goals {
		if all[g.benchmark] == nil {
			all[g.benchmark] = map[string]float64{}
		}
		all[g.benchmark][g.unit] = 1.2345 / g.scale
	}
	return all
}

// TestFigures: the page has each figure, and a page without one of them or without a commit is an error.
func TestFigures(t *testing.T) {
	t.Parallel()
	page, err := figuresPage("abc", "0.5", runtimeRows, allSpeeds(), []string{"| board |\n", "| archive |\n"})
	testkit.Must(t, err)
	testkit.WantText(t, page,
		"| commit | abc |\n", "load before the run: 0.5 |\n",
		"|---|--:|--:|\n| image, bytes | 9496 | 29184 |\n| CopyToRemote, by 1 | 31.27 | 309.5 |\n\n",
		"| archive to open session, nothing cached | 1.234 s |\n", "\n| board |\n\n", "\n| archive |\n\n")
	if strings.Contains(page, "framing") || strings.Contains(page, "%!") {
		t.Error(page)
	}
	speed := allSpeeds()
	delete(speed, "targets.BenchmarkEmptyCall")
	if _, err := figuresPage("abc", "0.5", runtimeRows, speed, []string{"", ""}); err == nil {
		t.Error("a benchmark is missing")
	}
	if _, err := figuresPage("abc", "0.5", "no rows\n", allSpeeds(), []string{"", ""}); err == nil {
		t.Error("no row of the runtime")
	}
	testkit.WantError(t, inFolder(t.TempDir()).figures(t.Context()), failure.Config)
}
