//go:build linux

package develop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// fakeDebootstrap makes a system with only a shell and the program sleep, copied from this computer.
const fakeDebootstrap = `#!/bin/sh -e
root=$3
mkdir -p "$root/dev" "$root/root"
mknod "$root/dev/null" c 1 3
for program in /bin/sh /bin/sleep; do
  for file in $program $(ldd $program | grep -o '/[^ ]*'); do
    mkdir -p "$root${file%/*}"
    cp -L $file "$root$file"
  done
done
`

// inSystem runs tools/debian.sh with these commands in a folder for its system, and calls line with what it prints.
func inSystem(t *testing.T, line func(string), commands ...string) (dir string, run func(context.Context) error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root makes systems")
	}
	mount := []string{"--mount", "--pid", "--fork", "mount", "-t", "proc", "proc", "/proc"}
	if printed, err := exec.Command("unshare", mount...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, printed)
	}
	dir, tools := t.TempDir(), t.TempDir()
	testkit.WriteProgram(t, filepath.Join(tools, "debootstrap"), fakeDebootstrap)
	script, err := filepath.Abs("../../tools/debian.sh")
	testkit.Must(t, err)
	return dir, command.Command{
		Path: "/bin/sh", Args: append([]string{script, "bookworm"}, commands...), Out: line, Err: line,
		Env: append(os.Environ(), "TMPDIR="+dir, "PATH="+tools+":"+os.Getenv("PATH")), Grace: 5 * time.Second,
	}.Run
}

// TestSystem runs commands in a system: they have mounts and processes of their own, and nothing remains.
func TestSystem(t *testing.T) {
	var printed []string
	dir, run := inSystem(t, func(line string) { printed = append(printed, line) },
		`read line </usr/local/go/VERSION; echo "$line"; (: >/usr/local/go/other) || echo read-only; `+
			`(: <>/dev/ptmx) && echo terminals; read name rest </proc/1/stat; echo "process 1: $name"; echo "$BOARD:$PIP_X"`,
		"exit 7", "[ -f README.md ]")
	t.Setenv("BOARD", "x")
	if err := run(t.Context()); err == nil {
		t.Error("succeeded although a command failed")
	}
	for i, line := range printed {
		printed[i] = regexp.MustCompile(`, [0-9]+ s$`).ReplaceAllString(line, "")
	}
	for _, want := range []string{
		"read-only", "terminals", "process 1: 1", "debian: exit 7: status 7", "debian: [ -f README.md ]: ok", ":",
	} {
		if !slices.Contains(printed, want) {
			t.Errorf("%q is not in %q", want, printed)
		}
	}
	if !slices.ContainsFunc(printed, regexp.MustCompile(`^go1\.`).MatchString) {
		t.Errorf("Go is not in %q", printed)
	}
	mustBeGone(t, dir)
}

// TestSystemCancelled stops a command that ignores signals, with an orphaned process.
func TestSystemCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dir, run := inSystem(t, func(line string) {
		if line == "begun" {
			cancel()
		}
	}, `trap "" INT TERM; sleep 98765 & echo begun; sleep 98765; sleep 98765`)
	if err := run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	mustBeGone(t, dir)
}

// mustBeGone fails unless soon no file is left in a system's folder, and no mount and no process below it.
func mustBeGone(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		roots, _ := filepath.Glob("/proc/[0-9]*/root")
		for _, root := range roots {
			if to, err := os.Readlink(root); err == nil && strings.HasPrefix(to, dir) {
				left = append(left, root)
			}
		}
		mounts := testkit.ReadFile(t, "/proc/self/mountinfo")
		if strings.Contains(string(mounts), dir) {
			left = append(left, "a mount")
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("remains: %q", left)
		}
	}
}
