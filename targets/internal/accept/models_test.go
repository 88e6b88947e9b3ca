package accept_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/targets/internal/accept"
)

// This file accepts chips in software (templates/testdata/chips and stm32): firmware as a process of this computer,
// whose port starts the chip's own clocks on a model of the chip. The counter runs at the rate that the model computes
// from its crystal, and the firmware reports the rate that the port computes from the chip's registers.

// onModel is C that joins the model to the port of a process.
const onModel = `#include "registers.h"

#define main model_main
#include "harness.h"
#undef main

void on_model_start(void);
uint64_t on_model_ticks(uint64_t ns);

static uint32_t real_hz;

void on_model_start(void) {
  CONDITIONS
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

// A model is a board's chip in software.
type model struct {
	board     string
	crystalHz int    // nominal
	folder    string // in templates/testdata
	shared    string // what the models in this folder share: a header and C, which ends in a main of its own
	source    string
	settings  string // lines of C before the model's
	start     string // C before the chip starts; CRYSTAL is the crystal's rate in hexadecimal
}

// fakeStart is for a chip in testdata/chips: after power-on. Those in testdata/stm32 take SIM_HSE_HZ.
const fakeStart = `static char* words[] = {"after=power", "crystal=CRYSTAL"};
  conditions = words;
  condition_count = 2;`

var (
	rp2040    = model{"rpi_pico", 12_000_000, "chips", "fake", "rp2040.c", "", fakeStart}
	rp2350    = model{"rpi_pico2", 12_000_000, "chips", "fake", "rp2350.c", "", fakeStart}
	stm32g474 = model{
		"nucleo_g474re", 24_000_000, "stm32", "sim", "sim_l4_g4.c", "#define SIM_L475 0\n#define SIM_G4 1\n", "",
	}
	stm32h743 = model{"nucleo_h743zi", 8_000_000, "stm32", "sim", "sim_h7.c", "", ""}
)

// files returns the files of a board that is a process with the chip's port on the model.
func (m model) files(t *testing.T, crystalHz int) map[string]string {
	t.Helper()
	b, err := boards.Find(m.board, nil)
	must(t, err)
	folder := filepath.Join("..", "..", "..", "templates", "testdata", m.folder)
	start := strings.Replace(onModel, "CONDITIONS", m.start, 1)
	files := map[string]string{
		"process.c":      processPort(t, processOnModel),
		"on_model.c":     strings.ReplaceAll(start, "CRYSTAL", fmt.Sprintf("%x", crystalHz)),
		m.shared + ".h":  shipped(t, filepath.Join(folder, m.shared+".h"), nil),
		"registers.h":    fmt.Sprintf("#include %q\n", m.shared+".h"),
		"harness.h":      shipped(t, filepath.Join(folder, m.shared+".c"), nil),
		"model_source.h": shipped(t, filepath.Join(folder, m.source), nil),
		"model.c": fmt.Sprintf("%s#define SIM_HSE_HZ %dU\n#include \"registers.h\"\n#include \"model_source.h\"\n",
			m.settings, crystalHz),
	}
	sources := []string{"port/bare.h"}
	for _, s := range b.Sources {
		switch {
		case !strings.HasPrefix(s.Name, "port/chip/") && !strings.HasPrefix(s.Name, "port/uart/"):
		case path.Ext(s.Name) == ".h":
			sources = append(sources, s.Name)
		case path.Ext(s.Name) == ".c":
			name := path.Base(s.Name)
			header := "port_" + strings.TrimSuffix(name, ".c") + ".h"
			files[header] = shipped(t, filepath.Join("..", "..", "..", "templates", "baremetal", s.Name), nil)
			files["port_"+name] = fmt.Sprintf("#include \"registers.h\"\n#include %q\n", header) // unchanged, on the model
		}
	}
	sources = append(sources, slices.Sorted(maps.Keys(files))...)
	board, err := json.Marshal(map[string]any{
		"doc": m.board + " on a model", "inherits": "cpu/native", "templates": []string{"baremetal"}, "arena_kib": 64,
		"sources": sources, "defines": b.Defines, "core_hz": b.CoreHz,
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
		name  string
		model model
		off   int // % of the crystal's rate
	}
	all := []chip{
		{"rp2350", rp2350, 0},
		{"rp2350 fast", rp2350, 2},
		{"rp2350 slow", rp2350, -2},
		{"rp2040", rp2040, 0},
		{"rp2040 fast", rp2040, 2},
		{"stm32g474", stm32g474, 0},
		{"stm32g474 slow", stm32g474, -2},
		{"stm32h743", stm32h743, 0},
		{"stm32h743 fast", stm32h743, 2},
	}
	for _, c := range drawn.Of(t, "chips in software", all, 1) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := try(t, "model", boardstest.Shelf(t, c.model.files(t, c.model.crystalHz/100*(100+c.off))))
			skipUnmeasured(t, r)
			var failed *accept.Error
			switch {
			case c.off == 0:
				must(t, err)
			case !errors.As(err, &failed) || failed.Step.Name != "clock" || !errors.Is(err, device.ErrClock):
				t.Fatalf("got %v, want step clock to fail", err)
			case !regexp.MustCompile(`[+-][12]\.\d % off the reported`).MatchString(err.Error()):
				t.Errorf("%v", err)
			}
		})
	}
}
