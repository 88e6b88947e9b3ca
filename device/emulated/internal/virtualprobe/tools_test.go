package virtualprobe

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
)

var (
	must       = testkit.Must
	wantIs     = testkit.WantIs
	needs      = testkit.Need
	wantError  = testkit.WantError
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	last       = testkit.Last
)

// powerUp starts an emulated chip that the test closes at its end.
func powerUp(t *testing.T, m Model) *Chip {
	t.Helper()
	needs(t, m.Program)
	c, err := New(t.Context(), m, Options{Log: hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Info})})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// listen serves a front end on a TCP port and returns its number.
func listen(t *testing.T, serve func(io.ReadWriter) error) string {
	t.Helper()
	l := transporttest.Listen(t, "127.0.0.1:0")
	go func() {
		for {
			conn, err := l.TCPListener.Accept()
			if err != nil {
				return
			}
			_ = serve(conn) // the error of a disconnected client
			conn.Close()
		}
	}()
	return portOf(l.Address())
}

// image returns a firmware that loops, padded so that it fills several pages.
func image(t *testing.T, size int, seed byte) (string, []byte) {
	t.Helper()
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
	copy(b, []byte{0x00, 0x40, 0x00, 0x20, 0x09, 0, 0, 0, 0x30, 0xBF, 0xFD, 0xE7}) // stack, entry, wfi, b .-2
	name := filepath.Join(t.TempDir(), "image.bin")
	testkit.WriteFile(t, name, string(b))
	return name, b
}

// try runs a tool, which may fail.
func try(t *testing.T, name string, args ...string) error {
	t.Helper()
	path, err := testkit.FindTool(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(testkit.Context(t), path, args...).CombinedOutput()
	t.Logf("%s %q: %v\n%s", name, args, err, out)
	return err
}

// openocd programs an image at an address over JTAG, through the probe at a port.
func openocd(t *testing.T, port, target, image, at string) error {
	t.Helper()
	return try(t, "openocd", "-s", jtagScripts(t), "-c",
		"adapter driver remote_bitbang; remote_bitbang host localhost; remote_bitbang port "+port+"; transport select jtag",
		"-c", "gdb_port disabled; tcl_port disabled; telnet_port disabled", "-f", target, "-c",
		"program "+image+" verify reset exit "+at)
}

// pyocd programs an image at the beginning of a chip's flash.
func pyocd(t *testing.T, c *Chip, image string) error {
	t.Helper()
	return try(t, "pyocd", "load", "--no-config", "--no-wait", "-t", c.model.Name, "-u",
		"remote:localhost:"+listen(t, c.serveRemote), "--format", "bin", image)
}

// await returns when it is done, or ends the test shortly before the package's time.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for ctx := testkit.Context(t); !done(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, ctx.Err())
		}
	}
}

func mustHold(t *testing.T, c *Chip, want []byte) {
	t.Helper()
	got, err := c.Flash()
	must(t, err)
	wantEqual(t, got[:len(want)], want)
}

const nrfTarget = "target/nrf51.cfg"

// jtagScripts replaces a file of OpenOCD's that has no instruction length for chips that it supports over SWD only.
func jtagScripts(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "target", "swj-dp.tcl"),
		"proc swj_newdap {chip tag args} { eval jtag newtap $chip $tag $args -irlen 4 -ircapture 1 -irmask 0xf }\n")
	return dir
}

func TestSTM32F4(t *testing.T) {
	t.Parallel()
	for _, tool := range drawn.Of(t, "tools for STM32F4", []string{"openocd", "pyocd"}, 1) {
		t.Run(tool, func(t *testing.T) {
			c := powerUp(t, STM32F412)
			name, want := image(t, 40000, 0)
			if tool == "pyocd" {
				must(t, pyocd(t, c, name))
			} else {
				must(t, openocd(t, listen(t, c.serveBitbang), "target/stm32f4x.cfg", name, "0x08000000"))
			}
			mustHold(t, c, want)
		})
	}
}

// Half-written firmware may lock the core up, which ends QEMU. The chip keeps its flash, and a tool can program it.
func TestLockup(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	name, good := image(t, 4096, 0)
	bad := bytes.Clone(good)
	for _, at := range []int{4, 12} { // entry and hard fault
		copy(bad[at:], []byte{0x41, 0, 0, 0})
	}
	copy(bad[0x40:], []byte{0x00, 0xDE}) // undefined
	must(t, c.Load(bad))
	await(t, "the emulator's end", c.machine.dead.Load)
	mustHold(t, c, bad)
	must(t, openocd(t, listen(t, c.serveBitbang), nrfTarget, name, "0"))
	mustHold(t, c, good)
	if c.machine.dead.Load() {
		t.Error("it locked up again")
	}
}

// Firmware that only resets the chip is paused most of the time, but a debugger always finds it running.
func TestResetLoop(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	_, b := image(t, 4096, 0)
	// ldr r0, =AIRCR; ldr r1, =reset; str r1, [r0]; b .
	copy(b[8:], []byte{0x01, 0x48, 0x02, 0x49, 0x01, 0x60, 0xFE, 0xE7})
	copy(b[0x10:], []byte{0x0C, 0xED, 0x00, 0xE0, 0x04, 0x00, 0xFA, 0x05})
	copy(b[0x14:], []byte{0x04, 0x00, 0xFA, 0x05})
	must(t, c.Load(b))
	slept := 0
	for range 30 {
		time.Sleep(paceStep)
		must(t, c.pace())
		if !c.rests.IsZero() {
			slept++
		}
	}
	if slept < 20 || c.machine.resets.Load() < paceResets {
		t.Errorf("it rested at %d of 30 looks, with %d resets", slept, c.machine.resets.Load())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.transfer(); err != nil || !c.core.runs() {
		t.Errorf("a debugger finds it halted: %v", err)
	}
}

// TestHungEmulator: an emulator that takes no bytes ends each request with ErrGone.
func TestHungEmulator(t *testing.T) {
	ours, theirs := net.Pipe() // holds no byte
	defer ours.Close()
	defer theirs.Close()
	conn := limitedConn{ours, time.Millisecond}
	g := &gdbStub{conn: conn, running: true}
	for _, err := range []error{g.send("c"), g.halt(), newQtest(conn).ReadBlock(0, []uint32{1})} {
		wantIs(t, err, ErrGone)
		wantIs(t, err, os.ErrDeadlineExceeded)
	}
}
