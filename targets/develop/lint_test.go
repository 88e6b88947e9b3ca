package develop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh to run lint.sh with")
	}
	dir := t.TempDir()
	for _, name := range []string{"lint.sh", "misra.md", "misra.counts"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "crt", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(data))
	}
	for _, name := range []string{"include", "src", "embedded", "candidate", "test"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
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
		{"a brief finding", "brief", finding.Replace(newCppcheck), "uninitvar: Uninitialized variable", true},
	} {
		if err := os.WriteFile(cppcheck, []byte(c.program), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", filepath.Join(dir, "lint.sh"), c.mode)
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
	for _, tool := range []string{"make", "clang-format"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
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
		for _, name := range []string{".clang-format", "crt/Makefile"} {
			data, err := os.ReadFile(filepath.Join("..", "..", name))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, name), string(data))
		}
		writeFile(t, filepath.Join(dir, "templates", "a.h"), c.header)
		path := os.Getenv("PATH")
		if c.version != "" {
			program := filepath.Join(dir, "clang-format")
			writeFile(t, program, "#!/bin/sh\necho clang-format version "+c.version+".0.0\n")
			if err := os.Chmod(program, 0o755); err != nil {
				t.Fatal(err)
			}
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

// TestFoundNothing checks that only the end of the fuzzing time is ignored.
func TestFoundNothing(t *testing.T) {
	const over = "fuzz: elapsed: 15s, execs: 474900 (0/sec), new interesting: 83 (total: 87)\n" +
		"--- FAIL: FuzzRecord (15.04s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
	for _, c := range []struct {
		output string
		want   bool
	}{
		{over, true},
		{over + "    Failing input written to testdata/fuzz/FuzzRecord/1\n", false},
		{"--- FAIL: FuzzRecord (3.04s)\n    record_test.go:9: context deadline exceeded\nFAIL\n", false},
		{"panic: x\nFAIL\n", false},
		{"", false},
	} {
		if got := foundNothing(c.output); got != c.want {
			t.Errorf("%v, want %v, of %q", got, c.want, c.output)
		}
	}
}
