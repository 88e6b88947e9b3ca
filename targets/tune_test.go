package targets

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/creack/pty"
)

// tunedKernel takes as long as KNOB says, and does not compile with 0.
const tunedKernel = `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#if KNOB == 0
#error no knob
#endif
int kernel(TVMValue* args, int* codes, int n, TVMValue* out_value, int* out_type, void* resource) {
  for (volatile int i = 0; i < 1000 * KNOB; i++) {
  }
  return 0;
}
`

const tunedSpace = `{
  "kernel": ["k.c"], "entry": "kernel", "args": [{"dtype": "int32", "shape": [4]}],
  "knobs": [{"name": "KNOB", "range": {"from": 0, "to": 4000}}]
}
`

// tuning is a mage run that searches the space of tunedKernel, in a folder of its own.
func tuningSpace(t *testing.T, s shop, dir string, env ...string) *exec.Cmd {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(dir, "k.c"), tunedKernel)
	testkit.WriteFile(t, filepath.Join(dir, "k.json"), tunedSpace)
	return s.mage(dir, append([]string{"SPACE=k.json", "PROPOSER=grid"}, env...), "tune")
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// TestTuneOnATerminal: while a run measures, a terminal shows what is done, the best and each board, in lines that fit;
// in the end it shows the table alone.
func TestTuneOnATerminal(t *testing.T) {
	s := openShop(t)
	const columns = 66
	cmd := tuningSpace(t, s, t.TempDir(), "TRIALS=60", "BOARD=host,host", "REPEAT=20")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: columns})
	testkit.Must(t, err)
	defer terminal.Close()
	var output bytes.Buffer
	_, _ = output.ReadFrom(terminal) // it ends with an error when the program does
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, output.String())
	}
	view, table, ok := strings.Cut(output.String(), "host, ram")
	if !ok {
		t.Fatalf("no table:\n%q", output.String())
	}
	for _, want := range []string{
		`tune: \d+ of 60 done, best [\d.]+ [nµm]s, failed: 1 compile, \d+`,
		`  best [\d.]+ [nµm]s \(.*× the first\): KNOB=\d+ `,
		`  host#0 +\d+ measured, +\d+ % idle  measuring`, `  host#1 +\d+ measured, +\d+ % idle  measuring`, `\x1b\[4A\x1b\[J`,
	} {
		if !regexp.MustCompile(want).MatchString(view) {
			t.Errorf("the view has no %s; its end: %q", want, view[max(0, len(view)-1000):])
		}
	}
	for line := range strings.Lines(escapes.ReplaceAllString(view, "")) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > columns {
			t.Errorf("a line of %d columns: %q", n, line)
		}
	}
	if strings.Contains(table, "% idle") {
		t.Errorf("the view is still there after the table: %q", table)
	}
}

// TestTuneInterrupted stops a run as Ctrl-C does: it says how to go on, nothing is left behind, and the same command
// measures only what is not finished.
func TestTuneInterrupted(t *testing.T) {
	s := openShop(t)
	dir := t.TempDir()
	results := filepath.Join(dir, "build", "tune", "k", "host", "results.jsonl")
	cmd := tuningSpace(t, s, dir, "TRIALS=40", "REPEAT=20")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	testkit.Must(t, cmd.Start())
	lines := func() [][]byte { // those of results, without the run's settings
		data, _ := os.ReadFile(results)
		return slices.DeleteFunc(bytes.Split(bytes.TrimSpace(data), []byte("\n")), func(line []byte) bool {
			return !bytes.HasPrefix(line, []byte(`{"id"`))
		})
	}
	waitFor(t, "results", func() bool { return len(lines()) > 5 })
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // the status is looked at below
	finished := regexp.MustCompile(`(\d+) candidates are finished, in build/tune/k/host; the same command goes on`).
		FindSubmatch(output.Bytes())
	if code := cmd.ProcessState.ExitCode(); code != 130 || finished == nil {
		t.Fatalf("status %d, want 130\n%s", code, output.String())
	}
	waitFor(t, "every process to end", func() bool { return running(dir, "") == "" })
	before := len(lines())
	if n, _ := strconv.Atoi(string(finished[1])); n != before && n != before-1 { // one may be stored and not yet counted
		t.Errorf("%d are counted, %d are stored", n, before)
	}
	if before >= 40 {
		t.Fatal("it was not interrupted in its middle")
	}
	testkit.Output(t, tuningSpace(t, s, dir, "TRIALS=40", "REPEAT=20"))
	seen := map[string]bool{}
	for _, line := range lines() {
		var r struct{ ID string }
		testkit.Must(t, json.Unmarshal(line, &r))
		if seen[r.ID] {
			t.Errorf("%s was measured twice", r.ID)
		}
		seen[r.ID] = true
	}
	testkit.Equal(t, "finished", len(seen), 40)
}
