package console

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/testkit"
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
		"a space in it":     {"/my tools/ci", "", "'/my tools/ci'"},
		"a digest, shorter": {"/x/0123456789abcdef", "", "/x/0123456789abcdef"},
	} {
		dir := t.TempDir()
		sub := filepath.Join(dir, "a", "b")
		testkit.Must(t, os.MkdirAll(sub, 0o755))
		if c.goMod != "" {
			testkit.WriteFile(t, filepath.Join(dir, "go.mod"), c.goMod)
		}
		testkit.Equal(t, name, mageCommand(c.program, sub), c.want)
	}
}

// TestCommandOnPath: a compiled magefile on PATH is called by its name.
func TestCommandOnPath(t *testing.T) {
	program, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	testkit.Equal(t, program, mageCommand(program, t.TempDir()), filepath.Base(program))
}

// TestNextStep prints options and targets of an advice as the user types them.
func TestNextStep(t *testing.T) {
	c := New(testkit.Environment(), io.Discard, io.Discard)
	c.mage, c.Dir = "./ci", t.TempDir()
	save := nextstep.Option("DeskFile.Note", "") + "; " + nextstep.Option("Desk.Reflash", "true") + " and " +
		nextstep.Option("which", "a b}=%{") + " " + nextstep.Option("dir", "it's") + ": " + nextstep.Target("board:show") +
		" {it}"
	const want = "SAVE=1 ./ci devices; FORCE=1 and DEVICE='a b}=%{' PROJECT='it'\\''s': ./ci board:show {it}"
	testkit.Equal(t, "next step", c.NextStep(failure.New(failure.Config, save, "x")), want)
	c.env = testkit.Environment("OPTIONS=arena_kib=8 log_level=error")
	larger := failure.New(failure.Config, nextstep.Option("Spec.Options", "arena_kib=16"), "x")
	testkit.Equal(t, "next step", c.NextStep(larger), "OPTIONS='log_level=error arena_kib=16'")
	testkit.Equal(t, "command line", c.Mage("build wear"), "./ci build wear")
}

// TestImportedAs: targets that a magefile imports under a name are called by it, as the user has called one.
func TestImportedAs(t *testing.T) {
	for want, args := range map[string][]string{
		"mage build board:show":       {"cache:list", "ci"},
		"mage bs:build bs:board:show": {"-v", "Bs:Cache:List"},
	} {
		console := &Console{mage: "mage", args: args, step: "cache:list"}
		testkit.Equal(t, args, console.Mage("build board:show"), want)
	}
}

// TestAdviceHasInputs: each option that an advice names has an input, or a target.
func TestAdviceHasInputs(t *testing.T) {
	option := regexp.MustCompile(`nextstep\.Option\("([^"]+)"`)
	used := map[string]bool{}
	root := os.DirFS("../../..")
	testkit.Must(t, fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, file)
		for _, m := range option.FindAllSubmatch(text, -1) {
			name := string(m[1])
			used[name] = true
			if variables[name] == "" && name != saveDevices {
				t.Errorf("%s: option %s has no input", file, name)
			}
		}
		return err
	}))
	for name := range variables {
		if !used[name] {
			t.Errorf("option %s is not used", name)
		}
	}
}
