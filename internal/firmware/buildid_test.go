package firmware

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// linkedWith links a program with a linker script, if text is not "", and returns its path.
func linkedWith(t *testing.T, text string, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a.c": "const int word = 7; void _start(void) {}\n", "a.ld": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "a.elf")
	args := append([]string{"-nostdlib", "-Wl,-n", "-static", "-no-pie", "-o", out, filepath.Join(dir, "a.c")}, flags...)
	if text != "" {
		args = append(args, "-T", filepath.Join(dir, "a.ld"))
	}
	if said, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return out
}

func idOf(t *testing.T, path string) ([16]byte, Range, error) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if out, err := exec.Command("strip", md5).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
		name := c.flag + " " + c.script
		_, _, err := idOf(t, linkedWith(t, c.script, "-Wl,--build-id="+c.flag))
		if failure.Of(err) != failure.Link || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(failure.Next(err), "-Wl,--build-id=md5") ||
			!strings.Contains(failure.Next(err), ".note.gnu.build-id : {") {
			t.Errorf("%s: %v; %s", name, err, failure.Next(err))
		}
	}
}

// TestBuildIDDamaged: a note that is cut, or of another kind, is no build id.
func TestBuildIDDamaged(t *testing.T) {
	t.Parallel()
	path := linkedWith(t, "", "-Wl,--build-id=md5")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := f.Section(BuildIDSection).Offset
	for offset, value := range map[uint64]uint32{4: 15, 8: 1, 12: 0} { // the id's size, its type, the name
		damaged := append([]byte(nil), data...)
		binary.LittleEndian.PutUint32(damaged[at+offset:], value)
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := idOf(t, path); failure.Of(err) != failure.Link {
			t.Errorf("offset %d: %v", offset, err)
		}
	}
}
