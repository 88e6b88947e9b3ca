//go:build !windows

package device_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestBootErrorHasCause: if firmware was flashed and verified but does not respond, the error has class boot, with the
// fault record in RAM, or the core's state as a debugger reads it.
func TestBootErrorHasCause(t *testing.T) {
	t.Parallel()
	const start = "int main(void) {\n"
	for _, c := range drawn.Of(t, "boot errors", []struct {
		name, board, tool string
		code              string // at the beginning of main
		fault             bool
		flashes           int
		want              []string // in the error
	}{
		{
			"hangs", "microbit", "openocd",
			`boardsmith_port.init(boardsmith_port.ctx); __asm__ volatile("cpsid i"); for (;;) {}`, false, 2,
			[]string{"in main at src/main.c:", "last reset by"},
		},
		{
			"hangs at once", "microbit", "pyocd", "for (;;) {}", false, 1,
			[]string{"in main at src/main.c:", "before it read its reset cause"},
		},
		{
			"faults", "netduinoplus2", "openocd",
			"boardsmith_port.init(boardsmith_port.ctx); *(volatile uint32_t*)0xB0000000U = 1;", true, 1,
			[]string{"its fault record", "in main at src/main.c:"},
		},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.board, c.tool)
			p := generated(t, project.Spec{Board: d.board}, d.env)
			source := filepath.Join(p.Dir(), "src", "main.c")
			text := readFile(t, source)
			writeFile(t, source, string(bytes.Replace(text, []byte(start), []byte(start+c.code+"\n"), 1)))
			i := built(t, p)
			dev := d.attach()
			for n := range c.flashes { // the second time nothing is written
				r, err := dev.Flash(t.Context(), i)
				wantError(t, err, failure.Boot, append(c.want, "its core is at 0x")...)
				if errors.As(err, new(*fault.Error)) != c.fault || failure.Next(err) == "" || !r.Verified ||
					(r.Wrote > 0) != (n == 0) {
					t.Errorf("flash %d: %v, %+v", n, err, r)
				}
			}
			d.mustHold(i)
		})
	}
}

// TestFaultAtStart: firmware that faults before it answers, again and again, on a device without a probe. The error of
// opening it has class boot and the fault's place in the code.
func TestFaultAtStart(t *testing.T) {
	t.Parallel()
	const null = "static void (*volatile handler)(void);\nint crash(void);\n"
	for _, c := range drawn.Of(t, "faults at the start", []struct {
		name, board, app string
		code             string // of a source of the user's
		called           string // in main, before its loop; "": it is a constructor
		want             string
	}{
		{
			"main", "mps2_an386", boards.Standalone, null + "int crash(void) { handler(); return 1; }",
			"{ extern int crash(void); (void)crash(); }\n", "called from crash at src/own.c:3",
		},
		{
			"constructor", "mps2_an386", boards.RPC,
			null + "__attribute__((constructor)) int crash(void) { handler(); return 1; }", "",
			"called from crash at src/own.c:3",
		},
		{
			"stack", "qemu_riscv32", boards.Standalone,
			"int crash(int n);\nint crash(int n) { volatile char room[256]; room[0] = 1;\nreturn crash(n + 1) + room[0]; }",
			"{ extern int crash(int n); (void)crash(1); }\n", "stack overflow",
		},
		{
			"check in a process", "host", boards.Standalone,
			"#include <tvm/runtime/crt/platform.h>\nint crash(void);\nint crash(void) { TVMPlatformAbort(0x42); return 1; }",
			"{ extern int crash(void); (void)crash(); }\n", "failed check (error 0x42), in crash at src/own.c:3",
		},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := project.Spec{Board: c.board, Model: mlftest.Tiny(t, nil), Options: boards.Options{App: c.app}}
			p := generated(t, spec)
			writeFile(t, filepath.Join(p.Dir(), "src", "own.c"), c.code)
			source := filepath.Join(p.Dir(), "src", "main.c")
			text := readFile(t, source)
			at := strings.LastIndex(string(text), "  for (;;) {")
			writeFile(t, source, string(slices.Concat(text[:at], []byte(c.called), text[at:])))
			i, d := built(t, p), attachedTo(t, p)

			var err error
			if c.app == boards.RPC {
				_, err = d.Open(t.Context(), i)
			} else {
				_, err = d.OpenStandalone(t.Context(), i)
			}
			wantError(t, err, failure.Boot, c.want)
			if !errors.As(err, new(*fault.Error)) || failure.Next(err) == "" {
				t.Errorf("%v (%s)", err, failure.Next(err))
			}
		})
	}
}

// TestResetCause: the port's bits become the names of the causes; none before the port has set them.
func TestResetCause(t *testing.T) {
	for v, want := range map[uint32]string{0: "", 8: "", 0x80: "an unknown cause", 0x81: "power", 0x8a: "pin, watchdog"} {
		wantEqual(t, device.ResetCause(v), want, v)
	}
}

// TestEmulatedClock: an emulated timer is compared with the instructions that run meanwhile, over RPC and in standalone
// firmware. One that runs at another rate than the board file has is an error.
func TestEmulatedClock(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const wrong = `{"doc": "a wrong clock", "inherits": "chip/mps2_an521", "templates": ["baremetal"],
		"core_hz": 25000000, "timer": {"kind": "systick", "hz": 25000000},
		"arena_kib": 64, "host_clock": false, "flash": {"programmer": "none"},
		"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "mps2-an521"]}}`
	e := testEnv()
	e.Path = []string{folder}
	writeFile(t, filepath.Join(folder, "boards", "wrong_an521.json"), wrong)
	model := mlftest.Tiny(t, nil)
	ctx := t.Context()
	for _, app := range []string{boards.RPC, boards.Standalone} {
		open := func(board string) (clock rpc.Clock, err error) {
			spec := project.Spec{Board: board, Model: model, Options: boards.Options{App: app}}
			p := generated(t, spec, e)
			i, d := built(t, p), attachedTo(t, p)
			if app == boards.Standalone {
				s, err := d.OpenStandalone(ctx, i)
				if err == nil {
					clock = s.Clock()
					err = s.Close()
				}
				return clock, err
			}
			s, err := d.Open(ctx, i)
			if err == nil {
				clock = s.Clock()
				err = s.Close(ctx)
			}
			return clock, err
		}
		wantResult(t, rpc.InstructionClock, app)(open("mps2_an521"))
		_, err := open("wrong_an521")
		if !errors.Is(err, device.ErrClock) || !strings.HasSuffix(err.Error(), "-20.0 % off the reported 25000000") ||
			failure.Of(err) != failure.Config {
			t.Errorf("%s with a wrong clock: %v", app, err)
		}
	}
}
