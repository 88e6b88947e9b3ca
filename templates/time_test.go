package templates_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// This file tries the time part of the ports on counters in software that stand still while the core sleeps, as some do
// (testdata/time).

// timeParts are the files of a port that keep time, the header of their CPU, and the model of its counters.
var timeParts = map[string]struct{ header, model string }{
	"port/cpu/cortexm/time.c": {"cpu/cortexm/cortexm.h", "cortexm.c"},
	"port/cpu/riscv/time.c":   {"cpu/riscv/riscv.h", "riscv.c"},
}

// sleepingTick is whose SysTick stands still in sleep: the nRF52 and nRF53 take the core's clock away (nRF52840 Product
// Specification v1.8 and nRF5340's v1.3, chapter CPU).
var sleepingTick = []string{"microbit_v2", "nrf52840dk", "nrf5340dk"}

// sleepers are the ways in which a board's counters may behave in sleep. CYCCNT of a Cortex-M7 stands still, and that
// of any core may go on while a debugger is connected.
func sleepers(b *boards.Board) [][]string {
	switch {
	case b.ELF.Machine == "riscv":
		return [][]string{nil, {"mcycle-sleeps"}, {"mcycle-slow"}}
	case slices.Contains(sleepingTick, b.Name):
		return [][]string{{"systick-sleeps"}, {"systick-sleeps", "cyccnt-sleeps"}}
	}
	return [][]string{nil, {"cyccnt-sleeps"}}
}

// buildTime compiles the board's time part, unchanged, with the model of its counters; "" if it has none.
func buildTime(t *testing.T, b *boards.Board) string {
	t.Helper()
	for _, s := range b.Sources {
		part, ok := timeParts[s.Name]
		if !ok {
			continue
		}
		return simulation(t, fakeConfig(b, b.Link.BitRate()), slices.Concat(sanitized, []string{
			"-I", "testdata/time", fmt.Sprintf("-DSIM_CPU_HEADER=%q", part.header),
			fmt.Sprintf("-DBOARDSMITH_TIMER_HZ=%d", cmp.Or(b.Timer.Hz, b.CoreHz)), "-D__riscv_xlen=32", "-include", "sim.h",
			"testdata/time/sim.c", "testdata/time/" + part.model, "baremetal/" + s.Name,
		})...)
	}
	return ""
}

// TestTimeGoesOnInSleep idles for a second on each board's counters. The port's counter, which boardsmith.platform
// reports and the host compares with its clock, must count that second, whichever counters stop in sleep.
func TestTimeGoesOnInSleep(t *testing.T) {
	tried := map[string]bool{}
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		must(t, err)
		// the CPU, and its defines
		key := fmt.Sprint(b.Files[0], b.Defines["CPU_SLEEP_STOPS_TICK"], b.Defines["MTIME_HZ"])
		if tried[key] {
			continue
		}
		tried[key] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := buildTime(t, b)
			if program == "" {
				if len(b.Memory) > 0 {
					t.Errorf("this test finds no file of its port that keeps time")
				}
				return
			}
			for _, conditions := range sleepers(b) {
				said := runFake(t, program, conditions...)
				for _, phase := range []string{"idle", "work", "moment"} {
					got, real := saidNumber(t, said, phase+"_us"), saidNumber(t, said, phase+"_real_us")
					if off := got - real; off*off > max(4, real/1000*real/1000) {
						t.Errorf("%v, %s: %d µs are counted as %d", conditions, phase, real, got)
					}
				}
				if got, real := saidNumber(t, said, "ticks"), saidNumber(t, said, "ticks_real"); got < real-1 || got > real+1 {
					t.Errorf("%v: %d ticks in the time of %d", conditions, got, real)
				}
			}
		})
	}
}
