package flasher

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

// Words that a hostile USB device or folder name may contain.
var nastyWords = []string{
	"", "S1", "a b", "[exec touch MARK]", "$::env(HOME)", "${x}", "a;exec touch MARK", "x\nexec touch MARK",
	"{", "}", "} ; exec touch MARK ; {",
	`"`, `" ; exec touch MARK ; "`, `\`, `a\`, `\x41`, `\[`, "#c", "ü☺", "\t", "'", "-x", "%s", "*", "(a)", "a\\\nb",
}

// OpenOCD's own interpreter reads each word back as it was, and executes nothing.
func TestTclWord(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "openocd")
	dir := t.TempDir()
	var args []string
	want := ""
	for _, w := range nastyWords {
		args = append(args, "-c", "set word "+tclWord(w)+`; echo "<$word>"`)
		want += "<" + w + ">\n"
	}
	cmd := exec.Command("openocd", append(args, "-c", "shutdown")...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: read back\n%s\nwant\n%s", err, out, want)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("something was executed: %v", left)
	}
}

// OpenOCD gets any probe serial and any script name as one word: from a board file or a Zephyr build, and as a gdb
// server.
func TestSerialIsNoCommand(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "openocd")
	ctx := t.Context()
	for _, word := range []string{"[exec touch MARK]", "x; exec touch MARK", "x} ; exec touch MARK ; {"} {
		mark := filepath.Join(t.TempDir(), "mark")
		word = strings.ReplaceAll(word, "MARK", mark)
		c := Config{Find: testkit.FindTool, Probe: Probe{Serial: word, USBPath: word}}
		scripts, zephyr := c, c
		zephyr.Build = zephyrtest.Build(t, "openocd",
			map[string][]string{"openocd": append([]string{"--config", strconv.Quote(word)}, zephyrtest.OpenOCD...)}, "")
		scripts.Flash = boards.Flash{Scripts: []string{word}}
		for _, err := range []error{
			created(t, "openocd", c).Do(ctx, Job{}), created(t, "openocd", scripts).Do(ctx, Job{}),
			created(t, "west", zephyr).Do(ctx, Job{}),
			created(t, "openocd", c).(debugServer).Serve(ctx, false, 3333, func(context.Context) error { return nil }),
		} {
			wantError(t, err, "") // no probe has that serial
		}
		wantError(t, last(os.Stat(mark)), "")
	}
}

// pyOCD interprets a serial with a colon as a kind of probe, which may be a network server.
func TestSerialIsNoAddress(t *testing.T) {
	t.Parallel()
	l := transporttest.Listen(t, "127.0.0.1:0")
	var connections atomic.Int32
	go func() {
		for {
			conn, err := l.TCPListener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			conn.Close()
		}
	}()
	build := zephyrtest.Build(t, "pyocd", map[string][]string{"pyocd": {"--target=nrf51"}}, "")
	job := Job{Write: []Segment{{0, []byte{1}}}}
	for _, serial := range []string{"remote:" + l.Address(), "--version", "-x"} {
		c := Config{
			Build: build, Find: testkit.FindTool, Flash: boards.Flash{Chip: "nrf51"},
			Probe: Probe{Serial: serial}, limit: 10 * time.Second,
		}
		for _, name := range []string{"pyocd", "west"} {
			p := created(t, name, c)
			wantError(t, p.Do(t.Context(), job), failure.Config)
			wantError(t, last(p.(flashReader).Read(t.Context(), []Range{{0, 4}})), failure.Config)
			for _, line := range p.Commands(job) {
				if !strings.HasPrefix(line, "# ") {
					t.Errorf("%s: the displayed command is %s", name, line)
				}
			}
		}
	}
	wantEqual(t, connections.Load(), 0, "connections")
}
