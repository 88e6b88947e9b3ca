package firmware

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

// linkedWith links a program with a linker script, if text is not "", and returns its path.
func linkedWith(t *testing.T, text string, flags ...string) string {
	t.Helper()
	testkit.Need(t, "gcc")
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, map[string]string{"a.c": "const int word = 7; void _start(void) {}\n", "a.ld": text})
	out := filepath.Join(dir, "a.elf")
	args := append([]string{"-nostdlib", "-Wl,-n", "-static", "-no-pie", "-o", out, filepath.Join(dir, "a.c")}, flags...)
	if text != "" {
		args = append(args, "-T", filepath.Join(dir, "a.ld"))
	}
	testkit.Output(t, exec.Command("gcc", args...))
	return out
}

func idOf(t *testing.T, path string) ([16]byte, Range, error) {
	t.Helper()
	f, err := elf.Open(path)
	must(t, err)
	defer f.Close()
	return BuildID(f, filepath.Base(path))
}

// TestBuildID: the id is the linker's, of a longer one the first 16 bytes, also of a stripped file; where it is loaded
// is not where it lies.
func TestBuildID(t *testing.T) {
	t.Parallel()
	const script = `SECTIONS { . = 0x2000; .note.gnu.build-id : AT(0x400) { id = . + 16; KEEP(*(.note.gnu.build-id)) }
		.text : { *(.text*) *(.rodata*) } /DISCARD/ : { *(.note.*) *(.eh_frame*) } }`
	const long = "00112233445566778899aabbccddeeff01020304"
	md5 := linkedWith(t, script, "-Wl,--build-id=none", "-Wl,--build-id=md5")
	id, at, err := idOf(t, md5)
	if err != nil || id == [16]byte{} || at != (Range{0x410, 0x420}) {
		t.Errorf("%x at %x, %v", id, at, err)
	}
	testkit.Output(t, exec.Command("strip", md5))
	if stripped, _, err := idOf(t, md5); err != nil || stripped != id {
		t.Errorf("stripped: %x, %v; want %x", stripped, err, id)
	}
	id, at, err = idOf(t, linkedWith(t, "", "-Wl,--build-id=0x"+long))
	if err != nil || fmt.Sprintf("%x", id) != long[:32] ||
		at.Size() != 20 {
		t.Errorf("%x at %x, %v; want the beginning of %s", id, at, err, long)
	}
	for _, c := range []struct{ flag, script, want string }{
		{"none", "", "no build id"},
		{"0x00112233445566", "", "a build id of less than 16 bytes"},
		{"md5", `SECTIONS { /DISCARD/ : { *(.note.*) } }`, "no build id"},
		{"md5", `SECTIONS { .text : { *(.text*) KEEP(*(.note.gnu.build-id)) } }`, "no build id"},
	} {
		_, _, err := idOf(t, linkedWith(t, c.script, "-Wl,--build-id="+c.flag))
		testkit.WantError(t, err, failure.Link, c.want, "-Wl,--build-id=md5", ".note.gnu.build-id : {")
	}
}

// TestBuildIDDamaged: a note that is cut, or of another kind, is no build id.
func TestBuildIDDamaged(t *testing.T) {
	t.Parallel()
	path := linkedWith(t, "", "-Wl,--build-id=md5")
	data := testkit.ReadFile(t, path)
	f, err := elf.Open(path)
	must(t, err)
	defer f.Close()
	at := f.Section(BuildIDSection).Offset
	for offset, value := range map[uint64]uint32{4: 15, 8: 1, 12: 0} { // the id's size, its type, the name
		damaged := append([]byte(nil), data...)
		binary.LittleEndian.PutUint32(damaged[at+offset:], value)
		testkit.WriteFile(t, path, string(damaged))
		_, _, err := idOf(t, path)
		testkit.WantError(t, err, failure.Link)
	}
}
