package project

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/buildenv"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestSameInputSameBytes builds in two folders, one of a name that shells and make stumble over, nothing cached, with
// an environment that would change the result if a tool saw it.
func TestSameInputSameBytes(t *testing.T) {
	// a chip's port has files in assembler
	for _, board := range drawn.Of(t, "boards of same bytes", []string{"host", "mps2_an385"}, 1) {
		t.Run(board, func(t *testing.T) { sameBytes(t, board) })
	}
}

func sameBytes(t *testing.T, board string) {
	needBoardTools(t, board, nil)
	model := mlftest.Tiny(t, nil)
	var images []*image.Image
	var trees []map[string]string
	for i, name := range []string{"p", "it's a $folder #1"} {
		if i == 1 {
			for _, v := range []string{
				"CFLAGS", "CPATH", "BOARD", "MODEL", "PROJECT", "VERBOSE", "MAKEFLAGS", "CC", "CRT",
				"BUILD", "LDFLAGS", "GCC_EXEC_PREFIX",
			} {
				t.Setenv(v, "-nonsense")
			}
		}
		p := generated(t, filepath.Join(t.TempDir(), name), Spec{Board: board, Model: model},
			env{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}})
		images = append(images, built(t, p))
		all := contents(t, p.Dir())
		for name, text := range all {
			if strings.HasPrefix(text, "\x7fELF") && strings.Contains(text, filepath.Dir(p.Dir())) {
				t.Errorf("%s has the folder's path in it", name)
			}
			if strings.HasSuffix(name, ".d") {
				delete(all, name)
			}
		}
		trees = append(trees, all)
	}
	if images[0].Digest != images[1].Digest || images[0].ID() != images[1].ID() {
		t.Errorf("build %s and build %s", images[0].ID(), images[1].ID())
	}
	for name, text := range trees[0] {
		if trees[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

// TestNewHeader adds a header that compilers find before an existing one.
func TestNewHeader(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	built(t, p)
	must(t, os.MkdirAll(filepath.Join(p.Dir(), "crt_config", "boardsmith"), 0o755))
	must(t, os.WriteFile(filepath.Join(p.Dir(), "crt_config", "boardsmith", "boardsmith.h"), []byte("#error new\n"),
		0o644))
	var failed *ToolError
	if _, err := p.Build(t.Context()); !errors.As(err, &failed) || failed.Class != failure.Compile {
		t.Errorf("built without the new header: %v", err)
	}
}

func TestUpToDate(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	first := built(t, p)
	if first.UpToDate || first.Size.Text == 0 || first.Size.BSS < 16<<20 {
		t.Errorf("first: %+v", first)
	}
	begin := time.Now()
	second := built(t, p)
	if !second.UpToDate || second.Digest != first.Digest || second.ID() != first.ID() || second.Size != first.Size {
		t.Errorf("second: %+v", second)
	}
	t.Logf("nothing to do: %v", time.Since(begin))

	// A result that is not what was built is built again, whoever changed it.
	appendTo(t, first.Path, "x")
	if third := built(t, p); third.UpToDate || third.Digest != first.Digest {
		t.Errorf("after the ELF changed: %+v", third)
	}
	must(t, os.RemoveAll(filepath.Join(p.Dir(), "build")))
	if fourth := built(t, p); fourth.UpToDate || fourth.Digest != first.Digest {
		t.Errorf("after the build folder was removed: %+v", fourth)
	}
}

// Each result is one that people take away: a build is up to date where all are as the last one left them.
func TestResultsUpToDate(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "microbit", nil)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "microbit", Model: mlftest.Tiny(t, nil)})
	first := built(t, p)
	for _, path := range []string{first.Path, first.Map, first.Bin, first.Hex} {
		good, err := os.ReadFile(path)
		must(t, err)
		for name, damage := range map[string]func() error{
			"removed": func() error { return os.Remove(path) },
			"emptied": func() error { return os.WriteFile(path, nil, 0o644) },
			"changed": func() error { return os.WriteFile(path, append([]byte("x"), good[1:]...), 0o644) },
		} {
			must(t, damage())
			if i, err := p.Built(); i != nil || err != nil {
				t.Errorf("%s %s: %v", filepath.Base(path), name, err)
			}
			must(t, os.WriteFile(path, good, 0o644))
		}
	}
	if again := built(t, p); !again.UpToDate {
		t.Errorf("all as before: %+v", again)
	}
	must(t, os.WriteFile(first.Hex, []byte("garbage"), 0o644))
	want, err := os.ReadFile(first.Bin)
	must(t, err)
	must(t, os.WriteFile(first.Bin, nil, 0o644))
	again := built(t, p)
	if got, err := os.ReadFile(first.Bin); err != nil || again.UpToDate || !bytes.Equal(got, want) {
		t.Errorf("built again: %+v, %v", again, err)
	}
}

