package imagecheck

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
)

// TestReplaced: a program that defines a symbol of the system's libraries is refused with the symbol, the source and
// the libraries, unless the definition is static, weak with a reserved name, or of a name that they do not have.
func TestReplaced(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("no cc of Linux")
	}
	for text, want := range map[string]string{
		"long read(void) { return 1; }": "own file.c: read is also in a library of the system (libc.so.6)",
		"int index(void) { return 1; }": "own file.c: index is also",

		"__attribute__((weak)) long read(void) { return 1; }": "own file.c: read is also",
		"float stderr[4] = {1};":                              "firmware.elf: stderr is also",
		"__attribute__((weak)) int environ;":                  "firmware.elf: environ is also",

		"__attribute__((weak)) void __assert_fail(void) {}":                                            "",
		"static int read[2]; int* of(void) { return read; }":                                           "",
		"int net_read(void) { return 1; }":                                                             "",
		"extern char** environ; extern void* stderr; char** of(void) { return stderr ? environ : 0; }": "",
	} {
		dir := t.TempDir()
		program := filepath.Join(dir, "firmware.elf")
		source := filepath.Join(dir, "own file.c")
		if err := os.WriteFile(source, []byte(text+"\nint main(void) { return 0; }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cc := exec.Command("cc", "-g1", "-fno-builtin", "-o", program, "own file.c")
		cc.Dir = dir
		if out, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		f, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		err = Image{Template: &blueprint.Blueprint{ELF: "firmware.elf"}, Board: &boards.Board{}}.checkImage(f)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			failure.Of(err) != failure.Link) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
