//go:build linux

package tune_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune"
)

// TestHostFaultIsNotStored measures candidates again after the fault is repaired, in the same run and in a continued
// one.
func TestHostFaultIsNotStored(t *testing.T) {
	open, compiler := faulty(t)
	dir := filepath.Join(t.TempDir(), "a run")
	compiler("cc 1.0", ":")
	r := open(dir, tune.Options{})
	for id, then := range map[string]string{
		"killed":             "kill -KILL $$",
		"full":               `cc "$@" -o /dev/full; exit`,
		"limited":            "ulimit -f 0",
		"no files":           "ulimit -n 3",
		"no memory":          "ulimit -v 3000",
		"child killed":       `bash -c 'kill -KILL $$'; exit $?`,
		"status of a signal": "exit 137",
		"wrapper":            `exec /no/such/program "$@"`,
		"aborted":            "kill -ABRT $$",
		"library":            `echo "cc1: error while loading shared libraries: libmpfr.so.6: cannot open shared object file" >&2; exit 1`,
		"cache":              `echo "ccache: error: Failed to create temporary file: Permission denied" >&2; exit 1`,
		"assembler":          `echo "Fatal error: can't create w.o: Permission denied" >&2; exit 1`,
		"license":            `echo "license server unreachable" >&2; exit 255`,
	} {
		t.Run(id, func(t *testing.T) {
			compiler("cc 1.0", then)
			c := operator(id, right+" /* "+id+" */")
			result := measured(t, r, c)
			f := result.Failure
			if f == nil || f.Class != failure.Host && f.Class != failure.ToolMissing || f.Blame != tune.BlameHost || !f.Retry {
				t.Fatalf("%s: %+v", id, f)
			}
			compiler("cc 1.0", ":")
			if id == "killed" {
				must(t, r.Close())
				r = open(dir, tune.Options{})
			}
			result = measured(t, r, c)
			if result.Failure != nil {
				t.Errorf("%s, after the cause is gone: %+v", id, result.Failure)
			}
		})
	}
	compiler("cc 1.0", `test -e "`+dir+`/once" || { touch "`+dir+`/once"; kill -KILL $$; }`)
	result := measured(t, r, operator("killed once", right+" /* once */"))
	if result.Failure != nil {
		t.Errorf("a compiler that is killed once: %+v", result.Failure)
	}
	bin := filepath.Dir(findFaulty(t))
	must(t, os.WriteFile(filepath.Join(bin, "faulty-cc"), []byte("#!/no/such/interpreter\n"), 0o755))
	result = measured(t, r, operator("no interpreter", right+" /* no interpreter */"))
	if f := result.Failure; f == nil || f.Blame != tune.BlameHost || f.Class != failure.ToolMissing {
		t.Errorf("without its interpreter: %+v", f)
	}
	must(t, r.Close())
	for _, kept := range results(t, r) {
		if kept.Failure != nil {
			t.Errorf("%s is kept: %+v", kept.ID, kept.Failure)
		}
	}
	data := readFile(t, filepath.Join(dir, "results.jsonl"))
	if strings.Contains(string(data), `"failure"`) {
		t.Errorf("failures are kept:\n%s", data)
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
		t.Run(c.id, func(t *testing.T) {
			compiler("cc 1.0", c.then)
			result := measured(t, r, operator(c.id, right+" /* "+c.id+" */"))
			f := result.Failure
			if f == nil || f.Blame != c.blame || f.Retry != (c.blame == tune.BlameHost) {
				t.Errorf("%s: %+v", c.id, f)
			}
		})
	}
	must(t, r.Close())
	kept := results(t, r)
	if len(kept) != 3 || kept[0].Failure.Class != failure.Compile {
		t.Errorf("kept %+v", kept)
	}
}

// findFaulty returns the path of the script that faulty has written.
func findFaulty(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "faulty-cc")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("no faulty-cc")
	return ""
}

// TestRetryMeasuresStoredFailureOnce counts the compilations of a candidate that fails.
func TestRetryMeasuresStoredFailureOnce(t *testing.T) {
	open, compiler := faulty(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "compiled")
	const broken = `; echo "twice.c:1:1: error: broken" >&2; exit 1`
	note := `echo x >>"` + log + `"`
	compiler("cc 1.0", ":")
	r := open(dir, tune.Options{})
	compiler("cc 1.0", note+broken)
	c := operator("one", right+" /* retry */")
	for _, o := range []tune.Options{{}, {}, {Retry: true}} {
		for range 2 {
			result := measured(t, r, c)
			if f := result.Failure; f == nil || f.Class != failure.Compile || f.Blame != tune.BlameCandidate || f.Retry {
				t.Errorf("%+v", f)
			}
		}
		must(t, r.Close())
		compiler("cc 1.0", ":") // for the firmware
		r = open(dir, o)
		compiler("cc 1.0", note+broken)
	}
	if data, err := os.ReadFile(log); err != nil || string(data) != "x\n" {
		t.Errorf("compiled %q, %v, want once", data, err)
	}
	for range 2 { // of the run that was opened with Retry
		_ = measured(t, r, c)
	}
	must(t, r.Close())
	if data, err := os.ReadFile(log); err != nil || string(data) != "x\nx\n" {
		t.Errorf("compiled %q, %v, want twice", data, err)
	}
}
