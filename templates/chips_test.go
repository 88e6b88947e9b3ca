package templates_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// This file tries the ports of Nordic's, Raspberry Pi's and NXP's chips on models of those chips in software
// (testdata/chips): compiled for this computer, with every register access looked at.

// A fakeBoard is a board whose chip and UART files are tried on a model.
type fakeBoard struct {
	board string
	model string   // in testdata/chips
	flags []string // of the model
	irq   int
	id    string
	uart  bool // the model has a UART's insides
}

var fakeBoards = []fakeBoard{
	{"nrf52840dk", "nordic.c", nil, 2, "0001020304050607", true},
	{"microbit_v2", "nordic.c", []string{"-DNRF52833"}, 2, "0001020304050607", true},
	{"nrf5340dk", "nordic.c", []string{"-DNRF53"}, 8, "0001020304050607", true},
	{"rpi_pico", "rp2040.c", nil, 20, "", false},
	{"rpi_pico2", "rp2350.c", nil, 33, "a1b2c3d401020304", false},
	{"mimxrt1060_evk", "imxrt1060.c", nil, 20, "0011223344556677", true},
}

// Reset causes as boardsmith.platform numbers them.
const (
	causePower, causePin, causeSoftware, causeWatchdog, causeFault, causeOther = 1, 2, 4, 8, 16, 32
)

// isDriver matches a port's files that drive a chip or a UART: all but those that a boot ROM reads.
var isDriver = regexp.MustCompile(`^port/(chip|uart)/`)

// build compiles the board's chip and UART files, unchanged, with the model.
func (f fakeBoard) build(t *testing.T, baud int) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the models' DMA needs a program whose variables lie below 4 GiB; this is tried on Linux")
	}
	b, err := boards.Find(f.board, nil)
	must(t, err)
	args := append(f.flags, "-std=c11", "-g", "-no-pie", "-Wconversion", "-Wshadow", "-Wundef",
		"-Itestdata/chips", "-include", "fake.h", "testdata/chips/fake.c", "testdata/chips/"+f.model)
	for _, s := range b.Sources {
		if filepath.Ext(s.Name) == ".c" && isDriver.MatchString(s.Name) && !strings.HasSuffix(s.Name, "_boot.c") {
			args = append(args, "baremetal/"+s.Name)
		}
	}
	return simulation(t, fakeConfig(b, baud), args...)
}

// sanitized are the flags of models that report undefined behaviour.
var sanitized = []string{"-std=gnu11", "-fsanitize=undefined", "-fno-sanitize-recover=all"}

// simulation compiles C for this computer with a crt_config.h, and returns the program.
func simulation(t *testing.T, config string, args ...string) string {
	t.Helper()
	cc := cmp.Or(os.Getenv("CC"), "cc")
	testkit.Need(t, cc)
	testkit.NoteFiles(t, "testdata/*/*", "baremetal/port/*", "firmware/*")
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "crt_config.h"), config)
	program := filepath.Join(dir, "sim")
	// A plain run has no optimisation, because compilers take most of these tests' time. A full one checks the warnings
	// that need it, of all chips: TestEveryChipBuilds of package project draws some.
	level := "-O0"
	if drawn.InFull() {
		level = "-O1"
	}
	args = append([]string{
		level, "-Wall", "-Wextra", "-Werror", "-I", dir, "-I", "firmware", "-I", "baremetal/port",
		"-I", "../crt/include", "-o", program,
	}, args...)
	testkit.Output(t, exec.Command(cc, args...))
	return program
}

// fakeConfig is the board's crt_config.h as far as a port reads it.
func fakeConfig(b *boards.Board, baud int) string {
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.Defines)) {
		fmt.Fprintf(&s, "#define %s %s\n", name, b.Defines[name])
	}
	fmt.Fprintf(&s, "#define BOARDSMITH_CORE_HZ %d\n#define BOARDSMITH_BAUD %d\n", b.CoreHz, baud)
	fmt.Fprintf(&s, "#define BOARDSMITH_WATCHDOG_MS 0\n#define BOARDSMITH_EMULATED 0\n")
	return s.String()
}

