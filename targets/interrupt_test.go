package targets

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// hang is a firmware that never answers; slow is a source that takes long to compile.
const (
	hang = "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) { (void)pause(); } }\n"
	slow = "#define A(x) B(x) B(x##0) B(x##1) B(x##2) B(x##3) B(x##4) B(x##5)\n" +
		"#define B(x) C(x) C(x##0) C(x##1) C(x##2) C(x##3) C(x##4) C(x##5)\n" +
		"#define C(x) D(x) D(x##0) D(x##1) D(x##2) D(x##3) D(x##4) D(x##5)\n" +
		"#define D(x) E(x) E(x##0) E(x##1) E(x##2) E(x##3) E(x##4) E(x##5)\n" +
		"#define E(x) F(x) F(x##0) F(x##1) F(x##2) F(x##3) F(x##4) F(x##5)\n#define F(x) extern int v##x; int v##x = 1;\n" +
		"A(a)\n"
)

// TestInterrupted stops steps midway, as Ctrl-C and a signal do: the status is 130, soon, no process is left, and the
// next run succeeds.
func TestInterrupted(t *testing.T) {
	s := openShop(t)
	for _, c := range drawn.Of(t, "interrupted steps", []struct {
		name    string
		source  string // added to the project
		targets []string
		child   string // the program that must be running when the signal comes
		signal  os.Signal
	}{
		{"run", hang, []string{"build", "run"}, "firmware.elf", os.Interrupt},
		{"run, terminated", hang, []string{"build", "run"}, "firmware.elf", syscall.SIGTERM},
		{"build", slow, []string{"build"}, "cc1", os.Interrupt},
		{"build, terminated", slow, []string{"build"}, "cc1", syscall.SIGTERM},
		{"serve, which builds", slow, []string{"serve"}, "cc1", os.Interrupt},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			dir, project := t.TempDir(), "build/serve/host/firmware/host" // that serve builds
			mage := func(targets ...string) *exec.Cmd {
				// The cache is below dir, too: in it, the compilers run. As root, serve needs FORCE.
				return s.mage(dir, []string{"PROJECT=" + project, "FORCE=1", "BOARDSMITH_HOME=" + filepath.Join(dir, "home")},
					targets...)
			}
			testkit.Output(t, mage("generate"))
			extra := filepath.Join(dir, project, "src", "extra.c")
			testkit.WriteFile(t, extra, c.source)

			cmd := mage(c.targets...)
			var output bytes.Buffer
			cmd.Stdout, cmd.Stderr = &output, &output
			testkit.Must(t, cmd.Start())
			waitFor(t, "the step to be in its middle", func() bool { return running(dir, c.child) != "" })
			start := time.Now()
			testkit.Must(t, cmd.Process.Signal(c.signal))
			_ = cmd.Wait() // the status is looked at below
			if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(output.String(), "interrupted") {
				t.Errorf("status %d, want 130\n%s", code, output.String())
			}
			if spent := time.Since(start); spent > 5*time.Second {
				t.Errorf("it took %v to stop", spent)
			}
			waitFor(t, "every process to end", func() bool { return running(dir, "") == "" })

			testkit.Must(t, os.Remove(extra))
			testkit.Output(t, mage("build", "flash", "run"))
		})
	}
}

// dirtyChip is a line of wear of a chip that is dirty.
var dirtyChip = regexp.MustCompile(`"device":"chip:[0-9a-f]+","dirty":true`)

// flashRounds are how many moments of a flash are drawn for TestInterruptedFlash.
const flashRounds = 1

// TestInterruptedFlash stops flashing at drawn moments: only the emulated board still runs, its probe is free
// immediately, the ledger marks it as dirty if an erase was started, and the next flash repairs it.
func TestInterruptedFlash(t *testing.T) {
	s := openShop(t)
	testkit.Need(t, "openocd", "arm-none-eabi-gcc", "qemu-system-arm")
	dir, home, tmp := t.TempDir(), homeWithCache(t), filepath.Join(t.TempDir(), "tmp")
	testkit.Must(t, os.Mkdir(tmp, 0o755))
	mage := func(output *bytes.Buffer, targets ...string) *exec.Cmd {
		cmd := s.mage(dir, []string{"BOARD=microbit", "BOARDSMITH_HOME=" + home, "TMPDIR=" + tmp, "JSON=1"}, targets...)
		if output != nil {
			cmd.Stdout, cmd.Stderr = output, output
		}
		return cmd
	}
	must := func(targets ...string) string {
		t.Helper()
		return testkit.Output(t, mage(nil, targets...))
	}
	defer must("emulated:down")
	must("build", "emulated:up", "emulated:erase")
	start := time.Now()
	must("flash")
	duration := time.Since(start)
	random := drawn.Rand(t, "moments")
	for range drawn.Count(flashRounds, 200*flashRounds) {
		must("emulated:erase")
		moment := time.Duration(random.Int64N(int64(duration)))
		var output bytes.Buffer
		cmd := mage(&output, "flash")
		testkit.Must(t, cmd.Start())
		time.Sleep(moment)
		start := time.Now()
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()                       // the status is looked at below
		if spent := time.Since(start); spent > 5*time.Second {
			t.Errorf("after %v: it took %v to stop", moment, spent)
		}
		testkit.Equal(t, "left", running(tmp, ""), "")
		begun := strings.Contains(output.String(), `"status":"dirty"`)
		code := cmd.ProcessState.ExitCode()
		t.Logf("interrupted after %v of %v: status %d, begun: %v", moment, duration, code, begun)
		switch wear := must("wear"); {
		// -1: before it had begun to listen
		case code != 130 && (code != 0 || !strings.Contains(output.String(), `"wrote":`)) && code != -1:
			t.Errorf("status %d\n%s", code, output.String())
		case begun && !strings.Contains(wear, `"dirty":true`):
			t.Errorf("the board is not dirty\n%s\n%s", output.String(), wear)
		}
		testkit.WantText(t, must("flash", "run"), `"argmax":2`)
		// What was begun while the chip was silent may have been another's, and then stays noted under the probe.
		if wear := must("wear"); dirtyChip.MatchString(wear) {
			t.Errorf("the board is still dirty\n%s", wear)
		}
	}
}

func waitFor(t *testing.T, event string, done func() bool) {
	t.Helper()
	for ctx := testkit.Context(t); !done(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain for %s", event)
		}
	}
}

// running names a process that works in the folder and whose program is called so, "" if there is none.
func running(dir, program string) string {
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, p := range processes {
		cwd, _ := os.Readlink(filepath.Join(p, "cwd")) // a process may end meanwhile
		exe, _ := os.Readlink(filepath.Join(p, "exe"))
		if strings.HasPrefix(cwd+"/", dir+"/") || strings.HasPrefix(exe, dir+"/") {
			if program == "" || filepath.Base(exe) == program {
				return fmt.Sprintf("%s (%s)", exe, p)
			}
		}
	}
	return ""
}