// TestContentDecides changes files without their times telling, and takes them away.
func TestContentDecides(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	first := built(t, p)
	source := filepath.Join(p.Dir(), "model", "codegen", "host", "src", "lib1.c")
	must(t, os.WriteFile(source, []byte(strings.Replace(mlftest.TinyOperator, "* 2", "* 3", 1)), 0o644))
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(source, old, old))
	second := built(t, p)
	if second.Digest == first.Digest {
		t.Error("a changed file with an old time was not compiled")
	}
	extra := filepath.Join(p.Dir(), "src", "extra.c")
	must(t, os.WriteFile(extra, []byte("const char boardsmith_extra[] = \"x\";\n"+
		"extern const char boardsmith_extra[];\n"), 0o644))
	third := built(t, p)
	if third.UpToDate {
		t.Error("an added file is not noticed")
	}
	must(t, os.Remove(extra))
	if fourth := built(t, p); fourth.Digest != second.Digest || fourth.ID() != second.ID() {
		t.Error("after the file was removed again, the build differs from the first one")
	}
}

// TestByHand runs plain make in the folder, as a person would, and then a build on top of it.
func TestByHand(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	out, err := exec.Command("make", "-j2", "-C", p.Dir()).CombinedOutput()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	byHand, err := os.ReadFile(filepath.Join(p.Dir(), "build", "firmware.elf"))
	must(t, err)
	i := built(t, p)
	other := built(t, generated(t, filepath.Join(t.TempDir(), "q"), Spec{Model: mlftest.Tiny(t, nil)}))
	if image.DigestOf(byHand) != other.Digest {
		t.Error("a build by hand has other bytes")
	}
	if i.Digest != other.Digest {
		t.Error("a build on top of a build by hand differs from one on nothing")
	}
}

// TestTimeOfAnObject: an object in the build's folder with another time than the build gave it is not used, because the
// build command would take it for newer than a changed source.
func TestTimeOfAnObject(t *testing.T) {
	t.Parallel()
	change := func(p *Project) {
		source := filepath.Join(p.Dir(), "model", "codegen", "host", "src", "lib1.c")
		must(t, os.WriteFile(source, []byte(strings.Replace(mlftest.TinyOperator, "* 2", "* 3", 1)), 0o644))
	}
	clean := generated(t, filepath.Join(t.TempDir(), "clean"), Spec{Model: mlftest.Tiny(t, nil)})
	change(clean)
	want := built(t, clean)
	own := env{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)}, own)
	built(t, p)
	future := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(keptDirs(t, own.Cache)[0], "build", "model", "lib1.o"), future, future))
	change(p)
	if got := built(t, p); got.Digest != want.Digest {
		t.Error("a changed source was not compiled")
	}
}

func TestCachedRuntime(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	model := mlftest.Tiny(t, nil)
	env := env{Host: device.Host{Cache: cache.New(store, cache.Options{})}}
	begin := time.Now()
	cold := built(t, generated(t, filepath.Join(t.TempDir(), "cold"), Spec{Model: model}, env))
	between := time.Now()
	warm := built(t, generated(t, filepath.Join(t.TempDir(), "warm"), Spec{Model: model}, env))
	t.Logf("from an archive to an image: %v with nothing cached, %v with the runtime", between.Sub(begin),
		time.Since(between))
	if cold.Digest != warm.Digest || cold.ID() != warm.ID() {
		t.Error("the runtime from the cache gives another image")
	}
	env.Cache = cache.New(store, cache.Options{Verify: true})
	verified := built(t, generated(t, filepath.Join(t.TempDir(), "verified"), Spec{Model: model}, env))
	if verified.Digest != cold.Digest {
		t.Error("built again, the image differs")
	}
	// A cache that cannot be written to costs time, not the build.
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	env.Cache = cache.New(file, cache.Options{})
	if without := built(t, generated(t, filepath.Join(t.TempDir(), "without"), Spec{Model: model},
		env)); without.Digest != cold.Digest {
		t.Error("without a cache the image differs")
	}
}

