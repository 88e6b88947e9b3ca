package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

// TestMissingParent: a TMPDIR that does not exist is an error of what the user chose, with a next step.
func TestMissingParent(t *testing.T) {
	_, err := MakeIn(filepath.Join(t.TempDir(), "gone"), "scratch-test")
	if failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("class %v: %v", failure.Of(err), err)
	}
}

// TestKilled: the folder of a process that was killed is removed by the next one, that of a live one is not, nor is
// another program's.
func TestKilled(t *testing.T) {
	if os.Getenv("SCRATCH_CHILD") != "" {
		_, err := Make("scratch-test")
		must(t, err)
		must(t, os.WriteFile(os.Getenv("SCRATCH_CHILD"), nil, 0o600))
		os.Exit(0) // without Remove
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp)
	ready := filepath.Join(t.TempDir(), "ready")
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), "SCRATCH_CHILD="+ready)
	if said, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if _, err := os.Stat(ready); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(temp, "scratch-test-of-others")
	must(t, os.Mkdir(other, 0o700))
	if all, _ := filepath.Glob(filepath.Join(temp, "scratch-test*")); len(all) != 2 {
		t.Fatalf("%q", all)
	}
	mine, err := Make("scratch-test")
	must(t, err)
	sweep(temp, "scratch-test") // what another process would do
	all, err := filepath.Glob(filepath.Join(temp, "scratch-test*"))
	must(t, err)
	if len(all) != 2 || all[0] != other && all[1] != other || all[0] != mine.Dir && all[1] != mine.Dir {
		t.Errorf("%q, want %s and %s", all, mine.Dir, other)
	}
	must(t, mine.Remove())
	if _, err := os.Stat(mine.Dir); err == nil {
		t.Error("it is still there")
	}
}
