package ramlink_test

import (
	"archive/tar"
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/ramlink"
	"github.com/boardsmith/boardsmith/rpc"
)

// linkerFor returns a project for a board, and its linker.
func linkerFor(t *testing.T, board string) (*project.Project, *ramlink.Linker) {
	t.Helper()
	spec := project.Spec{Board: board, Model: mlftest.Tiny(t, nil), Options: boards.Options{UploadKiB: 16}}
	p, err := new(project.Builder).Generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	l, err := p.OperatorLinker(t.Context())
	must(t, err)
	return p, l
}

// TestStrangersReadNoFiles: neither an error nor a program of an uploaded module has a line of this computer's files.
func TestStrangersReadNoFiles(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, "hidden words\n#hidden directive\n")
	window := rpc.Window{Base: 1 << 29, Bytes: 1 << 14, Alignment: 64}
	for _, board := range []string{"host", "mps2_an386"} {
		_, l := linkerFor(t, board)
		for name, source := range map[string]string{
			"include":          `#include "SECRET"`,
			"system":           `#include <SECRET>`,
			"beside system":    `#include <` + strings.Repeat("../", 20) + `SECRET>`,
			"relative":         `#include "` + strings.Repeat("../", 20) + `SECRET"`,
			"own header":       `#include "own.h"`,
			"system header":    "#include \"system.h\"",
			"macro's argument": "#define TEXT(...) #__VA_ARGS__\n_Static_assert(0, TEXT(\n#include \"SECRET\"\n));",
			"line":             "#line 1 \"SECRET\"\nint x = y;",
			"assembler":        `__asm__(".include \"SECRET\"");`,
			"other line":       `__asm__("# 1 \"lib0.c\"\n.include \"SECRET\"");`,
			"binary":           `__asm__(".globl stolen\n.data\nstolen: .incbin \"SECRET\"\n.text");`,
			"section": `__attribute__((section(".data\n.incbin \"SECRET\"\n.section .data"), used)) int stolen = 1;` +
				"\nint x = y;",
		} {
			source = strings.ReplaceAll(source, "SECRET", secret)
			o, err := ramlink.ReadModule(moduleOf(t,
				tar.Header{Name: "lib0.c", Linkname: "#include \"tvm/ffi/c_api.h\"\n" + ffiSource("main") + source + "\n"},
				tar.Header{Name: "own.h", Linkname: `#include "` + secret + `"`},
				tar.Header{Name: "system.h", Linkname: "#pragma GCC system_header\n#include \"" + secret + `"`}))
			must(t, err)
			p, err := l.Link(t.Context(), o, window)
			if err == nil || strings.Contains(err.Error()+failure.Next(err), "hidden") ||
				bytes.Contains(p.ELF, []byte("hidden")) {
				t.Errorf("%s, %s: %v", board, name, err)
			}
			if strings.HasSuffix(name, "header") && !strings.Contains(err.Error(), "lib0.c includes "+secret) {
				t.Errorf("%s, %s: %v", board, name, err)
			}
		}
		o, err := ramlink.ReadModule(moduleOf(t, tar.Header{
			Name: "lib0.c", Linkname: "#include <math.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n" +
				"#include \"tvm/ffi/c_api.h\"\n" + ffiSource("main") + "int x = y;",
		}))
		must(t, err)
		if _, err = l.Link(t.Context(), o, window); err == nil || !strings.Contains(err.Error(), "'y' undeclared") {
			t.Errorf("%s, an error of its own: %v", board, err)
		}
	}
}
