package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestMageCommand: the command follows from the program's name and the module's go.mod.
func TestMageCommand(t *testing.T) {
	const byMage = "/home/u/.magefile/a22eedf78da6c87a4267e19b0aca502f1fcef19bb594a11e432459a142e42f47"
	for name, c := range map[string]struct{ program, goMod, want string }{
		"a tool": {byMage, "module x\n\ntool github.com/magefile/mage\n", "go tool mage"},
		"a block of tools": {
			byMage, "module x\r\n\r\ntool (\r\n\tgithub.com/magefile/mage // runs targets\r\n)\r\n",
			"go tool mage",
		},
		"a library only":    {byMage, "module x\n\nrequire (\n\tgithub.com/magefile/mage v1.15.0\n)\n", "mage"},
		"no module":         {byMage + ".exe", "", "mage"},
		"an older mage":     {byMage[:len(byMage)-24], "", "mage"},
		"mage -compile":     {"./ci", "module x\n\ntool github.com/magefile/mage\n", "./ci"},
		"found on PATH":     {"ci", "", "ci"},
		"a digest, shorter": {"/x/0123456789abcdef", "", "/x/0123456789abcdef"},
	} {
		dir := t.TempDir()
		sub := filepath.Join(dir, "a", "b")
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.goMod != "" {
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(c.goMod), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := mageCommand(c.program, sub); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCommandOnPath: a compiled magefile on PATH is called by its name.
func TestCommandOnPath(t *testing.T) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	if got := mageCommand(program, t.TempDir()); got != filepath.Base(program) {
		t.Errorf("%s is called %q", program, got)
	}
}

// TestNextStep prints the user's own command in an advice.
func TestNextStep(t *testing.T) {
	c := New(noVariables, io.Discard, io.Discard)
	c.mage = "./ci"
	err := failure.New(failure.Config, "SAVE=1 "+failure.Mage+" devices", "x")
	if got := c.NextStep(err); got != "SAVE=1 ./ci devices" {
		t.Errorf("next step %q", got)
	}
	if got := c.Mage("wear"); got != "./ci wear" {
		t.Errorf("command line %q", got)
	}
}

// TestOneCommandForTargets: code of all packages but boardsmith's own checks names targets by failure.Mage or
// Console.Mage, since a user's command for them may be another one.
func TestOneCommandForTargets(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || rel != "." && d.Name()[0] == '.' || rel == "tools" ||
			rel == "internal/develop"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		seen++
		for _, text := range stringsOf(t, path) {
			if typedMage.MatchString(text) && rel != filepath.Join("internal", "console", "mage.go") {
				t.Errorf("%s: %q", rel, text)
			}
		}
		return nil
	})
	if err != nil || seen < 100 {
		t.Errorf("%d files: %v", seen, err)
	}
}

var typedMage = regexp.MustCompile(`go tool mage|\bmage [a-z]`)

// stringsOf returns the values of a Go file's string literals.
func stringsOf(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
		return true
	})
	return all
}
