package registers_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/registers"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testcache.Clean()
	os.Exit(code)
}

// trial compares a board of testdata/hw.
func trial(t *testing.T, board string) registers.Trial {
	t.Helper()
	testkit.Need(t, "arm-none-eabi-gcc")
	return registers.Trial{
		Board: board, SVD: "testdata/acme100.svd",
		Builder: &project.Builder{Host: device.Host{Path: []string{"testdata/hw"}}},
	}
}

// texts returns findings as text, without the files' folders.
func texts(list []registers.Finding) (all []string) {
	for _, f := range list {
		f.File = filepath.Base(f.File)
		all = append(all, f.String())
	}
	return all
}

// compared compares the numbers of a board.
func compared(t *testing.T, with registers.Trial) *registers.Report {
	t.Helper()
	r, err := registers.Compare(t.Context(), with)
	testkit.Must(t, err)
	return r
}

// TestFits compares a board whose numbers are right, and lists what each of them is.
func TestFits(t *testing.T) {
	t.Parallel()
	r := compared(t, trial(t, "kiln"))
	if err := r.Err(); err != nil || r.Board != "kiln" || r.Device != "ACME100" {
		t.Errorf("%s, %s: %v", r.Board, r.Device, err)
	}
	want := []string{
		"chip_acme100.c:3: UART_DATA is 0x40001000: UART0.DATA",
		"chip_acme100.c:5: HALF is 0x40002026: DMA.CH[1].COUNTB",
		"chip_acme100.c:9: SIGNATURE is 0x1fff0000: in no peripheral of the file",
		"chip_acme100.c:26: 0x40002010U + 0x10U * 0 is 0x40002010: DMA.CH[0].FROM",
		"chip_acme100.c:27: 0x40002010U + 0x10U * 2 is 0x40002030: DMA.CH[2].FROM",
		"chip_acme100.c:28: 0x40001000 + 0x04U is 0x40001004: UART0.STATUS",
		"chip_acme100.h:6: CLOCK_CTRL is 0x40000000: CLOCK.CTRL",
		"chip_acme100.h:7: CLOCK_STATUS is 0x40000004: CLOCK.STATUS",
		"chip_acme100.h:8: CLOCK_CTRL_ON is 0x10: CLOCK.CTRL.ON is bit 4",
		"chip_acme100.h:9: CLOCK_CTRL_DIV is 0x700: CLOCK.CTRL.DIV is bits 8 to 10",
		"chip_acme100.h:10: CLOCK_CTRL_DIV_Pos is 0x8: CLOCK.CTRL.DIV is bits 8 to 10",
		"chip_acme100.h:11: CLOCK_CTRL_SOURCE is 0x2: CLOCK.CTRL.SOURCE is bits 12 to 13",
		"chip_acme100.h:12: STATUS_READY is 0x80000000: CLOCK.STATUS.READY is bit 31",
		"chip_acme100.h:15: ROW_0[0] is 0x40001000: UART0.DATA",
		"early_acme100.S:1: WATCHDOG is 0x40000008: CLOCK.WATCHDOG",
		"acme100.json:11: CHIP_IRQS is 8: the last interrupt is DMA, 7",
		"acme100.json:11: UART_BASE is 0x40001000: UART0.DATA",
		"acme100.json:11: UART_IRQ is 5: UART0",
	}
	testkit.Equal(t, "findings", texts(r.Findings), want)
}

// TestMisfits compares a board with wrong numbers: each is found, and nothing else.
func TestMisfits(t *testing.T) {
	t.Parallel()
	r := compared(t, trial(t, "broken"))
	want := []string{
		"broken.json:5: CHIP_IRQS is 7: the last interrupt is DMA, 7; the vector table ends before it",
		"broken.c:3: WRONG_OFFSET is 0x40000010: CLOCK; no register at offset 0x10: WATCHDOG is at 0x8",
		"broken.c:4: WRONG_BASE is 0x40005000: in no peripheral: DMA before it ends at 0x40002038",
		"broken.c:7: UART_STATUS_EMPTY is 0x20: UART0.STATUS.EMPTY is bit 4; other bits",
		"broken.c:8: UART_STATUS_LEVEL_Pos is 0x9: UART0.STATUS.LEVEL is bits 8 to 11; other bits",
		"broken.c:14: 0x40001000 + 0x0CU is 0x4000100c: UART0; no register at offset 0xc: STATUS is at 0x4",
	}
	got := texts(r.Misfits())
	slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:8], b[:8]) })
	slices.SortStableFunc(want, func(a, b string) int { return strings.Compare(a[:8], b[:8]) })
	testkit.Equal(t, "findings", got, want)
	testkit.WantText(t, strings.Join(texts(r.Doubts()), "\n"), "UART_IRQ is 6: UART1; of UART1, which this C does not use")
	testkit.WantError(t, r.Err(), failure.Config, "6 of")
}

