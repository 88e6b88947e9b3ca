package project

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/drawn"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// tickBoards are emulated; on all but the last two the tick itself is what counts, as no cycle counter does.
var tickBoards = []string{
	"microbit", "lm3s6965evb", "mps2_an385", "mps2_an386", "mps2_an500", "mps2_an521", "mps3_an547", "netduinoplus2", "b_l475e_iot01a",
	"qemu_riscv32", "qemu_riscv64",
}

// someOf are these boards in a plain run and all of tickBoards in the full test.
func someOf(these ...string) []string {
	if drawn.InFull() {
		return tickBoards
	}
	return these
}

// ticksOf builds the operator for the board and returns how to time it on one started anew.
func ticksOf(t *testing.T, board, operator string) func() ([]float64, error) {
	t.Helper()
	needBoardTools(t, board, nil)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: board, Model: tiny(t, map[string]string{"codegen/host/src/lib1.c": operator})})
	image := built(t, p)
	b, err := boards.Find(board, nil)
	must(t, err)
	return func() ([]float64, error) {
		d, err := Attach(t.Context(), b, "", testEnv())
		must(t, err)
		defer d.Close()
		_, err = d.Flash(t.Context(), image)
		must(t, err)
		s, err := d.Open(t.Context(), image)
		must(t, err)
		defer s.Close(context.Background())
		lib, err := s.SystemLib(t.Context())
		must(t, err)
		dtype := ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}
		in, err := s.Empty(t.Context(), dtype, []int64{4})
		must(t, err)
		out, err := s.Empty(t.Context(), dtype, []int64{4})
		must(t, err)
		return lib.Time(t.Context(), "twice", rpc.TimeOptions{Number: 3, Repeat: 4}, in, out)
	}
}

// withDelay is the operator with a loop of n rounds, in which interrupts are masked or not.
func withDelay(n, mask, unmask string) string {
	delay := mask + "for (volatile int32_t q = 0; q < " + n + "; q++) {}" + unmask
	return strings.Replace(tinyOperator, "return 0;", delay+"return 0;", 1)
}

// TestTimesAreEqual times a function that takes a few ticks on emulators started one after the other.
func TestTimesAreEqual(t *testing.T) {
	t.Parallel()
	for _, board := range someOf("microbit", "mps2_an521", "qemu_riscv32") {
		t.Run(board, func(t *testing.T) {
			measure := ticksOf(t, board, withDelay("150000", "", ""))
			want, err := measure()
			must(t, err)
			if want[0] < 0.001 || slices.Max(want) != slices.Min(want) {
				t.Errorf("not all of one run are equal, or too short: %v", want)
			}
			for range 4 {
				got, err := measure()
				must(t, err)
				if !slices.Equal(got, want) {
					t.Errorf("got %v, before %v", got, want)
				}
			}
		})
	}
}

// TestClockTree times the same function by a SysTick whose clock is fixed and by one that runs on what the port made of the
// clock tree: an emulator's instruction takes as long on either.
func TestClockTree(t *testing.T) {
	t.Parallel()
	const fixed, tree = "mps2_an386", "b_l475e_iot01a" // Cortex-M4, both
	needBoardTools(t, tree, nil)
	operator := withDelay("150000", "", "")
	var mean [2]float64
	for i, board := range []string{fixed, tree} {
		got, err := ticksOf(t, board, operator)()
		must(t, err)
		mean[i] = (got[0] + got[1] + got[2] + got[3]) / 4
	}
	if ratio := mean[1] / mean[0]; ratio < 0.999 || ratio > 1.001 {
		t.Errorf("%g s on %s, %g s on %s", mean[0], fixed, mean[1], tree)
	}
}

// TestTimesOfMaskedTicks has a function mask interrupts: for less than the tick's length that changes nothing, for
// longer there is no telling how long it took.
func TestTimesOfMaskedTicks(t *testing.T) {
	t.Parallel()
	const mask, unmask = `__asm volatile("cpsid i");`, `__asm volatile("cpsie i");`
	for _, board := range someOf("mps2_an385") {
		if strings.HasPrefix(board, "qemu_riscv") {
			continue // its counter does not depend on interrupts
		}
		t.Run(board, func(t *testing.T) {
			if got, err := ticksOf(t, board, withDelay("1000", mask, unmask))(); err != nil || got[0] < 50e-6 || got[0] > 0.01 {
				t.Errorf("masked for a moment: %v, %v", got, err)
			}
			for _, rounds := range []string{"250000", "600000"} {
				got, err := ticksOf(t, board, withDelay(rounds, mask, unmask))()
				if err == nil || !strings.Contains(err.Error(), "no time can be told") {
					t.Errorf("%s rounds: %v, %v", rounds, got, err)
				}
			}
		})
	}
}
