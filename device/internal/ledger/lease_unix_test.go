//go:build !windows

package ledger

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// A folder that not every user may write to is rejected with a command that fixes it; a link is not followed.
func TestUnsharedLeases(t *testing.T) {
	private := filepath.Join(t.TempDir(), "a space")
	must(t, os.Mkdir(private, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(private, link))
	for _, dir := range []string{private, link} {
		if err := ShareLeases(dir); failure.Of(err) != failure.Config ||
			!strings.Contains(failure.Next(err), "chmod 1777 "+command.Quote(dir)+";") {
			t.Errorf("%s: %v (%s)", dir, err, failure.Next(err))
		}
	}
}

// All users get the same folder, whatever their permissions and environment.
func TestLeaseDir(t *testing.T) {
	open, closed := t.TempDir(), t.TempDir()
	must(t, os.Chmod(open, sharedMode))
	for lock, want := range map[string]string{open: open, closed: "/other", "/not/there": "/other"} {
		if got := leaseDirIn(lock, "/other"); got != want+"/boardsmith" {
			t.Errorf("%s: %s", lock, got)
		}
	}
	t.Setenv("BOARDSMITH_HOME", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	if dir, err := LeaseDir(); err != nil || dir != "/run/lock/boardsmith" && dir != "/tmp/boardsmith" {
		t.Errorf("%s, %v", dir, err)
	}
}

// leaseChild runs this test program as another user, which takes a lease.
const leaseChild = "CACHE_TEST_LEASE"

// Two users exclude each other; one can take a lease that the other released or lost by being killed.
func TestLeaseOfAnotherUser(t *testing.T) {
	if os.Getenv(leaseChild) != "" {
		_, err := Take(t.Context(), os.Getenv(leaseChild), "probe:1", 0)
		must(t, err)
		return // without releasing it
	}
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	base, err := os.MkdirTemp("/tmp", "lease") // other users cannot read TempDir
	must(t, err)
	defer os.RemoveAll(base)
	program := filepath.Join(base, "test")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.WriteFile(program, text, 0o755), os.Chmod(base, 0o755))
	}
	must(t, err)
	dir := filepath.Join(base, "shared")
	must(t, ShareLeases(dir))
	other := func() (string, error) {
		cmd := exec.Command(program, "-test.run=^TestLeaseOfAnotherUser$")
		cmd.Dir, cmd.Env = "/", []string{leaseChild + "=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	l := mustTake(t, dir, "probe:1")
	if output, err := other(); err == nil || !strings.Contains(output, "is in use by process ") ||
		!strings.Contains(output, "of user root") {
		t.Errorf("while root has it: %v\n%s", err, output)
	}
	l.Release()
	for range 2 { // its holder file remains
		if output, err := other(); err != nil {
			t.Errorf("after root: %v\n%s", err, output)
		}
	}
	l = mustTake(t, dir, "probe:1")
	defer l.Release()
}

// A process that finds the shared folder made by another one in the meantime takes that one, and leaves none of its
// own.
func TestMakeSharedTwice(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "leases")
	must(t, makeShared(dir))
	if err := os.WriteFile(filepath.Join(dir, "a.lease"), nil, 0o644); err != nil { // a folder with a file is not replaced
		t.Fatal(err)
	}
	must(t, makeShared(dir))
	if all, err := os.ReadDir(parent); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
