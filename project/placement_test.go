package project

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// This file places parts of a model in memories of their own, and checks where they lie, in the file and on the device.

// manyPools is an archive with two pools of workspace, fast and slow, and one of constants, weights.
func manyPools(t *testing.T) string {
	t.Helper()
	return filepath.Join(mlftest.Dir(t), "pools", "conv_pools.aot_c_pools.tar.gz")
}

// placedParts are symbols of the image, and the regions that a test expects them in.
type placedParts map[string]string

// mustLie reports symbols outside of their regions.
func mustLie(t *testing.T, p *Project, want placedParts) {
	t.Helper()
	at := symbolsOf(t, built(t, p))
	for symbol, region := range want {
		r, _ := p.Board().Region(region)
		if addr, ok := at[symbol]; !ok || addr-uint64(r.Origin) >= uint64(r.Size) {
			t.Errorf("%s at %#x is not in region %s", symbol, addr, region)
		}
	}
}

const (
	entrySymbol   = "tvmgen_conv_pools___tvm_main__"
	fastSymbol    = "conv_pools_pool_fast"
	slowSymbol    = "conv_pools_pool_slow"
	weightsSymbol = "conv_pools_pool_weights"
	serverSymbol  = "placed"
)

// placedRuns places parts on boards with several memories and runs the model.
var placedRuns = []struct {
	board, place string
	want         placedParts
	readOnly     bool // the protection unit forbids writes to the operators
}{
	{
		"mps2_an385", "operators=psram,pools.fast=psram,pools.slow=ram,pools.weights=psram",
		placedParts{entrySymbol: "psram", fastSymbol: "psram", slowSymbol: "ram", weightsSymbol: "psram"},
		false,
	},
	{
		"mps2_an386", "operators=psram,parameters=psram,packet=ram,pools.fast=ram,arena=ram",
		placedParts{entrySymbol: "psram", fastSymbol: "ram", serverSymbol: "ram"},
		true,
	},
	{
		"mps2_an521", "operators=psram,pools.fast=ram,pools.slow=ram,pools.weights=ram",
		placedParts{entrySymbol: "psram", fastSymbol: "ram", slowSymbol: "ram", weightsSymbol: "ram"},
		true,
	},
	{
		"mps3_an547", "operators=itcm,pools.fast=sram,pools.weights=itcm",
		placedParts{entrySymbol: "itcm", fastSymbol: "sram", weightsSymbol: "itcm"},
		false,
	},
	{
		"mps2_an500", "operators=ram,pools.fast=psram,pools.slow=ram",
		placedParts{entrySymbol: "ram", fastSymbol: "psram", slowSymbol: "ram"},
		false,
	},
	{
		"qemu_riscv32", "operators=ram,parameters=ram,pools.weights=ram,packet=ram",
		placedParts{entrySymbol: "ram", weightsSymbol: "ram", serverSymbol: "ram"},
		false,
	},
	{
		"qemu_riscv64", "operators=ram,pools.fast=ram",
		placedParts{entrySymbol: "ram", fastSymbol: "ram"},
		false,
	},
}

// TestPlacedRuns runs a model whose parts lie in several memories.
func TestPlacedRuns(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "places", placedRuns, 1) {
		t.Run(c.board, func(t *testing.T) {
			m := openMemory(t, Spec{Board: c.board, Model: manyPools(t), Options: boards.Options{Place: c.place}})
			i := built(t, m.p)
			at := symbolsOf(t, i)
			mustLie(t, m.p, c.want)
			runPlaced(t, m.p, m.s)
			if c.want[fastSymbol] != "" {
				m.mustHaveInput(at[fastSymbol])
			}
			m.mustHaveCode(i, at[entrySymbol])
			if c.readOnly {
				m.expect(fault.ReasonHardware, "write", int64(at[entrySymbol]&^3))
			}
		})
	}
}

func runPlaced(t *testing.T, p *Project, s *rpc.Session) {
	t.Helper()
	e := opened(t, p, s)
	compare(t, answer(t, e, poolsArrays(t, "inputs")...), poolsArrays(t, "outputs"))
	must(t, e.Close(t.Context()))
}

