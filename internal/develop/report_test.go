package develop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportedCommit distinguishes a commit's tree from one with changes, or with untracked files.
func TestReportedCommit(t *testing.T) {
	dir := t.TempDir()
	r, _ := quietRepository()
	r.Dir = dir
	if isClean(r.commit(context.Background())) {
		t.Error("a folder without git is clean")
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		if printed, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, printed)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	write("a", "1")
	git("add", "a")
	git("commit", "-qm", "a")
	clean := r.commit(context.Background())
	if !isClean(clean) {
		t.Errorf("a commit's tree is %q", clean)
	}
	write("b", "2")
	if got := r.commit(context.Background()); got != clean+"-dirty" {
		t.Errorf("with a new file it is %q", got)
	}
	git("add", "b")
	write("a", "3")
	if got := r.commit(context.Background()); got != clean+"-dirty" {
		t.Errorf("with a changed file it is %q", got)
	}
}