// TestRuntimeStays: a build in the folder of another one does not compile the runtime again.
func TestRuntimeStays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	own := env{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	p := generated(t, dir, Spec{Model: mlftest.Tiny(t, nil)}, own)
	first := built(t, p)
	runtime := filepath.Join(keptDirs(t, own.Cache)[0], "build", "runtime.a")
	before, err := os.Stat(runtime)
	must(t, err)
	writeIn(t, dir, "model/codegen/host/src/lib1.c", strings.Replace(mlftest.TinyOperator, "* 2", "* 3", 1))
	if second := built(t, p); second.Digest == first.Digest {
		t.Error("the changed operator was not built")
	}
	if now, err := os.Stat(runtime); err != nil || !now.ModTime().Equal(before.ModTime()) {
		t.Errorf("%s was written again (%v)", runtime, err)
	}
}

// TestOperatorFlags checks that flags of operators change the model's objects.
func TestOperatorFlags(t *testing.T) {
	t.Parallel()
	c := cache.New(t.TempDir(), cache.Options{})
	ids := map[string]bool{}
	all := drawn.Of(t, "flags of operators", []string{"", "-O3", "lib1.c:-O3", "-O3,lib1.c:-O1"}, 2)
	for _, flags := range all {
		dir := filepath.Join(t.TempDir(), "p")
		b := &Builder{Host: device.Host{Cache: c}}
		p, err := b.Generate(t.Context(), dir, Spec{
			Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{OperatorFlags: flags},
		})
		must(t, err)
		i, err := p.Build(t.Context())
		must(t, err)
		must(t, p.Close())
		ids[i.ID()] = true
	}
	if len(ids) != len(all) {
		t.Errorf("%d build ids of %d choices of flags", len(ids), len(all))
	}
	_, err := (&Builder{}).Generate(t.Context(), t.TempDir(), Spec{
		Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{OperatorFlags: "lib9.c:-O3"},
	})
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "the model has no C file lib9.c") {
		t.Errorf("flags of a file that the model does not have: %v", err)
	}
}

// TestInputChangesDuringTheBuild changes a file of the runtime before it is compiled, and back again afterwards.
// Neither the project nor the cache may keep the result.
func TestInputChangesDuringTheBuild(t *testing.T) {
	t.Parallel()
	model := mlftest.Tiny(t, nil)
	want := built(t, generated(t, filepath.Join(t.TempDir(), "clean"), Spec{Model: model}))

	for _, c := range drawn.Of(t, "changes during the build", []struct{ name, file string }{
		{"a file changes", "crt/src/rpc/server.c"},
		{"a file appears", "src/new.c"},
	}, 1) {
		t.Run(c.name, func(t *testing.T) {
			store := cache.New(t.TempDir(), cache.Options{})
			var once sync.Once
			var before []byte
			dir := filepath.Join(t.TempDir(), "p")
			file := filepath.Join(dir, filepath.FromSlash(c.file))
			change := func() {
				before, _ = os.ReadFile(file) // nil: it is new
				must(t, os.WriteFile(file, append([]byte("extern const char changed[];\nconst char changed[] = \"changed\";\n"),
					before...), 0o644))
			}
			progress := func(e device.ProgressEvent) {
				if e.Step == "build" && e.Total > 0 {
					once.Do(change)
				}
			}
			in := env{Host: device.Host{Cache: store, Progress: progress}, Jobs: 1}
			p := generated(t, dir, Spec{Model: model}, in)
			_, err := p.Build(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.file+" changed during the build") ||
				failure.Of(err) != failure.Config {
				t.Errorf("got %v", err)
			}
			if before == nil {
				must(t, os.Remove(file))
			} else {
				must(t, os.WriteFile(file, before, 0o644))
			}
			if got := built(t, p); got.Digest != want.Digest || got.UpToDate {
				t.Errorf("built again: %s, up to date %v, want %s", got.Digest, got.UpToDate, want.Digest)
			}
			e := env{Host: device.Host{Cache: store}}
			other := built(t, generated(t, filepath.Join(t.TempDir(), "other"), Spec{Model: model}, e))
			if other.Digest != want.Digest {
				t.Error("another project got the changed runtime from the cache")
			}
		})
	}
}