// poolsArrays returns the only array of the model's inputs or outputs.
func poolsArrays(t *testing.T, which string) []ndarray.Named {
	t.Helper()
	return arraysOf(t, filepath.Join(filepath.Dir(manyPools(t)), "conv_pools."+which+".npz"))
}

// mustHaveInput looks in the device's memory for the padded input, which the model writes to the start of pool fast: 20
// rows of 20 pixels of 3 channels, the first two and the first two of each row zero.
func (m memoryProbe) mustHaveInput(pool uint64) {
	m.Helper()
	given := poolsArrays(m.T, "inputs")[0].Array
	const row, channels = 20, 3
	for channel := range channels {
		want := binary.LittleEndian.Uint32(given.Data[4*16*16*channel:]) // row 0, column 0
		got, faultErr := m.call("read", int64(pool)+4*int64((2*row+2)*channels+channel))
		if faultErr != nil || uint32(got) != want {
			m.Errorf("the pool has %#x, %v, want %#x", got, faultErr, want)
		}
	}
}

// mustHaveCode compares the device's memory at an address of code with the file.
func (m memoryProbe) mustHaveCode(i *image.Image, addr uint64) {
	m.Helper()
	addr &^= 3
	for _, s := range openELF(m, i).Progs {
		if s.Type != elf.PT_LOAD || addr-s.Vaddr >= s.Filesz {
			continue
		}
		data := make([]byte, 4)
		_, err := s.ReadAt(data, int64(addr-s.Vaddr))
		must(m, err)
		if got, faultErr := m.call("read", int64(addr)); faultErr != nil || uint32(got) != binary.LittleEndian.Uint32(data) {
			m.Errorf("at %#x is %#x, %v, want %x", addr, got, faultErr, data)
		}
		if s.Paddr == s.Vaddr {
			m.Errorf("code at %#x is stored where it runs", addr)
		}
		return
	}
	m.Errorf("nothing is loaded to %#x", addr)
}

// TestPlacedMemcpy runs a model that brings a memcpy of its own, in memory that is filled at the start.
func TestPlacedMemcpy(t *testing.T) {
	drawn.OnlyInFull(t, "of a model with TVM's functions alone, TestPlacedRuns")
	t.Parallel()
	operator := "#include <stddef.h>\n" + mlftest.TinyOperator + `
__attribute__((weak)) void* memcpy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((volatile char*)to)[i] = ((const volatile char*)from)[i];
  return to;
}
`
	p := generated(t, Spec{
		Board: "mps2_an385", Model: mlftest.Operator(t, operator),
		Options: boards.Options{Place: "operators=psram"},
	})
	mustLie(t, p, placedParts{"memcpy": "psram", "twice": "psram"})
	rpctest.CallTwice(t, running(t, p))
}

// TestNothingPlacedAtNull links parts for a memory that begins at address 0, whose first bytes nothing may access.
func TestNothingPlacedAtNull(t *testing.T) {
	drawn.OnlyInFull(t, "in memories that begin elsewhere, TestPlacedRuns")
	t.Parallel()
	text := boardstest.Text(t, "nucleo_h743zi", `"place": {"data": "itcm"},`)
	b := newBuilder(boardstest.Shelf(t, map[string]string{"null.json": text}))
	for _, c := range drawn.Of(t, "parts at address 0", []struct{ board, place, symbol string }{
		{"nucleo_h743zi", "packet=itcm", serverSymbol},
		{"nucleo_h743zi", "pools.fast=itcm", fastSymbol},
		{"nucleo_h743zi", "stack=itcm", "bare_guard_start"},
		{"null", "", "bare_bss_start"},
	}, 1) {
		p := generated(t, Spec{
			Board: c.board, Model: manyPools(t), Options: boards.Options{Place: c.place, ArenaKiB: 48},
		}, b)
		if at, ok := symbolsOf(t, built(t, p))[c.symbol]; at < 256 || !ok {
			t.Errorf("%s with %q: %s is at %#x", c.board, c.place, c.symbol, at)
		}
	}
}

