package templates_test

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// An stm32 is the port of one board, compiled for this computer with the chip in software (testdata/stm32).
type stm32 struct {
	board   *boards.Board
	program string
}

// Flags of the models of chips.
const (
	stm32F405 = "-DSIM_F7=0 -DSIM_USART=1 -DSIM_CORE_MAX=168000000U -DSIM_APB1_MAX=42000000U -DSIM_APB2_MAX=84000000U"
	stm32F401 = "-DSIM_F7=0 -DSIM_USART=2 -DSIM_CORE_MAX=84000000U -DSIM_APB1_MAX=42000000U -DSIM_APB2_MAX=84000000U"
	stm32F7   = "-DSIM_F7=1 -DSIM_CORE_MAX=216000000U -DSIM_APB1_MAX=54000000U -DSIM_APB2_MAX=108000000U -DSIM_USART="
	stm32G4   = "-DSIM_L475=0 -DSIM_G4=1"

	noCrystal = " -DSIM_NO_CRYSTAL=1" // nothing is connected to OSC_IN
)

// buildSTM32 compiles the board's own chip and UART files. coreHz 0 means the board's.
func buildSTM32(t *testing.T, board, model string, coreHz int, flags string) *stm32 {
	t.Helper()
	b, err := boards.Find(board, nil)
	must(t, err)
	b.CoreHz = cmp.Or(coreHz, b.CoreHz)
	if strings.Contains(flags, noCrystal) {
		b.Defines["STM32_HSE_HZ"] = "0"
	}
	args := slices.Concat(sanitized, strings.Fields(flags), []string{
		"-I", "testdata/stm32", "-include", "testdata/stm32/sim.h", "testdata/stm32/sim.c", "testdata/stm32/" + model,
	})
	for _, s := range b.Sources {
		if filepath.Ext(s.Name) == ".c" && strings.Contains(s.Name, "stm32") {
			args = append(args, "baremetal/"+s.Name)
		}
	}
	return &stm32{b, simulation(t, fakeConfig(b, b.Link.BitRate()), args...)}
}

// start runs the program; condition is what is wrong with the chip, "" nothing.
func (s *stm32) start(t *testing.T, condition string, args ...string) map[string]string {
	t.Helper()
	return runFake(t, s.program, append([]string{condition}, args...)...)
}

// lsiMaxHz is the highest rate of a watchdog's oscillator, by the chip's model.
var lsiMaxHz = map[string]int{"sim_f.c": 47_000, "sim_l4_g4.c": 34_000, "sim_h7.c": 33_600}

