package targets

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shared is where archives that TVM generated lie, with their inputs and expected outputs.
func shared() string { return first(os.Getenv("BOARDSMITH_DATA"), "../../shared/data") }

// An archiveCase is an archive and its files of arrays.
type archiveCase struct {
	archive, inputs string
	outputs         string // "" where TVM's own are not known
	refused         string // what the error says of an archive that cannot run; "" for all others
}

// archiveCases are all archives there are. Those with code for other cores must be refused.
func archiveCases(t *testing.T) []archiveCase {
	var all []archiveCase
	for _, pattern := range []string{"mlf/*.tar", "mlperf_tiny/*.tar.gz", "mlf/candidates/*.tar"} {
		found, err := filepath.Glob(filepath.Join(shared(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			all = append(all, caseOf(file))
		}
	}
	return all
}

func caseOf(file string) archiveCase {
	name := filepath.Base(file)
	model, kind, _ := strings.Cut(name, ".")
	c := archiveCase{archive: file}
	switch {
	case strings.HasPrefix(kind, "aot_packed_llvm"):
		c.refused = "2016 bytes of constants out of the objects" // in no file of the archive
	case strings.Contains(kind, "llvm_thumb"):
		c.refused = "is for arm 32-bit"
	case strings.Contains(kind, "llvm_rv32"):
		c.refused = "is for riscv 32-bit"
	case strings.HasPrefix(kind, "aot_c_dsp"):
		c.refused = "Arm's DSP instructions"
	case model == "conv_pools": // conv_f32 with other weights: project's tests compute what it must answer
		c.inputs = filepath.Join(filepath.Dir(file), "conv_f32.inputs.npz")
		return c
	case strings.HasPrefix(model, "matmul_"):
		model = "matmul"
	}
	stem := filepath.Join(filepath.Dir(file), model)
	c.inputs, c.outputs = stem+".inputs.npz", stem+".outputs.npz"
	return c
}

// TestArchives types `MODEL=… INPUT=… OUTPUT=out.npz mage build flash run` for every archive there is, and compares the
// outputs.
func TestArchives(t *testing.T) {
	if _, err := os.Stat(shared()); err != nil {
		t.Skipf("no TVM archives in %s; set BOARDSMITH_DATA to run this", shared())
	}
	if testing.Short() {
		t.Skip("takes a minute: not with -short")
	}
	s := openShop(t)
	cases := archiveCases(t)
	if len(cases) < 80 {
		t.Fatalf("only %d archives in %s", len(cases), shared())
	}
	for _, c := range cases {
		t.Run(strings.TrimPrefix(c.archive, shared()+"/"), func(t *testing.T) {
			t.Parallel()
			c.run(t, s)
		})
	}
}

func (c archiveCase) run(t *testing.T, s shop) {
	out := filepath.Join(t.TempDir(), "out.npz")
	cmd := exec.Command(filepath.Join(s.bin, "mage"), "build", "flash", "run")
	cmd.Dir = t.TempDir()
	cmd.Env = append(s.environment(), "MODEL="+absolute(t, c.archive), "INPUT="+absolute(t, c.inputs), "OUTPUT="+out, "REPEAT=1")
	said, err := cmd.CombinedOutput()
	if c.refused != "" {
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !bytes.Contains(said, []byte(c.refused)) {
			t.Fatalf("not refused for %q: %v\n%s", c.refused, err, said)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
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
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// TestExampleRepository runs examples/own-repo as its README says, with go tool mage itself.
func TestExampleRepository(t *testing.T) {
	s := openShop(t)
	out := filepath.Join(t.TempDir(), "out.npz")
	mage := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "mage"}, args...)...)
		cmd.Dir = absolute(t, "../examples/own-repo")
		cmd.Env = append(s.environment(), "PROJECT="+filepath.Join(filepath.Dir(out), "p"), "TARGET=sine", "OUTPUT="+out)
		var printed, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("mage %s: %v\n%s%s", strings.Join(args, " "), err, printed.String(), errs.String())
		}
		return printed.String()
	}
	if got := mage("boards"); !strings.Contains(got, "desk") || !strings.Contains(got, "host") {
		t.Errorf("boards printed:\n%s", got)
	}
	got := mage("build", "flash", "run", "size")
	for _, want := range []string{"board desk", "output0", "float32 (1, 1)", "mean"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if err := sameArrays(out, "../examples/own-repo/models/sine.outputs.npz"); err != nil {
		t.Error(err)
	}
	if got := mage("-l"); !strings.Contains(got, "board:show") || !strings.Contains(got, "test:full") {
		t.Errorf("mage -l printed:\n%s", got)
	}
}

// TestEveryTargetHasHelp holds each target to one line of help, and that it is shown.
func TestEveryTargetHasHelp(t *testing.T) {
	s := openShop(t)
	for _, target := range []string{
		"demo", "generate", "build", "flash", "run", "size", "clean", "boards", "board:show", "doctor", "setup", "test", "test:full", "lint", "bench",
	} {
		said, err := exec.Command(filepath.Join(s.bin, "mage"), "-h", target).CombinedOutput()
		help, _, _ := strings.Cut(string(said), "\n")
		if err != nil || len(help) < 20 || !strings.HasSuffix(help, ".") {
			t.Errorf("mage -h %s: %v, %q", target, err, help)
		}
	}
}
