package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestRuntimeSizes holds the table of the runtime's structs against the compilers.
func TestRuntimeSizes(t *testing.T) {
	const source = `#include "crt_config.h"
#include "rpc/server.h"
#include "runtime/runtime.h"
#include "runtime/page_allocator.c"
#include <tvm/runtime/crt/aot_executor.h>
_Static_assert(offsetof(rpc_server_t, buffer) == %d, "Server");
_Static_assert(sizeof(block_t) == %d, "Block");
_Static_assert(_Alignof(block_t) == %d, "BlockAt");
_Static_assert(sizeof(TVMNDArray) == %d, "Array");
_Static_assert(sizeof(DLTensor) == %d, "Tensor");
_Static_assert(sizeof(TVMAotExecutor) == %d, "Executor");
_Static_assert(sizeof(TVMByteArray) == %d, "ByteArray");
_Static_assert(sizeof(manager_t) + _Alignof(manager_t) == %d, "Manager");
_Static_assert(sizeof(((rpc_server_t*)0)->buffer) == (TVM_CRT_MAX_PACKET_SIZE_BYTES + 5U + 7U) / 8U * 8U, "buffer");
`
	for _, c := range []struct {
		class int
		cc    []string
	}{
		{32, []string{"arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"}},
		{32, []string{"riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"}},
		{64, []string{"riscv64-unknown-elf-gcc", "-march=rv64imac", "-mabi=lp64", "-mcmodel=medany", "--specs=picolibc.specs"}},
		{strconv.IntSize, []string{"cc"}},
	} {
		t.Run(fmt.Sprint(c.cc[0], c.class), func(t *testing.T) {
			if _, err := exec.LookPath(c.cc[0]); err != nil {
				t.Skipf("no %s", c.cc[0])
			}
			s := sizesOf[c.class]
			cmd := exec.Command(c.cc[0], append(c.cc[1:], "-std=c11", "-fsyntax-only", "-I../crt/include", "-I../crt/src", "-I../templates/baremetal/crt_config", "-xc", "-")...)
			cmd.Stdin = strings.NewReader(fmt.Sprintf(source, s.Server, s.Block, s.BlockAt, s.Array, s.Tensor, s.Executor, s.ByteArray, s.Manager))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// resized is the project's firmware with another arena, which need not be a whole number of KiB. It goes around Build,
// which refuses what does not fit.
func resized(t *testing.T, p *Project, image *Image, arena int64) *Image {
	t.Helper()
	config := filepath.Join(p.dir, "crt_config", "crt_config.h")
	data, err := os.ReadFile(config)
	must(t, err)
	data = regexp.MustCompile(`BOARDSMITH_ARENA_BYTES \d+`).ReplaceAll(data, fmt.Appendf(nil, "BOARDSMITH_ARENA_BYTES %d", arena))
	must(t, os.WriteFile(config, data, 0o644))
	soon := time.Now().Add(time.Second)
	must(t, os.Chtimes(filepath.Join(p.dir, "src", "platform.c"), soon, soon))
	cmd := exec.Command("make", "-C", p.dir, "-o", "crt_config/crt_config.h", "-o", "crt_config/memory.h")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tr, err := openTree(p.dir)
	must(t, err)
	defer tr.close()
	sum, err := tr.digest(p.state.Template.ELF)
	must(t, err)
	other := *image
	other.Digest = sum
	return &other
}

// runOnce runs and times the project's model on a device of its board.
func runOnce(t *testing.T, p *Project, image *Image) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := Attach(ctx, p.Board(), "", p.env)
	must(t, err)
	defer d.Close()
	s, err := d.Open(ctx, image)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	_, m, err := p.Model()
	must(t, err)
	e, err := executor.Open(ctx, s, m)
	if err != nil {
		return err
	}
	for _, in := range e.Inputs() {
		a, err := ndarray.New(in.DType, in.Shape...)
		must(t, err)
		if err := e.SetInput(ctx, in.Name, a); err != nil {
			return err
		}
	}
	if err := e.Run(ctx); err != nil {
		return err
	}
	_, err = e.Time(ctx, rpc.TimeOptions{Number: 1})
	return err
}

// archive is the path of one of TVM's archives.
func archive(t *testing.T, name string) string {
	t.Helper()
	for _, path := range mlftest.Archives(t) {
		if mlftest.Name(path) == name {
			return path
		}
	}
	t.Fatalf("no archive %s", name)
	return ""
}

// TestArenaNeed runs models with the arena that they are said to need, and with a byte less, which must be too little:
// what is computed is what the device takes.
func TestArenaNeed(t *testing.T) {
	for _, c := range []struct {
		board, model string
		packet       int
	}{
		{"host", "add.aot_packed", 0},
		{"host", "digits_i8.aot_c", 0},
		{"host", "digits_i8.graph", 512},
		{"host", "sine.graph_linked", 256},
		{"host", "conv_f32.graph", 0},
		{"host", "conv_pools.aot_c_pools", 0},
		{"host", "twoin.aot_packed", 256},
		{"host", "dscnn_i8.graph_linked", 512},
		{"host", "matmul_00", 256},
		{"host", "vww.graph", 0}, // 29 operators with workspaces in one another
		{"mps2_an385", "digits_i8.aot_packed", 0},
		{"mps2_an385", "conv_f32.graph", 256},
		{"mps2_an385", "conv_pools.aot_c_pools", 0},
		{"qemu_riscv32", "digits_i8.graph", 384},
		{"qemu_riscv64", "matmul_00", 256},
	} {
		t.Run(c.board+" "+c.model, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: c.board, Model: archive(t, c.model), Options: boards.Options{PacketBytes: c.packet}})
			for _, tool := range []string{"make", p.Board().Toolchain.CC, cmp.Or(p.Board().Link.Program, "make")} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("no %s", tool)
				}
			}
			testArenaNeed(t, p)
		})
	}
}

