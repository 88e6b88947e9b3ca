package targets

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// TestKeeperIsBuiltAtFirstUse has no keeper installed: Go builds the one of the module that the user's requires, once,
// also if that has a vendor folder, which lacks the keeper.
func TestKeeperIsBuiltAtFirstUse(t *testing.T) {
	t.Setenv("BOARDSMITH_HOME", t.TempDir())
	t.Setenv("BOARDSMITH_KEEPER", "")
	bin := t.TempDir()
	for _, name := range []string{"go", "gcc"} { // with both, what other tests have compiled is not compiled again
		compiler, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := os.Symlink(compiler, filepath.Join(bin, name)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	t.Setenv("PATH", bin)
	c := console.New(os.Getenv, io.Discard, io.Discard)
	c.Dir = t.TempDir()
	ownRepo(t, c.Dir)
	vendor := exec.Command("go", "mod", "vendor")
	vendor.Dir = c.Dir
	testkit.Output(t, vendor)
	_, err := findKeeper()
	testkit.WantError(t, err, "", "boardsmith-keeper is not installed")
	testkit.Must(t, buildKeeper(t.Context(), c))
	path, err := findProgram("boardsmith-keeper")
	testkit.Must(t, err)
	built, err := os.Stat(path)
	testkit.Must(t, err)
	if output, err := exec.Command(path, "-protocol", "0").CombinedOutput(); err == nil ||
		!strings.Contains(string(output), "this keeper speaks protocol") {
		t.Errorf("%v: %s", err, output)
	}
	testkit.Must(t, buildKeeper(t.Context(), c))
	if second, err := os.Stat(path); err != nil || !os.SameFile(built, second) {
		t.Errorf("it was built again: %v", err)
	}
}
