package project

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

const sampleArchive = "../examples/samples/digits_i8.aot_packed.tar"

// layoutBoards has every kind of core and of sectors; a plain run takes some of them, a full run all boards.
var layoutBoards = []string{"microbit", "mps2_an385", "netduinoplus2", "qemu_riscv32", "nucleo_f746zg"}

// layoutModels are as unlike as they come: packed and C interface, graph and ahead of time, integers and floats,
// objects of another compiler. Not each fits each board.
var layoutModels = []string{
	"add.aot_c", "sine.graph_linked", "conv_f32.graph", "dscnn_i8.aot_packed",
	"digits_i8.graph_llvm_thumbv7m", "digits_i8.graph_llvm_rv32",
}

// TestLayout links different models for one board and compares all that lies before the model's sectors.
func TestLayout(t *testing.T) {
	t.Parallel()
	archives := []string{sampleArchive}
	for _, a := range mlftest.Archives(t) {
		if slices.Contains(layoutModels, mlftest.Name(a)) {
			archives = append(archives, a)
		}
	}
	brief := drawn.Of(t, "boards of the layout", layoutBoards, 1)
	for _, b := range bareBoards(t) {
		if !drawn.InFull() && !slices.Contains(brief, b.Name) {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			compiler, _, err := device.MissingTools(t.Context(), b)
			must(t, err)
			if len(compiler) > 0 {
				t.Skip(compiler[0])
			}
			sameResident(t, b, archives, boards.Options{})
		})
	}
}

// TestLayoutOfEveryModel takes every archive to one board of each architecture.
func TestLayoutOfEveryModel(t *testing.T) {
	t.Parallel()
	archives := drawn.Of(t, "layout", mlftest.Archives(t), 2)
	for _, name := range drawn.Of(t, "boards of every model", []string{"mps3_an547", "qemu_riscv64"}, 1) {
		b, err := boards.Find(name, nil)
		must(t, err)
		t.Run(name, func(t *testing.T) {
			compiler, _, err := device.MissingTools(t.Context(), b)
			must(t, err)
			if len(compiler) > 0 {
				t.Skip(compiler[0])
			}
			sameResident(t, b, append([]string{sampleArchive}, archives...), boards.Options{})
		})
	}
}

// TestLayoutOfLongRuntime is about options that make the resident part longer than the board file thought: the model
// moves to the next sector, with every model to the same.
func TestLayoutOfLongRuntime(t *testing.T) {
	t.Parallel()
	for _, name := range drawn.Of(t, "long runtimes", []string{"rpi_pico", "nrf52840dk", "nucleo_f401re"}, 1) {
		b, err := boards.Find(name, nil)
		must(t, err)
		compiler, _, err := device.MissingTools(t.Context(), b)
		must(t, err)
		if len(compiler) > 0 {
			t.Skip(compiler[0])
		}
		archives := []string{sampleArchive, oneOp(t)}
		at := sameResident(t, b, archives, boards.Options{RuntimeOpt: "O0", LogLevel: "debug"})
		if r, _ := b.Region(b.Place.Code); at <= uint64(b.ModelAt) || sectorStart(r, at) != at {
			t.Errorf("%s: the model part starts at 0x%x, which is no later sector", name, at)
		}
	}
}

// bareBoards are the shipped boards with a memory map.
func bareBoards(t *testing.T) (all []*boards.Board) {
	t.Helper()
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		must(t, err)
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

func oneOp(t *testing.T) string { return mlftest.Tiny(t, nil) }

// sameResident builds the archives for a board and returns where their model parts start: all before that is the same.
func sameResident(t *testing.T, b *boards.Board, archives []string, o boards.Options) (at uint64) {
	t.Helper()
	var first *linked
	compared := 0
	for _, a := range archives {
		p, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: b.Name, Model: a, Options: o}, testEnv())
		if failure.Of(err) == failure.Config {
			continue // objects for another core
		}
		must(t, err)
		i, err := p.Build(t.Context())
		if failure.Of(err) == failure.DoesNotFit {
			must(t, p.Close())
			continue
		}
		must(t, err)
		l := readLinked(t, b, p, i)
		must(t, p.Close())
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
	f, err := elf.Open(i.Path)
	must(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	must(t, err)
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	l := &linked{at: at["bare_model"], id: i.BuildID}
	for _, seg := range f.Progs {
		if seg.Type != elf.PT_LOAD || seg.Filesz == 0 {
			continue
		}
		data := make([]byte, seg.Filesz)
		_, err := seg.ReadAt(data, 0)
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
	mustAskNothingElse(t, filepath.Join(p.Dir(), "build", "resident.o"))
	return l
}

// mustAskNothingElse reports symbols that the resident part needs, except those of the linker script and the table's
// address.
func mustAskNothingElse(t *testing.T, object string) {
	t.Helper()
	f, err := elf.Open(object)
	must(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	must(t, err)
	script, err := os.ReadFile("../templates/baremetal/link.ld.S")
	must(t, err)
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF || s.Name == "" || s.Name == "bare_model" || s.Name == "boardsmith_build_id" {
			continue
		}
		ours := bytes.Contains(script, []byte(" "+s.Name+" = ")) || bytes.Contains(script, []byte("("+s.Name+" = "))
		if !ours || strings.HasPrefix(s.Name, "bare_model") || s.Name == "bare_data_end" || s.Name == "bare_data_load" ||
			s.Name == "bare_image_end" {
			t.Errorf("the resident part asks for %s, which depends on the model", s.Name)
		}
	}
}

func sectorStart(r boards.Region, addr uint64) uint64 {
	b := &boards.Board{Memory: []boards.Region{r}}
	s, _, err := b.SectorAt(addr)
	if err != nil {
		return 0
	}
	return s.Addr
}
