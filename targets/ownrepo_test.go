package targets

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOwnFunctions runs the example repository's own test: Go calls C functions that its boards bring.
func TestOwnFunctions(t *testing.T) {
	s := openShop(t)
	cmd := exec.Command("go", "test", "-count=1", "-v", ".")
	cmd.Dir = absolute(t, "../examples/own-repo")
	cmd.Env = s.environment()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "not installed") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestAlias: advice names targets as a magefile imports them: in its folder and, called with such a name, in another
// one.
func TestAlias(t *testing.T) {
	s := openShop(t)
	repo := filepath.Join(t.TempDir(), "repo")
	bin := t.TempDir()
	if err := compileMagefile(repo, bin, "bs"); err != nil {
		t.Fatal(err)
	}
	mage := filepath.Join(bin, "mage")
	for _, dir := range []string{repo, t.TempDir()} {
		cmd := exec.Command(mage, "bs:flash")
		cmd.Dir, cmd.Env = dir, append(s.environment(), "IMAGE=abcdef")
		said, err := cmd.CombinedOutput()
		want := "hint: " + mage + " bs:cache:list shows those there are"
		if err == nil || !strings.Contains(string(said), want) {
			t.Errorf("%v\n%s\nwant %s", err, said, want)
		}
	}
}

// developers are targets that only boardsmith's own repository has.
var developers = []string{"bench", "lint", "test", "test:debian", "test:full", "test:soak"}

// TestUsersTargets: a user's repository has the targets of this package, and neither a target nor code of boardsmith's
// own checks.
func TestUsersTargets(t *testing.T) {
	s := openShop(t)
	said, err := exec.Command(filepath.Join(s.bin, "mage"), "-l").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var names []string
	for line := range strings.Lines(string(said)) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(line, "  ") {
			names = append(names, words[0])
		}
	}
	for _, name := range []string{"demo", "build", "board:show", "setup", "doctor"} {
		if !slices.Contains(names, name) {
			t.Errorf("no target %s in\n%s", name, said)
		}
	}
	for _, name := range developers {
		if slices.Contains(names, name) {
			t.Errorf("a user's repository has the target %s", name)
		}
	}

	cmd := exec.Command("go", "list", "-tags=mage", "-deps", "magefile.go")
	cmd.Dir = absolute(t, "../examples/own-repo")
	said, err = cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(said))
	if !slices.Contains(linked, module+"/targets") {
		t.Errorf("targets is not linked: the test looks at the wrong thing\n%s", said)
	}
	for _, name := range []string{"internal/develop", "internal/drawn", "testing"} {
		if slices.Contains(linked, name) || slices.Contains(linked, module+"/"+name) {
			t.Errorf("%s is linked into a user's magefile", name)
		}
	}
}
