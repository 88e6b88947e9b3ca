package ramlink

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestHeadersAreResolvedOnce: for a header that an earlier candidate included, no link is followed again, which the
// allocations of its path would show. A file that was missing is looked up each time.
func TestHeadersAreResolvedOnce(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a folder")
	link := filepath.Join(t.TempDir(), "link")
	testkit.Must(t, os.MkdirAll(folder, 0o755))
	testkit.Must(t, os.Symlink(folder, link))
	header, late := filepath.Join(link, "n.h"), filepath.Join(t.TempDir(), "late.h")
	testkit.WriteFile(t, header, "")
	l := &Linker{compile: []string{"cc", "-I" + folder}, included: &sync.Map{}}

	if !l.mayInclude(t.TempDir(), header) || !l.mayInclude(t.TempDir(), late) {
		t.Error("refused")
	}
	if n := testing.AllocsPerRun(10, func() { l.mayInclude("elsewhere", header) }); n > 2 {
		t.Errorf("%v allocations for a known header", n)
	}
	testkit.WriteFile(t, late, "")
	if l.mayInclude(t.TempDir(), late) {
		t.Error("a file of another folder was taken once it was there")
	}
}
