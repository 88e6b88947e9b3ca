package project_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// TestZephyr builds for an emulated board with the Zephyr in $ZEPHYR_BASE, and runs the image: the outputs are right, a
// second build does nothing, a changed operator compiles nothing else of the project, and the parts of the image are
// known.
func TestZephyr(t *testing.T) {
	t.Parallel()
	project.NeedZephyr(t, "qemu-system-arm")
	store := t.TempDir()
	builder := &project.Builder{Host: device.Host{Cache: cache.New(store, cache.Options{})}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	archive := mlftest.Path(t, "add.aot_packed")
	spec := project.Spec{Board: "zephyr/mps2_an385", Model: archive, Options: boards.Options{ArenaKiB: 64}}
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	first, err := p.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	checkZephyrParts(t, p)
	runProject(t, ctx, p, archive)
	if again, err := p.Build(ctx); err != nil || !again.UpToDate || again.Digest != first.Digest {
		t.Errorf("without a change: %+v, %v", again, err)
	}

	operator := filepath.Join(p.Dir(), "model", "codegen", "host", "src", "add_lib2.c")
	source, err := os.ReadFile(operator)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(source), "+ ((int8_t*)p1_1)", "- ((int8_t*)p1_1)", 1)
	if err := os.WriteFile(operator, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	second, err := p.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if second.UpToDate || second.BuildID == first.BuildID {
		t.Errorf("another operator, but image %s", second.ID())
	}
	want := []string{"add_lib2.c.obj"}
	if got := objectsSince(t, filepath.Join(store, "kept"), before); !slices.Equal(got, want) {
		t.Errorf("a changed operator compiles %v of the project, want %v", got, want)
	}
	checkDifference(t, ctx, p, archive)
}

// objectsSince lists the module's objects below a folder that are younger than a time.
func objectsSince(t *testing.T, dir string, since time.Time) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		module := strings.Contains(filepath.ToSlash(path), "/modules/boardsmith/")
		if err != nil || !module || filepath.Ext(path) != ".obj" {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(since) {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// checkZephyrParts holds the image to the parts that it must have. The board has 4 MiB of each memory; an image of an
// operator may take 22 KiB of flash, and 6 KiB of RAM besides the arena.
func checkZephyrParts(t *testing.T, p *project.Project) {
	t.Helper()
	i, err := p.Built()
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.Usage(i)
	if err != nil {
		t.Fatal(err)
	}
	if len(u.Regions) != 2 || u.Regions[0].Name != "flash" || u.Regions[1].Name != "ram" {
		t.Fatalf("regions %+v", u.Regions)
	}
	bytes := map[string]int64{}
	for _, part := range u.Parts {
		bytes[part.Name] = part.In[0] + part.In[1]
	}
	t.Logf("%s: flash %d, RAM %d bytes, %v", os.Getenv("ZEPHYR_BASE"), u.Regions[0].Used, u.Regions[1].Used, bytes)
	for _, name := range []string{"runtime", "RPC", "executor", "operators", "main and port", "system"} {
		if bytes[name] < 100 {
			t.Errorf("%s takes %d bytes", name, bytes[name])
		}
	}
	if bytes["arena"] != 64<<10 || bytes["other"] > 200 {
		t.Errorf("arena %d bytes, other %d", bytes["arena"], bytes["other"])
	}
	if flash := u.Regions[0].Used; flash > 23<<10 { // 22,458 with Zephyr 3.2.0, 22,854 with 3.5.99
		t.Errorf("%d bytes of flash", flash)
	}
	if ram := u.Regions[1].Used - bytes["arena"]; ram > 6<<10 {
		t.Errorf("%d bytes of RAM besides the arena", ram)
	}
}

// checkDifference runs the changed operator, which subtracts.
func checkDifference(t *testing.T, ctx context.Context, p *project.Project, archive string) {
	t.Helper()
	s, err := p.Run(ctx, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	_, m, err := p.Model()
	if err != nil {
		t.Fatal(err)
	}
	e, err := executor.Open(ctx, s, m)
	if err != nil {
		t.Fatal(err)
	}
	inputs, _ := mlftest.Arrays(archive)
	given := arraysOf(t, inputs)
	want, err := ndarray.New(given[0].DType, given[0].Shape...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Data {
		want.Data[i] = given[0].Data[i] - given[1].Data[i]
	}
	compare(t, answer(t, ctx, e, inputs), []ndarray.Named{{Name: "output0", Array: want}})
}

// localZephyr returns a project for mps2_an385 with a cache of its own, and a function that writes its settings.
func localZephyr(t *testing.T, ctx context.Context) (p *project.Project, write func(name, text string)) {
	t.Helper()
	builder := &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	spec := project.Spec{Board: "zephyr/mps2_an385", Model: mlftest.Path(t, "digits_i8.aot_packed")}
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, func(name, text string) {
		t.Helper()
		path := filepath.Join(p.Dir(), "local", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestZephyrSendByInterrupt runs firmware whose UART's interrupt sends, as it does on USB, which no emulated board has.
func TestZephyrSendByInterrupt(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t, "qemu-system-arm")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, write := localZephyr(t, ctx)
	write("local.conf", "CONFIG_BOARDSMITH_SEND_BY_INTERRUPT=y\n")
	if _, err := p.Build(ctx); err != nil {
		t.Fatal(err)
	}
	runProject(t, ctx, p, mlftest.Path(t, "digits_i8.aot_packed"))
}

// TestZephyrLocal: settings that cannot work are explained, the others apply, and a setting that is removed, which
// CMake remembers, is in no later image.
func TestZephyrLocal(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	p, write := localZephyr(t, ctx)
	first, err := p.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const uart1 = "/ { chosen { boardsmith,uart = &uart1; }; };\n"
	for _, c := range []struct{ name, text, want string }{
		{"local.cmake", "set(BOARDSMITH_LINK wire)\n", "BOARDSMITH_LINK is wire: it is rtt, usb, or"},
		{"local.conf", "CONFIG_BOARDSMITH=n\n", "CONFIG_BOARDSMITH is off"},
		{"local.conf", "CONFIG_CODE_DATA_RELOCATION=y\n", "CODE_DATA_RELOCATION if no file"}, // a script's words
		{"local.overlay", uart1, "the UART of the link is disabled"},
		{"local.overlay", uart1 + "&uart1 { status = \"okay\"; };\n", ""},
		{"local.cmake", "set(CONFIG_BOARDSMITH_RING_BYTES 1024 CACHE STRING \"\")\n", ""},
	} {
		write(c.name, c.text)
		switch image, err := p.Build(ctx); {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v", c.text, err)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.text, err)
		case c.want == "" && image.Digest == first.Digest:
			t.Errorf("%s: the same image", c.text)
		}
		write(c.name, "")
	}
	t.Run("too large an arena", func(t *testing.T) {
		builder := &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
		spec := project.Spec{Board: "zephyr/mps2_an385", Model: mlftest.Path(t, "digits_i8.aot_packed")}
		for _, spec.Options.ArenaKiB = range []int{4090, 5000} { // of 4096 KiB
			p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			_, err = p.Build(ctx)
			if failure.Of(err) != failure.DoesNotFit || !strings.Contains(failure.Next(err), "arena_kib=40") {
				t.Errorf("%v, next %s", err, failure.Next(err))
			}
		}
	})
	t.Run("user mode", func(t *testing.T) {
		if _, err := exec.LookPath("gperf"); err != nil {
			t.Skip("no gperf, which Zephyr needs for CONFIG_USERSPACE: apt-get install gperf")
		}
		write("local.conf", "CONFIG_USERSPACE=y\n")
		if _, err := p.Build(ctx); err != nil {
			t.Fatal(err)
		}
		runProject(t, ctx, p, mlftest.Path(t, "digits_i8.aot_packed"))
	})
	write("local.conf", "")
	write("dts/bindings/mine.yaml",
		"description: a test\ncompatible: mine\nproperties: {n: {type: int, required: true}}\n")
	write("local.overlay", "/ { mine { compatible = \"mine\"; }; };\n")
	write("local.cmake", "list(APPEND DTS_ROOT \"${CMAKE_CURRENT_SOURCE_DIR}/local\")\n")
	if _, err := p.Build(ctx); err == nil || !strings.Contains(err.Error(), "'n' is marked as required") {
		t.Errorf("a binding of the user's: %v", err)
	}
	write("local.overlay", "")
	// A comment makes it another input, so that this is built and not taken from the image cache.
	write("local.cmake", "# none\n")
	last, err := p.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if first.Size != last.Size {
		t.Errorf("%d bytes, %d at first", last.Size, first.Size)
	}
	config, err := os.ReadFile(filepath.Join(p.Dir(), "build/app/zephyr/.config"))
	if err != nil || !strings.Contains(string(config), "CONFIG_BOARDSMITH_RING_BYTES=256\n") {
		t.Errorf("the setting stayed: %v", err)
	}
}
