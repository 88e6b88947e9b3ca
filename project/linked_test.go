package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/library"
)

// TestMembersOfOneName: of several members with one name, each is read once.
func TestMembersOfOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"qc", "two.a"}
	for _, text := range []string{"one", "two"} {
		must(t, os.Mkdir(filepath.Join(dir, text), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, text, "m.o"), []byte(text), 0o644))
		args = append(args, text+"/m.o")
	}
	ar := exec.Command("ar", args...)
	ar.Dir = dir
	must(t, ar.Run())
	r := linkReader{archives: map[string][]library.Object{}, count: map[string]int{}}
	for _, want := range []string{"one", "two"} {
		if data, err := r.member(filepath.Join(dir, "two.a"), "m.o"); err != nil || string(data) != want {
			t.Errorf("%q, %v, not %s", data, err, want)
		}
	}
}
