//go:build !windows

package project

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
)

// TestZephyrUsersFiles builds by hand, through a symbolic link, a project with files in C++ and assembler, a relocated
// file of the firmware, and devices of which one is defined in the firmware's folder.
func TestZephyrUsersFiles(t *testing.T) {
	t.Parallel()
	NeedFullZephyr(t)
	e := testEnv()
	e.Cache = cache.New(t.TempDir(), cache.Options{})
	p := zephyrProject(t, e, "int users;")
	for name, text := range usersFiles() {
		add(t, filepath.Join(p.Dir(), name), text)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(p.Dir(), link))
	cmd := exec.CommandContext(t.Context(), "west", "build", "-d", "build/west", "-b", zephyrKeptBoard)
	cmd.Dir = link
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("west by hand: %v\n%s", err, out)
	}
	image := filepath.Join(p.Dir(), "build/west/zephyr/firmware.elf")
	data, err := os.ReadFile(image)
	must(t, err)
	for _, at := range []string{p.Dir(), link, os.Getenv("ZEPHYR_BASE")} {
		if i := bytes.Index(data, []byte(at)); i >= 0 {
			t.Errorf("the image names the folder: %q", data[i:min(len(data), i+len(at)+20)])
		}
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	must(t, err)
	symbols, err := f.Symbols()
	must(t, err)
	found := false
	for _, s := range symbols {
		if s.Name == "os_init" {
			found = true
			if s.Value < 0x2000_0000 {
				t.Errorf("os_init is at %#x, not in RAM", s.Value)
			}
		}
	}
	if !found {
		t.Error("no os_init in the image")
	}
	table, err := os.ReadFile(filepath.Join(p.Dir(), "build/west/zephyr/dev_handles.c"))
	if os.IsNotExist(err) {
		return // this Zephyr makes none, or not without an option
	}
	must(t, err)
	parent := regexp.MustCompile(`/\* (\d+) : /zparent:`).FindSubmatch(table)
	child := regexp.MustCompile(`(?s)/zparent/zchild:.*?\[\] = \{ (\d+), `).FindSubmatch(table)
	if parent == nil || child == nil || !bytes.Equal(parent[1], child[1]) {
		t.Errorf("zchild does not depend on zparent:\n%s", table)
	}
}

// usersFiles returns the texts that TestZephyrUsersFiles adds to files.
func usersFiles() map[string]string {
	device := func(name string, priority int) string {
		return fmt.Sprintf(`#if __has_include(<zephyr/device.h>)
#include <zephyr/device.h>
#else
#include <device.h>
#endif
static int begin(const struct device *d) { (void)d; return 0; }
DEVICE_DT_DEFINE(DT_NODELABEL(%s), begin, NULL, NULL, NULL, POST_KERNEL, %d, NULL);
`, name, priority)
	}
	options := []string{"", "CONFIG_CODE_DATA_RELOCATION=y", "CONFIG_CPLUSPLUS=y", ""}
	if _, err := os.Stat(filepath.Join(os.Getenv("ZEPHYR_BASE"), "lib/cpp/Kconfig")); err == nil {
		options[2] = "CONFIG_CPP=y"
	}
	return map[string]string{
		"local/local.conf":    strings.Join(options, "\n"),
		"local/local.overlay": "\n/ { zparent: zparent { zchild: zchild { }; }; };\n",
		"src/child.c":         device("zchild", 20),
		"boardsmith/src/up.c": device("zparent", 10),
		"src/place.cpp":       `extern "C" { extern const char place_cpp[]; const char place_cpp[] = __FILE__; }` + "\n",
		"src/place.S":         ".section .rodata.place, \"a\"\n.global place\nplace: .asciz __FILE__\n",
		"CMakeLists.txt": `
target_sources(app PRIVATE src/place.cpp src/place.S)
set(port boardsmith/os/zephyr_port.c)
if(zephyr VERSION_LESS 3.3)
  zephyr_code_relocate(${port} SRAM)
else()
  zephyr_code_relocate(FILES ${port} LOCATION RAM)
endif()
`,
	}
}

// add appends to a file, which it makes if needed.
func add(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}
