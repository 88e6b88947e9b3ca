package targets

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestSecondReader runs a model on a board whose serial port another program reads: each run ends with an error that
// names the program. A run with a long TIMEOUT ends at a signal. A full run repeats this, because chance decides which
// of the two readers gets a byte.
func TestSecondReader(t *testing.T) {
	s := openShop(t)
	testkit.Need(t, "openocd", "arm-none-eabi-gcc", "qemu-system-arm")
	dir, home := t.TempDir(), homeWithCache(t)
	mage := func(output io.Writer, timeout string, targets ...string) *exec.Cmd {
		variables := []string{"BOARD=microbit", "BOARDSMITH_HOME=" + home, "REPEAT=1", "TIMEOUT=" + timeout}
		cmd := s.mage(dir, variables, targets...)
		cmd.Stdout, cmd.Stderr = output, output
		return cmd
	}
	must := func(targets ...string) string {
		t.Helper()
		return testkit.Output(t, mage(nil, "1m", targets...))
	}
	defer must("emulated:down")
	must("build", "flash")
	port := regexp.MustCompile(`/dev/pts/[0-9]+`).FindString(must("emulated:up"))
	cat := exec.Command("cat", port)
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		testkit.Must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	taken, shown := file("taken"), file("shown")
	cat.Stdout = taken
	testkit.Must(t, cat.Start())
	defer func() {
		_ = cat.Process.Kill() // it still reads
		_ = cat.Wait()
	}()
	size := func() int64 {
		info, err := taken.Stat()
		testkit.Must(t, err)
		return info.Size()
	}
	ends := func(cmd *exec.Cmd) int { // -1: it hung
		stop := context.AfterFunc(testkit.Context(t), func() { _ = cmd.Process.Kill() })
		defer stop()
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	named := regexp.MustCompile(`another program reads serial port .*: cat \(process [0-9]+\)`)
	var output bytes.Buffer
	save := mage(&output, "1m", "devices")
	save.Env = append(save.Env, "SAVE=1")
	testkit.Must(t, save.Start())
	if code := ends(save); code != 5 || !named.MatchString(output.String()) {
		t.Errorf("devices: status %d\n%s", code, output.String())
	}
	monitor := mage(shown, "1m", "monitor")
	testkit.Must(t, monitor.Start())
	lines := func() string { return string(testkit.ReadFile(t, shown.Name())) }
	waitFor(t, "the name of the other program", func() bool { return named.MatchString(lines()) })
	testkit.Must(t, monitor.Process.Signal(syscall.SIGINT))
	if code := ends(monitor); code != 0 || !named.MatchString(lines()) {
		t.Errorf("monitor: status %d\n%s", code, lines())
	}
	for range drawn.Count(1, 3) {
		var output bytes.Buffer
		cmd := mage(&output, "3s", "run")
		testkit.Must(t, cmd.Start())
		if code := ends(cmd); code != 5 ||
			!regexp.MustCompile(`hint: end the other program, .*: cat \(process [0-9]+\)`).MatchString(output.String()) {
			t.Errorf("status %d\n%s", code, output.String())
		}
		output.Reset()
		before := size()
		cmd = mage(&output, "10m", "run")
		testkit.Must(t, cmd.Start())
		waitFor(t, "the board to answer the run", func() bool { return size() > before })
		testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		testkit.Equal(t, "status of "+output.String(), ends(cmd), 130)
	}
}
