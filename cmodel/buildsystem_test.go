// This file tests the files of a folder of models for build systems, where a user's own differ from the simplest ones.

package cmodel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestCMakeOfCpp links a program of a project that has C++ only with the models.
func TestCMakeOfCpp(t *testing.T) {
	testkit.Need(t, "cmake")
	dir := unpack(t, code(t, "twoin.aot_c"))
	user := t.TempDir()
	write(t, user+"/CMakeLists.txt", "cmake_minimum_required(VERSION 3.20)\nproject(user CXX)\n"+
		"add_subdirectory("+dir+" models)\nadd_executable(user main.cpp)\ntarget_link_libraries(user PRIVATE models)\n")
	write(t, user+"/main.cpp", "#include <tvm_twoin.h>\n"+
		"int main() { return TVMGetInterfaceVersion(&tvm_twoin) > 0 ? 0 : 1; }\n")
	for _, args := range [][]string{{"-B", "made"}, {"--build", "made"}} {
		output(t, user, "cmake", args...)
	}
	output(t, user, "made/user")
}

// TestZephyrModule compiles the models of two folders as modules of the Zephyr in ZEPHYR_BASE, with the lines of
// docs/embedded.md.
func TestZephyrModule(t *testing.T) {
	if os.Getenv("ZEPHYR_BASE") == "" {
		t.Skip("ZEPHYR_BASE names no Zephyr (docs/zephyr.md)")
	}
	_, text, ok := strings.Cut(page(t), "```cmake\n")
	text, _, end := strings.Cut(text, "```")
	if !ok || !end || !strings.Contains(text, "ZEPHYR_EXTRA_MODULES") {
		t.Fatal("docs/embedded.md has no CMakeLists.txt of a Zephyr application")
	}
	const list = "${CMAKE_CURRENT_LIST_DIR}/kws"
	p := folders(t, "user", "sine.graph", "twoin.aot_packed")
	must(t, os.Rename(p.dir+"/"+p.first, p.dir+"/kws"))
	user := p.dir
	write(t, user+"/CMakeLists.txt", strings.Replace(text, list, list+" ${CMAKE_CURRENT_LIST_DIR}/two", 1))
	write(t, user+"/prj.conf", "")
	for _, args := range [][]string{{"-B", "made", "-DBOARD=mps2_an385"}, {"--build", "made"}} {
		output(t, user, "cmake", args...)
	}
}

// TestTargetRISCV: what uses a library needs the extensions of RISC-V that the library was compiled for, and may use
// more.
func TestTargetRISCV(t *testing.T) {
	const riscv = "riscv64-unknown-elf-gcc"
	testkit.Need(t, riscv)
	const small, large = "-march=rv32imafc", "-march=rv32imafc_zba_zbb"
	for _, c := range []struct{ library, user, differs string }{
		{small, large, ""},
		{large, small, "__riscv_zba"},
		{small, "-march=rv32imaf", "__riscv_compressed"},
	} {
		flags := []string{c.library, "-mabi=ilp32f"}
		predefined := output(t, ".", riscv, append(flags, "-dM", "-E", "-x", "c", "/dev/null")...)
		header := cmodel.NewTarget("own", "gcc 12", flags, predefined).Check()
		dir := t.TempDir()
		write(t, dir+"/target.c", string(header.Data))
		_, err := run(dir, riscv, c.user, "-mabi=ilp32f", "-fsyntax-only", "target.c")
		testkit.WantErrorIf(t, c.differs != "", err, "", c.differs)
	}
}
