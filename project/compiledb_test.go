package project

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// plainFlag are flags of the Makefile that change nothing of what the code means.
var plainFlag = regexp.MustCompile(`^(-pipe|-g1|-f(function|data)-sections|-f(file|debug)-prefix-map=.*|-fcallgraph-info=su|-W.*|-w|-Iport|-MMD|-MP)$`)

// chosenFlag are the flags that options add.
var chosenFlag = regexp.MustCompile(`^-(O3|funroll-loops|fno-gcse)$`)

// TestCompileCommands compares compile_commands.json with what make would run.
func TestCompileCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	dir := filepath.Join(t.TempDir(), "p")
	flags := "-funroll-loops,lib1.c:-fno-gcse"
	generated(t, dir, Spec{
		Model:   mlftest.Tiny(t, nil),
		Options: boards.Options{RuntimeOpt: "O1", OperatorOpt: "O3", OperatorFlags: flags},
	})
	var entries []generator.Command
	must(t, json.Unmarshal([]byte(contents(t, dir)[generator.CompileDatabase]), &entries))
	said, flagged := map[string][]string{}, map[string][]string{}
	for _, e := range entries {
		if e.Directory != generator.Here || e.Arguments[len(e.Arguments)-1] != e.File {
			t.Errorf("entry %+v", e)
		}
		said[e.File] = e.Arguments[:len(e.Arguments)-2]
	}
	make := exec.Command("make", "-n", "-B")
	make.Dir = dir
	out, err := make.Output()
	must(t, err)
	together := map[string][]string{} // sources, by the one that includes them
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if made, ok := strings.CutPrefix(words[len(words)-1], ">"); ok && words[0] == "printf" {
			together[made] = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, "crt/") })
			continue
		}
		at := slices.Index(words, "-c")
		file := words[len(words)-1]
		files, included := together[file]
		if at < 0 || strings.HasPrefix(file, "build/") && !included {
			continue
		}
		runs := slices.DeleteFunc(words[:at], plainFlag.MatchString)
		if included {
			runs = slices.Delete(runs, len(runs)-2, len(runs)) // -iquote .
		} else {
			files = []string{file}
		}
		for _, file := range files {
			if !slices.Equal(said[file], runs) {
				t.Errorf("%s: the file has %q, make runs %q", file, said[file], runs)
			}
			delete(said, file)
		}
		flagged[file] = slices.DeleteFunc(runs, func(w string) bool { return !chosenFlag.MatchString(w) })
	}
	for file, want := range map[string]string{
		"lib0.c": "-O3 -funroll-loops", "lib1.c": "-O3 -funroll-loops -fno-gcse",
	} {
		if words := strings.Join(flagged["model/codegen/host/src/"+file], " "); words != want {
			t.Errorf("%s is compiled with %q, want %q", file, words, want)
		}
	}
	if len(entries) < 10 || len(said) > 0 {
		t.Errorf("of %d entries, make does not compile %v", len(entries), said)
	}
}
