package mlf

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/ndarray"
)

var must = testkit.Must

func TestRelay(t *testing.T) {
	for _, c := range []struct{ text, params, results, names string }{
		{
			"def @main(%serving_default_dense_input:0: Tensor[(1, 1), int8] /* ty=Tensor[(1, 1), int8] span=a:0:0 */, " +
				"%p.1/x: Tensor[(16), int32], output_tensor_names=[\"a, b)\", \"c\"]) -> (Tensor[(1, 1), int8], float32) {\n",
			"[serving_default_dense_input:0 int8 (1, 1) p.1/x int32 (16,)]", "[ int8 (1, 1)  float32 ()]", "[a, b) c]",
		},
		{"#[version = \"0.0.5\"]\ndef @main(%x: float32 /* ty=float32 */) {\n", "[x float32 ()]", "[]", "[]"},
		{
			"def @main(%x: Tensor[(?, 3), int8], %y: Tensor[(2), bool]) -> Tensor[(?, 3), int8] {\n", "[y bool (2,)]",
			"[]", "[]",
		},
		{
			"def @main(%t: (Tensor[(2), int8], int8), %s: Tensor[(), int8]) -> ((int8, int8), Tensor[(2, 2), float16]) {\n",
			"[s int8 ()]", "[ int8 ()  int8 ()  float16 (2, 2)]", "[]",
		},
		{"def @main() -> int8 {\n", "[]", "[ int8 ()]", "[]"},
		{"fn (%x: int8) { %x }", "[]", "[]", "[]"},
		{"def @main(%x: Tensor[(2, int8] {\n", "[]", "[]", "[]"},
		{"def @main(%x: Tensor[(9223372036854775807, 9), int8], output_tensor_names=[\"a) {\n", "[]", "[]", "[]"},
		{"", "[]", "[]", "[]"},
	} {
		r := parseRelay(c.text)
		if fmt.Sprint(r.Params) != c.params || fmt.Sprint(r.Results) != c.results || fmt.Sprint(r.OutputNames) != c.names {
			t.Errorf("%q\nreads as %v -> %v %v", c.text, r.Params, r.Results, r.OutputNames)
		}
	}
}

func TestOutputNames(t *testing.T) {
	known := func(names ...string) figures {
		f := figures{nil, map[string]Tensor{}}
		for i, n := range names {
			f.outputs[n] = Tensor{Name: n, DType: ndarray.DType{Bits: 8, Lanes: 1}, Bytes: int64(i)}
		}
		return f
	}
	var eleven []string
	for i := range 11 {
		eleven = append(eleven, fmt.Sprintf("output%d", i))
	}
	results := []Tensor{{DType: ndarray.DType{Bits: 8, Lanes: 1}, Bytes: 1}, {
		DType: ndarray.DType{Bits: 8, Lanes: 1},
		Bytes: 0,
	}}
	for _, c := range []struct {
		relay *relayText
		known figures
		n     int
		want  []string
	}{
		{&relayText{}, known("Identity"), 1, []string{"Identity"}},
		{&relayText{}, known(), 1, []string{"output"}},
		{&relayText{}, known(eleven...), 11, eleven},
		{&relayText{OutputNames: []string{"b", "a"}}, known("a", "b"), 2, []string{"b", "a"}},
		{&relayText{}, known("a", "b"), 2, []string{"output0", "output1"}},
		{&relayText{Results: results}, known("a", "b"), 2, []string{"b", "a"}},
	} {
		testkit.Equal(t, "names", outputNames(c.relay, c.known, c.n), c.want)
	}
}

func TestRegistryNames(t *testing.T) {
	got := registryNames(unescape([]byte(`\002\000add\000__tvm_main__\000`)))
	testkit.Equal(t, "names", got, []string{"add", "__tvm_main__"})
	object := append([]byte("xx add\x00 wrong \x05\x00add\x00\x00 then \x02\x00add\x00mul\x00\x00rest add\x00"), 0xff)
	testkit.Equal(t, "in an object", registryIn(object, []string{"mul", "add"}), []string{"add", "mul"})
}