// runFake starts the program with conditions, and returns its output.
func runFake(t *testing.T, program string, conditions ...string) map[string]string {
	t.Helper()
	said := map[string]string{}
	for line := range strings.Lines(testkit.Output(t, exec.CommandContext(t.Context(), program, conditions...))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "breach" {
			t.Errorf("%v: %s", conditions, value)
			continue
		}
		said[name] = value
	}
	return said
}

func saidNumber(t *testing.T, said map[string]string, name string) int {
	t.Helper()
	n, err := strconv.Atoi(said[name])
	if err != nil {
		t.Fatalf("%s is %q", name, said[name])
	}
	return n
}

func expect(t *testing.T, said map[string]string, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		testkit.Equal(t, name, said[name], want[name])
	}
}

// TestChipsInSoftware starts the ports of chips on models of them: clocks, UART, reset cause, id, random numbers,
// watchdog, with a good chip and with parts of it broken.
func TestChipsInSoftware(t *testing.T) {
	for _, f := range fakeBoards {
		t.Run(f.board, func(t *testing.T) {
			b, err := boards.Find(f.board, nil)
			must(t, err)
			program := f.build(t, b.Link.BitRate())
			good := runFake(t, program, "after=power")
			f.checkGood(t, b, good)
			f.checkRandom(t, program, good)
			f.checkBroken(t, program)
			for condition, cause := range causes[f.board] {
				expect(t, runFake(t, program, strings.Fields(condition)...), map[string]string{"reset_cause": strconv.Itoa(cause)})
			}
		})
	}
}

func (f fakeBoard) checkGood(t *testing.T, b *boards.Board, said map[string]string) {
	t.Helper()
	hz := strconv.Itoa(b.CoreHz)
	want := map[string]string{
		"core_hz": hz, "real_core_hz": hz, "uart_hz": said["real_uart_hz"], "reset_cause": strconv.Itoa(causePower),
		"id": f.id, "random_error": "0", "unexpected_irq": "1", "uart_irq": strconv.Itoa(f.irq), "watchdog_ms": "1500",
		"watchdog_fed": "1", "flags": "0",
	}
	if f.id != "" {
		want["id_in_3"] = "3"
	}
	if f.model != "imxrt1060.c" { // there the core's own registers say it
		want["flags"] = "1"
	}
	if ms := saidNumber(t, said, "watchdog_ms"); ms == 1499 {
		want["watchdog_ms"] = "1499" // in ticks of 32768 Hz
	}
	if f.uart {
		want["burst1"] = "received 256 lost 0 in_order 1"
		want["burst4"] = "received 256 lost 0 in_order 1"
		want["sent"], want["sent_polled"] = "256", "256"
		if said := said["burst20"]; !strings.HasSuffix(said, " lost 1 in_order 1") {
			t.Errorf("20 bytes before the interrupt is served: %q; lost bytes must be reported, the others arrive once", said)
		}
	}
	expect(t, said, want)
	checkBaud(t, said, b.Link.BitRate())
}

// checkBaud allows half of what both ends together may be off.
func checkBaud(t *testing.T, said map[string]string, want int) {
	t.Helper()
	if off := float64(saidNumber(t, said, "baud"))/float64(want) - 1; off > 0.01 || off < -0.01 {
		t.Errorf("the UART runs at %s baud, %.1f %% off %d", said["baud"], 100*off, want)
	}
}

func (f fakeBoard) checkRandom(t *testing.T, program string, good map[string]string) {
	t.Helper()
	seen := map[byte]bool{}
	for i := 0; i+2 <= len(good["random"]); i += 2 {
		v, err := strconv.ParseUint(good["random"][i:i+2], 16, 8)
		must(t, err)
		seen[byte(v)] = true
	}
	if len(seen) < 16 {
		t.Errorf("random: %s", good["random"])
	}
	bad := map[string][]string{"rpi_pico": {"no-rosc"}, "rpi_pico2": {"no-rng", "stuck-rng"}}[f.board]
	if bad == nil {
		bad = []string{"no-rng"}
	}
	for _, condition := range bad {
		expect(t, runFake(t, program, "after=power", condition), map[string]string{"random_error": "1"})
	}
}

