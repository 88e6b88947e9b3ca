//go:build linux

package tune_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/tune"
)

// TestHostFaultIsNotStored measures candidates again after the fault is repaired, in the same run and in a continued
// one.
func TestHostFaultIsNotStored(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir() + "/a run"
	compiler("cc 1.0", ":")
	r := open(dir, tune.Options{})
	for id, then := range map[string]string{
		"killed":             "kill -KILL $$",
		"full":               `cc "$@" -o /dev/full; exit`,
		"limited":            "ulimit -f 0",
		"no memory":          "ulimit -v 3000",
		"status of a signal": "exit 137",
		"wrapper":            `exec /no/such/program "$@"`,
		"library":            `echo "cc1: error while loading shared libraries: libmpfr.so.6: cannot open shared object file" >&2; exit 1`,
		"cache":              `echo "ccache: error: Failed to create temporary file: Permission denied" >&2; exit 1`,
		"license":            `echo "license server unreachable" >&2; exit 255`,
	} {
		compiler("cc 1.0", then)
		c := operator(id, right+" /* "+id+" */")
		f := measured(t, r, c).Failure
		if f == nil || f.Class != failure.Host && f.Class != failure.ToolMissing || f.Blame != tune.BlameHost || !f.Retry {
			t.Fatalf("%s: %+v", id, f)
		}
		compiler("cc 1.0", ":")
		if id == "killed" {
			must(t, r.Close())
			r = open(dir, tune.Options{})
		}
		wantFailure(t, measured(t, r, c), "")
	}
	compiler("cc 1.0", `test -e "`+dir+`/once" || { touch "`+dir+`/once"; kill -KILL $$; }`)
	wantFailure(t, measured(t, r, operator("killed once", right+" /* once */")), "")
	faulty, err := exec.LookPath("faulty-cc")
	must(t, err)
	testkit.WriteProgram(t, faulty, "#!/no/such/interpreter\n")
	result := measured(t, r, operator("no interpreter", right+" /* no interpreter */"))
	if f := result.Failure; f == nil || f.Blame != tune.BlameHost || f.Class != failure.ToolMissing {
		t.Errorf("without its interpreter: %+v", f)
	}
	must(t, r.Close())
	if lines := record(t, dir); strings.Contains(lines, `"failure"`) {
		t.Errorf("failures are kept:\n%s", lines)
	}
}

// TestRepeatedCompilerCrashBlamesCandidate blames the candidate only if the compiler compiles another source.
func TestRepeatedCompilerCrashBlamesCandidate(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir()
	compiler("cc 1.0", ":")
	r := open(dir, tune.Options{})
	for _, c := range []struct {
		id, then string
		blame    tune.Blame
	}{
		{"deep", `grep -q deep ./*.c && kill -SEGV $$`, tune.BlameCandidate},
		{"deep too", `if grep -q deep ./*.c; then echo "cc: internal compiler error: Segmentation fault signal terminated ` +
			`program cc1" >&2; exit 4; fi`, tune.BlameCandidate},
		{"deep, no word of code", `if grep -q deep ./*.c; then echo "cc: error: too deep" >&2; exit 1; fi`, tune.BlameCandidate},
		{"broken compiler", `kill -SEGV $$`, tune.BlameHost},
		{"broken, no word of code, deep", `exit 1`, tune.BlameHost},
		{"killed each time, deep", `grep -q deep ./*.c && kill -KILL $$`, tune.BlameHost},
	} {
		compiler("cc 1.0", c.then)
		f := measured(t, r, operator(c.id, right+" /* "+c.id+" */")).Failure
		if f == nil || f.Blame != c.blame || f.Retry != (c.blame == tune.BlameHost) {
			t.Errorf("%s: %+v", c.id, f)
		}
	}
	must(t, r.Close())
	kept, err := r.Results()
	must(t, err)
	if len(kept) != 3 || kept[0].Failure.Class != failure.Compile {
		t.Errorf("kept %+v", kept)
	}
}

// TestRetryMeasuresStoredFailureOnce counts the compilations of a candidate that fails.
func TestRetryMeasuresStoredFailureOnce(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir()
	log := dir + "/compiled"
	const broken = `; echo "twice.c:1:1: error: broken" >&2; exit 1`
	note := `echo x >>"` + log + `"`
	compiler("cc 1.0", ":")
	r := open(dir, tune.Options{})
	compiler("cc 1.0", note+broken)
	c := operator("one", right+" /* retry */")
	for _, o := range []tune.Options{{}, {}, {Retry: true}} {
		for range 2 {
			wantFailure(t, measured(t, r, c), failure.Compile)
		}
		must(t, r.Close())
		compiler("cc 1.0", ":") // for the firmware
		r = open(dir, o)
		compiler("cc 1.0", note+broken)
	}
	testkit.Equal(t, "compiled once", string(readFile(t, log)), "x\n")
	for range 2 { // of the run that was opened with Retry
		measured(t, r, c)
	}
	must(t, r.Close())
	testkit.Equal(t, "compiled twice", string(readFile(t, log)), "x\nx\n")
}
