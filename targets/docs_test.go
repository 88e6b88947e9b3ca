package targets

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestExitCodes holds the table to package failure's list, and docs/exit-codes.md to the table.
func TestExitCodes(t *testing.T) {
	rows := map[int]string{}
	for line := range strings.Lines(readDoc(t, "exit-codes.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			if code, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
				rows[code] = cells[3]
			}
		}
	}
	classes := failureClasses(t)
	if len(classes) != len(exitCode) {
		t.Errorf("package failure has %d classes, the table %d", len(classes), len(exitCode))
	}
	for _, c := range classes {
		code, ok := exitCode[c]
		if !ok || code == 0 {
			t.Errorf("class %s has no exit code", c)
		}
		if !strings.Contains(rows[code], "`"+string(c)+"`") {
			t.Errorf("docs/exit-codes.md does not list %s for %d", c, code)
		}
	}
}

// failureClasses reads the constants of package failure from its source.
func failureClasses(t *testing.T) []failure.Class {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../failure/failure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []failure.Class
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Class" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, failure.Class(text))
		}
		return true
	})
	return all
}

// TestInputsAreDocumented finds each variable that the sources read in docs/inputs.md, and in the list of those that
// tests must not inherit.
func TestInputsAreDocumented(t *testing.T) {
	doc := readDoc(t, "inputs.md")
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`env(?:\.set)?\("([A-Z_]+)"\)`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range read.FindAllStringSubmatch(string(source), -1) {
			found++
			if !regexp.MustCompile("(?m)^\\| `" + m[1] + "(=1)?` \\|").MatchString(doc) {
				t.Errorf("%s reads %s, which docs/inputs.md does not list", file, m[1])
			}
			if !isInput[m[1]] {
				t.Errorf("%s reads %s, which isInput does not list", file, m[1])
			}
		}
	}
	if found < 15 {
		t.Errorf("found %d variables only: the test looks for the wrong thing", found)
	}
}

// TestJSONLinesAreDocumented runs what prints JSON lines and finds each of their fields in docs/json-lines.md.
func TestJSONLinesAreDocumented(t *testing.T) {
	s := openShop(t)
	doc := readDoc(t, "json-lines.md")
	cmd := exec.Command(filepath.Join(s.bin, "mage"), "demo", "build", "flash", "run", "size", "clean", "boards", "board:show", "host")
	cmd.Dir, cmd.Env = t.TempDir(), append(s.environment(), "JSON=1", "VERBOSE=1", "OUTPUT=out.npz")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, probeLines(t, s)...)
	lines := 0
	for line := range strings.Lines(string(out)) {
		lines++
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if fields["v"] != 1.0 || fields["step"] == nil || fields["status"] == nil {
			t.Errorf("v, step or status is missing: %s", line)
		}
		for name := range fields {
			if !strings.Contains(doc, "`"+name+"`") {
				t.Errorf("docs/json-lines.md does not say what %s is: %s", name, line)
			}
		}
	}
	if lines < 10 {
		t.Errorf("%d lines only:\n%s", lines, out)
	}
	fmt.Fprintf(t.Output(), "%d lines\n", lines)
}

// probeLines are the JSON lines of what has to do with probes and with the cache.
func probeLines(t *testing.T, s shop) []byte {
	dir := t.TempDir()
	mage := func(env []string, targets ...string) []byte {
		cmd := exec.Command(filepath.Join(s.bin, "mage"), targets...)
		cmd.Dir, cmd.Env = dir, append(append(s.environment(), "JSON=1", "BOARDSMITH_HOME="+filepath.Join(dir, "home")), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", targets, err)
		}
		return out
	}
	all := mage(nil, "build", "cache:list", "cache:verify", "cache:gc", "devices", "wear")
	for _, tool := range []string{"openocd", "arm-none-eabi-gcc", "qemu-system-arm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not installed: no lines of flashing", tool)
			return all
		}
	}
	all = append(all, mage([]string{"BOARD=microbit"}, "build", "flash", "wear")...)
	all = append(all, mage([]string{"BOARD=microbit", "DRYRUN=1"}, "flash", "debug")...)
	return append(all, mage([]string{"BOARD=microbit", "SAVE=1"}, "devices", "virtual:swap", "virtual:down")...)
}

var (
	citation = regexp.MustCompile(`\b(wire|rpc|rpc_tcp|crt_abi|mlf|project_api|autotvm)\.md((?:,| and| to)? ?§[0-9.]*[0-9])*`)
	section  = regexp.MustCompile(`§([0-9.]*[0-9])`)
)

// TestCitationsOfFormats finds each page and section of docs/formats that a comment cites.
func TestCitationsOfFormats(t *testing.T) {
	cited := 0
	for _, pattern := range []string{"../*/*.go", "../internal/*/*.go", "../crt/*/*/*.[ch]", "../crt/include/tvm/runtime/*/*.h", "../templates/*/*/*.[ch]"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range citation.FindAllStringSubmatch(string(data), -1) {
				page := readDoc(t, "formats/"+m[1]+".md")
				for _, s := range section.FindAllStringSubmatch(m[0], -1) {
					cited++
					if heading := "# " + s[1]; !strings.Contains(page, heading+" ") && !strings.Contains(page, heading+". ") {
						t.Errorf("%s cites %s.md §%s, which is not there", file, m[1], s[1])
					}
				}
			}
		}
	}
	if cited < 40 {
		t.Errorf("only %d citations were found", cited)
	}
}
