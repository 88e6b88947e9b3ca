package project_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// Levels of a pin.
const high, low = 1, 2

// measuredBoards are emulated boards whose emulators have GPIO: the pin, and an expression in C that is not 0 while it
// is high.
var measuredBoards = []struct{ board, pin, level string }{
	{"lm3s6965evb", "PF0", "*(volatile uint32_t*)0x40025004U"},                // GPIODATA of this pin
	{"microbit", "P0.17", "(*(volatile uint32_t*)0x50000504U) & (1U << 17)"},  // OUT
	{"sifive_e", "GPIO19", "(*(volatile uint32_t*)0x1001200CU) & (1U << 19)"}, // OUTPUT_VAL
}

// measuredBoard writes a board file like a shipped one with a measure_pin, and returns the folder for the search path.
func measuredBoard(t *testing.T, name, pin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "boards", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["measure_pin"] = pin
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return boardstest.Shelf(t, map[string]string{"measured.json": string(text)})
}

// TestMeasured has an operator read the board's measure_pin: it is high while a run is timed, over RPC and in
// standalone firmware, and low in a run that is not.
func TestMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "boards with a pin", measuredBoards, 1) {
		t.Run(c.board, func(t *testing.T) {
			shipped, err := boards.Find(c.board, nil)
			if err != nil {
				t.Fatal(err)
			}
			if why := hasCompiler(t, shipped) + hasEmulator(t, shipped); why != "" {
				t.Skip(why)
			}
			builder := &project.Builder{
				Host: device.Host{
					Path: []string{measuredBoard(t, c.board, c.pin)}, Cache: cache.New(testcache.Dir(), cache.Options{}),
				},
				Jobs: 1,
			}
			statement := fmt.Sprintf("static int32_t was; out[0] = was; was = (%s) ? %d : %d; return 0;", c.level, high, low)
			s := project.Spec{Board: "measured", Model: broken(t, statement)}
			t.Run("rpc", func(t *testing.T) { measureOverRPC(t, builder, s) })
			t.Run("standalone", func(t *testing.T) { measureAlone(t, builder, s) })
		})
	}
}

// levelSeen runs the model, and returns the pin's level in the run before.
func levelSeen(t *testing.T, e executor.Executor) byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Run(ctx); err != nil {
		t.Fatal(err)
	}
	out, err := e.Output(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out.Data[0]
}

func measureOverRPC(t *testing.T, builder *project.Builder, s project.Spec) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), s)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	session, err := p.Run(ctx, &device.Desk{Programmer: "none"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(ctx)
	_, m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	e, err := executor.Open(ctx, session, m)
	if err != nil {
		t.Fatal(err)
	}
	in := four(t, e)
	if err := e.SetInput(ctx, in.Name, in.Array); err != nil {
		t.Fatal(err)
	}
	levelSeen(t, e)
	if level := levelSeen(t, e); level != low {
		t.Errorf("in a run that is not timed, the pin is %d", level)
	}
	if _, err := e.Time(ctx, rpc.TimeOptions{Number: 2, Repeat: 2}); err != nil {
		t.Fatal(err)
	}
	if level := levelSeen(t, e); level != high {
		t.Errorf("in a timed run, the pin is %d", level)
	}
	if level := levelSeen(t, e); level != low {
		t.Errorf("after the measurement, the pin is %d", level)
	}
}

func measureAlone(t *testing.T, builder *project.Builder, s project.Spec) {
	p, err := generateAlone(t, builder, s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := openAlone(t, p, 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	in := four(t, f.model)
	if err := f.model.SetInput(t.Context(), in.Name, in.Array); err != nil {
		t.Fatal(err)
	}
	levelSeen(t, f.model)
	if level := levelSeen(t, f.model); level != high {
		t.Errorf("in a run, the pin is %d", level)
	}
}

// TestMeasurePinRefused asks for a pin of a board, or of a template, that cannot raise it.
func TestMeasurePinRefused(t *testing.T) {
	t.Parallel()
	for board, pin := range map[string]string{"host": "PA5", "lm3s6965evb": "PE7", "mps2_an385": "PA5"} {
		builder := &project.Builder{Host: device.Host{Path: []string{measuredBoard(t, board, pin)}}}
		p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"),
			project.Spec{Board: "measured", Model: broken(t, "return 1;")})
		if err == nil {
			p.Close()
		}
		if failure.Of(err) != failure.Config {
			t.Errorf("%s of %s: %v", pin, board, err)
		}
	}
}
