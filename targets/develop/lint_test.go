package develop

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// newCppcheck behaves as cppcheck 2.17 where it differs from 2.10: unless its depth is set, it reports for each file
// that it did not check all branches. It also reports a violation of MISRA's rule 1.1.
const newCppcheck = `#!/bin/sh
case "$*" in
  *--version*) echo 'Cppcheck 2.17.1' ;;
  *--check-level=exhaustive*) ;;
  *) printf 'normalCheckLevelMaxBranches\tsrc/a.c\t0\tLimiting analysis of branches.\n' ;;
esac
case "$*" in *--addon=misra*) printf 'misra-c2012-1.1\tsrc/a.c\t1\tmisra violation\n' ;; esac
case "$*" in *FIND*) printf 'uninitvar\tsrc/a.c\t1\tUninitialized variable\n' ;; esac
`

// TestLintByNewerCppcheck lints with a cppcheck that reports more than the version for which the list of deviations was
// written; only with that version, and unless the check is brief, a violation of MISRA's rules is a failure.
func TestLintByNewerCppcheck(t *testing.T) {
	testkit.Need(t, "sh")
	dir := t.TempDir()
	copyOf(t, dir, "crt/lint.sh", "crt/misra.md", "crt/misra.counts")
	for _, name := range []string{"include", "src", "embedded", "candidate", "test"} {
		testkit.Must(t, os.Mkdir(filepath.Join(dir, "crt", name), 0o755))
	}
	cppcheck := filepath.Join(dir, "cppcheck")
	listed, finding := strings.NewReplacer("2.17.1", "2.10"), strings.NewReplacer("FIND", "std=c11")
	for _, c := range []struct {
		name, mode, program, want string
		fails                     bool
	}{
		{
			"nothing found", "", newCppcheck,
			"MISRA not checked: misra.counts is for cppcheck 2.10, installed is 2.17", false,
		},
		{"a finding", "", finding.Replace(newCppcheck), "uninitvar: Uninitialized variable", true},
		{"a violation", "", listed.Replace(newCppcheck), "misra.md does not explain: 1.1", true},
		{"brief", "brief", listed.Replace(newCppcheck), "MISRA not checked: sh lint.sh without brief", false},
	} {
		testkit.WriteProgram(t, cppcheck, c.program)
		cmd := exec.Command("sh", filepath.Join(dir, "crt", "lint.sh"), c.mode)
		cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

// TestLayout checks C with the right layout, C with a wrong layout, and a version of clang-format that differs from the
// one that .clang-format is for.
func TestLayout(t *testing.T) {
	testkit.Need(t, "make", "clang-format")
	const good, bad = "int f(void) { return 1; }\n", "int f(void){ return 1; }\n"
	for _, c := range []struct {
		name, header, version, want string
		fails                       bool
	}{
		{"good", good, "", "files have the layout of .clang-format", false},
		{"bad", bad, "", "templates/a.h:1:12", true},
		{"another version", bad, "99", "not checked: .clang-format is for clang-format ", false},
	} {
		dir := t.TempDir()
		copyOf(t, dir, "crt/.clang-format", "crt/Makefile")
		testkit.WriteFile(t, filepath.Join(dir, "templates", "a.h"), c.header)
		path := os.Getenv("PATH")
		if c.version != "" {
			testkit.WriteProgram(t, filepath.Join(dir, "clang-format"),
				"#!/bin/sh\necho clang-format version "+c.version+".0.0\n")
			path = dir + string(os.PathListSeparator) + path
		} else if out, _ := exec.Command("clang-format", "--version").Output(); !strings.Contains(string(out), " 14.") {
			t.Logf("%s: not tried, as clang-format is not version 14: %s", c.name, out)
			continue
		}
		cmd := exec.Command("make", "-C", filepath.Join(dir, "crt"), "layout")
		cmd.Env = append(os.Environ(), "PATH="+path)
		out, err := cmd.CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

// TestFuzz fuzzes by a compiler that returns a program which ends in one of the ways of Go's: only the end of the time
// is no failure. What the ledger has least of is first, and what it has not is before all.
func TestFuzz(t *testing.T) {
	testkit.Need(t, "sh", "timeout")
	const over = "--- FAIL: FuzzX (15.04s)\n    context deadline exceeded\nFAIL\n"
	dir := t.TempDir()
	copyOf(t, dir, "tools/fuzz.sh")
	ledger := filepath.Join(dir, "ledger")
	row := "day\tcommit\ttarget\tseed\tminutes\tresult\n"
	for name, c := range map[string]struct{ minutes, printed, status string }{
		"Much": {"2.5", "", "0"},
		"None": {"0", over, "1"},
		"Some": {"1.25", over + "    Failing input written to testdata/fuzz/FuzzSome/1\n", "1"},
		"More": {"2", "--- FAIL: FuzzX (3.04s)\n    x_test.go:9: context deadline exceeded\nFAIL\n", "1"},
	} {
		testkit.WriteFiles(t, dir, map[string]string{
			"p/" + name + "_test.go": "func Fuzz" + name + "(f *testing.F) {\n", name: c.printed, name + ".status": c.status,
		})
		if name != "None" {
			row += "\t\tp.Fuzz" + name + "\t\t" + c.minutes + "\tok\n"
		}
	}
	testkit.WriteFile(t, ledger, row)
	const program = `#!/bin/sh
case "$*" in
  *' -o '*) while [ "$1" != -o ]; do shift; done; cp "$0" "$2" ;;
  *) name=../$(echo "$2" | sed 's/.*Fuzz//; s/.$//'); cat "$name"; exit "$(cat "$name.status")" ;;
esac
`
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for name, text := range map[string]string{
		"go": program, "make": "#!/bin/sh\n", "git": "#!/bin/sh\necho 0123456789ab\n",
	} {
		testkit.WriteProgram(t, filepath.Join(dir, "bin", name), text)
	}
	cmd := exec.Command("sh", filepath.Join(dir, "tools", "fuzz.sh"), "1", "Fuzz")
	cmd.Env = append(os.Environ(), "LEDGER="+ledger, "FUZZ_KEPT="+t.TempDir(),
		"PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("no failure is reported")
	}
	data, _ := os.ReadFile(ledger)
	var got []string
	for line := range strings.Lines(strings.TrimPrefix(string(data), row)) {
		words := strings.Fields(line)
		got = append(got, words[2]+" "+words[len(words)-1])
	}
	want := []string{"p.FuzzNone ok", "p.FuzzSome failed", "p.FuzzMore failed", "p.FuzzMuch ok"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q\n%s", got, want, out)
	}
}
