package targets

import (
	"bytes"
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
	taken, err := cat.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cat.Start())
	defer func() {
		_ = cat.Process.Kill() // it still reads
		_ = cat.Wait()
	}()
	bytesTaken := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 4096)
		for {
			if _, err := taken.Read(buf); err != nil {
				return
			}
			select {
			case bytesTaken <- struct{}{}:
			default:
			}
		}
	}()
	ends := func(cmd *exec.Cmd, output *bytes.Buffer) int {
		t.Helper()
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // its status is looked at below
			close(ended)
		}()
		select {
		case <-ended:
		case <-testkit.Context(t).Done():
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("it hung\n%s", output.String())
		}
		return cmd.ProcessState.ExitCode()
	}
	named := regexp.MustCompile(`another program reads serial port .*: cat \(process [0-9]+\)`)
	var output bytes.Buffer
	save := mage(&output, "1m", "devices")
	save.Env = append(save.Env, "SAVE=1")
	testkit.Must(t, save.Start())
	if code := ends(save, &output); code != 5 || !named.MatchString(output.String()) {
		t.Errorf("devices: status %d\n%s", code, output.String())
	}
	shown, err := os.Create(filepath.Join(dir, "shown"))
	testkit.Must(t, err)
	defer shown.Close()
	monitor := mage(shown, "1m", "monitor")
	testkit.Must(t, monitor.Start())
	lines := func() string {
		text, err := os.ReadFile(shown.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	waitFor(t, "the name of the other program", func() bool { return named.MatchString(lines()) })
	testkit.Must(t, monitor.Process.Signal(syscall.SIGINT))
	if code := ends(monitor, new(bytes.Buffer)); code != 0 || !named.MatchString(lines()) {
		t.Errorf("monitor: status %d\n%s", code, lines())
	}
	for range drawn.Count(1, 3) {
		var output bytes.Buffer
		cmd := mage(&output, "3s", "run")
		testkit.Must(t, cmd.Start())
		if code := ends(cmd, &output); code != 5 ||
			!regexp.MustCompile(`hint: end the other program, .*: cat \(process [0-9]+\)`).MatchString(output.String()) {
			t.Errorf("status %d\n%s", code, output.String())
		}
		select { // of that run
		case <-bytesTaken:
		default:
		}
		output.Reset()
		cmd = mage(&output, "10m", "run")
		testkit.Must(t, cmd.Start())
		select { // the board has answered the run
		case <-bytesTaken:
		case <-testkit.Context(t).Done():
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the board sent nothing\n%s", output.String())
		}
		testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		if code := ends(cmd, &output); code != 130 {
			t.Errorf("terminated: status %d\n%s", code, output.String())
		}
	}
}
