package project

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/internal/library"
)

// TestMembersOfOneName: of several members with one name, each is read once.
func TestMembersOfOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"qc", "two.a"}
	for _, text := range []string{"one", "two"} {
		writeIn(t, dir, text+"/m.o", text)
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

// TestObjectBesideMap: an object that has the name of the link's own map is not the result of an earlier link; another
// one that a map lies beside stands for what that lists.
func TestObjectBesideMap(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	const head = "Linker script and memory map\n\nLOAD "
	putFiles(t, dir, map[string]string{
		"firmware.map": head + "firmware.o\nLOAD model.o\n", "model.map": head + "a.o\nLOAD b.o\n",
	})

	r := linkReader{project: &Project{}, dir: dir}
	got, err := r.linked(filepath.Join(dir, "firmware.map"))
	if want := []string{"firmware.o", "a.o", "b.o"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, not %q", got, err, want)
	}
}
