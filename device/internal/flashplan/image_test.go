package flashplan

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// partsScript places two parts with a gap between them. The build id is in the second one.
const partsScript = `PHDRS { a PT_LOAD; b PT_LOAD; }
SECTIONS {
	.a 0x1010 : { a_start = .; *(.a) a_end = .; } :a
	.note.gnu.build-id 0x1190 : { b_start = .; KEEP(*(.note.gnu.build-id)) } :b
	.b : { *(.b) b_end = .; } :b
	/DISCARD/ : { *(.note.*) }
}
`

// linked returns an image that a linker script places, and its board: four sectors of 128 bytes, with 100 erases, and
// another flash.
func linked(t *testing.T, script string) (*boards.Board, *image.Image) {
	t.Helper()
	const source = ".section .a, \"a\"\n.fill 0xa0, 1, 0x11\n.section .b, \"a\"\n.fill 16, 1, 0x22\n"
	path := filepath.Join(testkit.Link(t, "gcc", script, source, "-no-pie", "-Wl,-n,-e0"), "o.elf")
	data, err := os.ReadFile(path)
	testkit.Must(t, err)
	b := &boards.Board{Name: "b", Place: boards.Place{Code: "flash"}, Memory: []boards.Region{
		{Name: "ram", Origin: 0x8000, Size: 0x1000},
		{
			Name: "flash", Origin: 0x1000, Size: 0x200, Nonvolatile: true, EraseCycles: 100,
			Sectors: []boards.Sectors{{Count: 4, Size: 0x80}},
		},
		{
			Name: "extra", Origin: 0x2000, Size: 0x100, Nonvolatile: true, Programmer: "p", Verify: "firmware",
			Sectors: []boards.Sectors{{Count: 1, Size: 0x100}},
		},
		{
			Name: "boot", Origin: 0x3000, Size: 0x100, Nonvolatile: true, Reserved: true,
			Sectors: []boards.Sectors{{Count: 1, Size: 0x100}},
		},
	}}
	return b, &image.Image{
		Path: path, Digest: cachekey.Digest(data),
		Landmarks: firmware.Landmarks{Parts: []firmware.Place{
			{Symbol: "a_start", End: "a_end"}, {Symbol: "b_start", End: "b_end"},
		}},
	}
}

// TestContentOf: an image becomes whole sectors, with erased bytes around its own, and parts.
func TestContentOf(t *testing.T) {
	b, i := linked(t, partsScript)
	img, err := ContentOf(b, i)
	must(t, err)
	fill := func(n int, v byte) []byte { return bytes.Repeat([]byte{v}, n) }
	want := [][]byte{
		append(fill(0x10, 0xff), fill(0x70, 0x11)...),
		append(fill(0x30, 0x11), fill(0x50, 0xff)...),
		nil, // the note, whose bytes the linker computes
	}
	if len(img.Sectors) != len(want) || len(img.Parts) != 2 {
		t.Fatalf("%d sectors, %d parts", len(img.Sectors), len(img.Parts))
	}
	for n, s := range img.Sectors {
		at := boards.Sector{Index: []int{0, 1, 3}[n], Addr: []uint64{0x1000, 0x1080, 0x1180}[n], Size: 0x80}
		if s.Sector != at || s.Rated != 100 || s.Unreadable || s.HasBuildID != (n == 2) || len(s.Data) != 0x80 ||
			s.Digest != cachekey.Digest(s.Data) || want[n] != nil && !bytes.Equal(s.Data, want[n]) {
			t.Errorf("sector %d: %+v", n, s)
		}
	}
	last := img.Sectors[2].Data
	part := img.Parts[1]
	if !bytes.Equal(img.Parts[0], fill(0xa0, 0x11)) || !bytes.HasSuffix(part, fill(16, 0x22)) ||
		!bytes.Equal(last, slices.Concat(fill(0x10, 0xff), part, fill(0x70-len(part), 0xff))) {
		t.Errorf("parts %x in %x", img.Parts, last)
	}
	ranges := []flasher.Range{{Addr: 0x1000, Size: 0x100}, {Addr: 0x1180, Size: 0x80}}
	wantEqual(t, img.Ranges(), ranges, "ranges")
	got := img.DigestsOf([]flasher.Segment{
		{Addr: 0x1000, Data: slices.Concat(img.Sectors[0].Data, img.Sectors[1].Data)}, img.Sectors[2].Segment(),
	})
	for _, s := range img.Sectors {
		if got[s.Addr] != s.Digest || len(got) != 3 {
			t.Errorf("digest of 0x%x: %q of %d", s.Addr, got[s.Addr], len(got))
		}
	}
	must(t, img.CheckProgrammer(b, "openocd"))
}

