//go:build !windows

package toolbox

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// TestFind looks for a program in the three places that may have it, the first of which wins.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	program := func(folder string) string {
		path := filepath.Join(dir, folder, "pyocd")
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.WriteProgram(t, path, "#!/bin/sh\n")
		return path
	}
	t.Setenv("BOARDSMITH_HOME", filepath.Join(dir, "home"))
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	variable := ""
	env := func(name string) string { return map[string]string{"PYOCD": variable}[name] }
	find := func(want string) {
		t.Helper()
		if got, err := Find(env, "pyocd"); got != want || err != nil {
			t.Errorf("found %q, %v, want %q", got, err, want)
		}
	}
	if got, err := Find(env, "pyocd"); failure.Of(err) != failure.ToolMissing {
		t.Errorf("nothing is installed: %q, %v", got, err)
	}
	folder, err := pythonDir()
	testkit.Must(t, err)
	below, err := filepath.Rel(dir, filepath.Join(folder, pythonPrograms()))
	testkit.Must(t, err)
	find(program(below))
	find(program("bin"))
	variable = program("mine")
	find(variable)
	variable = filepath.Join(dir, "none")
	if got, err := Find(env, "pyocd"); failure.Of(err) != failure.ToolMissing {
		t.Errorf("PYOCD is not a program: %q, %v", got, err)
	}
}

// TestFindRelative: a tool that a variable names by a relative path is found from every working folder, by a link too.
func TestFindRelative(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.Must(t, os.Mkdir("my tools", 0o755))
	testkit.WriteProgram(t, "tool", "#!/bin/sh\n")
	testkit.Must(t, os.Symlink("../tool", "my tools/tool"))
	for _, program := range []string{"openocd", "pyocd", "west", "gdb-multiarch"} {
		env := testkit.Environment(variableOf(program) + "=my tools/tool")
		got, err := Find(env, program)
		testkit.Must(t, err)
		testkit.Equal(t, program, got, filepath.Join(dir, "my tools", "tool"))
	}
}

// TestProbeSlow: a tool that has not ended in time is not one to install again.
func TestProbeSlow(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	f := Probe(ctx, Tool{Command: []string{"sleep", "60"}})
	if f.Installed || !strings.Contains(f.Reason, "sleep 60 has not ended") || !strings.Contains(f.Fix, "repeat") {
		t.Errorf("%+v", f)
	}
}

// TestFixCanBePasted: a command without anything around it.
func TestFixCanBePasted(t *testing.T) {
	var printed strings.Builder
	c := console.New(testkit.Environment(), &printed, io.Discard)
	Print(c, Finding{Tool: Tool{Name: "pyocd", Python: "pyocd==0.36.0"}, Reason: "not on PATH"})
	if !strings.HasSuffix(printed.String(), "; get it with: "+c.Mage("setup")+"\n") {
		t.Error(printed.String())
	}
}
