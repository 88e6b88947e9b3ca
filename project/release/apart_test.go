package release_test

import (
	"bytes"
	"debug/elf"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/release"
)

// farFlash has parameters in flash 2 GiB above that of the code.
const farFlash = `"place": {"parameters": "qspi"}, "memory": [
  {"name": "flash", "origin": "0x08000000", "size": "0x00200000", "exec": true, "nonvolatile": true,
    "sectors": [{"count": 16, "size": "0x20000"}], "erase_cycles": 10000},
  {"name": "dtcm", "origin": "0x20000000", "size": "0x00020000"},
  {"name": "axi", "origin": "0x24000000", "size": "0x00080000", "exec": true},
  {"name": "itcm", "origin": 0, "size": "0x00010000", "exec": true},
  {"name": "sram123", "origin": "0x30000000", "size": "0x00048000"},
  {"name": "qspi", "origin": "0x90000000", "size": "0x00800000", "nonvolatile": true, "programmer": "openocd",
    "sectors": [{"count": 128, "size": "0x10000"}]}],`

// TestFarFlash: an image in two memories that are far apart is one file of raw bytes for each.
func TestFarFlash(t *testing.T) {
	shelf := boardstest.Shelf(t, map[string]string{"far.json": boardstest.Text(t, "nucleo_h743zi", farFlash)})
	spec := project.Spec{Board: "far", Model: mlftest.Path(t, "digits_i8.aot_packed")}
	p := generated(t, t.TempDir(), spec, shelf)
	i, r := built(t, p, release.Options{})
	f, err := i.ELF()
	must(t, err)
	total := 0
	for _, c := range []struct {
		file        string
		first, last uint64
	}{{"firmware.bin", 0x08000000, 0x081FFFFF}, {"firmware-qspi.bin", 0x90000000, 0x907FFFFF}} {
		data := fileOf(t, r, c.file)
		total += len(data)
		for _, s := range f.Progs {
			if s.Type != elf.PT_LOAD || s.Filesz == 0 || s.Paddr < c.first || s.Paddr > c.last {
				continue
			}
			want, err := io.ReadAll(s.Open())
			must(t, err)
			if from := s.Paddr - c.first; uint64(len(data)) < from+s.Filesz || !bytes.Equal(data[from:from+s.Filesz], want) {
				t.Errorf("%s has not the %d bytes at %#x", c.file, s.Filesz, s.Paddr)
			}
		}
		if !strings.Contains(string(fileOf(t, r, "SHA256SUMS")), "  "+c.file+"\n") ||
			!strings.Contains(string(fileOf(t, r, "README.md")), "| `"+c.file+"` |") {
			t.Errorf("SHA256SUMS or README.md has no %s", c.file)
		}
	}
	if total > 1<<20 {
		t.Errorf("both memories have %d bytes", total)
	}

	spec.Options = boards.Options{Place: "parameters=flash"}
	must(t, p.Generate(t.Context(), spec))
	i, err = p.Build(t.Context())
	must(t, err)
	left, err := filepath.Glob(filepath.Join(p.Dir(), "build", "firmware-*.bin"))
	must(t, err)
	if i.ExtraBin != "" || len(left) != 0 {
		t.Errorf("after a build without parts in another flash, there are %q and %q", i.ExtraBin, left)
	}
}
