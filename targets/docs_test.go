package targets

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

func readDoc(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestJSONLinesAreDocumented runs what prints JSON lines and finds each of their fields in docs/command-line.md.
func TestJSONLinesAreDocumented(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("only in a full run: the page has the structs of package jsonlines, whose test compares them")
	}
	s := openShop(t)
	_, doc, _ := strings.Cut(readDoc(t, "command-line.md"), "\n## JSON lines\n")
	cmd := exec.Command(filepath.Join(s.bin, "mage"), "demo", "build", "flash", "run", "call", "size",
		"validate", "measure", "release", "clean", "boards", "board:show", "host")
	cmd.Dir, cmd.Env = t.TempDir(), append(s.environment(), "JSON=1", "VERBOSE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, probeLines(t, s)...)
	out = append(out, tuneLines(t, s)...)
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
				t.Errorf("docs/command-line.md does not describe %s: %s", name, line)
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
		cmd.Dir, cmd.Env = dir, append(append(s.environment(), "JSON=1", "BOARDSMITH_HOME="+filepath.Join(dir, "home")),
			env...)
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
	return append(all, mage([]string{"BOARD=microbit", "SAVE=1"}, "devices", "emulated:swap", "emulated:down")...)
}

// tuneLines are the JSON lines of tuning, of a failed candidate too.
func tuneLines(t *testing.T, s shop) (all []byte) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "k.c"), tunedKernel)
	writeFile(t, filepath.Join(dir, "k.json"), tunedSpace)
	operators := filepath.Join("..", "internal", "testdata", "archives", "candidates")
	for _, name := range []string{"matmul_00.tar.gz", "matmul_01.tar.gz"} {
		data, err := os.ReadFile(filepath.Join(operators, name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "operators", name), string(data))
	}
	for _, env := range [][]string{
		{"tune", "SPACE=k.json", "TRIALS=3", "PROPOSER=grid"},
		{"tune", "CANDIDATES=operators", "CONFIRM=2"},
		{"tune", "MODEL=" + tunedModel(t), "TRIALS=2"},
		{"report", "RUN=build/tune/k/host", "CSV=k.csv"},
		{"reproduce", "RUN=build/tune/k/host", "ID="},
	} {
		if env[0] == "reproduce" {
			first := regexp.MustCompile(`"id":("[^"]*")`).FindSubmatch(all)
			env[2] += unquoted(t, string(first[1]))
		}
		cmd := exec.Command(filepath.Join(s.bin, "mage"), env[0])
		cmd.Dir, cmd.Env = dir, append(append(s.environment(), "JSON=1"), env[1:]...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", env, err)
		}
		all = append(all, out...)
	}
	if !strings.Contains(string(all), `"status":"failed"`) {
		t.Errorf("no line of a failed candidate:\n%s", all)
	}
	return all
}

func unquoted(t *testing.T, text string) string {
	t.Helper()
	text, err := strconv.Unquote(text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var (
	citation = regexp.MustCompile(`\b(wire|rpc|rpc_tcp|crt_abi|mlf|project_api|autotvm)\.md((?:,| and| to)? ?§[0-9.]*[0-9])*`)
	section  = regexp.MustCompile(`§([0-9.]*[0-9])`)
)

// TestCitationsOfFormats finds each page and section of docs/formats that a comment cites.
func TestCitationsOfFormats(t *testing.T) {
	cited := 0
	for _, pattern := range []string{
		"../*/*.go", "../internal/*/*.go", "../crt/*/*/*.[ch]",
		"../crt/include/tvm/runtime/*/*.h", "../templates/*/*/*.[ch]",
	} {
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