// TestLoadedPlace: firmware for a model in RAM has its own parts where the project places them; those of the model are
// errors, whether the model has them or not.
func TestLoadedPlace(t *testing.T) {
	t.Parallel()
	t.Run("own parts", func(t *testing.T) {
		drawn.OnlyInFull(t, "of a model in flash, TestPlacedRuns")
		spec := Spec{Board: "mps2_an385", Options: boards.Options{Place: "packet=psram"}}
		r, _, _, err := startedInRAM(t, generated(t, spec))
		must(t, err)
		mustLie(t, r, placedParts{serverSymbol: "psram"})
	})
	for _, place := range []string{"operators=psram,packet=psram", "pools.fast=psram", "parameters=psram"} {
		p := generated(t, Spec{Board: "mps2_an385", Model: manyPools(t), Options: boards.Options{Place: place}})
		_, err := p.Resident(t.Context(), newDir(t), Spec{})
		part, _, _ := strings.Cut(place, "=")
		wantError(t, err, failure.Config, "with all its data: "+part+" cannot be placed")
	}
}

// TestPlacedArena computes an arena without the parts that lie elsewhere, to the byte.
func TestPlacedArena(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{
		Board: "mps2_an385", Model: manyPools(t), Options: boards.Options{Place: "packet=psram,pools.fast=psram"},
	})
	a, m, err := p.Model()
	must(t, err)
	less, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	must(t, err)
	all, err := fit.NeedOf(findBoard(t, "mps2_an385"), a, m, int(p.packetBytes()))
	must(t, err)
	if less.Bytes > all.Bytes-4800-4096 {
		t.Errorf("%d bytes, without a place %d", less.Bytes, all.Bytes)
	}
	if drawn.InFull() { // in a plain run, TestArenaNeed runs models with parts where the board has them
		testArenaNeed(t, p)
	}
}

// TestPlaceErrors has Generate refuse places that cannot be.
func TestPlaceErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ board, place, want string }{
		{"mps2_an385", "operators=psrm", `there is no region "psrm"; did you mean "psram"?`},
		{"mps2_an385", "operator=psram", `"operator" is none of arena, operators, packet`},
		{"mps2_an385", "pools.fsat=psram", `no pool "fsat"; did you mean "fast"?`},
		{"mps2_an385", "pools.fast=psram,pools.fast=ram", "for the second time"},
		{"mps2_an385", "psram", "is not PART=REGION"},
		{"nucleo_h743zi", "pools.fast=flash", `pool fast of model conv_pools is written to, and region "flash" is not RAM`},
		{"nucleo_h743zi", "packet=flash", `region "flash" cannot be written to like RAM`},
		{"mps2_an385", "packet=code", `region "code" holds the code and the packet`},
		{"qemu_riscv32", "pools.a-b=ram", "names no pool"},
		{"host", "operators=ram", `there is no region "ram"`},
		{"microbit", "arena=flash", `region "flash" cannot be written to like RAM`},
	} {
		_, err := generate(t, Spec{Board: c.board, Model: manyPools(t), Options: boards.Options{Place: c.place}})
		wantError(t, err, failure.Config, c.want)
	}
	s := Spec{
		Board: "mps2_an385", Model: mlftest.Path(t, "sine.aot_packed"), Options: boards.Options{Place: "pools.fast=psram"},
	}
	_, err := generate(t, s)
	wantError(t, err, failure.Config, "interface-api=c")
	s.Options = boards.Options{Place: "operators=psram,stack=psram", App: boards.Standalone}
	generated(t, s)
	s.Options.Place = "packet=psram"
	_, err = generate(t, s)
	wantError(t, err, failure.Config)
}

// TestPlacedFit has a region be too small for a pool.
func TestPlacedFit(t *testing.T) {
	t.Parallel()
	text := `{"inherits": "chip/mps2_an385", "arena_kib": 64, "link": {"kind": "serial"}, "flash": {"programmer": "none"},
"memory": [{"name": "code", "origin": 0, "size": "0x00400000", "exec": true},
{"name": "ram", "origin": "0x20000000", "size": "0x00040000"}, {"name": "small", "origin": "0x20100000", "size": 4096}],
"place": {"pools": {"fast": "small", "other": "small"}}}`
	b := newBuilder(boardstest.Shelf(t, map[string]string{"tight.json": text}))
	spec := Spec{Board: "tight", Model: manyPools(t)}
	err := buildError(t, generated(t, spec, b))
	wantError(t, err, failure.DoesNotFit, "pools.fast, pools.other")
	if e := misfitOf(t, err); e.Region != "small" || e.Over != 4800-4096 {
		t.Errorf("%v", err)
	}
	// The project has priority over the board.
	spec.Options.Place = "pools.fast=ram"
	mustLie(t, generated(t, spec, b), placedParts{fastSymbol: "ram"})
}

