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

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	testkit.Must(t, err)
	return abs
}

// TestExampleRepository runs examples/own-repo by the commands of its README, with go tool mage itself.
func TestExampleRepository(t *testing.T) {
	s := openShop(t)
	out := filepath.Join(t.TempDir(), "out.npz")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("go", append([]string{"tool", "mage"}, args...)...)
		cmd.Dir = absolute(t, "../examples/own-repo")
		cmd.Env = append(s.environment(), "PROJECT="+filepath.Join(filepath.Dir(out), "p"), "TARGET=sine", "OUTPUT="+out)
		return cmd
	}
	// At once, because each call asks Go whether mage is up to date.
	testkit.WantText(t, testkit.Output(t, command("boards", "build", "flash", "run", "size")),
		"desk  ", "host  ", "board desk", "output0", "float32 (1, 1)", "mean")
	testkit.Must(t, sameArrays(out, "../examples/own-repo/models/sine.outputs.npz"))
	other := command("flash")
	other.Env = append(other.Env, "BOARD=host")
	hint := regexp.MustCompile(`hint: .* generate it again: PROJECT=\S+ BOARD=host .*go tool mage generate\n`)
	if got, err := other.CombinedOutput(); err == nil || !hint.Match(got) {
		t.Errorf("for another board: %v, without %q:\n%s", err, hint, got)
	}
}

// TestOwnFunctions runs the example repository's own test: Go calls C functions that its boards bring.
func TestOwnFunctions(t *testing.T) {
	s := openShop(t)
	cmd := exec.Command("go", "test", "-count=1", "-v", ".")
	cmd.Dir = absolute(t, "../examples/own-repo")
	cmd.Env = s.environment()
	for line := range strings.Lines(testkit.Output(t, cmd)) {
		if strings.Contains(line, "not installed") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// TestWorkflow runs the commands of the example repository's workflow in a copy of it, but those that install tools.
func TestWorkflow(t *testing.T) {
	drawn.OnlyInFull(t, "TestExampleRepository and the stories validate and release")
	s := openShop(t)
	testkit.Need(t, "riscv64-unknown-elf-gcc", "qemu-system-riscv32")
	repo := filepath.Join(t.TempDir(), "repo")
	testkit.Must(t, os.CopyFS(repo, os.DirFS("../examples/own-repo")))
	testkit.Must(t, os.RemoveAll(filepath.Join(repo, "build")))
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
		testkit.Output(t, cmd)
		ran++
	}
	testkit.Equal(t, "commands", ran, 3)
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
	testkit.Need(t, "riscv64-unknown-elf-gcc", "qemu-system-riscv32", "git")
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
	testkit.WantText(t, run(0, "sh", "measure.sh"), "the base has failed")
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

// TestUsersTargets: a user's repository has the targets of this package, and none of boardsmith's own checks.
func TestUsersTargets(t *testing.T) {
	s := openShop(t)
	output := testkit.Output(t, s.mage("", nil, "-l"))
	var names []string
	for line := range strings.Lines(output) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasPrefix(line, "  ") {
			names = append(names, words[0])
		}
	}
	for _, name := range []string{"demo", "build", "board:show", "setup", "doctor"} {
		if !slices.Contains(names, name) {
			t.Errorf("no target %s in\n%s", name, output)
		}
	}
	for _, name := range []string{"bench", "lint", "test", "test:full", "test:soak"} {
		if slices.Contains(names, name) {
			t.Errorf("a user's repository has the target %s", name)
		}
	}
}