// TestObjects compiles with each installed compiler and reads back its options.
func TestObjects(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.c")
	testkit.WriteFile(t, src, "extern float g(float); float f(float x) { return g(x) * 2.0f; }\n")
	tried := 0
	const arm, riscv = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"
	for _, c := range []struct{ cc, flags, want string }{
		{"gcc", "", ""},
		{arm, "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16", "EM_ARM ELFCLASS32 ELFDATA2LSB hard 13"},
		{arm, "-mcpu=cortex-m0 -mthumb", "EM_ARM ELFCLASS32 ELFDATA2LSB soft 12"},
		{riscv, "-march=rv32imac -mabi=ilp32", "EM_RISCV ELFCLASS32 ELFDATA2LSB soft 0"},
		{riscv, "-march=rv64imafdc -mabi=lp64d", "EM_RISCV ELFCLASS64 ELFDATA2LSB double 0"},
	} {
		if _, err := exec.LookPath(c.cc); err != nil {
			t.Logf("%s is not installed: not tested", c.cc)
			continue
		}
		obj := filepath.Join(dir, "a.o")
		cmd := exec.Command(c.cc, append(strings.Fields(c.flags), "-c", "-o", obj, src)...)
		testkit.Output(t, cmd)
		tried++
		data := testkit.ReadFile(t, obj)
		got, err := File{"a.o", data}.Info()
		if err != nil || !slices.Equal(got.Defined, []string{"f"}) || !slices.Contains(got.Undefined, "g") {
			t.Errorf("%s: %+v, %v", cmd.Args, got, err)
		}
		facts := fmt.Sprintf("%v %v %v %s %d", got.Machine, got.Class, got.Data, got.FloatABI, got.Arch)
		if c.want != "" && facts != c.want {
			t.Errorf("%s: %s, want %s", cmd.Args, facts, c.want)
		}
		for n := 0; n < len(data); n += 7 {
			_, _ = File{"a.o", data[:n]}.Info() // must not panic
		}
	}
	if tried == 0 {
		t.Skip("no compiler is installed")
	}
}

// TestOtherFormats checks that what compilers write in place of an object is named.
func TestOtherFormats(t *testing.T) {
	for text, want := range map[string]string{
		"BC\xc0\xde5\x14": "LLVM's bitcode", "\xde\xc0\x17\x0b": "LLVM's bitcode", "!<arch>\nnet.o/": "a library of objects",
		"!<thin>\n": "a library", "\xcf\xfa\xed\xfe\x0c": "macOS", "\x64\x86\x02": "Windows",
		"": "not an object", strings.Repeat("text", 64): "not an object: bad magic",
	} {
		_, err := (File{"a.o", []byte(text)}).Info()
		testkit.WantError(t, err, "", want)
	}
}

// TestLinkedDescription opens a description by a link to it, and one in a folder by a link to that.
func TestLinkedDescription(t *testing.T) {
	target, err := filepath.Abs("../examples/c-model/dense.json")
	must(t, err)
	links := map[string]string{"kws.json": target, "folder": filepath.Dir(target)}
	dir := t.TempDir()
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, name := range []string{"kws.json", "folder/dense.json"} {
		a, err := Open(filepath.Join(dir, name))
		must(t, err)
		testkit.Equal(t, name, a.Models[0].Name, "dense")
	}
	must(t, os.Symlink("none.json", filepath.Join(dir, "broken.json")))
	_, err = Open(filepath.Join(dir, "broken.json"))
	testkit.WantError(t, err, failure.Config)
}