// TestSTM32 starts each board's port on a model of its chip that checks the manual's rules, without and with faults.
func TestSTM32(t *testing.T) {
	const (
		hsiF, hsiH7 = 16_000_000, 64_000_000
		prefetch    = 4
		allOn       = 1 | 2 | prefetch // caches of instructions and of data, too
	)
	for _, c := range drawn.Of(t, "STM32 in software", []struct {
		board, model string
		flags        string
		coreHz       int // 0: the board's
		fallbackHz   int
		uartHz       int // of the sound chip
		irq          int
		waitStates   int
		platform     int
		conditions   string // each of which leaves the core on its internal oscillator
		noRNG        bool
		fallbackRNG  bool // which works also without the PLL
	}{
		{
			board: "netduinoplus2", model: "sim_f.c", fallbackHz: hsiF, uartHz: 84_000_000, irq: 37, waitStates: 5,
			flags:      stm32F405,
			platform:   allOn,
			conditions: "no-hse no-pll",
		},
		{
			board: "nucleo_f401re", noRNG: true, model: "sim_f.c", fallbackHz: hsiF, uartHz: 42_000_000, irq: 38, waitStates: 2,
			flags:      stm32F401,
			platform:   allOn,
			conditions: "no-hse no-pll",
		},
		{
			board: "nucleo_f746zg", model: "sim_f.c", fallbackHz: hsiF, uartHz: 54_000_000, irq: 39, waitStates: 7,
			flags:      stm32F7 + "3",
			platform:   prefetch,
			conditions: "no-hse no-pll no-over-drive",
		},
		{
			board: "stm32f746g_disco", model: "sim_f.c", fallbackHz: hsiF, uartHz: 108_000_000, irq: 37, waitStates: 7,
			flags:      stm32F7 + "1",
			platform:   prefetch,
			conditions: "no-hse no-pll no-over-drive",
		},
		{
			board: "nucleo_l4r5zi", model: "sim_l4_g4.c", fallbackHz: 3_997_696, uartHz: 119_930_880, irq: 70, waitStates: 5,
			flags:      "-DSIM_L475=0",
			platform:   allOn,
			conditions: "no-pll", fallbackRNG: true,
		},
		{
			board: "nucleo_g474re", model: "sim_l4_g4.c", fallbackHz: hsiF, uartHz: 170_000_000, irq: 91, waitStates: 4,
			flags:      stm32G4,
			platform:   allOn,
			conditions: "no-hse no-pll", fallbackRNG: true,
		},
		{
			board: "b_l475e_iot01a", model: "sim_l4_g4.c", fallbackHz: 4_000_000, uartHz: 80_000_000, irq: 37, waitStates: 4,
			flags:      "-DSIM_L475=1",
			platform:   allOn,
			conditions: "no-pll",
		},
		{
			board: "nucleo_h743zi", model: "sim_h7.c", fallbackHz: hsiH7, uartHz: 100_000_000, irq: 39, waitStates: 2,
			conditions: "no-hse no-pll", fallbackRNG: true,
		},
		{
			board: "nucleo_h743zi", coreHz: 480_000_000, model: "sim_h7.c", fallbackHz: hsiH7, uartHz: 120_000_000, irq: 39,
			waitStates: 4,
			conditions: "no-hse no-pll revision-y", fallbackRNG: true,
		},
	}, 4) {
		name := c.board
		if c.coreHz != 0 {
			name += strconv.Itoa(c.coreHz / 1_000_000)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := buildSTM32(t, c.board, c.model, c.coreHz, c.flags)

			r := s.start(t, "")
			s.common(t, r, s.board.CoreHz)
			expect(t, r, map[string]string{
				"uart_hz": strconv.Itoa(c.uartHz), "irq": strconv.Itoa(c.irq), "wait_states": strconv.Itoa(c.waitStates),
				"flags": strconv.Itoa(c.platform), "reset_cause": "1",
			})
			if p := s.board.Platform; p.WaitStates != nil && c.coreHz == 0 && *p.WaitStates != c.waitStates {
				t.Errorf("the board file has platform.wait_states %d", *p.WaitStates)
			}
			s.random(t, r, !c.noRNG)
			for _, condition := range strings.Fields(c.conditions) {
				t.Run(condition, func(t *testing.T) {
					r := s.start(t, condition)
					s.common(t, r, c.fallbackHz)
					s.random(t, r, c.fallbackRNG)
				})
			}
			t.Run("no-rng", func(t *testing.T) {
				r := s.start(t, "no-rng")
				s.common(t, r, s.board.CoreHz)
				s.random(t, r, false)
			})
			expect(t, s.start(t, "watchdog"), map[string]string{"reset_cause": "8"})
			expect(t, s.start(t, "pin"), map[string]string{"reset_cause": "2"})
			for _, ms := range []int{10, 1000, 8000, 1 << 20} {
				s.watchdog(t, s.start(t, "", strconv.Itoa(ms)), ms, lsiMaxHz[c.model])
			}
		})
	}
}

// common checks what must be true in every run: the port reports the real state, the USART works, no rule is broken.
func (s *stm32) common(t *testing.T, r map[string]string, coreHz int) {
	t.Helper()
	want := s.board.Link.BitRate()
	within := max(want/500, want/(2*saidNumber(t, r, "brr"))) // half a step of the divisor, where that is more
	if got := saidNumber(t, r, "baud"); got < want-within || got > want+within {
		t.Errorf("%d baud, want %d within %d", got, want, within)
	}
	hz := strconv.Itoa(coreHz)
	expect(t, r, map[string]string{
		"core_hz": hz, "real_core_hz": hz, "uart_hz": r["real_uart_hz"], "uart_on": "1", "received": "12fe34", "lost": "1",
		"overrun_left": "0", "put": "0", "sent": "a5", "foreign_irq": "-1", "id": "000102030405060708090a0b",
		"id5": "0001020304",
	})
}

// random checks that the generator returns bytes, or reports that it has none.
func (s *stm32) random(t *testing.T, r map[string]string, generator bool) {
	t.Helper()
	const nothing = "00000000000000000000"
	if got := r["random"]; (r["random_result"] == "0") != generator || generator && got == nothing ||
		len(got) != len(nothing) {
		t.Errorf("random bytes %s, result %s, generator expected: %v", got, r["random_result"], generator)
	}
}

// watchdog checks that the reset comes not before ms with the oscillator at its fastest, and not much later if the
// counter is long enough.
func (s *stm32) watchdog(t *testing.T, r map[string]string, ms, lsiMaxHz int) {
	t.Helper()
	expect(t, r, map[string]string{"watchdog_started": "1", "watchdog_fed": "2"})
	const most = 4096 * 256 // of its counter and prescaler
	counts, wanted := saidNumber(t, r, "watchdog_counts"), min(ms*lsiMaxHz/1000, most)
	if counts < wanted || counts > min(wanted+wanted/100+1024, most) {
		t.Errorf("watchdog of %d ms: %d counts, want a little over %d, and at most %d", ms, counts, wanted, most)
	}
}

