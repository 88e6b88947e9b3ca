package projectapi

import (
	"encoding/xml"
	"os"
	"testing"

	cp "github.com/otiai10/copy"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// tvmVariable names a Python that has TVM 0.14 with its micro part and its compiler, from a source tree with its tests.
const tvmVariable = "BOARDSMITH_TVM_PYTHON"

// TestTVMsOwnTests runs test_crt.py of an unmodified TVM, for which only the folder of its template is another one:
// what template:export writes.
func TestTVMsOwnTests(t *testing.T) {
	tvm := tvmFor(t)
	needTools(t, "host")
	template := t.TempDir() + "/template"
	must(t, (Export{Executable: executable(t)}).Write(template))
	dir := tvm.libraryWith(t, template)
	ctx := testkit.Context(t)
	report := dir + "/report.xml"
	run := tvm.command(ctx, t, dir, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml="+report,
		tvm.source+"/tests/python/unittest/test_crt.py")
	said, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	checkReport(t, report)
}

// libraryWith makes a folder with TVM's library and templates, of which the one for this computer is another one. TVM
// looks for its templates beside its library.
func (p tvmPython) libraryWith(t *testing.T, template string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{
		"standalone_crt", "microtvm_template_projects/zephyr", "microtvm_template_projects/arduino",
	} {
		must(t, cp.Copy(p.built+"/"+name, dir+"/"+name))
	}
	for from, to := range map[string]string{
		p.built + "/libtvm.so": "libtvm.so", template: "microtvm_template_projects/crt",
	} {
		must(t, os.Symlink(from, dir+"/"+to))
	}
	return dir
}

// checkReport logs what pytest ran, and fails if a test did or if some were not run.
func checkReport(t *testing.T, report string) {
	t.Helper()
	data := readFile(t, report)
	var ran struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Seconds string    `xml:"time,attr"`
			Failure *struct{} `xml:"failure"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	must(t, xml.Unmarshal(data, &ran))
	for _, c := range ran.Cases {
		t.Logf("%-40s %8s s", c.Name, c.Seconds)
		if c.Failure != nil || c.Skipped != nil {
			t.Errorf("%s failed, or was skipped", c.Name)
		}
	}
	testkit.Equal(t, "tests", len(ran.Cases), 9)
}
