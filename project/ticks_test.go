package project

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/rpc"
)

// tickBoards are emulated; on all but the last two the tick itself is what counts, as no cycle counter does.
var tickBoards = []string{
	"microbit", "lm3s6965evb", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an521", "mps3_an547", "netduinoplus2",
	"b_l475e_iot01a",
	"qemu_riscv32", "qemu_riscv64",
}

// someOf is one of these boards in a plain run and all of tickBoards in the full test.
func someOf(t *testing.T, these ...string) []string {
	t.Helper()
	if drawn.InFull() {
		return tickBoards
	}
	return drawn.Of(t, "boards of "+t.Name(), these, 1)
}

// ticksOf builds firmware with a delay for the board, and returns how to time it on one started anew.
func ticksOf(t *testing.T, board string) func() []float64 {
	t.Helper()
	image := built(t, generated(t, Spec{Board: board, Model: withDelay(t, "150000", "", "")}))
	return func() []float64 {
		s, end, err := openImage(t, findBoard(t, board), image)
		must(t, err)
		defer end()
		lib, err := s.SystemLib(t.Context())
		must(t, err)
		times, err := lib.Time(t.Context(), "twice", rpc.TimeOptions{Number: 3, Repeat: 4}, tensor(t, s), tensor(t, s))
		must(t, err)
		return times
	}
}

// withDelay writes an archive whose operator has a loop of n rounds, in which interrupts are masked or not.
func withDelay(t *testing.T, n, mask, unmask string) string {
	t.Helper()
	return mlftest.Edited(t, "return 0;", mask+"for (volatile int32_t q = 0; q < "+n+"; q++) {}"+unmask+"return 0;")
}

// TestTimesAreEqual times a function that takes a few ticks on emulators started one after the other.
func TestTimesAreEqual(t *testing.T) {
	t.Parallel()
	for _, board := range someOf(t, "microbit", "mps2_an521", "qemu_riscv32") {
		t.Run(board, func(t *testing.T) {
			measure := ticksOf(t, board)
			want := measure()
			if want[0] < 0.001 || slices.Max(want) != slices.Min(want) {
				t.Errorf("not all of one run are equal, or too short: %v", want)
			}
			for range 4 {
				if got := measure(); !slices.Equal(got, want) {
					t.Errorf("got %v, before %v", got, want)
				}
			}
		})
	}
}

// TestClockTree times the same function by a SysTick whose clock is fixed and by one that runs on what the port made of
// the clock tree: an emulator's instruction takes as long on either.
func TestClockTree(t *testing.T) {
	t.Parallel()
	const fixed, tree = "mps2_an386", "b_l475e_iot01a" // Cortex-M4, both
	var mean [2]float64
	for i, board := range []string{fixed, tree} {
		got := ticksOf(t, board)()
		mean[i] = (got[0] + got[1] + got[2] + got[3]) / 4
	}
	if ratio := mean[1] / mean[0]; ratio < 0.999 || ratio > 1.001 {
		t.Errorf("%g s on %s, %g s on %s", mean[0], fixed, mean[1], tree)
	}
}

// masks are the instructions that mask interrupts and unmask them, by the machine of the board's ELF files.
var masks = map[string][2]string{
	"arm":   {`__asm volatile("cpsid i");`, `__asm volatile("cpsie i");`},
	"riscv": {`__asm volatile("csrci mstatus, 8");`, `__asm volatile("csrsi mstatus, 8");`},
}

// delayOf builds an operator that loops as many rounds as its input specifies, with interrupts masked if the input says
// so. It returns a function that times it.
func delayOf(t *testing.T, board string) func(rounds int, masked bool) (float64, error) {
	t.Helper()
	mask := masks[findBoard(t, board).ELF.Machine]
	model := withDelay(t, "in[0]", "if (in[1] != 0) {"+mask[0]+"}", "if (in[1] != 0) {"+mask[1]+"}")
	s, lib := started(t, generated(t, Spec{Board: board, Model: model}), "flash")
	in, out := tensor(t, s), tensor(t, s)
	return func(rounds int, masked bool) (float64, error) {
		data := make([]byte, 16)
		binary.LittleEndian.PutUint32(data, uint32(rounds))
		if masked {
			data[4] = 1
		}
		must(t, in.Write(t.Context(), data))
		got, err := lib.Time(t.Context(), "twice", rpc.TimeOptions{Number: 1, Repeat: 1}, in, out)
		if err != nil {
			return 0, err
		}
		return got[0], nil
	}
}

// checkTick measures calls over many ticks, whose handler takes a part of the measured time. On RISC-V, most of it is
// for the registers that the entry of every trap saves.
func checkTick(t *testing.T, board string, measure func(rounds int) (took, without float64, err error)) {
	t.Helper()
	b := findBoard(t, board)
	limit := 60.0
	if b.WatchdogMS > 0 {
		limit = 66 // it is fed
	}
	if strings.HasPrefix(board, "qemu_riscv") {
		limit = 260
	}
	took, without, err := measure(2_000_000)
	must(t, err)
	ticks := math.Floor(took / 10e-3)
	instructions := (took - without) / ticks / 16e-9 // see -icount in device/emulator.go
	t.Logf("the tick takes %.1f instructions: %g s, %g s without", instructions, took, without)
	if ticks < 10 || instructions > limit {
		t.Errorf("%g ticks take %.1f instructions each, want at most %g", ticks, instructions, limit)
	}
}

// TestTimesOfMaskedTicks masks interrupts for none to four edges of the tick, until several fractions of a tick after
// the last edge. The result must be as port/bare.h specifies cpu_ticks.
func TestTimesOfMaskedTicks(t *testing.T) {
	t.Parallel()
	const tick = 10e-3
	for _, board := range someOf(t, "microbit", "mps2_an385", "qemu_riscv32") {
		t.Run(board, func(t *testing.T) {
			measure := delayOf(t, board)
			const few, many = 1000, 50000 // rounds, less than a tick
			short, err := measure(few, false)
			must(t, err)
			long, err := measure(many, false)
			must(t, err)
			perRound := (long - short) / (many - few)
			checkTick(t, board, func(rounds int) (took, without float64, err error) {
				took, err = measure(rounds, false)
				return took, short + float64(rounds-few)*perRound, err
			})
			for edges := range 5 {
				for _, after := range []float64{1. / 256, 1. / 100, 1. / 50, 1. / 9, 1. / 7, 1. / 2, 63. / 64} {
					length := (float64(edges) + after) * tick
					got, err := measure(few+int((length-short)/perRound), true)
					want, told := length, true
					if !strings.HasPrefix(board, "qemu_riscv") {
						told = edges == 0 || after < 1./64
						want -= float64(max(edges-1, 0)) * tick
					}
					if !told && (err == nil || !strings.Contains(err.Error(), "time unknown")) {
						t.Errorf("masked for %.3f ms: %g s, %v; want an unknown time", length*1e3, got, err)
					}
					if told && (err != nil || math.Abs(got-want) > 30e-6) {
						t.Errorf("masked for %.3f ms: %g s, %v; want %g s", length*1e3, got, err, want)
					}
				}
			}
		})
	}
}
