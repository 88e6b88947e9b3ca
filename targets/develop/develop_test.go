package develop

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/magefile/mage/parse"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// quietRepository returns a repository whose console has no variables and prints into a buffer.
func quietRepository() (*repository, *bytes.Buffer) {
	var b bytes.Buffer
	return &repository{Console: console.New(func(string) string { return "" }, &b, &b)}, &b
}

// inFolder returns a quiet repository in the folder.
func inFolder(dir string) *repository {
	r, _ := quietRepository()
	r.Dir = dir
	return r
}

// copyOf copies files of the repository into a folder.
func copyOf(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		testkit.WriteFile(t, filepath.Join(dir, name), string(testkit.ReadFile(t, filepath.Join("..", "..", name))))
	}
}

// TestOwnTargets checks that boardsmith's own magefile has the targets of users and of developers, each with one line
// of help.
func TestOwnTargets(t *testing.T) {
	root := "../.."
	info, err := parse.PrimaryPackage("go", root, []string{"magefile.go"}, false)
	testkit.Must(t, err)
	help := map[string]string{}
	for _, i := range info.Imports {
		for _, f := range i.Info.Funcs {
			help[strings.ToLower(f.TargetName())] = f.Synopsis
		}
	}
	for _, name := range []string{
		"bench", "build", "demo", "doctor", "figures", "flash", "lint", "run", "setup", "test", "test:full", "test:soak",
	} {
		if text := help[name]; len(text) < 20 || !strings.HasSuffix(text, ".") {
			t.Errorf("target %s has the help %q", name, text)
		}
	}
}
