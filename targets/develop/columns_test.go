package develop

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestLongLines checks which files of a folder, and which of their lines, tools/columns.sh lists.
func TestLongLines(t *testing.T) {
	dir := t.TempDir()
	long, most := strings.Repeat("ä", 121), strings.Repeat("ä", 120)
	testkit.WriteFiles(t, dir, map[string]string{
		"Makefile": long + "\n", "a/b.c": most + "\n" + long + "\r\n" + long, "a/testdata/c.h": long + "\n",
		"a/d.go": "package a\n// " + long + "\nconst b = `\n" + long + "\n" + long + "`\n" +
			"const c = \"`\" // " + long + "\n",
		"e.md":              "| " + long + " |\n```\n" + long + "\n```\n" + long + "\nhttps://example.org/" + long + "\n",
		"a/testdata/d.json": long, "a/build/e.c": long, ".git/f.c": long, "g.bin": long,
	})
	found, err := exec.Command("sh", "../../tools/columns.sh", dir).Output()
	const want = "Makefile:1\na/b.c:2\na/b.c:3\na/d.go:2\na/d.go:6\na/testdata/c.h:1\ne.md:5\n"
	if string(found) != want || err != nil {
		t.Errorf("found %q, %v; want %q", found, err, want)
	}
}