// This file tests where the linker script places unusual sections: variables with an alignment of their own,
// constructors, sections with unknown names.

// ownVariables gives the resident part variables with a value, and constructors.
const ownVariables = `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
int own_value(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
static volatile int32_t value = 40;
static volatile int32_t order = 0;
__attribute__((constructor)) static void last(void) { value += (order == 1) ? 1 : 100; }
__attribute__((constructor(200))) static void first(void) { order = 1; }
int own_value(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = value;
  *out_type = kTVMArgInt;
  return 0;
}
`

// alignedOperator multiplies by variables that are aligned to a cache line and changed by a constructor.
var alignedOperator = strings.NewReplacer(
	"TVM_DLL int32_t twice", `static volatile int32_t before = 7;
static volatile int32_t factors[20] __attribute__((aligned(64))) = {0, 2, 2, 2, 2};
__attribute__((constructor)) static void more(void) { factors[0] = before - 5; }
TVM_DLL int32_t twice`,
	"in[i] * 2", "in[i] * factors[i] + (int32_t)((uintptr_t)factors % 64)").Replace(mlftest.TinyOperator)

// TestAlignedData runs a model whose variables are aligned more than the resident part's, of which there are some.
func TestAlignedData(t *testing.T) {
	t.Parallel()
	emulated := []string{"microbit", "mps2_an385", "qemu_riscv32", "qemu_riscv64"}
	for _, board := range drawn.Of(t, "boards of aligned data", emulated, 1) {
		t.Run(board, func(t *testing.T) {
			p := withOwn(t, board, ownVariables, mlftest.Operator(t, alignedOperator))
			checkLoadAddresses(t, built(t, p))
			s := running(t, p)
			wantCall(t, 41, s, "own.value")
			rpctest.CallTwice(t, s)
		})
	}
}

// withOwn returns a project for a board with a C file of its own.
func withOwn(t *testing.T, board, source, model string) *Project {
	t.Helper()
	name, path := boardstest.With(t, board, "own.c", source, map[string]string{"own.value": "own_value"})
	return generated(t, Spec{Board: name, Model: model}, newBuilder(path))
}

// checkLoadAddresses checks that the distance between load address and address is the same for all variables, and that
// the raw image contains no more than the ELF file's segments.
func checkLoadAddresses(t *testing.T, i *image.Image) {
	t.Helper()
	f := openELF(t, i)
	var low, high uint64
	distances := map[uint64]bool{}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		if p.Flags&elf.PF_W != 0 {
			distances[p.Paddr-p.Vaddr] = true
		}
		if low == 0 && high == 0 {
			low = p.Paddr
		}
		low, high = min(low, p.Paddr), max(high, p.Paddr+p.Filesz)
	}
	if len(distances) != 1 {
		t.Errorf("variables are copied by distances of %v", slices.Sorted(maps.Keys(distances)))
	}
	info, err := os.Stat(i.Bin)
	must(t, err)
	if uint64(info.Size()) != high-low {
		t.Errorf("%s has %d bytes, the image %d", i.Bin, info.Size(), high-low)
	}
}

// inOwnSection is ownVariables with a constant where the linker script has no place for it.
var inOwnSection = strings.Replace(ownVariables, "static volatile int32_t value =",
	`static const int32_t weight __attribute__((section(".my_weights"))) = 1;
static volatile int32_t value = 0 *`, 1) + "\nconst int32_t* own_weight(void);\nconst int32_t* own_weight(void) { return &weight; }\n"