// TestSTM32Emulated starts the STM32F405's port where no register answers, as in QEMU: it must not wait for any.
func TestSTM32Emulated(t *testing.T) {
	s := buildSTM32(t, "netduinoplus2", "sim_f.c", 0, stm32F405)
	r := s.start(t, "no-chip")
	if n := saidNumber(t, r, "accesses"); n > 10 {
		t.Errorf("%d register accesses before the UART", n)
	}
	expect(t, r, map[string]string{
		"core_hz": "168000000", "wait_states": "-1", "reset_cause": "-1", "flags": "0", "id": "", "random_result": "-1",
	})
}

// TestSTM32Parts starts ports on chips that lack a part, or are of an early revision.
func TestSTM32Parts(t *testing.T) {
	for name, c := range map[string]struct {
		board, model, flags, condition string
		coreHz, runsAt                 int // 0: the board's; 0: what is true in every run is not
		want                           map[string]string
	}{
		// At a clock that needs no boost.
		"no crystal": {"nucleo_g474re", "sim_l4_g4.c", stm32G4 + noCrystal, "", 120_000_000, 120_000_000, nil},
		// MSI runs free.
		"no LSE": {"nucleo_l4r5zi", "sim_l4_g4.c", "-DSIM_L475=0", "no-lse", 0, 120_000_000, nil},
		// Nor a unique id, as in QEMU: it reaches its clock all the same, and reports what is not there as unknown.
		"no flash interface": {
			"b_l475e_iot01a", "sim_l4_g4.c", "-DSIM_L475=1", "no-flash", 0, 0, map[string]string{
				"core_hz": "80000000", "real_core_hz": "80000000", "wait_states": "-1", "flags": "0", "id": "",
				"reset_cause": "1", "sent": "a5",
			},
		},
		// Its prefetch is broken (ES0182), and stays off; the caches are on. It has the STM32F2's DEV_ID.
		"first STM32F405": {"netduinoplus2", "sim_f.c", stm32F405, "revision-a", 0, 0, map[string]string{"flags": "3"}},
		// With the work-around for AXI SRAM, which the model looks for.
		"revision Y": {"nucleo_h743zi", "sim_h7.c", "", "revision-y", 0, 400_000_000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := buildSTM32(t, c.board, c.model, c.coreHz, c.flags)
			r := s.start(t, c.condition)
			if c.runsAt != 0 {
				s.common(t, r, c.runsAt)
			}
			expect(t, r, c.want)
		})
	}
}

// An earlyBus is an STM32H743 before its supply is confirmed, when RAM must not be written to (RM0433 §6.4.1).
type earlyBus struct {
	t       *testing.T
	image   *elf.File
	after   uint32 // where RAM may be used
	control uint32 // PWR_CR3
	polls   int    // of PWR_CSR1
	ready   int    // after how many of them the supply is there; 0: never
	core    *core
}

func (b *earlyBus) load(addr uint32, width int) uint32 {
	switch addr {
	case 0x5802480C:
		return b.control
	case 0xE000ED88: // CPACR
		return 0
	case 0x58024804:
		b.polls++
		if b.control&7 == 2 && b.ready > 0 && b.polls >= b.ready {
			return 1 << 13
		}
		return 0
	}
	for _, p := range b.image.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 && uint64(addr) >= p.Vaddr && uint64(addr) < p.Vaddr+p.Filesz {
			word := make([]byte, 4)
			if _, err := p.ReadAt(word[:width], int64(uint64(addr)-p.Vaddr)); err != nil {
				b.t.Fatal(err)
			}
			return binary.LittleEndian.Uint32(word)
		}
	}
	b.t.Errorf("%#x is read before the supply is confirmed", addr)
	return 0
}

func (b *earlyBus) store(addr uint32, _ int, v uint32) {
	switch addr {
	case 0x5802480C:
		b.control = v
	case 0xE000ED08, 0xE000ED88: // VTOR, CPACR
	default:
		b.t.Errorf("%#x is written before the supply is confirmed", addr)
	}
}

func (b *earlyBus) enters(pc uint32) bool {
	b.core.stopped = pc == b.after
	return b.core.stopped
}

// TestSTM32H7Early runs the first instructions of an STM32H743, built without optimisation: they do not use RAM until
// the supply is confirmed, and their wait has a limit.
func TestSTM32H7Early(t *testing.T) {
	_, program, _ := built(t, "nucleo_h743zi", boards.Options{RuntimeOpt: "O0"})
	image, err := elf.Open(program)
	must(t, err)
	defer image.Close()
	symbols, err := image.Symbols()
	must(t, err)
	at := map[string]uint32{}
	for _, s := range symbols {
		at[s.Name] = uint32(s.Value) &^ 1
	}
	for _, ready := range []int{1, 100, 0} {
		b := &earlyBus{t: t, image: image, after: at["stm32h7_powered"], control: 6, ready: ready}
		c := &core{bus: b}
		b.core = c
		c.run(t, at["bare_entry"])
		if !c.stopped || b.control != 2 || b.polls < ready {
			t.Errorf("supply after %d polls: PWR_CR3 is %#x after %d of them, the rest reached: %v", ready, b.control, b.polls,
				c.stopped)
		}
	}
}
