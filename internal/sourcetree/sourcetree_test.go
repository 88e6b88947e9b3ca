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

// TestSubmodules: a submodule's commit and its changed files count, also those of submodules in it; its untracked files
// do not.
func TestSubmodules(t *testing.T) {
	t.Parallel()
	deep, sub, top := newTree(t, "x.c"), newTree(t, "x.c"), newTree(t, "x.c")
	sub.git("submodule", "--quiet", "add", deep.dir, "deep")
	sub.git("commit", "-q", "-m", "deep")
	top.git("submodule", "--quiet", "add", sub.dir, "sub")
	top.git("submodule", "--quiet", "update", "--init", "--recursive")
	top.git("commit", "-q", "-m", "sub")
	in := tree{t, filepath.Join(top.dir, "sub")}
	for dir, want := range map[string]struct {
		top   string
		isOwn bool
	}{
		in.dir: {in.dir, true}, top.dir: {top.dir, true}, t.TempDir(): {"", false},
		filepath.Join(in.dir, "deep"): {filepath.Join(in.dir, "deep"), true},
		filepath.Join(in.dir, "none"): {in.dir, true}, filepath.Join(top.dir, "none"): {top.dir, false},
	} {
		if got, isOwn := Top(dir); got != want.top || isOwn != want.isOwn {
			t.Errorf("%s is in %q, %v", dir, got, isOwn)
		}
	}
	clean := top.state()
	in.write("new.c", "int untracked;\n")
	if now := top.state(); now != clean {
		t.Errorf("an untracked file counts: %s, before %s", now, clean)
	}
	seen := map[string]string{clean: "no change"}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"a changed file", func() { in.write("x.c", "int y;\n") }},
		{"other content of it", func() { in.write("x.c", "int z;\n") }},
		{"another commit", func() { in.git("commit", "-q", "-a", "-m", "y") }},
		{"one more commit", func() { in.git("commit", "-q", "--allow-empty", "-m", "z") }},
		{"a changed file in a submodule's submodule", func() { in.write("deep/x.c", "int y;\n") }},
		{"other content of that file", func() { in.write("deep/x.c", "int z;\n") }},
		{"no submodule", func() {
			if err := os.RemoveAll(in.dir); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		step.do()
		state := top.state()
		if was, ok := seen[state]; ok {
			t.Errorf("%s: the state of %s", step.name, was)
		}
		seen[state] = step.name
	}
}
