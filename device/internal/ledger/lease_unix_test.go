//go:build !windows

package ledger

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// A folder that not every user may write to is rejected with a command that fixes it; a link is not followed.
func TestUnsharedLeases(t *testing.T) {
	private := filepath.Join(t.TempDir(), "a space")
	must(t, os.Mkdir(private, 0o755))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(private, link))
	for _, dir := range []string{private, link} {
		wantError(t, ShareLeases(dir), failure.Config, "chmod 1777 "+command.Quote(dir)+";")
	}
}

// All users get the same folder, whatever their permissions and environment.
func TestLeaseDir(t *testing.T) {
	open, closed := t.TempDir(), t.TempDir()
	must(t, os.Chmod(open, sharedMode))
	for lock, want := range map[string]string{open: open, closed: "/other", "/not/there": "/other"} {
		wantEqual(t, leaseDirIn(lock, "/other"), want+"/boardsmith", lock)
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
		must(t, last(Take(t.Context(), os.Getenv(leaseChild), "probe:1", 0)))
		return // without releasing it
	}
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	base, err := os.MkdirTemp("/tmp", "lease") // other users cannot read TempDir
	must(t, err)
	defer os.RemoveAll(base)
	program := filepath.Join(base, "test")
	testkit.WriteProgram(t, program, string(readFile(t, os.Args[0])))
	must(t, os.Chmod(base, 0o755))
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
	writeFile(t, filepath.Join(dir, "a.lease"), "") // a folder with a file is not replaced
	must(t, makeShared(dir))
	wantLen(t, 1)(os.ReadDir(parent))
}
