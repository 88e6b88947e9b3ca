package projectapi

import (
	"context"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cp "github.com/otiai10/copy"
)

// tvmVariable names a Python that has TVM 0.14 with its micro part and its compiler, from a source tree with its tests.
const tvmVariable = "BOARDSMITH_TVM_PYTHON"

// TestTVMsOwnTests runs test_crt.py of an unmodified TVM, for which only the folder of its template is another one:
// what template:export writes.
func TestTVMsOwnTests(t *testing.T) {
	python := os.Getenv(tvmVariable)
	if python == "" {
		t.Skip(tvmVariable + " names no Python that has TVM with its micro part")
	}
	needTools(t, "host")
	out, err := exec.CommandContext(t.Context(), python, "-c",
		"import os, tvm, pytest; print(os.path.dirname(tvm.__file__)); print(tvm._ffi.libinfo.find_lib_path()[0])").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) < 2 {
		t.Skipf("%s=%s has no TVM with pytest: %v", tvmVariable, python, err)
	}
	packageDir, lib := lines[len(lines)-2], lines[len(lines)-1]
	tests := filepath.Join(packageDir, "..", "..", "tests", "python", "unittest", "test_crt.py")
	if _, err := os.Stat(tests); err != nil || filepath.Base(lib) != "libtvm.so" {
		t.Skipf("%s=%s has no compiler, or no tests beside it: %s, %v", tvmVariable, python, lib, err)
	}
	// TVM looks beside its library for its templates.
	dir := t.TempDir()
	built := filepath.Dir(lib)
	for _, name := range []string{
		"standalone_crt", "microtvm_template_projects/zephyr",
		"microtvm_template_projects/arduino",
	} {
		if err := cp.Copy(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(lib, filepath.Join(dir, "libtvm.so")); err != nil {
		t.Fatal(err)
	}
	template := filepath.Join(dir, "microtvm_template_projects", "crt")
	if err := (Export{Executable: executable(t)}).Write(template); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	report := filepath.Join(dir, "report.xml")
	// The named Python may be a script that sets TVM_LIBRARY_PATH: it is set behind it.
	run := exec.CommandContext(ctx, python, "-c", "import os, sys; os.environ['TVM_LIBRARY_PATH'] = sys.argv[1]; "+
		"os.execv(sys.executable, [sys.executable, *sys.argv[2:]])",
		dir, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml="+report, tests)
	run.Dir = dir
	run.Env = append(os.Environ(), "BOARDSMITH_HOME="+t.TempDir())
	said, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	checkReport(t, report)
}

// checkReport logs what pytest ran, and fails if a test did or if some were not run.
func checkReport(t *testing.T, report string) {
	t.Helper()
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var ran struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Seconds string    `xml:"time,attr"`
			Failure *struct{} `xml:"failure"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(data, &ran); err != nil {
		t.Fatal(err)
	}
	for _, c := range ran.Cases {
		t.Logf("%-40s %8s s", c.Name, c.Seconds)
		if c.Failure != nil || c.Skipped != nil {
			t.Errorf("%s failed, or was skipped", c.Name)
		}
	}
	if len(ran.Cases) != 9 {
		t.Errorf("%d tests were run, want 9", len(ran.Cases))
	}
}
