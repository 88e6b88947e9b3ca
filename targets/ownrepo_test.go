package targets

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestOwnFunctions runs the example repository's own test: Go calls C functions that its boards bring.
func TestOwnFunctions(t *testing.T) {
	s := openShop(t)
	cmd := exec.Command("go", "test", "-count=1", "-v", ".")
	cmd.Dir = absolute(t, "../examples/own-repo")
	cmd.Env = s.environment()
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for line := range strings.Lines(string(output)) {
		if strings.Contains(line, "not installed") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestWorkflow runs the commands of the example repository's workflow in a copy of it, but those that install tools.
func TestWorkflow(t *testing.T) {
	drawn.OnlyInFull(t, "TestExampleRepository and the stories validate and release")
	s := openShop(t)
	needs(t, "riscv64-unknown-elf-gcc", "qemu-system-riscv32")
	repo := filepath.Join(t.TempDir(), "repo")
	testkit.Must(t, os.CopyFS(repo, os.DirFS("../examples/own-repo")))
	if err := os.RemoveAll(filepath.Join(repo, "build")); err != nil {
		t.Fatal(err)
	}
	workflow := testkit.ReadFile(t, filepath.Join(repo, ".github", "workflows", "firmware.yml"))
	env, ran := s.environment(), 0
	for line := range strings.Lines(string(workflow)) {
		line = strings.TrimSpace(line)
		if target, ok := strings.CutPrefix(line, "TARGET: "); ok {
			env = append(env, "TARGET="+target)
		}
		run, ok := strings.CutPrefix(line, "- run: ")
		if !ok || strings.HasPrefix(run, "sudo ") || strings.HasPrefix(run, "go tool mage -compile bs ") {
			continue // the shop has compiled the program
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(run, "./bs ", "mage "))
		cmd.Dir, cmd.Env = repo, env
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", run, err, output)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("%d commands", ran)
	}
	for _, name := range []string{"report.json", "firmware/firmware.hex", "firmware/sbom.cdx.json"} {
		if _, err := os.Stat(filepath.Join(repo, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestMeasureWorkflow runs the script of the example repository's other workflow in a copy of it with two commits, of
// which the second compiles the operators in another way: the table has the values of both. A base without the model is
// reported, and the table has the other commit's values. A relative path in go.mod leads to the same folder from both.
func TestMeasureWorkflow(t *testing.T) {
	s := openShop(t)
	needs(t, "riscv64-unknown-elf-gcc", "qemu-system-riscv32", "git")
	repo := filepath.Join(t.TempDir(), "own repo")
	testkit.Must(t, os.CopyFS(repo, os.DirFS("../examples/own-repo")))
	workflow, err := os.ReadFile(filepath.Join(repo, ".github", "workflows", "measure.yml"))
	if err != nil || !strings.Contains(string(workflow), "- run: sh measure.sh\n") {
		t.Fatalf("the workflow does not run the script: %v", err)
	}
	mage := filepath.Join(t.TempDir(), "mage")
	testkit.WriteFile(t, mage, "#!/bin/sh\ntest -d ../checkout && exec mage \"$@\"\n")
	testkit.Must(t, errors.Join(os.Chmod(mage, 0o755), os.Mkdir(filepath.Join(repo, "..", "checkout"), 0o755)))
	run := func(want int, name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = repo
		cmd.Env = append(s.environment(), "MAGE="+mage, "BASE=HEAD~1", "LIMITS=flash=0", "GIT_CONFIG_GLOBAL=/dev/null")
		output, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("%s %v: code %d, %v\n%s", name, args, code, err, output)
		}
		return string(output)
	}
	commit := func() {
		run(0, "git", "add", ".")
		run(0, "git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x")
	}
	run(0, "git", "init", "-q")
	commit()
	settings := filepath.Join(repo, "boardsmith.json")
	text := testkit.ReadFile(t, settings)
	changed := strings.Replace(string(text), "{", `{"options": {"operator_opt": "O0"},`, 1)
	testkit.WriteFile(t, settings, changed)
	commit()
	run(4, "sh", "measure.sh")
	table, err := os.ReadFile(filepath.Join(repo, "measure.md"))
	if err != nil || !regexp.MustCompile(`(?m)^\| desk_chip \| sine.aot_packed \| standalone \| [0-9,]+ → [0-9,]+ instructions .*`+
		`\| [0-9,]+ → [0-9,]+ \(\+[0-9.]+ %\) \|.* 1 of 1 \(abs=1e-05\) \|$`).Match(table) ||
		!strings.Contains(string(table), "above the limit of +0 %** operators +") {
		t.Errorf("%v\n%s", err, table)
	}
	const model = "models/sine.aot_packed.tar"
	run(0, "git", "rm", "-q", model)
	commit()
	run(0, "git", "checkout", "-q", "HEAD~1", model)
	commit()
	if printed := run(0, "sh", "measure.sh"); !strings.Contains(printed, "the base has failed") {
		t.Errorf("a base without the model: %s", printed)
	}
	table, err = os.ReadFile(filepath.Join(repo, "measure.md"))
	if err != nil || !regexp.MustCompile(`(?m)^\| desk_chip \| sine.aot_packed \| standalone \| [0-9,]+ instructions `).Match(table) {
		t.Errorf("%v\n%s", err, table)
	}
	if list := run(0, "git", "worktree", "list"); strings.Count(list, "\n") != 1 {
		t.Errorf("a work tree is left:\n%s", list)
	}
	if left, err := filepath.Glob(repo + ".*"); len(left) > 0 || err != nil {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestAlias: advice names targets as a magefile imports them: in its folder and, called with such a name, in another
// one.
func TestAlias(t *testing.T) {
	drawn.OnlyInFull(t, "the tests of aliases in package console")
	s := openShop(t)
	repo := filepath.Join(t.TempDir(), "repo")
	bin := t.TempDir()
	testkit.Must(t, compileMagefile(repo, bin, "bs"))
	mage := filepath.Join(bin, "mage")
	for _, dir := range []string{repo, t.TempDir()} {
		cmd := exec.Command(mage, "bs:flash")
		cmd.Dir, cmd.Env = dir, append(s.environment(), "IMAGE=abcdef")
		output, err := cmd.CombinedOutput()
		want := "hint: " + mage + " bs:cache:list shows those there are"
		if err == nil || !strings.Contains(string(output), want) {
			t.Errorf("%v\n%s\nwant %s", err, output, want)
		}
	}
}

// developers are targets that only boardsmith's own repository has.
var developers = []string{"bench", "lint", "test", "test:full", "test:soak"}

// TestUsersTargets: a user's repository has the targets of this package, and neither a target nor code of boardsmith's
// own checks.
func TestUsersTargets(t *testing.T) {
	s := openShop(t)
	output, err := exec.Command(filepath.Join(s.bin, "mage"), "-l").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	var names []string
	for line := range strings.Lines(string(output)) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(line, "  ") {
			names = append(names, words[0])
		}
	}
	for _, name := range []string{"demo", "build", "board:show", "setup", "doctor"} {
		if !slices.Contains(names, name) {
			t.Errorf("no target %s in\n%s", name, output)
		}
	}
	for _, name := range developers {
		if slices.Contains(names, name) {
			t.Errorf("a user's repository has the target %s", name)
		}
	}

	cmd := exec.Command("go", "list", "-tags=mage", "-deps", "magefile.go")
	cmd.Dir = absolute(t, "../examples/own-repo")
	output, err = cmd.Output()
	testkit.Must(t, err)
	linked := strings.Fields(string(output))
	if !slices.Contains(linked, module+"/targets") {
		t.Errorf("targets is not linked: the test looks at the wrong thing\n%s", output)
	}
	for _, name := range []string{"targets/develop", "internal/testkit/drawn", "testing"} {
		if slices.Contains(linked, name) || slices.Contains(linked, module+"/"+name) {
			t.Errorf("%s is linked into a user's magefile", name)
		}
	}
}