// checkBroken tries chips with a clock or voltage that never starts: the port continues, and reports the clock that it
// runs at.
func (f fakeBoard) checkBroken(t *testing.T, program string) {
	t.Helper()
	for condition, hz := range broken[f.board] {
		said := runFake(t, program, "after=power", condition)
		expect(t, said, map[string]string{"core_hz": hz, "real_core_hz": hz, "uart_hz": said["real_uart_hz"]})
		if saidNumber(t, said, "uart_hz") > 10_000_000 {
			checkBaud(t, said, 115200)
		}
	}
}

var broken = map[string]map[string]string{
	"nrf52840dk":  {"no-crystal": "64000000", "revision=3": "64000000"},
	"microbit_v2": {"no-crystal": "64000000", "revision=1": "64000000"},
	"nrf5340dk":   {"no-crystal": "128000000", "revision=3": "128000000", "receiver-left-on": "128000000"},
	"rpi_pico":    {"no-crystal": "6500000", "no-pll": "12000000", "usb-clock": "125000000"},
	"rpi_pico2": {
		"no-crystal": "11000000", "no-pll": "12000000", "usb-clock": "150000000", "slow-clock": "150000000",
	},
	"mimxrt1060_evk": {"no-pll": "24000000", "no-voltage": "24000000"},
}

var causes = map[string]map[string]int{
	"nrf52840dk": {
		"reset=0": causePower, "reset=1": causePin, "reset=5": causePin, "reset=2": causeWatchdog, "reset=4": causeSoftware,
		"reset=8": causeFault, "reset=10000": causeOther, "reset=100000": causeOther,
		"reset=6": causeWatchdog | causeSoftware,
	},
	"microbit_v2": {"reset=0": causePower, "reset=1": causePin, "reset=2": causeWatchdog, "reset=8": causeFault},
	"nrf5340dk": {
		"reset=0": causePower, "reset=1": causePin, "reset=2": causeWatchdog, "reset=2000000": causeWatchdog,
		"reset=8":  causeSoftware,
		"reset=10": causeFault, "reset=4": causeOther, "reset=1000000": causeOther, "reset=80": causeOther,
	},
	"rpi_pico": {
		"after=power": causePower, "after=run": causePin, "after=watchdog": causeWatchdog, "after=software": causeSoftware,
	},
	"rpi_pico2": {
		"after=power": causePower, "after=brownout": causePower, "after=run": causePin, "after=glitch": causeOther,
		"after=watchdog": causeWatchdog, "after=forced": causeWatchdog, "after=software": causeSoftware,
	},
	"mimxrt1060_evk": {
		"reset=1": causePower, "reset=2": causeSoftware, "reset=8": causePin, "reset=10": causeWatchdog,
		"reset=80": causeWatchdog,
		"reset=20": causeOther, "reset=100": causeOther,
	},
}

// TestBaudRates tries rates that a board file or a project may set.
func TestBaudRates(t *testing.T) {
	for _, f := range fakeBoards {
		rates := []int{9600, 1000000}
		if f.board == "mimxrt1060_evk" {
			rates = append(rates, 4000000) // fewer than eight samples a bit
		}
		for _, baud := range rates {
			t.Run(fmt.Sprintf("%s/%d", f.board, baud), func(t *testing.T) {
				checkBaud(t, runFake(t, f.build(t, baud), "after=power"), baud)
			})
		}
	}
}

// TestWatchdogLimits sets times longer than the hardware can count.
func TestWatchdogLimits(t *testing.T) {
	for board, limits := range map[string]map[string]string{
		"rpi_pico2":      {"64": "100", "186a0": "16777"},               // 0.1 s; 100 s: 24 bits of microseconds
		"rpi_pico":       {"64": "100", "186a0": "8388"},                // 0.1 s; 100 s: 24 bits of half microseconds
		"mimxrt1060_evk": {"1": "500", "64": "500", "100000": "128000"}, // half seconds
		"nrf52840dk":     {"100000": "1048576"},
	} {
		program := fakeBoardOf(t, board).build(t, 115200)
		for ms, want := range limits {
			expect(t, runFake(t, program, "after=power", "watchdog="+ms), map[string]string{"watchdog_ms": want})
		}
	}
}
