package develop

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// On a fresh computer, go lists its downloads on standard error. No check may fail because of that.
func TestSilentCheck(t *testing.T) {
	for _, c := range []struct {
		script string
		fails  bool
	}{
		{"echo a.go", true},
		{"echo 'go: downloading x' >&2", false},
		{"exit 1", true},
		{"true", false},
	} {
		r := inFolder(t.TempDir())
		_, err := r.runCheck(t.Context(), check{argv: []string{"sh", "-c", c.script}, silent: true}, nil)
		testkit.WantErrorIf(t, c.fails, err, "")
	}
}

// The output of a failed check is shown, of both streams.
func TestCheckSays(t *testing.T) {
	r := inFolder(t.TempDir())
	printed, err := r.runCheck(t.Context(), check{argv: []string{"sh", "-c", "echo out; echo err >&2; exit 1"}}, nil)
	testkit.WantError(t, err, "")
	testkit.WantText(t, string(printed), "out", "err")
}
