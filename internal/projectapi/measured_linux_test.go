package projectapi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestMeasured: measured.py waits for what a command leaves behind, but not for the keeper of an emulated board, which
// ends a minute after its last client.
func TestMeasured(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("sleep is not installed")
	}
	data := readFile(t, sleep)
	dir := t.TempDir()
	program(t, filepath.Join(dir, "boardsmith-keeper"), string(data))
	script := filepath.Join(dir, "command")
	program(t, script, `#!/bin/sh
cd "$(dirname "$0")"
mkfifo left
./boardsmith-keeper 600 >/dev/null 2>&1 &
echo $! > pid
(read line < left; echo "$line" > read) >/dev/null 2>&1 &
(echo yes > left) >/dev/null 2>&1 &
exit 3
`)
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	})
	ctx := testkit.Context(t)
	out, err := exec.CommandContext(ctx, python, "testdata/interop/measured.py", script).CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "measured ") {
		t.Errorf("a command that fails: %v, %s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "read")); string(text) != "yes\n" {
		t.Errorf("a process that the command has left was not waited for: %q, %v", text, err)
	}
}
