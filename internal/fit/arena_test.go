package fit

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestRuntimeSizes compares the table of the runtime's structs with the compilers.
func TestRuntimeSizes(t *testing.T) {
	t.Parallel()
	const source = `#include "crt_config.h"
#include "rpc/server.h"
#include "runtime/arrays.h"
#include "runtime/memory.h"
#include "runtime/page_allocator.c"
#include <tvm/runtime/crt/aot_executor.h>
_Static_assert(offsetof(rpc_server_t, buffer) == %d, "Server");
_Static_assert(sizeof(block_t) == %d, "Block");
_Static_assert(_Alignof(block_t) == %d, "BlockAt");
_Static_assert(sizeof(TVMNDArray) == %d, "Array");
_Static_assert(sizeof(TVMAotExecutor) == %d, "Executor");
_Static_assert(sizeof(TVMByteArray) == %d, "ByteArray");
_Static_assert(sizeof(manager_t) + _Alignof(manager_t) == %d, "Manager");
_Static_assert(sizeof(((rpc_server_t*)0)->buffer) == (TVM_CRT_MAX_PACKET_SIZE_BYTES + 5U + 7U) / 8U * 8U, "buffer");
_Static_assert(sizeof(rpc_server_t) == offsetof(rpc_server_t, unused) + %d, "unused");
`
	for _, c := range []struct {
		class int
		cc    []string
	}{
		{32, []string{"arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb"}},
		{32, []string{"riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"}},
		{64, []string{
			"riscv64-unknown-elf-gcc", "-march=rv64imac", "-mabi=lp64", "-mcmodel=medany",
			"--specs=picolibc.specs",
		}},
		{strconv.IntSize, []string{"cc"}},
	} {
		t.Run(fmt.Sprint(c.cc[0], c.class), func(t *testing.T) {
			testkit.Need(t, c.cc[0])
			s := sizesOf[c.class]
			cmd := exec.Command(c.cc[0], append(c.cc[1:], "-std=c11", "-fsyntax-only", "-I../../crt/include",
				"-I../../crt/src", "-I../../templates/baremetal/crt_config", "-xc", "-")...)
			cmd.Stdin = strings.NewReader(fmt.Sprintf(source, s.Server, s.Block, s.BlockAt, s.Array, s.Executor,
				s.ByteArray, s.Manager, unusedValues))
			testkit.Output(t, cmd)
		})
	}
}
