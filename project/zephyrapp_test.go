package project_test

import (
	"context"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/templatecheck"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

const zephyrApp = "../examples/own-zephyr-app"

// TestZephyrAppFiles: a project of the example has the application's and the module's files.
func TestZephyrAppFiles(t *testing.T) {
	t.Parallel()
	builder := &project.Builder{Host: device.Host{Path: []string{zephyrApp}}}
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), zephyrAppSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{
		"CMakeLists.txt", "src/main.c", "boardsmith/zephyr/module.yml",
		"boardsmith/src/main.c",
	} {
		from := filepath.Join(zephyrApp, "app", name)
		switch name {
		case "boardsmith/zephyr/module.yml":
			from = filepath.Join("../templates/zephyr", name)
		case "boardsmith/src/main.c":
			from = "../templates/firmware/main.c"
		}
		want, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(p.Dir(), name)); err != nil || string(got) != string(want) {
			t.Errorf("%s is not %s (%v)", name, from, err)
		}
	}
}

func zephyrAppSpec(t *testing.T) project.Spec {
	t.Helper()
	return project.Spec{
		Board: "zephyr/mps2_an385", Template: zephyrApp + "/app", Model: mlftest.Path(t, "add.aot_packed"),
		Options: boards.Options{ArenaKiB: 64},
	}
}

// needZephyrOfExample skips with a Zephyr that is older than the example's README says.
func needZephyrOfExample(t *testing.T) {
	t.Helper()
	project.NeedZephyr(t, "qemu-system-arm")
	if _, err := os.Stat(filepath.Join(os.Getenv("ZEPHYR_BASE"), "include/zephyr/kernel.h")); err != nil {
		t.Skipf("the example needs Zephyr 3.2: %v", err)
	}
}

// TestZephyrApp builds the example with the Zephyr in $ZEPHYR_BASE and runs it: the model's outputs are right, and the
// application's own thread runs beside the server.
func TestZephyrApp(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	builder := &project.Builder{
		Host: device.Host{Path: []string{zephyrApp}, Cache: cache.New(t.TempDir(), cache.Options{})},
	}
	spec := zephyrAppSpec(t)
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	runProject(t, ctx, p, spec.Model)

	s, err := p.Run(ctx, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	beats, err := s.Function(ctx, "app.beats")
	if err != nil {
		t.Fatal(err)
	}
	first, err := beats.Call(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for now := first; now.(int64) <= first.(int64); {
		if now, err = beats.Call(ctx); err != nil {
			t.Fatalf("the application's thread does not run, it has counted %v: %v", first, err)
		}
	}
}

// TestZephyrAppArena: an edited crt_config.h has its effect in the example, and none in another project of it.
func TestZephyrAppArena(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	builder := &project.Builder{
		Host: device.Host{Path: []string{zephyrApp}, Cache: cache.New(t.TempDir(), cache.Options{})},
	}
	spec := zephyrAppSpec(t)
	spec.Options.ArenaKiB = 0
	const line = "#define BOARDSMITH_ARENA_BYTES 0"
	for _, c := range []struct {
		line  string
		bytes uint64
	}{{"#define BOARDSMITH_ARENA_BYTES 32768", 32 << 10}, {line, 2 << 20}} { // the default is half of the RAM
		p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		name := filepath.Join(p.Dir(), "crt_config", "crt_config.h")
		data, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(data), line) {
			t.Fatalf("%v: no %q", err, line)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(data), line, c.line)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Build(ctx); err != nil {
			t.Fatal(err)
		}
		symbols := elfSymbols(t, p)
		at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "arena" })
		if at < 0 || symbols[at].Size != c.bytes {
			t.Errorf("no arena of %d bytes in %v", c.bytes, symbols)
		}
	}
}

// TestZephyrChecked: Zephyr's template and the example pass all checks of templates.
func TestZephyrChecked(t *testing.T) {
	t.Parallel()
	needZephyrOfExample(t)
	if !drawn.InFull() {
		t.Skip("only in the full tests")
	}
	for template, path := range map[string][]string{zephyrApp + "/app": {zephyrApp}, "zephyr": nil} {
		var skipped []string
		trial := templatecheck.Trial{Spec: zephyrAppSpec(t)}
		trial.Template = template
		builder := &project.Builder{Host: device.Host{Path: path}}
		err := templatecheck.Run(t.Context(), builder, trial, func(c templatecheck.Check) {
			if c.Skipped != "" {
				skipped = append(skipped, c.Name)
			}
		})
		if err != nil || !slices.Equal(skipped, []string{"run"}) { // no Run is given
			t.Errorf("%s: %v; skipped %q", template, err, skipped)
		}
	}
}

// badThread is a thread of an application that fails after a while. Its stack lies below the server's.
const badThread = `
static void fail(void* a, void* b, void* c) {
  (void)a;
  (void)b;
  (void)c;
  while (beats < 200U) {
    k_msleep(5);
  }
  beats = *(volatile uint32_t*)0xc0000000U;
}
K_THREAD_DEFINE(bad, 1024, fail, NULL, NULL, NULL, 0, 0, 0);
`

// TestZephyrAppFault: a hardware fault in another thread than the server's is recorded as such, without the server's
// stack.
func TestZephyrAppFault(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t, "qemu-system-arm")
	needZephyrOfExample(t)
	builder := &project.Builder{
		Host: device.Host{Path: []string{zephyrApp}, Cache: cache.New(t.TempDir(), cache.Options{})},
	}
	p, err := builder.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), zephyrAppSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	name := filepath.Join(p.Dir(), "src", "main.c")
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(source, badThread...), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := p.Run(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	beats, err := s.Function(t.Context(), "app.beats")
	for err == nil {
		_, err = beats.Call(t.Context())
	}
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) {
		t.Fatal(err)
	}
	if faultErr.Record.Reason != fault.ReasonHardware || len(faultErr.Record.Stack) > 0 {
		t.Errorf("%v, with %d bytes of a stack; want a hardware fault, without", err, len(faultErr.Record.Stack))
	}
}
