package templates_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// This file tests the part of the ports that depends on no chip and no core, compiled for this computer
// (testdata/bare): the watchdog, time budgets, data kept over a reset, random numbers.

const (
	sceneBudgetMS = 60_000 // the board's time budget of a call
	sceneTickMS   = 10
	noFunction    = "4294967295"
	sceneFunction = "2147549186" // 0x80010002
)

// buildScenes compiles bare.c and fault.c, unchanged.
func buildScenes(t *testing.T) string {
	t.Helper()
	config := "#define BOARDSMITH_CORE_HZ 1000000\n#define BOARDSMITH_STACK_BYTES 1024\n" +
		"#define BOARDSMITH_WATCHDOG_MS 8000\n#define BOARDSMITH_EMULATED 0\n#define BOARDSMITH_UPLOAD_BYTES 0\n" +
		"#define BOARDSMITH_BUDGET_MS " +
		strconv.Itoa(sceneBudgetMS) + "\n"
	sources := []string{"-no-pie", "testdata/bare/sim.c", "baremetal/port/bare.c"}
	return simulation(t, config, slices.Concat(sanitized, sources)...)
}

// TestWatchdogIsFed: only while the main loop gets on, or a call is inside its time budget; and every call has one.
func TestWatchdogIsFed(t *testing.T) {
	program := buildScenes(t)
	for _, c := range []struct {
		scene  string
		ticks  int    // 0: any
		unfed  int    // ticks in a row, and one or two more, that did not feed it
		record string // its reason
	}{
		{"idle", 1000, 0, ""},
		{"busy-loop", 0, 0, ""},
		{"stuck", 1000, 1000, ""},
		{"call", 1000, 0, ""},
		{"stuck-after-call", 1000, 1000, ""},
		{"slow-uart", 0, 20, ""}, // for each byte
		{"dead-uart", 200, 200, ""},
		{"endless-call", sceneBudgetMS/sceneTickMS + 1, 0, "4"},
		{"endless-call-without-budget", sceneBudgetMS/sceneTickMS + 1, 0, "4"},
		{"short-budget", 6, 0, "4"},
		{"endless-sample", 4 + 4 + 6, 0, "4"},
	} {
		t.Run(c.scene, func(t *testing.T) {
			said := runFake(t, program, c.scene)
			ticks, unfed := saidNumber(t, said, "ticks"), saidNumber(t, said, "unfed")
			if c.ticks != 0 && ticks != c.ticks {
				t.Errorf("%d ticks, want %d", ticks, c.ticks)
			}
			if unfed < c.unfed-2 || unfed > c.unfed+2 {
				t.Errorf("%d of %d ticks did not feed the watchdog, want %d", unfed, ticks, c.unfed)
			}
			testkit.Equal(t, "the record's reason", said["reason"], c.record)
		})
	}
}

// TestWatchdogCounts checks that a watchdog never resets before its time, and uses its maximum count if the time is
// longer than that.
func TestWatchdogCounts(t *testing.T) {
	program := buildScenes(t)
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, chip := range []struct{ hz, most uint64 }{
		{25_000_000, math.MaxUint32},
		{32768, math.MaxUint32},
		{math.MaxUint32, math.MaxUint32},
		{2_000_000, 1<<24 - 1},
		{1024, 1<<16 - 2},
		{11750, 4096 << 6},
		{2, 256},
		{999, 1000},
	} {
		for _, ms := range []uint64{
			1, 499, 500, 501, 8000, 171_798, 171_799, 171_800, math.MaxUint32,
		} {
			want := min((ms*chip.hz+999)/1000, chip.most)
			args := []string{"watchdog-start", number(chip.hz), number(chip.most), number(ms)}
			testkit.Equal(t, args, runFake(t, program, args...)["counts"], number(want))
		}
	}
}

// TestRecordAfterReset checks that a record made at the start after a watchdog's reset has the function, but no running
// time.
func TestRecordAfterReset(t *testing.T) {
	program := buildScenes(t)
	const inCall = 16_000_000 * 10 // ticks of its counter in the scene's call
	for scene, want := range map[string]map[string]string{
		"watchdog-in-call":           {"reason": "5", "function": sceneFunction, "elapsed": "0"},
		"watchdog-outside-call":      {"reason": "5", "function": noFunction, "elapsed": "0"},
		"unknown-reset-in-call":      {"reason": "5", "function": sceneFunction, "elapsed": "0"},
		"unknown-reset-outside-call": {"reason": ""},
		"pin-reset-in-call":          {"reason": ""},
		"meant-reset":                {"reason": ""},
		"fault-in-call":              {"reason": "1", "function": sceneFunction, "elapsed": strconv.Itoa(inCall)},
	} {
		t.Run(scene, func(t *testing.T) { expect(t, runFake(t, program, scene), want) })
	}
}

// TestRandomIsSeededOnce checks that the chip's generator, which may take a millisecond per byte, is only used for a
// seed. Without a generator, the port has its own seed.
func TestRandomIsSeededOnce(t *testing.T) {
	program := buildScenes(t)
	seen := map[string]bool{}
	for _, args := range [][]string{{"random", "1"}, {"random", "2"}, {"broken-generator", "3"}} {
		said := runFake(t, program, args...)
		if drawn := saidNumber(t, said, "drawn"); drawn == 0 || drawn > 32 {
			t.Errorf("%v: %d bytes of the generator for 100,001", args, drawn)
		}
		// Of 100,000 bytes each value has 390 on average, standard deviation 20.
		if least, most := saidNumber(t, said, "least"), saidNumber(t, said, "most"); least < 270 || most > 510 {
			t.Errorf("%v: a value comes %d to %d times", args, least, most)
		}
		if said["random_error"] != "0" || seen[said["random"]] {
			t.Errorf("%v: error %s, bytes %s", args, said["random_error"], said["random"])
		}
		seen[said["random"]] = true
	}
}
