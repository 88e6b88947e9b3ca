package targets

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// shared is where archives that TVM generated lie beside this repository, with their inputs and expected outputs.
const shared = "../../shared/data"

// An archiveCase is an archive and its files of arrays.
type archiveCase struct{ archive, inputs, outputs string }

// archiveCases are all archives that the host can run: not the objects for other cores, nor the code for Arm's DSP.
func archiveCases(t *testing.T) []archiveCase {
	var all []archiveCase
	for _, pattern := range []string{"mlf/*.tar", "mlperf_tiny/*.tar.gz", "mlf/candidates/*.tar"} {
		found, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range found {
			name := filepath.Base(a)
			if strings.Contains(name, "llvm_rv32") || strings.Contains(name, "llvm_thumb") || strings.Contains(name, "aot_c_dsp") {
				continue
			}
			model, _, _ := strings.Cut(name, ".")
			stem := filepath.Join(filepath.Dir(a), model)
			if strings.Contains(a, "candidates") {
				stem = filepath.Join(filepath.Dir(a), "matmul")
			}
			all = append(all, archiveCase{a, stem + ".inputs.npz", stem + ".outputs.npz"})
		}
	}
	return all
}

// TestArchives types `MODEL=… INPUT=… OUTPUT=out.npz mage build flash run` for every archive there is, and compares the
// outputs. Without -short and FULL=1, all but eight of the 32 candidates, which differ in their loops only, are left
// out by lot.
func TestArchives(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skipf("the archives are not beside this repository: %v", err)
	}
	s := openShop(t)
	cases := archiveCases(t)
	if len(cases) < 40 {
		t.Fatalf("only %d archives in %s", len(cases), shared)
	}
	for _, c := range drawn(t, cases) {
		t.Run(strings.TrimPrefix(c.archive, shared+"/"), func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "out.npz")
			abs := func(p string) string {
				a, err := filepath.Abs(p)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			cmd := exec.Command("mage", "build", "flash", "run")
			cmd.Path = filepath.Join(s.bin, "mage")
			cmd.Dir = t.TempDir()
			cmd.Env = append(s.environment(), "MODEL="+abs(c.archive), "INPUT="+abs(c.inputs), "OUTPUT="+out, "REPEAT=1")
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			if err := sameArrays(out, c.outputs); err != nil {
				t.Error(err)
			}
		})
	}
}

// drawn leaves out candidates by lot, by a seed that is printed.
func drawn(t *testing.T, cases []archiveCase) []archiveCase {
	const candidates = 8
	if os.Getenv("FULL") != "" {
		return cases
	}
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: %d of the candidates (SEED=%d draws the same again)", seed, candidates, seed)
	var kept, drawable []archiveCase
	for _, c := range cases {
		if strings.Contains(c.archive, "candidates") {
			drawable = append(drawable, c)
		} else {
			kept = append(kept, c)
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(drawable), func(i, j int) { drawable[i], drawable[j] = drawable[j], drawable[i] })
	return append(kept, drawable[:min(candidates, len(drawable))]...)
}

// TestExampleRepository runs examples/own-repo as its README says, with go tool mage itself.
func TestExampleRepository(t *testing.T) {
	s := openShop(t)
	repo, err := filepath.Abs("../examples/own-repo")
	if err != nil {
		t.Fatal(err)
	}
	mage := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"tool", "mage"}, args...)...)
		cmd.Dir = repo
		cmd.Env = append(s.environment(), "PROJECT="+filepath.Join(t.TempDir(), "p"), "TARGET=sine", "OUTPUT="+filepath.Join(t.TempDir(), "out.npz"))
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("mage %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
		}
		return out.String()
	}
	if got := mage("boards"); !strings.Contains(got, "desk") || !strings.Contains(got, "host") {
		t.Errorf("boards printed:\n%s", got)
	}
	out := mage("build", "flash", "run", "size")
	for _, want := range []string{"board desk", "output0", "float32 (1, 1)", "mean"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	fmt.Fprintln(t.Output(), out)
}