// TestAttributes reads a handmade section, truncated at each length and with each byte changed.
func TestAttributes(t *testing.T) {
	pairs := "\x05cortex-m7\x00\x06\x0d\x1c\x01\x20\x01none\x00\x43\x32.09\x00"
	scope := fmt.Sprintf("\x01%c\x00\x00\x00%s", len(pairs)+5, pairs)
	body := fmt.Sprintf("aeabi\x00%s", scope)
	section := []byte(fmt.Sprintf("%c\x00\x00\x00%s", len(body)+4, body))
	found := map[uint64]attribute{}
	o := ObjectInfo{}
	part, rest, ok := sized(section, section, o.order())
	if !ok || len(rest) != 0 {
		t.Fatalf("% x | % x", part, rest)
	}
	must(t, readScopes([]byte(scope), o.order(), armIsText, found))
	if found[armCPUName].text != "cortex-m7" || found[armCPUArch].number != 13 || found[armVFPArgs].number != 1 ||
		found[67].text != "2.09" {
		t.Errorf("%v", found)
	}
	for i := range scope {
		_ = readScopes([]byte(scope)[:i], o.order(), armIsText, found)
		for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			bad := []byte(scope)
			bad[i] = b
			_ = readScopes(bad, o.order(), armIsText, found)
		}
	}
}

func TestBadHeaders(t *testing.T) {
	run := "int32_t tvmgen_m_run(struct tvmgen_m_inputs* inputs);\n"
	for _, text := range []string{
		"", "int32_t tvmgen_m_run(void* x);", run + "struct tvmgen_m_inputs { int x; };",
		run + "struct tvmgen_other_inputs { void* x; };",
		"int32_t tvmgen_m_run(struct tvmgen_m_inputs* a, struct tvmgen_m_inputs* b);",
		run + "#define TVMGEN_M_X_SIZE 99999999999999999999\n",
		run + "struct tvmgen_m_workspace_pools { void* p; };\n#define TVMGEN_M_P_WORKSPACE_POOL_SIZE BYTES\n",
		run + "struct tvmgen_m_workspace_pools { void* p; };\n#define TVMGEN_M_Q_WORKSPACE_POOL_SIZE 5\n",
		run + "struct tvmgen_m_workspace_pools { void* p; };\n#define TVMGEN_M_P_WORKSPACE_POOL_SIZE 5\n" +
			"#define TVMGEN_M_P_WORKSPACE_POOL_SIZE 6\n",
	} {
		if h, err := parseHeader([]byte(text)); err == nil {
			t.Errorf("%q reads as %+v", text, h)
		}
	}
}

// TestPoolSizes reads sizes that are not decimal, too.
func TestPoolSizes(t *testing.T) {
	const text = "struct tvmgen_m_workspace_pools { void* p; void* unused; };\n" +
		"int32_t tvmgen_m_run(struct tvmgen_m_workspace_pools* pools);\n# define TVMGEN_M_P_WORKSPACE_POOL_SIZE %s\n"
	for _, size := range []string{"0x1000", "4096 /* bytes */", "4096\r"} {
		h, err := parseHeader(fmt.Appendf(nil, text, size))
		if err != nil || len(h.Pools) != 2 || h.Pools[0].Bytes != 4096 || h.Pools[1].Bytes != 0 {
			t.Errorf("%q: %+v, %v", size, h, err)
		}
	}
}

// TestBomb: a small file that unpacks to more than the limit is rejected.
func TestBomb(t *testing.T) {
	const limit = 1 << 20
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(make([]byte, limit+1))
	must(t, errors.Join(err, w.Close()))
	_, err = unpack(bytes.NewReader(b.Bytes()), limit)
	testkit.WantError(t, err, "", "unpacks to more")
	if raw, err := unpack(bytes.NewReader(b.Bytes()), limit+1); err != nil || len(raw) != limit+1 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// TestNameOfOperator: an operator's entry has the name of the only function in its library; the metadata may have the
// module's.
func TestNameOfOperator(t *testing.T) {
	for _, c := range []struct{ entry, functions, want string }{
		{"main", "default_function __tvm_main__", "default_function"},
		{"add", "add __tvm_main__", "add"},
		{"add", "add", "add"},
		{"add", "sub mul __tvm_main__", "add"},
		{"add", "sub;mul __tvm_main__", "add"},
		{"add", "", "add"},
	} {
		m := &Model{Style: operator, Entry: c.entry, Functions: strings.Fields(c.functions)}
		m.nameEntry()
		testkit.Equal(t, c, m.Entry, c.want)
	}
}
