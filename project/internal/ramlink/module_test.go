package ramlink_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/ramlink"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
)

// moduleOf packs a tar.
func moduleOf(t testing.TB, members ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		data := h.Linkname // of the file
		h.Size, h.Linkname, h.Mode = int64(len(data)), "", 0o644
		must(t, w.WriteHeader(&h))
		_, err := w.Write([]byte(data))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	must(t, err)
	must(t, w.Close())
	return b.Bytes()
}

func ffiSource(names ...string) string {
	var c strings.Builder
	for _, name := range names {
		c.WriteString("TVM_DLL int32_t __tvm_ffi_" + name + "(void* self_handle, void* args, int32_t n, void* result);\n" +
			"TVM_DLL int32_t __tvm_ffi_" + name + "(void* self_handle, void* args, int32_t n, void* result) {\n  return 0;\n}\n")
	}
	return c.String()
}

func packedSource(names ...string) string {
	var c strings.Builder
	for _, name := range names {
		c.WriteString("TVM_DLL int32_t " + name + "(void* args, int32_t* codes, int32_t n, void* out, int32_t* type, " +
			"void* handle) {\n  return 0;\n}\n")
	}
	return c.String()
}

// TestReadModule reads modules of C files and of an object.
func TestReadModule(t *testing.T) {
	t.Parallel()
	file := func(name, data string) tar.Header { return tar.Header{Name: name, Linkname: data} }
	for _, c := range []struct {
		name    string
		module  []byte
		abi     mlf.ABI
		entries string
	}{
		{"one function", moduleOf(t, file("lib0.c", ffiSource("main"))), mlf.ABITVMFFI, "main __tvm_main__=main " +
			"default_function=main"},
		{
			"of another name", gzipped(t, moduleOf(t, file("lib0.c", ffiSource("dense")))), mlf.ABITVMFFI,
			"dense main=dense __tvm_main__=dense default_function=dense",
		},
		{"two without a main one", moduleOf(t, file("a.c", ffiSource("f", "g"))), mlf.ABITVMFFI, "f g"},
		{
			"beside packed ones", moduleOf(t, file("a.c", ffiSource("f")), file("b.c", packedSource("g"))), mlf.ABITVMFFI,
			"f main=f __tvm_main__=f default_function=f",
		},
		{
			"packed", moduleOf(t, file("a.c", packedSource("__tvm_main__", "default_function"))), mlf.ABIPacked,
			"__tvm_main__ default_function main=__tvm_main__",
		},
		{
			"packed main", moduleOf(t, file("a.c", packedSource("__tvm_main__", "main"))), mlf.ABIPacked,
			"__tvm_main__ main=boardsmith_main default_function=boardsmith_main",
		},
		{"an object", tvmObject(t), mlf.ABITVMFFI, "main __tvm_main__=main default_function=main"},
	} {
		o, err := ramlink.ReadModule(c.module)
		if err != nil || o.ABI != c.abi || strings.Join(o.Entries, " ") != c.entries {
			t.Errorf("%s: %s %v, %v, want %s [%s]", c.name, o.ABI, o.Entries, err, c.abi, c.entries)
		}
		if renamed := strings.Contains(c.entries, "boardsmith_main"); renamed != slices.Contains(o.Flags,
			"-Dmain=boardsmith_main") {
			t.Errorf("%s: flags %v", c.name, o.Flags)
		}
	}
}

// tvmObject returns an object of TVM's LLVM.
func tvmObject(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("../../../tune/testdata/modules/modules.tar.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		must(t, err)
		if h.Name != "conv2d_qemu_riscv32.tar" {
			continue
		}
		module, err := gzip.NewReader(r)
		must(t, err)
		members := tar.NewReader(module)
		_, err = members.Next()
		must(t, err)
		object, err := io.ReadAll(members)
		must(t, err)
		return object
	}
}

// TestReadModuleRefuses: a module of a stranger is refused before a file is written or a compiler runs.
func TestReadModuleRefuses(t *testing.T) {
	t.Parallel()
	file := func(name, data string) tar.Header { return tar.Header{Name: name, Linkname: data} }
	object := tvmObject(t)
	for _, c := range []struct {
		name   string
		module []byte
		text   string
	}{
		{"nothing", nil, "empty"},
		{"a truncated tar", moduleOf(t, file("lib0.c", ffiSource("main")))[:700], "truncated"},
		{"a climbing name", moduleOf(t, file("../lib0.c", ffiSource("main"))), "outside"},
		{"an option", moduleOf(t, file("-o.c", ffiSource("main"))), "begins like an option"},
		{"a program", moduleOf(t, file("lib0.so", "\x7fELF")), "neither a C file nor an object"},
		{"assembler", moduleOf(t, file("lib0.S", ".incbin \"/etc/passwd\"")), "neither a C file nor an object"},
		{"a bomb", gzipped(t, moduleOf(t, file("lib0.c", strings.Repeat("\n", 65<<20)))), "more than 67108864 bytes"},
		{"equal objects", moduleOf(t, file("a/lib0.c", ffiSource("main")), file("b/lib0.c", "")), "both make"},
		{"no function", moduleOf(t, file("lib0.c", "int main(void) { return 0; }")), "no file defines a function"},
		{"a declaration", moduleOf(t, file("lib0.c", strings.SplitAfter(ffiSource("main"), "\n")[0])), "no file defines"},
		{"no object", moduleOf(t, file("lib0.o", "text")), "not an object"},
		{"a truncated object", object[:len(object)/2], "not an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ramlink.ReadModule(c.module)
			testkit.WantError(t, err, failure.Config, c.text)
		})
	}
}

// FuzzReadModule reads arbitrary modules. Names in an accepted one are those of C functions, and of files below a
// folder.
func FuzzReadModule(f *testing.F) {
	corpus.Add(f)
	f.Fuzz(func(t *testing.T, module []byte) {
		o, err := ramlink.ReadModule(module)
		if err != nil {
			return
		}
		for _, e := range o.Entries {
			if strings.ContainsFunc(e, func(r rune) bool {
				return r != '=' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
			}) {
				t.Errorf("entry %q", e)
			}
		}
		for _, file := range o.Files {
			if strings.HasPrefix(file.Name, "-") || !filepath.IsLocal(file.Name) {
				t.Errorf("file %q", file.Name)
			}
		}
	})
}
