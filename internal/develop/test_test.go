package develop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeedOfTests(t *testing.T) {
	r, _ := quietRepository()
	seed := func(given string) (string, error) {
		r.Env = func(name string) string {
			if name == "SEED" {
				return given
			}
			return ""
		}
		return r.testSeed()
	}
	for given, want := range map[string]string{"": "1", "77": "77"} {
		if got, err := seed(given); got != want || err != nil {
			t.Errorf("SEED=%s draws by %s, %v; want %s", given, got, err, want)
		}
	}
	if _, err := seed("seven"); err == nil {
		t.Error("a seed that is no number")
	}
	one, err := seed("random")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // two equal draws of 32 bits are rare, four are a fault
		if other, err := seed("random"); err != nil || other != one {
			return
		}
	}
	t.Errorf("SEED=random drew %s four times", one)
}

// TestReportedCommit tells a commit's tree from one with changes, or with files that git does not know.
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
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, said)
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
