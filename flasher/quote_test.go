package flasher

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
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
	openocd, err := testkit.FindTool("openocd")
	if err != nil {
		t.Skip("openocd is not installed")
	}
	dir := t.TempDir()
	var args []string
	want := ""
	for _, w := range nastyWords {
		args = append(args, "-c", "set word "+tclWord(w)+`; echo "<$word>"`)
		want += "<" + w + ">\n"
	}
	cmd := exec.Command(openocd, append(args, "-c", "shutdown")...)
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
	if _, err := testkit.FindTool("openocd"); err != nil {
		t.Skip("openocd is not installed")
	}
	for _, word := range []string{"[exec touch MARK]", "x; exec touch MARK", "x} ; exec touch MARK ; {"} {
		mark := filepath.Join(t.TempDir(), "mark")
		word = strings.ReplaceAll(word, "MARK", mark)
		c := Config{Find: testkit.FindTool, Log: hclog.NewNullLogger(), Probe: Probe{Serial: word, USBPath: word}}
		scripts, zephyr := c, c
		zephyr.Build = zephyrtest.Build(t, "openocd",
			map[string][]string{"openocd": append([]string{"--config", strconv.Quote(word)}, zephyrtest.OpenOCD...)}, "")
		scripts.Flash = boards.Flash{Scripts: []string{word}}
		for name, do := range map[string]func() error{
			"openocd": func() error { return newOpenOCD(c).Do(t.Context(), Job{}) },
			"script":  func() error { return newOpenOCD(scripts).Do(t.Context(), Job{}) },
			"west":    func() error { return created(t, "west", zephyr).Do(t.Context(), Job{}) },
			"gdb": func() error {
				return newOpenOCD(c).(debugServer).Serve(t.Context(), false, 3333, func(context.Context) error { return nil })
			},
		} {
			if err := do(); err == nil {
				t.Errorf("%s, %s: a probe of that serial", name, word)
			}
			if _, err := os.Stat(mark); err == nil {
				t.Fatalf("%s: %s was executed", name, word)
			}
		}
	}
}

// pyOCD interprets a serial with a colon as a kind of probe, which may be a network server.
func TestSerialIsNoAddress(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var connections atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			conn.Close()
		}
	}()
	build := zephyrtest.Build(t, "pyocd", map[string][]string{"pyocd": {"--target=nrf51"}}, "")
	job := Job{Write: []Segment{{0, []byte{1}}}}
	for _, serial := range []string{"remote:" + l.Addr().String(), "--version", "-x"} {
		c := Config{
			Build: build, Find: testkit.FindTool, Log: hclog.NewNullLogger(), Flash: boards.Flash{Chip: "nrf51"},
			Probe: Probe{Serial: serial}, limit: 10 * time.Second,
		}
		for name, p := range map[string]Programmer{"pyocd": newPyOCD(c), "west": created(t, "west", c)} {
			_, read := p.(flashReader).Read(t.Context(), []Range{{0, 4}})
			for _, err := range []error{p.Do(t.Context(), job), read} {
				wantError(t, err, failure.Config)
			}
			for _, line := range p.Commands(job) {
				if !strings.HasPrefix(line, "# ") {
					t.Errorf("%s: the displayed command is %s", name, line)
				}
			}
		}
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}