// TestContentOfErrors: an image that cannot be programmed as it is described is an error.
func TestContentOfErrors(t *testing.T) {
	t.Parallel()
	elsewhere := func(address string) string { return strings.Replace(partsScript, "0x1010", address, 1) }
	for _, c := range []struct {
		name, script, want string
		change             func(i *image.Image)
	}{
		{"no flash", elsewhere("0x9000"), "has no flash with sectors there", nil},
		{"behind the flash", elsewhere("0x11f0"), "has no flash with sectors there", nil},
		{"reserved", elsewhere("0x3000"), "in region boot, which board b reserves", nil},
		{"no id", strings.Replace(partsScript, "KEEP(*(.note.gnu.build-id))", "BYTE(0)", 1), "without a build id", nil},
		{"no parts", partsScript, "does not define the ranges", func(i *image.Image) { i.Landmarks.Parts = nil }},
		{"one part", partsScript, "are outside the ranges of the firmware's checksum", func(i *image.Image) {
			i.Landmarks.Parts = i.Landmarks.Parts[:1]
		}},
		{"no symbol", partsScript, "lost", func(i *image.Image) { i.Landmarks.Parts[0].Symbol = "lost" }},
		{"another file", partsScript, "is no longer", func(i *image.Image) { i.Digest = "0" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, i := linked(t, c.script)
			if c.change != nil {
				c.change(i)
			}
			_, err := ContentOf(b, i)
			if err == nil || failure.Of(err) == failure.Internal || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckProgrammer: a region besides that of the code is written by the programmer that it names alone, and what
// only the firmware verifies is not read.
func TestCheckProgrammer(t *testing.T) {
	b, i := linked(t, strings.Replace(partsScript, "0x1010", "0x2010", 1))
	img, err := ContentOf(b, i)
	must(t, err)
	if s := img.Sectors[1]; s.Addr != 0x2000 || !s.Unreadable || s.Rated != 0 || !img.HasUnreadable() ||
		len(img.Ranges()) != 1 {
		t.Errorf("%+v", s)
	}
	must(t, img.CheckProgrammer(b, "p"))
	wantError(t, img.CheckProgrammer(b, "q"), failure.Config, "is written by p, not by q")
	b.Memory[2].Programmer = ""
	wantError(t, img.CheckProgrammer(b, "p"), failure.Config, "for which board b names no programmer")
}

// TestBlank: blank flash is every sector that can be read, erased.
func TestBlank(t *testing.T) {
	b, _ := linked(t, partsScript)
	img := Blank(b)
	if img.Board != "b" || len(img.Sectors) != 4 {
		t.Fatalf("%+v", img)
	}
	for n, s := range img.Sectors {
		data := bytes.Repeat([]byte{0xff}, 0x80)
		want := Sector{
			Sector: boards.Sector{Index: n, Addr: 0x1000 + uint64(n)*0x80, Size: 0x80}, Data: data,
			Digest: cachekey.Digest(data), Rated: 100,
		}
		wantEqual(t, s, want)
	}
}

// TestJob: the sector with the build id is erased first and written last, also if it is unchanged.
func TestJob(t *testing.T) {
	img := threeSectors()
	a, b, c := img.Sectors[0], img.Sectors[1], img.Sectors[2]
	all := []flasher.Segment{a.Segment(), b.Segment(), c.Segment()}
	for _, w := range []struct {
		sectors []Sector
		want    flasher.Job
	}{
		{nil, flasher.Job{Erase: []boards.Sector{c.Sector}, Write: all[2:]}},
		{[]Sector{b}, flasher.Job{Erase: []boards.Sector{c.Sector, b.Sector}, Write: all[1:]}},
		{[]Sector{c, a}, flasher.Job{Erase: []boards.Sector{c.Sector, a.Sector}, Write: []flasher.Segment{all[0], all[2]}}},
		{img.Sectors, flasher.Job{Erase: []boards.Sector{c.Sector, a.Sector, b.Sector}, Write: all}},
	} {
		w.want.Restart, w.want.Verify = true, all
		wantEqual(t, img.Job(w.sectors), w.want)
	}
}
