package project_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// A zephyrBoard is a board of Zephyr's and the archives that it runs: patterns of folder and name.
type zephyrBoard struct {
	name     string
	tools    []string // that it needs besides Zephyr's
	archives []string
	tooLarge []string // patterns of those that do not fit
	noMath   []string // of those that call functions of math.h, which no library of the compiler for this core has
}

// zephyrBoards are those that any Zephyr of the tests has and that need GCC for Arm or for the computer. The first one
// runs every kind of archive.
var zephyrBoards = []zephyrBoard{
	{
		name: "mps2_an385", tools: []string{"qemu-system-arm"}, archives: []string{
			"archives/add.*", "tvm-*/add.aot_*", "archives/conv_pools.*", "archives/digits_i8.graph_llvm_thumbv7m",
			"candidates/matmul_07",
		},
	},
	{
		name: "mps2_an521", tools: []string{"qemu-system-arm"},
		archives: []string{"archives/dscnn_i8.*", "tvm-*/dscnn_i8.aot_packed"},
	},
	{
		name: "qemu_cortex_m3", tools: []string{"qemu-system-arm"}, archives: []string{"archives/*.aot_packed"},
		tooLarge: []string{"*/autoenc.*"},
	},
	{name: "native_posix_64", archives: []string{"archives/d*.aot_packed", "archives/digits_i8.graph_llvm_x86_64"}},
	{name: "native_sim_64", archives: []string{"archives/d*.aot_packed"}},
}

// TestZephyrArchives builds archives for emulated boards with the Zephyr in $ZEPHYR_BASE, and runs the images: the
// outputs are right, or the archive is refused because it does not fit.
func TestZephyrArchives(t *testing.T) {
	t.Parallel()
	project.NeedFullZephyr(t)
	for _, b := range zephyrBoards {
		t.Run(b.name, b.try)
	}
}

// TestZephyrArchivesRISCV does the same with another toolchain.
func TestZephyrArchivesRISCV(t *testing.T) {
	project.NeedFullZephyr(t)
	version, err := os.ReadFile(filepath.Join(os.Getenv("ZEPHYR_BASE"), "VERSION"))
	if err != nil || strings.Contains(string(version), "VERSION_MAJOR = 2\n") {
		t.Skipf("this board has run with Zephyr 3.2 and later only (%v)", err)
	}
	if os.Getenv("ZEPHYR_TOOLCHAIN_VARIANT") != "zephyr" { // Zephyr's SDK has all compilers
		cc, err := exec.LookPath("riscv64-unknown-elf-gcc")
		if err != nil {
			t.Skip("riscv64-unknown-elf-gcc is not installed")
		}
		t.Setenv("ZEPHYR_TOOLCHAIN_VARIANT", "cross-compile")
		t.Setenv("CROSS_COMPILE", strings.TrimSuffix(cc, "gcc"))
	}
	b := zephyrBoard{name: "qemu_riscv32", tools: []string{"qemu-system-riscv32"}, archives: []string{
		"archives/[dt]*.aot_packed", "archives/digits_i8.graph_llvm_rv32",
	}}
	if os.Getenv("ZEPHYR_TOOLCHAIN_VARIANT") != "zephyr" {
		b.noMath = []string{"*/dscnn_i8.*"}
	}
	b.try(t)
}

func (b zephyrBoard) try(t *testing.T) {
	for _, tool := range b.tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	has := filepath.Join(os.Getenv("ZEPHYR_BASE"), "boards", "*", "*", b.name+"_defconfig")
	if found, err := filepath.Glob(has); len(found) == 0 {
		t.Skipf("this Zephyr has no board %s (%v)", b.name, err)
	}
	builder := &project.Builder{Host: device.Host{Cache: cache.New(t.TempDir(), cache.Options{})}}
	ran := 0
	for _, file := range slices.Concat(mlftest.Archives(t), mlftest.OtherVersions(t)) {
		name := filepath.Base(filepath.Dir(file)) + "/" + mlftest.Name(file)
		if !matches(b.archives, name) {
			continue
		}
		ran++
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			spec := project.Spec{Board: "zephyr/" + b.name, Model: file}
			if strings.HasPrefix(name, "tvm-0.9/dscnn_i8.") {
				spec.Options.StackBytes = 4096
			}
			p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			_, err = p.Build(ctx)
			if matches(b.noMath, name) {
				var tool *project.ToolError
				if !errors.As(err, &tool) || failure.Of(err) != failure.Link || !strings.Contains(err.Error(), "expf") {
					t.Errorf("class %s: %v", failure.Of(err), err)
				}
				return
			}
			if matches(b.tooLarge, name) {
				var fit *project.FitError
				if !errors.As(err, &fit) || failure.Next(err) == "" {
					t.Errorf("%v (next: %s)", err, failure.Next(err))
				}
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, failure.Next(err))
			}
			runProject(t, ctx, p, file)
		})
	}
	if ran == 0 {
		t.Errorf("no archive is one of %q", b.archives)
	}
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}
