package generator

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// TestForBoard: every file that a template may request is generated for a board with a memory map.
func TestForBoard(t *testing.T) {
	t.Parallel()
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	o, err := b.Settle(boards.Options{})
	must(t, err)
	for _, file := range templatefile.GeneratedFiles {
		if file == templatefile.LibrariesFile {
			continue // of projects with libraries
		}
		if ForBoard(file, &templatefile.Description{}, b, o) == nil {
			t.Errorf("%s is not generated", file)
		}
	}
	text := string(ForBoard("crt_config/memory.h", nil, b, o))
	if !strings.Contains(text, "IS_CODE(address) ((address) >= 0x0 && (address) < 0x400000)\n") {
		t.Errorf("%s", text)
	}
}

// TestMakeWords checks that make and a shell pass on each word as it is.
func TestMakeWords(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "make")
	words := []string{
		"-DX=a b", "-DX='a'", `-DX="a"`, "-DX=$(Y)", "-DX=$Y", "-DX=#", `-DX=\#`, `-DX=\\#`, `-DX=\`,
		"-DX=`a`", "-DX=a;b", "-DX=%", "", "a=b:c", "-DX=*", "-DX=ü", "~", "!x",
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "Makefile"), "W :="+makeWords(words...)+"\nall:\n\t@printf '<%s>' $(W)\n")
	out, err := exec.Command("make", "-s", "--no-print-directory", "-C", dir).Output()
	if want := "<" + strings.Join(words, "><") + ">"; err != nil || string(out) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, out, want)
	}
}
