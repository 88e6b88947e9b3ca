package sourcetree

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A tree is a git repository.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T, files ...string) tree {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	r := tree{t, t.TempDir()}
	r.git("init", "-q")
	for _, name := range files {
		r.write(name, "int x;\n")
	}
	r.git("add", ".")
	r.git("commit", "-q", "-m", "one")
	return r
}

func (r tree) git(words ...string) {
	r.t.Helper()
	words = append([]string{
		"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always",
	}, words...)
	if out, err := exec.Command("git", words...).CombinedOutput(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", words, err, out)
	}
}

func (r tree) write(name, text string) {
	r.t.Helper()
	at := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r tree) state() string {
	r.t.Helper()
	states, err := States(r.t.Context(), map[string]string{"tree": r.dir})
	if err != nil {
		r.t.Fatal(err)
	}
	return states["tree"]
}

// TestManyChanged: all changed files count, also where git's list of them is long.
func TestManyChanged(t *testing.T) {
	t.Parallel()
	var files []string
	for i := range 700 {
		files = append(files, fmt.Sprintf("folder/file%03d.c", i))
	}
	r := newTree(t, files...)
	for _, name := range files {
		r.write(name, "int changed;\n")
	}
	first := r.state()
	for range 5 {
		if again := r.state(); again != first {
			t.Fatalf("without a change: %s, then %s", first, again)
		}
	}
	r.write(files[len(files)-1], "int changed_again;\n")
	if now := r.state(); now == first {
		t.Errorf("the last file has changed, but the state is %s again", now)
	}
}