// TestUnknownSection has a model, and a port, put something where the linker script has no place for it.
func TestUnknownSection(t *testing.T) {
	t.Parallel()
	const here = `volatile const int32_t here[4] __attribute__((section(".my_weights"))) = {2, 2, 2, 2};` + "\n"
	model := mlftest.Edited(t, "TVM_DLL int32_t twice", here+"TVM_DLL int32_t twice", "in[i] * 2", "in[i] * here[i]")
	for _, p := range []*Project{
		generated(t, Spec{Board: "mps2_an385", Model: model}), withOwn(t, "mps2_an385", inOwnSection, ""),
	} {
		wantError(t, buildError(t, p), failure.Link, "orphan section `.my_weights'")
	}
}

// TestEveryByteHasAChecksum has the linker place what the script does not name, as it does without our flags: behind
// the resident part.
func TestEveryByteHasAChecksum(t *testing.T) {
	t.Parallel()
	p := withOwn(t, "microbit", inOwnSection, "")
	needCompiler(t, p.Board())
	output(t, exec.Command("make", "-C", p.Dir(), "STRICT="))
	const want = "(section .my_weights) are outside the ranges"
	file := p.at("build/firmware.elf")
	loose := &image.Image{
		Path: file, Digest: cachekey.Digest([]byte(readFile(t, file))), Board: p.Board().Name,
		Landmarks: p.state.Template.Landmarks,
	}
	d := newDesk()
	d.Programmer, d.StateDir = "openocd", t.TempDir()
	d.Tool = func(name string) (string, error) { return name, nil }
	_, err := d.FlashCommands(t.Context(), p.Board(), "", loose)
	wantError(t, err, failure.Config, want)
	_, _, err = p.linked().Inspect()
	wantError(t, err, failure.Link, want)
}

const sampleArchive = "../examples/samples/digits_i8.aot_packed.tar"

// layoutBoards has every kind of core and of sectors; a plain run takes some of them, a full run all boards.
var layoutBoards = []string{"microbit", "mps2_an385", "netduinoplus2", "qemu_riscv32", "nucleo_f746zg"}

// layoutModels are as unlike as they come: packed and C interface, graph and ahead of time, integers and floats,
// objects of another compiler. Not each fits each board. The first forAllCores are C.
var layoutModels = []string{
	"add.aot_c", "sine.graph_linked", "conv_f32.graph", "dscnn_i8.aot_packed",
	"digits_i8.graph_llvm_thumbv7m", "digits_i8.graph_llvm_rv32",
}

const forAllCores = 4

// TestLayout links different models for one board and compares all that lies before the model's sectors.
func TestLayout(t *testing.T) {
	t.Parallel()
	archives := []string{sampleArchive}
	for _, name := range slices.Concat(drawn.Of(t, "models of the layout", layoutModels[:forAllCores], 1),
		drawn.Of(t, "objects of the layout", layoutModels[forAllCores:], 2)) {
		archives = append(archives, mlftest.Path(t, name))
	}
	brief := drawn.Of(t, "boards of the layout", layoutBoards, 1)
	for _, b := range bareBoards(t) {
		if !drawn.InFull() && !slices.Contains(brief, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			sameResident(t, b, archives, boards.Options{})
		})
	}
}

// TestLayoutOfLongRuntime is about options that make the resident part longer than the board file thought: the model
// moves to the next sector, with every model to the same.
func TestLayoutOfLongRuntime(t *testing.T) {
	drawn.OnlyInFull(t, "with the board's own options, TestLayout")
	t.Parallel()
	for _, name := range drawn.Of(t, "long runtimes", []string{"rpi_pico", "nrf52840dk", "nucleo_f401re"}, 1) {
		b := findBoard(t, name)
		archives := []string{sampleArchive, mlftest.Tiny(t, nil)}
		at := sameResident(t, b, archives, boards.Options{RuntimeOpt: "O0", LogLevel: "debug"})
		r, _ := b.Region(b.Place.Code)
		s, _, err := (&boards.Board{Memory: []boards.Region{r}}).SectorAt(at)
		if at <= uint64(b.ModelAt) || err != nil || s.Addr != at {
			t.Errorf("%s: the model part starts at 0x%x, which is no later sector", name, at)
		}
	}
}

// bareBoards are the shipped boards with a memory map.
func bareBoards(t *testing.T) (all []*boards.Board) {
	t.Helper()
	for _, name := range boards.List(nil) {
		b := findBoard(t, name)
		if len(b.Memory) == 0 {
			continue
		}
		if b.ModelAt == 0 {
			t.Errorf("board %s has no model_at", name)
		}
		all = append(all, b)
	}
	return all
}

