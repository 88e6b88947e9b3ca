package project

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
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
func mustLie(t *testing.T, b *boards.Board, at map[string]uint64, want placedParts) {
	t.Helper()
	for symbol, region := range want {
		r, _ := b.Region(region)
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
			m, p, i := openPlaced(t, c.board, c.place)
			at := symbolsOf(t, i)
			mustLie(t, p.Board(), at, c.want)
			runPlaced(t, p, m.s)
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

// openPlaced opens a session with firmware that can read its memory.
func openPlaced(t *testing.T, board, place string) (memoryProbe, *Project, *image.Image) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "faults", "memory.c"))
	must(t, err)
	functions := map[string]string{"memory.read": "memory_read", "memory.write": "memory_write"}
	name, path := boardstest.With(t, board, "memory.c", string(source), functions)
	e := testEnv()
	e.Path = []string{path}
	needBoardTools(t, name, e.Path)
	spec := Spec{Board: name, Model: manyPools(t), Options: boards.Options{Place: place}}
	p := generated(t, filepath.Join(t.TempDir(), "p"), spec, e)
	i := built(t, p)
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return memoryProbe{t, s}, p, i
}

func symbolsOf(t *testing.T, i *image.Image) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(i.Path)
	must(t, err)
	defer f.Close()
	at, err := firmware.Symbols(f, i.Path)
	must(t, err)
	return at
}

func runPlaced(t *testing.T, p *Project, s *rpc.Session) {
	t.Helper()
	_, model, err := p.Model()
	must(t, err)
	e, err := executor.Open(t.Context(), s, model)
	must(t, err)
	must(t, e.SetInput(t.Context(), "data", poolsArray(t, "inputs")))
	must(t, e.Run(t.Context()))
	got, err := e.Output(t.Context(), 0)
	must(t, err)
	want := poolsArray(t, "outputs")
	for i := range want.Len() {
		if x, y := got.Float(i), want.Float(i); !(math.Abs(x-y) <= 1e-5*max(1, math.Abs(y))) {
			t.Fatalf("element %d is %v, want %v", i, x, y)
		}
	}
	must(t, e.Close(t.Context()))
}

// poolsArray returns the only array of the model's inputs or outputs.
func poolsArray(t *testing.T, which string) *ndarray.Array {
	t.Helper()
	all, err := ndarray.ReadNPZ(filepath.Join(filepath.Dir(manyPools(t)), "conv_pools."+which+".npz"))
	must(t, err)
	return all[0].Array
}

// mustHaveInput looks in the device's memory for the padded input, which the model writes to the start of pool fast: 20
// rows of 20 pixels of 3 channels, the first two and the first two of each row zero.
func (m memoryProbe) mustHaveInput(pool uint64) {
	m.Helper()
	given := poolsArray(m.T, "inputs")
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
	f, err := elf.Open(i.Path)
	must(m, err)
	defer f.Close()
	for _, s := range f.Progs {
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
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	operator := "#include <stddef.h>\n" + mlftest.TinyOperator + `
__attribute__((weak)) void* memcpy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) ((volatile char*)to)[i] = ((const volatile char*)from)[i];
  return to;
}
`
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{
		Board: "mps2_an385", Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": operator}),
		Options: boards.Options{Place: "operators=psram"},
	})
	mustLie(t, p.Board(), symbolsOf(t, built(t, p)), placedParts{"memcpy": "psram", "twice": "psram"})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(context.Background())
	rpctest.CallTwice(t, s)
}

// TestPlacedBuilds links for a chip with coupled memories: a pool in DTCM, another in AXI SRAM, the operators in ITCM.
func TestPlacedBuilds(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "nucleo_h743zi", nil)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{
		Board: "nucleo_h743zi", Model: manyPools(t),
		Options: boards.Options{Place: "operators=itcm,pools.fast=dtcm,pools.slow=axi,pools.weights=dtcm,packet=sram4"},
	})
	i := built(t, p)
	at := symbolsOf(t, i)
	mustLie(t, p.Board(), at, placedParts{
		entrySymbol: "itcm", fastSymbol: "dtcm", slowSymbol: "axi", weightsSymbol: "dtcm", serverSymbol: "sram4",
	})
	if at["bare_itcm_start"] == 0 || at["bare_itcm_load"]-0x08020000 > 0x20000 {
		t.Errorf("operators are copied from %#x to %#x", at["bare_itcm_load"], at["bare_itcm_start"])
	}
	u, err := p.Usage(i)
	must(t, err)
	for part, in := range map[string]map[string]bool{
		"operators": {"itcm": true, "flash": true}, "workspace": {"dtcm": true, "axi": true, "sram123": false},
		"parameters": {"dtcm": true, "flash": true}, "RPC": {"sram4": true},
	} {
		for region, want := range in {
			n := slices.IndexFunc(u.Regions, func(r RegionUse) bool { return r.Name == region })
			k := slices.IndexFunc(u.Parts, func(p PartUse) bool { return p.Name == part })
			if got := u.Parts[k].In[n] > 0; got != want {
				t.Errorf("%s takes %d bytes of %s", part, u.Parts[k].In[n], region)
			}
		}
	}
	for _, why := range u.Stack.Unsure {
		t.Errorf("stack: %s", why)
	}
}