// TestVendorStyle compares peripherals that are pointers to structs, and interrupts that are enumerators.
func TestVendorStyle(t *testing.T) {
	t.Parallel()
	r := compared(t, trial(t, "vendor"))
	var got []string
	for _, text := range texts(r.Findings) {
		if strings.HasPrefix(text, "acme100.h:") {
			got = append(got, text)
		}
	}
	want := []string{
		"acme100.h:5: UART0_IRQn is 5: UART0",
		"acme100.h:6: UART1_IRQn is 9: the chip has no such interrupt",
		"acme100.h:15: UART0_BASE_ADDRESS is 0x40001000: UART0.DATA",
		"acme100.h:16: UART0 is 0x40001000: UART0.DATA",
		"acme100.h:17: UART1 is 0x40001300: in no peripheral: UART1 before it ends at 0x40001208",
	}
	testkit.Equal(t, "findings", got, want)
}

// TestAliases reads a device whose registers have aliases: only by its name is an access there no misfit.
func TestAliases(t *testing.T) {
	t.Parallel()
	with := trial(t, "alias")
	text := testkit.ReadFile(t, with.SVD)
	for name, misfits := range map[string]int{"ACME100": 2, "RP2100": 1} {
		with.SVD = filepath.Join(t.TempDir(), "chip.svd")
		testkit.WriteFile(t, with.SVD, strings.Replace(string(text), "ACME100", name, 1))
		r := compared(t, with)
		found := strings.Join(texts(r.Findings), "\n")
		if len(r.Misfits()) != misfits || misfits == 1 && !strings.Contains(found, "CLOCK.CTRL, at the alias 0x3000") {
			t.Errorf("%s: %q\n%s", name, texts(r.Misfits()), found)
		}
	}
}

// TestPortFolder: start-up code and headers in a folder named port are found where a project has them.
func TestPortFolder(t *testing.T) {
	t.Parallel()
	with := trial(t, "ported")
	with.Builder.Path = []string{boardstest.Shelf(t, map[string]string{
		"ported.json": `{"inherits": "chip/mps2_an386", "startup": "port/start.S", "include": ["port/inc"],
			"sources": ["port/own.c"], "link": {"kind": "serial", "usb": "0483:374b"}, "flash": {"programmer": "none"},
			"arena_kib": 64}`,
		"port/start.S":   "#define OWN_WATCHDOG 0x40000008\n  ldr r0, =OWN_WATCHDOG\n",
		"port/own.c":     "#include <own.h>\n#include \"inc/own.h\"\nint own = OWN_DATA;\n",
		"port/inc/own.h": "#define OWN_DATA 0x40001000\n",
	})}
	r := compared(t, with)
	testkit.WantText(t, strings.Join(texts(r.Findings), "\n"), "start.S:1: OWN_WATCHDOG is ", "own.h:1: OWN_DATA is ")
}

// TestExcept leaves out what is named, and refuses a name that does not occur.
func TestExcept(t *testing.T) {
	t.Parallel()
	with := trial(t, "broken")
	with.Except = []string{"WRONG_BASE", "CHIP_IRQS"}
	testkit.Equal(t, "misfits", len(compared(t, with).Misfits()), 4)
	with.Except = []string{"WRONG_BSE"}
	_, err := registers.Compare(t.Context(), with)
	testkit.WantError(t, err, failure.Config, `did you mean "WRONG_BASE"?`)
}

// TestBoardExcept: a board's files except what its SVD file lacks, with the reason. What fits in another version of
// that file is no error, and what the C does not have is one.
func TestBoardExcept(t *testing.T) {
	t.Parallel()
	excepted := func(names string) registers.Trial {
		with := trial(t, "broken")
		dir := t.TempDir()
		testkit.Must(t, os.CopyFS(dir, os.DirFS("testdata/hw")))
		testkit.EditFile(t, filepath.Join(dir, "boards", "broken.json"),
			"{\n", `{"svd_except": [{"names": [`+names+`], "reason": "errata"}],`+"\n")
		with.Builder.Path = []string{dir}
		return with
	}
	r := compared(t, excepted(`"WRONG_BASE", "0x40001000 + 0x0CU", "UART_BASE"`))
	testkit.Equal(t, "misfits", len(r.Misfits()), 4)
	testkit.WantText(t, strings.Join(texts(r.Findings), "\n"), "ends at 0x40002038; errata")
	_, err := registers.Compare(t.Context(), excepted(`"WRONG_BSE"`))
	testkit.WantError(t, err, failure.Config, "broken.json:1: svd_except: WRONG_BSE is no number")
}

// TestInputs tries inputs that cannot be compared: each is an error that names the cause.
func TestInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.svd")
	testkit.WriteFile(t, text, "no XML")
	for _, c := range []struct{ board, file, want string }{
		{"kiln", filepath.Join(dir, "absent.svd"), "no such file"},
		{"kiln", dir, "it is a folder"},
		{"kiln", text, "not an SVD file"},
		{"kilm", "", `did you mean "kiln"?`},
		{"host", "", "no C of its own with registers"},
	} {
		with := trial(t, c.board)
		if c.file != "" {
			with.SVD = c.file
		}
		_, err := registers.Compare(t.Context(), with)
		testkit.WantError(t, err, failure.Config, c.want)
	}
}

// TestContexts ends the context before the comparison begins.
func TestContexts(t *testing.T) {
	with := trial(t, "kiln")
	failuretest.Ended(t, failuretest.Calls{
		"Compare": func(ctx context.Context) error { _, err := registers.Compare(ctx, with); return err },
	})
}