// sameResident builds the archives for a board and returns where their model parts start: all before that is the same.
func sameResident(t *testing.T, b *boards.Board, archives []string, o boards.Options) (at uint64) {
	t.Helper()
	var first *linked
	compared := 0
	for _, a := range archives {
		p, err := generate(t, Spec{Board: b.Name, Model: a, Options: o})
		if failure.Of(err) == failure.Config {
			continue // objects for another core
		}
		must(t, err)
		if err := buildError(t, p); failure.Of(err) == failure.DoesNotFit {
			continue
		}
		i := built(t, p)
		l := readLinked(t, b, p, i)
		if o == (boards.Options{}) && l.at != uint64(b.ModelAt) {
			t.Errorf("%s: the table is at 0x%x, not at 0x%x; the resident part has %d bytes", a, l.at, uint64(b.ModelAt),
				len(l.resident))
		}
		if first == nil {
			first = l
			continue
		}
		compared++
		switch {
		case l.at != first.at:
			t.Errorf("%s: the model part starts at 0x%x, with another model at 0x%x", a, l.at, first.at)
		case !bytes.Equal(l.resident, first.resident):
			t.Errorf("%s: the resident part differs from that of another model", a)
		case i.BuildID != first.id && bytes.Equal(l.model, first.model):
			t.Errorf("%s: the model part is that of another model", a)
		}
	}
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
	t.Logf("%d images have the same %d bytes before 0x%x", compared+1, len(first.resident), first.at)
	return first.at
}

// A linked is what of an image lies where.
type linked struct {
	at              uint64 // of the table
	resident, model []byte // all bytes before the table, and from there on
	id              [16]byte
}

func readLinked(t *testing.T, b *boards.Board, p *Project, i *image.Image) *linked {
	t.Helper()
	at := symbolsOf(t, i)
	l := &linked{at: at["bare_model"], id: i.BuildID}
	for _, seg := range openELF(t, i).Progs {
		if seg.Type != elf.PT_LOAD || seg.Filesz == 0 {
			continue
		}
		data, err := io.ReadAll(seg.Open())
		must(t, err)
		switch {
		case seg.Paddr+seg.Filesz <= l.at:
			l.resident = append(binary.LittleEndian.AppendUint64(l.resident, seg.Paddr), data...)
		case seg.Paddr >= l.at:
			l.model = append(binary.LittleEndian.AppendUint64(l.model, seg.Paddr), data...)
		default:
			t.Errorf("a segment from 0x%x to 0x%x is in both parts", seg.Paddr, seg.Paddr+seg.Filesz)
		}
	}
	const note = 16 // of the note's header and name
	if table := (uint64(9*b.ELF.Class/8) + 7) &^ 7; at["boardsmith_build_id"] != l.at+table+note {
		t.Errorf("the build id is at 0x%x, not right behind the table at 0x%x", at["boardsmith_build_id"], l.at)
	}
	if at["bare_resident_end"] > l.at || at["bare_image_end"] <= l.at {
		t.Errorf("the resident part ends at 0x%x, the model part begins at 0x%x and ends at 0x%x", at["bare_resident_end"],
			l.at, at["bare_image_end"])
	}
	mustAskNothingElse(t, p.at("build/resident.o"))
	return l
}

// mustAskNothingElse reports symbols that the resident part needs, except those of the linker script and the table's
// address.
func mustAskNothingElse(t *testing.T, object string) {
	t.Helper()
	symbols, err := openELF(t, &image.Image{Path: object}).Symbols()
	must(t, err)
	script := readFile(t, "../templates/baremetal/link.ld.S")
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF || s.Name == "" || s.Name == "bare_model" || s.Name == "boardsmith_build_id" {
			continue
		}
		ours := strings.Contains(script, " "+s.Name+" = ") || strings.Contains(script, "("+s.Name+" = ")
		if !ours || strings.HasPrefix(s.Name, "bare_model") || s.Name == "bare_data_end" || s.Name == "bare_data_load" ||
			s.Name == "bare_image_end" {
			t.Errorf("the resident part asks for %s, which depends on the model", s.Name)
		}
	}
}