// TestNothingPlacedAtNull links parts for a memory that begins at address 0, whose first bytes nothing may access.
func TestNothingPlacedAtNull(t *testing.T) {
	t.Parallel()
	e := testEnv()
	text, err := os.ReadFile("../boards/nucleo_h743zi.json")
	must(t, err)
	data := strings.Replace(string(text), `{`, `{"place": {"data": "itcm"},`, 1)
	e.Path = []string{boardstest.Shelf(t, map[string]string{"null.json": data})}
	needBoardTools(t, "nucleo_h743zi", nil)
	type part struct{ board, place, symbol string }
	for _, c := range drawn.Of(t, "parts at address 0", []part{
		{"nucleo_h743zi", "packet=itcm", serverSymbol},
		{"nucleo_h743zi", "pools.fast=itcm", fastSymbol},
		{"nucleo_h743zi", "stack=itcm", "bare_guard_start"},
		{"null", "", "bare_bss_start"},
	}, 1) {
		p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{
			Board: c.board, Model: manyPools(t), Options: boards.Options{Place: c.place, ArenaKiB: 48},
		}, e)
		if at, ok := symbolsOf(t, built(t, p))[c.symbol]; at < 256 || !ok {
			t.Errorf("%s with %q: %s is at %#x", c.board, c.place, c.symbol, at)
		}
	}
}

// TestLoadedPlace: firmware for a model in RAM has its own parts where the project places them; those of the model are
// errors, whether the model has them or not.
func TestLoadedPlace(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	dir := t.TempDir()
	p := generated(t, filepath.Join(dir, "p"), Spec{
		Board: "mps2_an385", Model: mlftest.Tiny(t, nil), Options: boards.Options{Place: "packet=psram"},
	})
	r, err := p.Resident(t.Context(), filepath.Join(dir, "r"), Spec{})
	must(t, err)
	defer r.Close()
	i, err := r.Built()
	must(t, err)
	mustLie(t, r.Board(), symbolsOf(t, i), placedParts{serverSymbol: "psram"})
	for _, place := range []string{"operators=psram,packet=psram", "pools.fast=psram", "parameters=psram"} {
		o := boards.Options{Place: place}
		q := generated(t, filepath.Join(dir, "q"), Spec{Board: "mps2_an385", Model: manyPools(t), Options: o})
		part, _, _ := strings.Cut(place, "=")
		_, err = q.Resident(t.Context(), filepath.Join(dir, "s"), Spec{})
		want := "with all its data: " + part + " cannot be placed"
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", place, err)
		}
		must(t, q.Close())
	}
}

// TestPlacedArena computes an arena without the parts that lie elsewhere, to the byte.
func TestPlacedArena(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{
		Board: "mps2_an385", Model: manyPools(t), Options: boards.Options{Place: "packet=psram,pools.fast=psram"},
	})
	a, m, err := p.Model()
	must(t, err)
	less, err := fit.NeedOf(p.Board(), a, m, int(p.packetBytes()))
	must(t, err)
	b, err := boards.Find("mps2_an385", nil)
	must(t, err)
	all, err := fit.NeedOf(b, a, m, int(p.packetBytes()))
	must(t, err)
	if less.Bytes > all.Bytes-4800-4096 {
		t.Errorf("%d bytes, without a place %d", less.Bytes, all.Bytes)
	}
	testArenaNeed(t, p)
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
		s := Spec{Board: c.board, Model: manyPools(t), Options: boards.Options{Place: c.place}}
		_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), s, testEnv())
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.place, err)
		}
	}
	s := Spec{
		Board: "mps2_an385", Model: mlftest.Path(t, "sine.aot_packed"), Options: boards.Options{Place: "pools.fast=psram"},
	}
	_, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), s, testEnv())
	if failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "interface-api=c") {
		t.Errorf("%v: %s", err, failure.Next(err))
	}
	s.Options = boards.Options{Place: "operators=psram,stack=psram", App: boards.Standalone}
	p, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), s, testEnv())
	must(t, err)
	must(t, p.Close())
	s.Options.Place = "packet=psram"
	if _, err = generate(t.Context(), filepath.Join(t.TempDir(), "p"), s, testEnv()); failure.Of(err) != failure.Config {
		t.Errorf("%v", err)
	}
}

// TestPlacedFit has a region be too small for a pool.
func TestPlacedFit(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "nucleo_h743zi", nil)
	text := `{"inherits": "chip/mps2_an385", "arena_kib": 64, "link": {"kind": "serial"}, "flash": {"programmer": "none"},
"memory": [{"name": "code", "origin": 0, "size": "0x00400000", "exec": true},
{"name": "ram", "origin": "0x20000000", "size": "0x00040000"}, {"name": "small", "origin": "0x20100000", "size": 4096}],
"place": {"pools": {"fast": "small", "other": "small"}}}`
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"tight.json": text})}
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "tight", Model: manyPools(t)}, e)
	_, err := p.Build(t.Context())
	var tooSmall *FitError
	if failure.Of(err) != failure.DoesNotFit || !errors.As(err, &tooSmall) || tooSmall.Region != "small" ||
		tooSmall.Over != 4800-4096 || !strings.Contains(failure.Next(err), "pools.fast, pools.other") {
		t.Errorf("%v", err)
	}
	// The project has priority over the board.
	spec := Spec{Board: "tight", Model: manyPools(t), Options: boards.Options{Place: "pools.fast=ram"}}
	p = generated(t, filepath.Join(t.TempDir(), "p"), spec, e)
	mustLie(t, p.Board(), symbolsOf(t, built(t, p)), placedParts{fastSymbol: "ram"})
}
