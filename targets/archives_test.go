package targets

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// An archiveCase is an archive and its files of arrays.
type archiveCase struct {
	archive, inputs string
	outputs         string // "" where TVM's own are not known
	refused         string // what the error says of an archive that cannot run; "" for all others
}

func caseOf(file string) archiveCase {
	_, class, _ := strings.Cut(mlftest.Name(file), ".")
	c := archiveCase{archive: file}
	switch {
	case strings.HasPrefix(class, "aot_packed_llvm"):
		c.refused = "2016 bytes of constants" // in no file of the archive
	case strings.Contains(class, "llvm_thumb"):
		c.refused = "is for arm 32-bit"
	case strings.Contains(class, "llvm_rv32"):
		c.refused = "is for riscv 32-bit"
	case strings.HasPrefix(class, "aot_c_dsp"):
		c.refused = "Arm's DSP instructions"
	}
	c.inputs, c.outputs = mlftest.Arrays(file)
	return c
}

// archivesDrawn is how many a plain run tries here: package project takes each of them to its answers.
const archivesDrawn = 2

// TestArchives types `MODEL=… INPUT=… OUTPUT=out.npz mage build flash run` for archives, and compares the outputs.
func TestArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute: not with -short")
	}
	s := openShop(t)
	for _, file := range drawn.Of(t, "archives", slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)),
		archivesDrawn) {
		c := caseOf(file)
		t.Run(filepath.Base(filepath.Dir(file))+"/"+mlftest.Name(file), func(t *testing.T) {
			t.Parallel()
			c.run(t, s)
		})
	}
}

func (c archiveCase) run(t *testing.T, s shop) {
	out := filepath.Join(t.TempDir(), "out.npz")
	cmd := exec.Command(filepath.Join(s.bin, "mage"), "build", "flash", "run")
	cmd.Dir = t.TempDir()
	cmd.Env = append(s.environment(), "MODEL="+absolute(t, c.archive), "INPUT="+absolute(t, c.inputs), "OUTPUT="+out,
		"REPEAT=1")
	output, err := cmd.CombinedOutput()
	if c.refused != "" {
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !bytes.Contains(output, []byte(c.refused)) {
			t.Fatalf("not refused for %q: %v\n%s", c.refused, err, output)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if c.outputs == "" {
		return
	}
	if err := sameArrays(out, c.outputs); err != nil {
		t.Error(err)
	}
}

func absolute(t *testing.T, path string) string {
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
	mage := func(args ...string) string {
		t.Helper()
		cmd := command(args...)
		var printed, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("mage %s: %v\n%s%s", strings.Join(args, " "), err, printed.String(), errs.String())
		}
		return printed.String()
	}
	got := mage("boards", "build", "flash", "run", "size") // at once, because each call asks Go whether mage is up to date
	for _, want := range []string{
		"desk  ", "host  ", "board desk", "output0", "float32 (1, 1)", "mean",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if err := sameArrays(out, "../examples/own-repo/models/sine.outputs.npz"); err != nil {
		t.Error(err)
	}
	other := command("flash")
	other.Env = append(other.Env, "BOARD=host")
	hint := regexp.MustCompile(`hint: .* generate it again: PROJECT=\S+ BOARD=host .*go tool mage generate\n`)
	if got, err := other.CombinedOutput(); err == nil || !hint.Match(got) {
		t.Errorf("for another board: %v, without %q:\n%s", err, hint, got)
	}
}
