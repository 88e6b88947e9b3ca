package firmware

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// image links a file whose variables are loaded elsewhere than they lie, and which has symbols around a part.
func image(t *testing.T) *elf.File {
	t.Helper()
	cc, err := exec.LookPath("arm-none-eabi-gcc")
	if err != nil {
		t.Skip("no arm-none-eabi-gcc")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.c": "unsigned word = 7; const char text[12] = \"01234567890\"; extern int gone; int *use(void) { return &gone; }\n",
		"a.ld": `SECTIONS { gone = 0x1; .text 0x100 : { first = .; *(.text) *(.rodata) *(.ARM*) behind = .; }
			.data 0x2000 : AT(0x400) { *(.data) . = ALIGN(16); } .bss : { *(.bss) } .comment 0 : { *(.comment) } }`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "a.elf")
	cmd := exec.Command(cc, "-nostdlib", "-Wl,-n", "-T", filepath.Join(dir, "a.ld"), "-o", out, filepath.Join(dir, "a.c"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	f, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A place is found by a symbol, by two, or by a section: where the firmware uses it; a part is where it is loaded.
func TestLandmarks(t *testing.T) {
	t.Parallel()
	f := image(t)
	text := f.Section(".text")
	for _, c := range []struct {
		place Place
		want  Range // zero: not there
	}{
		{Place{Symbol: "word"}, Range{0x2000, 0x2004}},
		{Place{Symbol: "first", End: "behind"}, Range{0x100, 0x100 + text.Size}},
		{Place{Symbol: "behind", End: "first"}, Range{}},
		{Place{Symbol: "first", End: "nothing"}, Range{}},
		{Place{Symbol: "nothing"}, Range{}},
		{Place{Section: ".data"}, Range{0x2000, 0x2010}},
		{Place{Section: ".nothing"}, Range{}},
		{Place{}, Range{}},
	} {
		if got, ok := c.place.Find(f); ok != (c.want != Range{}) || ok && got != c.want {
			t.Errorf("%v: %#x, %v, want %#x", c.place, got, ok, c.want)
		}
	}
	both := Landmarks{Parts: []Place{{Symbol: "first", End: "behind"}, {Section: ".data"}}}
	ranges, err := both.FindParts(f, "a.elf")
	if err != nil || len(ranges) != 2 || ranges[1] != (Range{0x400, 0x410}) {
		t.Fatalf("%#x, %v", ranges, err)
	}
	if err := CheckCovered(f, ranges); err != nil {
		t.Error(err)
	}
	if err := CheckCovered(f, ranges[:1]); err == nil {
		t.Error("variables without a checksum are taken")
	}
	parts, err := ReadParts(f, both, "a.elf", 0)
	if err != nil || len(parts) != 2 || len(parts[1]) != 16 || parts[1][0] != 7 {
		t.Errorf("%x, %v", parts, err)
	}
	both.Parts[0].End = "nothing"
	if _, err := both.FindParts(f, "a.elf"); err == nil {
		t.Error("a part that is not there is taken")
	}
	if parts, err := ReadParts(f, Landmarks{}, "a.elf", 0); parts != nil || err != nil {
		t.Errorf("a template without parts: %x, %v", parts, err)
	}
}
