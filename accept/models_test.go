package accept_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/accept"
	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/boardstest"
	"github.com/boardsmith/boardsmith/internal/drawn"
)

// This file accepts chips in software (templates/testdata/chips): firmware as a process of this computer, whose port
// starts the chip's own clocks on a model of the chip. The counter runs at the rate that the model computes from its
// crystal, and the firmware reports the rate that the port computes from the chip's registers.

// onModel is C that joins the model to the port of a process.
const onModel = `#include "fake.h"

#define main model_main
#include "fake_source.h"
#undef main

void on_model_start(void);
uint64_t on_model_ticks(uint64_t ns);

static uint32_t real_hz;
static char* words[] = {"after=power", "crystal=CRYSTAL"};

void on_model_start(void) {
  conditions = words;
  condition_count = 2;
  model_reset();
  chip_early();
  chip_init();
  settle();
  real_hz = model_core_hz();
}

uint64_t on_model_ticks(uint64_t ns) {
  const uint64_t second = 1000000000U;
  return ((ns / second) * real_hz) + (((ns % second) * real_hz) / second);
}
`

// processOnModel changes the port of a process: its time is the model's, its rate what the chip's port computes.
var processOnModel = map[string]string{
	"// ---- Time, random numbers": `uint32_t chip_core_hz(void);
void on_model_start(void);
uint64_t on_model_ticks(uint64_t ns);

// ---- Time, random numbers`,
	nanoseconds:                           `return on_model_ticks(((uint64_t)t.tv_sec * 1000000000U) + (uint64_t)t.tv_nsec);`,
	"  (void)ctx;\n  return 1000000000U;": "  (void)ctx;\n  return chip_core_hz();",
	"process_ticks(ctx) / 1000000U":       "process_ticks(ctx) / (chip_core_hz() / 1000U)",
	"  (void)p;  // unknown: managed by":  "  p->core_hz = chip_core_hz();  // not managed by",
	"static int32_t process_init(void* ctx) {\n": `void on_model_start(void);
static int32_t process_init(void* ctx) {
  on_model_start();
`,
}

// modelOf returns the files of a board that is a process with a chip's port on its model.
func modelOf(t *testing.T, of, model string, crystalHz int) map[string]string {
	t.Helper()
	b, err := boards.Find(of, nil)
	must(t, err)
	chips := filepath.Join("..", "templates", "testdata", "chips")
	files := map[string]string{
		"process.c":      shipped(t, "../templates/baremetal/port/process.c", processOnModel),
		"on_model.c":     strings.ReplaceAll(onModel, "CRYSTAL", fmt.Sprintf("%x", crystalHz)),
		"fake.h":         shipped(t, filepath.Join(chips, "fake.h"), nil),
		"fake_source.h":  shipped(t, filepath.Join(chips, "fake.c"), nil),
		"model_source.h": shipped(t, filepath.Join(chips, model), nil),
		"model.c":        "#include \"model_source.h\"\n",
	}
	sources := []string{"port/bare.h"}
	for _, s := range b.Sources {
		switch {
		case path.Ext(s.Name) == ".h" && path.Dir(s.Name) == "port/chip":
			sources = append(sources, s.Name)
		case path.Ext(s.Name) == ".c" && (path.Dir(s.Name) == "port/chip" || path.Dir(s.Name) == "port/uart"):
			name := path.Base(s.Name)
			header := "port_" + strings.TrimSuffix(name, ".c") + ".h"
			files[header] = shipped(t, filepath.Join("..", "templates", "baremetal", s.Name), nil)
			files["port_"+name] = fmt.Sprintf("#include \"fake.h\"\n#include %q\n", header) // unchanged, on the model
		}
	}
	sources = append(sources, slices.Sorted(maps.Keys(files))...)
	board, err := json.Marshal(map[string]any{
		"doc": of + " on a model", "inherits": "cpu/native", "templates": []string{"baremetal"}, "arena_kib": 64,
		"sources": sources, "defines": b.Defines, "core_hz": b.CoreHz, "platform": map[string]any{"core_hz": b.CoreHz},
		"link": map[string]string{"kind": "process"}, "flash": map[string]string{"programmer": "none"},
	})
	must(t, err)
	files["model.json"] = string(board)
	return files
}

// TestModels accepts chips in software, and none with a crystal that is 2 % off: no register of the chip shows it.
func TestModels(t *testing.T) {
	t.Parallel()
	type chip struct {
		name, of, model string
		crystalHz       int
		fails           bool
	}
	all := []chip{
		{"rp2350", "rpi_pico2", "rp2350.c", 12_000_000, false},
		{"rp2350, crystal 2 % fast", "rpi_pico2", "rp2350.c", 12_240_000, true},
		{"rp2350, crystal 2 % slow", "rpi_pico2", "rp2350.c", 11_760_000, true},
		{"rp2040", "rpi_pico", "rp2040.c", 12_000_000, false},
		{"rp2040, crystal 2 % fast", "rpi_pico", "rp2040.c", 12_240_000, true},
	}
	for _, c := range drawn.Of(t, "chips in software", all, 1) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := try(t, "model", boardstest.Shelf(t, modelOf(t, c.of, c.model, c.crystalHz)))
			skipUnmeasured(t, r)
			var failed *accept.Error
			var off *device.ClockError
			switch {
			case !c.fails:
				must(t, err)
			case !errors.As(err, &failed) || failed.Step.Name != "clock" || !errors.As(err, &off):
				t.Fatalf("got %v, want step clock to fail", err)
			case off.Measured/float64(off.Says) < 0.97 || off.Measured/float64(off.Says) > 1.03:
				t.Errorf("%v", err)
			}
		})
	}
}