func testArenaNeed(t *testing.T, p *Project) {
	t.Helper()
	image := built(t, p)
	a, m, err := p.Model()
	must(t, err)
	need, err := NeedOf(p.Board(), a, m, int(p.packetBytes()))
	must(t, err)
	if err := runOnce(t, p, resized(t, p, image, need.Bytes)); err != nil {
		t.Errorf("with %d bytes: %v", need.Bytes, err)
	}
	if err := runOnce(t, p, resized(t, p, image, need.Bytes-1)); err == nil {
		t.Errorf("it runs with less than %d bytes, too", need.Bytes)
	}
}

// TestDoesNotFit has Build refuse what does not fit, before it compiles anything, and name the option.
func TestDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		name, model string
		options     boards.Options
		want        FitError
	}{
		{"arena", "digits_i8.graph", boards.Options{ArenaKiB: 1}, FitError{What: "arena", Option: "arena_kib=7"}},
		{"arena of an operator", "matmul_00", boards.Options{ArenaKiB: 2, PacketBytes: 512}, FitError{What: "arena", Option: "arena_kib=4"}},
		{"packet buffer", "digits_i8.graph", boards.Options{PacketBytes: 256}, FitError{What: "packet buffer", Option: "packet_bytes=384"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: archive(t, c.model), Options: c.options})
			_, err := p.Build(t.Context())
			var e *FitError
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			if e.What != c.want.What || e.Option != c.want.Option || e.Over <= 0 || e.Need-e.Have != e.Over {
				t.Errorf("%+v", e)
			}
			if failure.Of(err) != failure.DoesNotFit || !strings.Contains(failure.Next(err), c.want.Option) || !strings.Contains(err.Error(), strconv.FormatInt(e.Over, 10)) {
				t.Errorf("%v: %v; %s", failure.Of(err), err, failure.Next(err))
			}
			if _, err := os.Stat(filepath.Join(p.dir, "build")); err == nil {
				t.Error("something was built")
			}
		})
	}
}