func TestCompileError(t *testing.T) {
	t.Parallel()
	broken := strings.Replace(mlftest.TinyOperator, "in[i] * 2;", "in[i] * 2 +;", 1)
	p := generated(t, filepath.Join(t.TempDir(), "p"),
		Spec{Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": broken})})
	_, err := p.Build(t.Context())
	var te *ToolError
	if !errors.As(err, &te) || failure.Of(err) != failure.Compile {
		t.Fatalf("got %v (%s)", err, failure.Of(err))
	}
	for _, want := range []string{
		"model/codegen/host/src/lib1.c:11:", "error: expected expression",
		"out[i] = in[i] * 2 +;", "make: exit status 2",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message has not %q:\n%v", want, err)
		}
	}
	out, again := exec.Command("sh", "-c", te.Command).CombinedOutput()
	if again == nil || !strings.Contains(string(out), "error: expected expression") {
		t.Errorf("%s does not reproduce it: %v\n%s", te.Command, again, out)
	}
	if len(te.Tail) > buildenv.TailBytes {
		t.Errorf("%d bytes of standard error kept", len(te.Tail))
	}
	must(t, p.Close())
	// The next run is not fooled by what the failed one left.
	p = generated(t, p.Dir(), Spec{Model: mlftest.Tiny(t, nil)})
	got := built(t, p)
	if want := built(t, generated(t, filepath.Join(t.TempDir(), "q"),
		Spec{Model: mlftest.Tiny(t, nil)})); got.Digest != want.Digest {
		t.Error("after a failed build the next one differs")
	}
}

func TestLinkError(t *testing.T) {
	t.Parallel()
	broken := strings.Replace(mlftest.TinyOperator, "return 0;",
		"extern int nowhere_to_be_found(void); return nowhere_to_be_found();", 1)
	p := generated(t, filepath.Join(t.TempDir(), "p"),
		Spec{Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": broken})})
	_, err := p.Build(t.Context())
	if failure.Of(err) != failure.Link || !strings.Contains(err.Error(), "nowhere_to_be_found") {
		t.Errorf("got %v (%s)", err, failure.Of(err))
	}
	if _, err := os.Stat(filepath.Join(p.Dir(), "build", "firmware.elf")); err == nil {
		t.Error("there is a half-made firmware.elf")
	}
}

func TestMissingTools(t *testing.T) {
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	_, err := p.Build(t.Context())
	var missing *MissingToolError
	if !errors.As(err, &missing) || missing.Tool != "cc" || failure.Of(err) != failure.ToolMissing ||
		!strings.Contains(failure.Next(err), "apt-get install gcc") {
		t.Errorf("without a compiler: %v (%s)", err, failure.Next(err))
	}
	must(t, os.WriteFile(filepath.Join(bin, "cc"), []byte("#!/bin/sh\necho some compiler\n"), 0o755))
	_, err = p.Build(t.Context())
	if !errors.As(err, &missing) || missing.Tool != "make" ||
		!strings.Contains(failure.Next(err), "apt-get install make") {
		t.Errorf("without make: %v (%s)", err, failure.Next(err))
	}
	must(t, os.WriteFile(filepath.Join(bin, "cc"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	if _, err = p.Build(t.Context()); failure.Of(err) != failure.ToolMissing {
		t.Errorf("with a compiler that does not work: %v", err)
	}
}

// object is the smallest object of a machine: a header and no sections.
func object(machine elf.Machine, class elf.Class) string {
	b := make([]byte, 64)
	copy(b, elf.ELFMAG)
	b[elf.EI_CLASS], b[elf.EI_DATA], b[elf.EI_VERSION] = byte(class), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	binary.LittleEndian.PutUint16(b[16:], uint16(elf.ET_REL))
	binary.LittleEndian.PutUint16(b[18:], uint16(machine))
	binary.LittleEndian.PutUint32(b[20:], uint32(elf.EV_CURRENT))
	if class == elf.ELFCLASS32 {
		b = b[:52]
		binary.LittleEndian.PutUint16(b[40:], 52)
		binary.LittleEndian.PutUint16(b[46:], 40)
		return string(b)
	}
	binary.LittleEndian.PutUint16(b[52:], 64)
	binary.LittleEndian.PutUint16(b[58:], 64)
	return string(b)
}

func TestObjectsForOtherCores(t *testing.T) {
	host, err := boards.Find("host", nil)
	must(t, err)
	for machine, class := range map[elf.Machine]elf.Class{
		elf.EM_ARM: elf.ELFCLASS32, elf.EM_RISCV: elf.ELFCLASS32, elf.EM_S390: elf.ELFCLASS64,
	} {
		model := mlftest.Tiny(t, map[string]string{"codegen/host/lib/lib0.o": object(machine, class)})
		_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: "host", Model: model}, testEnv())
		var oe *ObjectError
		if !errors.As(err, &oe) || oe.Object != "codegen/host/lib/lib0.o" ||
			!strings.Contains(oe.Is, fit.ELFOf(mlf.ObjectInfo{Machine: machine, Class: class}).Machine) ||
			oe.Wants != host.ELF.String() || failure.Of(err) != failure.Config {
			t.Errorf("%v: %v", machine, err)
		}
	}
	for _, name := range []string{"digits_i8.graph_llvm_thumbv7m", "digits_i8.graph_llvm_rv32"} {
		spec := Spec{Board: "host", Model: mlftest.Path(t, name)}
		_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec, testEnv())
		var oe *ObjectError
		if !errors.As(err, &oe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNamesForMake: a file whose name make or its shell cannot have is named; others are compiled.
func TestNamesForMake(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "a folder"), Spec{Model: mlftest.Tiny(t, nil)})
	for _, name := range []string{"ü #1.txt", "ü.c", "a'b.h", "a,b.c", "a=b.h"} {
		writeIn(t, p.Dir(), "src/"+name, "enum { x };\n")
	}
	built(t, p)
	for _, name := range []string{
		"my file.c", "my file.h", "my folder/a.c", "a$b.c", "a:b.h", "a;b.S", "a(1).c", "it's.c", "a\tb.c", "a|b.h",
	} {
		writeIn(t, p.Dir(), "src/"+name, "")
		_, err := p.Build(t.Context())
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "src/"+name+" cannot be an input") {
			t.Errorf("%s: %v", name, err)
		}
		must(t, os.Remove(filepath.Join(p.Dir(), "src", name)))
	}
}

// TestImageForOtherCores: an image whose flags are another core's or calling convention's than the board's is an error.
func TestImageForOtherCores(t *testing.T) {
	t.Parallel()
	type core struct{ name, of, fields, want string }
	for _, c := range drawn.Of(t, "other cores", []core{
		{"Cortex-M4", "mps2_an385", `"cflags": ["-mcpu=cortex-m4"]`, "instruction set v7e-m, but board x needs"},
		{
			"hard float", "mps2_an385", `"cflags": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]`,
			"hard-float instruction set v7e-m, but board x needs arm 32-bit little-endian soft-float instruction set v7-m",
		},
		{"softfp", "mps2_an386", `"cflags": ["-mfloat-abi=softfp"]`, "soft-float instruction set v7e-m, but board x"},
		{"board without hard float", "mps2_an386", `"elf": {"float_abi": "soft"}`, "hard-float instruction set v7e-m, but"},
		{
			"RISC-V with F", "sifive_e", `"cflags": ["-march=rv32imafc_zicsr_zifencei"]`,
			"f2p2_", // of the instruction set, by the compiler
		},
		{"RISC-V of hard float", "qemu_riscv64", `"elf": {"float_abi": "soft"}`, "double-float instruction set rv64"},
		{"Cortex-M3 for a Cortex-M4", "mps2_an386", `"cflags": ["-mcpu=cortex-m3", "-mfloat-abi=soft"],
			"elf": {"float_abi": "soft"}`, ""},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needBoardTools(t, c.of, nil)
			file, err := os.ReadFile(filepath.Join("..", "boards", c.of+".json"))
			must(t, err)
			changed := strings.Replace(string(file), "{", "{"+c.fields+",", 1)
			e := testEnv()
			e.Path = []string{boardstest.Shelf(t, map[string]string{"x.json": changed})}
			p, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"),
				Spec{Board: "x", Model: mlftest.Tiny(t, nil)}, e)
			must(t, err)
			_, err = p.Build(t.Context())
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) || failure.Of(err) != failure.Config {
				t.Errorf("got  %v (%v)\nwant %s", err, failure.Of(err), c.want)
			}
		})
	}
}

