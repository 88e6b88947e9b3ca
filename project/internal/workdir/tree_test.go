package workdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestLinkOutOfTree: a folder of a project that is a link out of it is named, as a fault of the folder.
func TestLinkOutOfTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "src")); err != nil {
		t.Skip(err)
	}
	tree, err := Open(dir)
	must(t, err)
	defer tree.Close()

	_, listed := tree.List([]string{"src"})
	_, digest := tree.Digest("src/a.c")
	for _, err := range []error{listed, digest, tree.MakeFolders([]string{"src/a"})} {
		if failure.Of(err) != failure.Config || failure.Next(err) == "" {
			t.Errorf("%v: class %s", err, failure.Of(err))
		}
	}
}