// TestCancel stops a build in the middle: no process stays, and the next build is as if nothing had been.
func TestCancel(t *testing.T) {
	t.Parallel()
	model := mlftest.Tiny(t, nil)
	own := env{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: model}, own)
	may := filepath.Join(t.TempDir(), "may") // without this file, make cannot end before it is cancelled
	slow := "\n$(BUILD)/firmware.elf: slow\nslow: $(MODEL_PART) $(RUNTIME) ; test -e " + filepath.ToSlash(may) +
		" || sleep 60\n"
	appendTo(t, filepath.Join(p.Dir(), "Makefile"), slow)
	ctx, cancel := context.WithCancel(t.Context())
	var began time.Time
	p.builder.Progress = func(e device.ProgressEvent) {
		if e.Done == 3 {
			began = time.Now()
			cancel()
		}
	}
	_, err := p.Build(ctx)
	if failure.Of(err) != failure.Interrupted {
		t.Fatalf("got %v", err)
	}
	if d := time.Since(began); d > 10*buildenv.ToolGrace {
		t.Errorf("it took %v to stop", d)
	}
	mark, err := os.OpenFile(keptDirs(t, own.Cache)[0]+".lock", os.O_RDWR, 0)
	must(t, err)
	if alone, err := filelock.Try(mark); err != nil || !alone {
		t.Errorf("processes of the cancelled build are left (%v)", err)
	}
	must(t, mark.Close())
	p.builder.Progress = nil
	must(t, os.WriteFile(may, nil, 0o644))
	got := built(t, p)
	q := generated(t, filepath.Join(t.TempDir(), "q"), Spec{Model: model})
	appendTo(t, filepath.Join(q.Dir(), "Makefile"), slow)
	if want := built(t, q); got.Digest != want.Digest {
		t.Error("the build after a cancelled one differs")
	}
	_, err = generate(ctx, filepath.Join(t.TempDir(), "r"), Spec{Board: "host", Model: model}, testEnv())
	if failure.Of(err) != failure.Interrupted {
		t.Errorf("generate after a cancel: %v", err)
	}
}

// TestRuntimeOfModel: a file of the runtime that names a model's header is compiled for each content of that.
func TestRuntimeOfModel(t *testing.T) {
	t.Parallel()
	e := testEnv()
	e.Cache = cache.New(t.TempDir(), cache.Options{})
	for _, want := range []string{"size-1", "size-2"} {
		model := mlftest.Tiny(t, map[string]string{
			"codegen/host/include/tiny_text.h": "#define TINY_TEXT \"" + want + "\"\n",
		})
		p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "host", Model: model}, e)
		writeIn(t, p.Dir(), "src/own.c", `#include "../model/codegen/host/include/tiny_text.h"
const char own_text[] = TINY_TEXT;
__attribute__((constructor)) static void use(void) { volatile const char* p = own_text; (void)*p; }
`)
		data, err := os.ReadFile(built(t, p).Path)
		must(t, err)
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("the image lacks %s", want)
		}
	}
}
