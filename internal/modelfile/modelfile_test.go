package modelfile_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
)

// netH declares the functions of the described model.
const netH = `
#include <stdint.h>
struct net_io { const float* in; int8_t flags[4]; struct { int rows; int sizes[2]; } meta; };
typedef struct { int32_t count; } net_t;
int net_run(const float* x, int8_t y[2][3], net_t* net, void* work, int n, struct net_io* io);
int net_init(net_t* net);
float net_score(const float* x);
void net_plain(const float* x, float* y);
int net_ints(const int* x);
const char* net_text(const float* x, float* y);
void net_wide(const double* x, _Bool* y);
void net_flags(const _Bool* x, _Bool a, float* y);
void net_chars(const signed char* x, float* y);
union net_word { float f; int32_t i; };
void net_words(const union net_word* x, float* y);
enum net_mode { NET_FAST, NET_SLOW };
enum net_level { NET_LOW = -1, NET_HIGH };
void net_modes(const enum net_mode* x, enum net_level* y, ...);
typedef void* handle;
void net_table(handle const tensors[], int n);
#define net_macro(x, y) net_plain(x, y)
static inline void net_inline(const float* x, float* y) { net_plain(x, y); }
`

// netJSON describes it; each line is one that a case replaces.
const netJSON = `{
  "name": "net",
  "sources": ["net.c"],
  "headers": ["net.h"],
  "objects": [],
  "defines": ["N=2"],
  "function": "net_run",
  "arguments": [
    {"input": "x", "dtype": "float32", "shape": [2]},
    {"output": "y", "dtype": "int8", "shape": [2, 3], "pass": "array"},
    {"state": "net", "ctype": "net_t"},
    {"arena": "work", "bytes": 64},
    {"value": "N"},
    {"struct": "struct net_io", "members": [
      {"member": "in", "input": "more", "dtype": "float32", "shape": [4]},
      {"member": "flags", "output": "flags", "dtype": "int8", "shape": [2, 2], "pass": "flat"},
      {"member": "meta.sizes[1]", "value": "N"}
    ]}
  ],
  "returns": {"status": 0},
  "init": {"function": "net_init", "arguments": [
    {"state": "net", "ctype": "net_t"}], "returns": {"status": 0}}
}
`

var must = testkit.Must

func folder(description string) fstest.MapFS {
	return fstest.MapFS{
		"net.json": {Data: []byte(description)}, "net.h": {Data: []byte(netH)},
		"net.c":   {Data: []byte("#include \"net.h\"\n")},
		"inc/a.h": {Data: []byte("#define A 1\n")}, "odd/a b/c.h": {}, "sub/net.c": {Data: []byte("\n")},
		"bad.a": {Data: []byte("!<thin>\n")},
		"cut.a": {Data: []byte("!<arch>\nnet.o/")}, "net_call.c": {Data: []byte("\n")},
	}
}

// pack packs the folder of a description.
func pack(description string) ([]byte, error) {
	return modelfile.Pack(folder(description), "net.json", "net.json")
}

// wrong are descriptions with one error, and what the message has. Those of wrongC are errors of the compiler.
var wrong = []struct{ old, new, want string }{
	{`"net",`, `"Net",`, `net.json:2: name: "Net" is not a name of small letters`},
	{`["net.c"]`, `["none.c"]`, `net.json:3: sources: none.c: `},
	{`["net.c"]`, `["net.h"]`, `net.json:3: sources[0]: "net.h" is none of .c`},
	{`["net.c"]`, `["../net.c"]`, `net.json:3: sources: "../net.c": a path`},
	{`["net.c"]`, `["net.c", "sub/net.c"]`, `net.json:3: net.c and sub/net.c have one name`},
	{`["net.c"]`, `["net.c", "net_call.c"]`, `net.json:3: net_call.c: boardsmith writes a file of this name`},
	{`["net.h"]`, `["net.h", "odd"]`, `net.json:4: headers: "odd/a b/c.h": the names of folders in it have only`},
	{`["net.h"]`, `["net.h", ""]`, `net.json:4: headers: "": a file's name has only letters`},
	{`["net.h"]`, `[]`, `net.json:4: headers: there is no header that declares the function`},
	{`"objects": []`, `"objects": ["net.so"]`, `net.json:5: objects[0]: "net.so" is none of .o, .a`},
	{`"objects": []`, `"objects": ["bad.a"]`, `net.json:5: objects: bad.a: a thin library`},
	{`"objects": []`, `"objects": ["cut.a"]`, `net.json:5: objects: cut.a: truncated`},
	{`"N=2"`, `"N-2"`, `net.json:6: defines[0]: "N-2" is not a macro, as in N or N=2`},
	{`"N=2"`, `"N=2\nM"`, `net.json:6: defines[0]: "N=2\nM": a text has no line break`},
	{`"output": "y"`, `"output": "work_workspace_pool"`, `output work_workspace_pool and the size of arena work have one name`},
	{`"N=2"`, `"N=2", "M", "N"`, `net.json:6: defines: N is given twice`},
	{`"net_run"`, `"net run"`, `net.json:7: function: "net run" is not a C identifier`},
	{`"function": "net_run"`, `"functoin": "net_run"`, `net.json:7: field "functoin" is not known; did you mean "function"?`},
	{`"float32", "shape": [2]`, `"f32", "shape": [2]`, `net.json:9: arguments[0].dtype: "f32" is none of float32`},
	{`"shape": [2]`, `"doc": 1`, `field "arguments[0].doc" is not known`},
	{`, "shape": [2]`, ``, `net.json:9: arguments[0].input: it needs shape`},
	{`"shape": [2]`, `"shape": [0]`, `net.json:9: arguments[0].shape[0]: 0 is not between 1 and`},
	{`"shape": [2]`, `"shape": ["2"]`, `net.json:9: arguments.shape: a text, where a whole number belongs`},
	{`"shape": [2]`, `"shape": [2], "pass": "value"`, `net.json:9: argument 1, x: only a tensor of one element`},
	{`"pass": "array"`, `"pass": "reference"`, `net.json:10: arguments[1].pass: "reference" is none of pointer, array, flat, value`},
	{`"output": "y"`, `"output": "x"`, `input x and output x have one name`},
	{`, "ctype": "net_t"},` + "\n    {\"arena", "},\n    {\"arena", `net.json:11: arguments[2].state: it needs ctype`},
	{`"ctype": "net_t"},` + "\n    {\"arena", "\"ctype\": \"int\"},\n    {\"arena", `net.json:11: argument 3, net: it differs from net in line 22`},
	{`"bytes": 64`, `"bytes": 0`, `net.json:12: argument 4, work: bytes are missing`},
	{`"bytes": 64`, `"bytes": 64, "align": 24`, `net.json:12: arguments[3].align: 24 is not a power of two`},
	{`{"value": "N"}`, `{"value": "N", "state": "k"}`, `net.json:13: arguments[4]: it must have one of input, output, arena, state, value, struct; it has 2`},
	{`{"value": "N"}`, `{"value": "N // of it"}`, `net.json:13: arguments[4].value: "N // of it" is not one line of C`},
	{`"struct net_io", "members"`, `"struct net_io", "bytes": 4, "members"`, `net.json:14: arguments[5].bytes: it is only for arena`},
	{`"meta.sizes[1]"`, `"in"`, `net.json:17: arguments[5].members[2]: "in" is there twice`},
	{`"meta.sizes[1]"`, `"meta.sizes[010]"`, `net.json:17: arguments[5].members[2].member: "meta.sizes[010]" is not`},
	{`"shape": [2]}`, `"shape": [2], "scale": 0.5}`, `net.json:9: argument 1, x: scale and zero_point are for integers`},
	{`"int8", "shape": [2, 3]`, `"int8", "zero_point": 1, "shape": [2, 3]`, `net.json:10: arguments[1].zero_point: it is only for scale`},
	{`"int8", "shape": [2, 3]`, `"int8", "scale": 1, "zero_point": 128, "shape": [2, 3]`, `argument 2, y: zero_point 128 is no int8`},
	{`"int8", "shape": [2, 3]`, `"int8", "scale": -1, "shape": [2, 3]`, `argument 2, y: scale -1 is not a positive number`},
	{`"float32", "shape": [2]`, `"bool", "shape": [2]`, `arguments[0].dtype: "bool" is none of float32`},
	{`"defines"`, `"examples": "net.h", "defines"`, `net.json:6: examples: "net.h" is none of .npz`},
	{`"defines"`, `"examples": "x.npz", "compare": "abs=0", "defines"`, `net.json:6: compare: "abs=0" is not exact, top1, abs=N`},
	{`"member": "in"`, `"member": "*in"`, `net.json:15: arguments[5].members[0].member: "*in" is not the name of a member`},
	{`"status": 0},` + "\n  \"init", "\"status\": 0, \"ignored\": true},\n  \"init", `net.json:20: returns: it must have one of status, output, ignored; it has 2`},
	{`{"state": "net", "ctype": "net_t"}], "ret`, `{"input": "z", "dtype": "int8", "shape": [1]}], "ret`, `net.json:22: init argument 1, z: init has no inputs and outputs`},
	{`"name": "net",`, `"name": "net", "license": "my own; */",`, `net.json:2: license: "my own; */" is not an SPDX expression`},
	{`"net",`, `"net", "name": "net",`, `net.json:2: "name" is given twice`},
	{`{`, `[`, `net.json:1: the file is not one object in braces`},
}

// wrongC are descriptions that differ from the header.
var wrongC = []struct{ old, new, want string }{
	{`"float32", "shape": [2]`, `"int8", "shape": [2]`, `net.json: argument 1, x:9:`},
	{`"int8", "shape": [2, 3], "pass": "array"`, `"uint8", "shape": [2, 3], "pass": "array"`, `net.json: argument 2, y:10:`},
	{`"shape": [2, 3], "pass": "array"`, `"shape": [2, 3]`, `net.json: argument 2, y:10:`},
	{`{"state": "net", "ctype": "net_t"},` + "\n    {\"arena", "{\"state\": \"k\", \"ctype\": \"int\"},\n    {\"arena", `net.json: argument 3, k:11:`},
	{`"ctype": "net_t"`, `"ctype": "net_type"`, `net.json: state net:22:`},
	{`{"value": "N"}`, `{"value": "0.5"}`, `net.json: argument 5:13:`},
	{`{"value": "N"}`, `{"value": "?"}`, `net.json: argument 5:13:`},
	{`{"value": "N"}`, `{"value": "0); system("}`, `net.json: argument 5:13:`},
	{`"ctype": "net_t"`, `"ctype": "net t;"`, `net.json: state net:22:`},
	{`"member": "in"`, `"member": "[0]"`, `member [0], more:15:`},
	{`"pass": "flat"`, `"pass": "pointer"`, `member flags, flags:16:`},
	{`{"value": "N"}`, `{"value": "5000000000"}`, `net.json: argument 5:13:`},
	{"    {\"value\": \"N\"},\n", ``, `net_run`},
	{`"struct net_io", "m`, `"struct io", "m`, `net.json: argument 6 (struct io):14:`},
	{`"member": "in", "input": "more"`, `"member": "input", "input": "more"`, `net.json: argument 6 (struct net_io), member input, more:15:`},
	{`"input": "more", "dtype": "float32"`, `"input": "more", "dtype": "float64"`, `net.json: argument 6 (struct net_io), member in, more:15:`},
	{`"shape": [2, 2], "pass": "flat"`, `"shape": [2, 3], "pass": "flat"`, `the member is not int8_t flags[6]`},
	{`"net_run"`, `"net_runs"`, `net.json: net_runs:7:`},
	{`"returns": {"status": 0},` + "\n  \"init", `"init`, `net_run returns a value: describe it in returns`},
	{`"net_init", "arguments": [` + "\n    {\"state\": \"net\", \"ctype\": \"net_t\"}]", `"net_init", "arguments": []`, `net_init`},
	{`"net_init"`, `"net_plain"`, `net_plain`},
	{`"float32", "shape": [2]`, `"int64", "ctype": "const float", "shape": [2]`, `const float is not int64`},
	{`"meta.sizes[1]"`, `"meta.size"`, `member meta.size:17:`},
}

// TestWrong checks that each wrong description is an error with its line, and that two of them are both reported.
func TestWrong(t *testing.T) {
	for _, c := range wrong {
		text := strings.Replace(netJSON, c.old, c.new, 1)
		if text == netJSON {
			t.Errorf("%q is not in the description", c.old)
		}
		_, err := pack(text)
		testkit.WantError(t, err, failure.Config, c.want)
	}
	text := strings.NewReplacer(`"float32", "shape": [2]`, `"f32"`, `"net.c"`, `"x.S"`).Replace(netJSON)
	_, err := pack(text)
	testkit.WantError(t, err, "", "dtype", "x.S")
	_, err = modelfile.Pack(folder(""), "none.json", "none.json")
	testkit.WantError(t, err, failure.Config)
}

// unpack writes the files of a description's archive into a folder, and returns the typed call.
func unpack(t *testing.T, dir, text string) (call string) {
	t.Helper()
	raw, err := pack(text)
	must(t, err)
	a, err := mlf.Parse("net.tar", raw)
	must(t, err)
	for _, f := range a.Files {
		file := filepath.Join(dir, filepath.Base(f.Name))
		testkit.WriteFile(t, file, string(f.Data))
		if strings.HasSuffix(file, modelfile.CallSuffix) {
			call = file
		}
	}
	return call
}

// compile compiles the typed call of a description as firmware does. What the compiler prints is an error.
func compile(t *testing.T, cc, text string) error {
	t.Helper()
	testkit.Need(t, cc)
	dir := t.TempDir()
	output, err := exec.Command(cc, "-std=gnu11", "-Os", "-Wno-error=incompatible-pointer-types",
		"-Wno-error=int-conversion", "-Wno-error=implicit-function-declaration", "-Wshadow", "-fsyntax-only", "-I"+dir,
		unpack(t, dir, text)).CombinedOutput()
	if err != nil || len(output) > 0 {
		return fmt.Errorf("%v\n%s", err, output)
	}
	return nil
}

// TestWrongForCompiler checks that descriptions which differ from the header are errors of the compiler that name the
// argument and its line, and that the right one compiles without a warning.
func TestWrongForCompiler(t *testing.T) {
	must(t, compile(t, "cc", netJSON))
	for _, c := range wrongC {
		text := strings.ReplaceAll(netJSON, c.old, c.new)
		if text == netJSON {
			t.Errorf("%q is not in the description", c.old)
		}
		testkit.WantError(t, compile(t, "cc", text), "", c.want, "error: ")
	}
}

// TestCType checks that a function which takes an int, where int32_t is long, needs the element's type.
func TestCType(t *testing.T) {
	const cc = "arm-none-eabi-gcc"
	const text = `{"name": "net", "headers": ["net.h"], "function": "net_ints", "arguments": [
{"input": "x", "dtype": "int32", "shape": [4]}], "returns": {"output": "sum", "dtype": "int32"}}`
	testkit.WantError(t, compile(t, cc, text), "", "argument 1, x:2:", "error: ")
	must(t, compile(t, cc, strings.Replace(text, `"int32",`, `"int32", "ctype": "int",`, 1)))
}

// TestOtherDescriptions compiles descriptions of other functions: a table of pointers, an element of another type, a
// source that is named twice. A pointer is no status.
func TestOtherDescriptions(t *testing.T) {
	const head = `{"name": "net", "sources": ["net.c", "./net.c"], "headers": ["net.h"], "function": `
	const x, y = `{"input": "x", "dtype": "float32", "shape": [2]`, `{"output": "y", "dtype": "float32", "shape": [2]`
	for text, want := range map[string]string{
		`"net_plain", "arguments": [` + x + `}, ` + y + `}]}`:  "",
		`"net_macro", "arguments": [` + x + `}, ` + y + `}]}`:  "",
		`"net_inline", "arguments": [` + x + `}, ` + y + `}]}`: "",
		`"net_table", "arguments": [{"struct": "handle", "members": [{"member": "[0]", ` + x[1:] + `}, {"member": "[1]", ` +
			y[1:] + `}]}, {"value": "2"}]}`: "",
		`"net_wide", "arguments": [` + strings.Replace(x, "32", "64", 1) + `}, {"output": "y", "dtype": "uint8", "shape": [2],` +
			` "ctype": "_Bool"}]}`: "",
		`"net_flags", "arguments": [` + strings.Replace(x, "float32", "uint8", 1) + `, "ctype": "_Bool"}, {"input": "a",` +
			` "dtype": "uint8", "shape": [], "pass": "value", "ctype": "_Bool"}, ` + y + `}]}`: "",
		`"net_wide", "arguments": [` + x + `, "ctype": "double"}, ` + y + `, "ctype": "_Bool"}]}`:                             "double is not float32",
		`"net_chars", "arguments": [` + strings.Replace(x, "float32", "uint8", 1) + `, "ctype": "signed char"}, ` + y + `}]}`: "the sign of signed char is not that of uint8",
		`"net_words", "arguments": [` + x + `, "ctype": "union net_word"}, ` + y + `}]}`:                                      "union net_word is not the type of a number",
		`"net_text", "arguments": [` + x + `}, ` + y + `}], "returns": {"status": 0}}`:                                        "net.json: net_text:1:",
	} {
		testkit.WantErrorIf(t, want != "", compile(t, "cc", head+text), "", want)
	}
}

// TestBooleans runs a call with constant inputs of which bytes are neither 0 nor 1, for each way to pass a _Bool. A
// checked build does the same. Other types keep their bytes, and take no memory.
func TestBooleans(t *testing.T) {
	const as, in = `", "dtype": "uint8", "ctype": "net_flag", "shape": `, `"input": "`
	const text = `{"name": "net", "headers": ["net.h"], "function": "net_all", "arguments": [{` +
		in + "p" + as + `[2, 50]}, {` + in + "q" + as + `[2, 2], "pass": "array"}, {` +
		in + "r" + as + `[], "pass": "value"}, {"struct": "struct net_flags", "members": [{"member": "at", ` +
		in + "s" + as + `[3]}, {"member": "of", ` + in + "u" + as + `[2, 2], "pass": "flat"}]},
		{"output": "y", "dtype": "int32", "shape": []}]}`
	const program = `#include "net.h"
int32_t tvmgen_net___tvm_main__(void* p, void* q, void* r, void* s, void* u, void* y);
#include <stdio.h>
static const uint8_t x[100] = {2, 0, 3, 255};
void net_all(const net_flag* p, const net_flag q[2][2], net_flag r, struct net_flags* f, int32_t* y) {
  *y = r;
  for (int i = 0; i < 100; i++) { *y += p[i]; }
  for (int i = 0; i < 4; i++) { *y += 1000 * q[i / 2][i % 2] + 100000 * f->of[i] + (i < 3 ? 10000000 * f->at[i] : 0); }
}
int main(void) {
  int32_t y = 0;
  void* in = (void*)(uintptr_t)x;
  return tvmgen_net___tvm_main__(in, in, in, in, in, &y) || printf("%ld", (long)y) < 0;
}
`
	for _, c := range []struct{ of, flags, want string }{
		{"_Bool", "-O0", "20303004"},
		{"_Bool", "-O2", "20303004"},
		{"_Bool", "-fsanitize=address,undefined", "20303004"},
		{"uint8_t", "-O2", "76260262"},
	} {
		dir := t.TempDir()
		call := unpack(t, dir, text)
		testkit.WriteFile(t, filepath.Join(dir, "net.h"), "#include <stdint.h>\ntypedef "+c.of+" net_flag;\n"+
			"struct net_flags { const net_flag* at; net_flag of[4]; };\n"+
			"void net_all(const net_flag*, const net_flag (*)[2], net_flag, struct net_flags*, int32_t*);\n")
		testkit.WriteFile(t, filepath.Join(dir, "program.c"), program)
		output, err := exec.Command("cc", "-std=gnu11", c.flags, "-o", filepath.Join(dir, "program"), "-I"+dir, call,
			filepath.Join(dir, "program.c")).CombinedOutput()
		if err != nil && strings.Contains(string(output), "cannot find") {
			t.Logf("%s: the sanitizer is not installed", c.flags)
			continue
		}
		if err == nil {
			output, err = exec.Command(filepath.Join(dir, "program")).CombinedOutput()
		}
		must(t, err)
		testkit.Equal(t, c, string(output), c.want)
	}
}

// TestArenaOfBoth checks that an arena that both functions get is described once, or twice in the same way.
func TestArenaOfBoth(t *testing.T) {
	const text = `{"name": "net", "headers": ["net.h"], "function": "net_run", "arguments": [{"arena": "work"},
{"output": "y", "dtype": "int8", "shape": []}], "init": {"function": "net_init", "arguments": [
{"arena": "work", "bytes": 64, "align": 32}]}}`
	for of, want := range map[string]string{
		"": "", `, "bytes": 64`: "", `, "align": 32`: "", `, "bytes": 32`: "it differs from work in line 3",
		`, "align": 64`: "it differs from work in line 3",
	} {
		_, err := pack(strings.Replace(text, `"work"`, `"work"`+of, 1))
		testkit.WantErrorIf(t, want != "", err, "", want)
	}
}

// TestLines checks that each member has its own line, whichever structs precede or follow.
func TestLines(t *testing.T) {
	const text = `{"name": "net", "headers": ["net.h"], "function": "net_run", "arguments": [
{"struct": "struct net_io", "members": [
{"member": "in", "value": "//"}]}, {"struct": "struct net_io", "members": [
{"member": "in", "value": "//"},
{"member": "flags", "value": "//"}]}], "init": {"function": "net_init", "arguments": [{"struct": "a", "members": [
{"member": "in", "value": "//"}]}]}}`
	_, err := pack(text)
	for _, want := range []string{
		"net.json:3: arguments[0].members[0].value: ", "net.json:4: arguments[1].members[0].value: ",
		"net.json:5: arguments[1].members[1].value: ", "net.json:6: init.arguments[0].members[0].value: ",
	} {
		testkit.WantError(t, err, "", want)
	}
}

// TestNames checks that tensors and states may have the name of any variable in the typed call.
func TestNames(t *testing.T) {
	for _, name := range []string{"status", "ready", "struct6", "workspace", "_ready"} {
		for _, old := range []string{`"input": "x"`, `"output": "y"`, `"state": "net"`, `"arena": "work"`} {
			kind, _, _ := strings.Cut(old, ":")
			text := strings.ReplaceAll(netJSON, old, kind+`: "`+name+`"`)
			must(t, compile(t, "cc", text))
		}
	}
}

// TestSameBytes checks that equal descriptions give equal archives.
func TestSameBytes(t *testing.T) {
	first, err := modelfile.Pack(folder(netJSON), "net.json", "a/net.json")
	must(t, err)
	second, err := modelfile.Pack(folder(netJSON), "net.json", "b/net.json")
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Error("archives differ")
	}
}

// TestLicense checks that sources and headers without a licence get that of the description.
func TestLicense(t *testing.T) {
	raw, err := pack(strings.Replace(netJSON, `"net",`, `"net", "license": "MIT",`, 1))
	must(t, err)
	const tag = "// SPDX-License-Identifier: MIT\n"
	if n := strings.Count(string(raw), tag); n != 2 || !strings.Contains(string(raw), "#define N 2\n#line 1 \"net.c\"\n") {
		t.Errorf("%d licences in\n%s", n, raw)
	}
}

// TestLibraries checks the names of libraries' objects in the formats of GNU, BSD and macOS, and what is refused. Names
// may be equal, long, or hold any character.
func TestLibraries(t *testing.T) {
	const (
		long     = "a_name_of_more_than_15_bytes"
		noObject = "a library without objects"
		cut      = "truncated, or an object of invalid size"
		noName   = "an object's name that the table of names does not have"
		badName  = "an object's name of invalid size"
	)
	most := strings.Repeat("x", 64)
	for _, c := range []struct{ library, want string }{
		{part("/", "sums") + part("net.o/", "1") + part("net.o/", "22"), "net.a_1_net.o net.a_2_net.o"},
		{
			part("//", long+".o/\nb/../c d$.o/\n") + part("/0", "1") + part("/32", "2"),
			"net.a_1_" + long + ".o net.a_2_c_d_.o",
		},
		{part("#1/12", "__.SYMDEF\x00\x00\x00sums") + part("#1/32", long+".o\x00\x00data"), "net.a_1_" + long + ".o"},
		{part("//", most+"xxx/\n") + part("/0", "") + part(`C:\x.obj`, ""), "net.a_1_" + most + ".o net.a_2_x.o"},
		{part("/SYM64/", "sums"), noObject},
		{"", noObject},
		{part("net.o/", "1") + "net.o/", cut},
		{part("net.o/", "1")[:60], cut},
		{part("net.o/", "1")[:48] + "-1          ", cut},
		{part("/7", "1"), noName},
		{part("#1/9", "1"), badName},
		{part("#1/-1", "1"), badName},
	} {
		files := folder(strings.Replace(netJSON, `"objects": []`, `"objects": ["net.a"]`, 1))
		files["net.a"] = &fstest.MapFile{Data: []byte("!<arch>\n" + c.library)}
		raw, err := modelfile.Pack(files, "net.json", "net.json")
		if err != nil {
			testkit.Equal(t, c.library, err.Error(), "net.json:5: objects: net.a: "+c.want)
			continue
		}
		var names []string
		for _, f := range regexp.MustCompile(`codegen/host/lib/(\S+\.o)\x00`).FindAllStringSubmatch(string(raw), -1) {
			names = append(names, f[1])
		}
		testkit.Equal(t, c.library, strings.Join(names, " "), c.want)
	}
}

// TestLimits checks that too many objects, and too many bytes of files, are one fault each.
func TestLimits(t *testing.T) {
	files := folder(strings.Replace(netJSON, `"objects": []`, `"objects": ["net.a"]`, 1))
	files["net.a"] = &fstest.MapFile{Data: []byte("!<arch>\n" + strings.Repeat(part("net.o/", ""), 1<<17))}
	_, err := modelfile.Pack(files, "net.json", "net.json")
	if err == nil || err.Error() != "net.json:5: more than 4096 files" {
		t.Errorf("%.200v", err)
	}
	large := &fstest.MapFile{Data: make([]byte, 100<<20)}
	files = folder(strings.Replace(netJSON, `["net.h"]`, `["net.h", "a", "a/a", "a/a/a"]`, 1))
	files["a/a/a/large.h"] = large
	_, err = modelfile.Pack(files, "net.json", "net.json")
	if err == nil || err.Error() != "net.json:4: headers: a/a/a/large.h: the model's files have more than 256 MiB" {
		t.Errorf("%.200v", err)
	}
}

// part returns a member of a library.
func part(name, content string) string {
	padding := strings.Repeat("\n", len(content)%2)
	return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8o%-10d`\n%s%s", name, 0, 0, 0, 0o644, len(content), content, padding)
}

// FuzzPack checks that no description ends the program, and that what is accepted names no file outside.
func FuzzPack(f *testing.F) {
	f.Add(netJSON)
	for _, c := range wrong {
		f.Add(strings.Replace(netJSON, c.old, c.new, 1))
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := pack(text)
		if (raw == nil) == (err == nil) {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
	})
}

// TestDraft drafts descriptions from prototypes. What a prototype does not tell is refused until it is filled in.
func TestDraft(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "net.h"), netH)
	testkit.WriteFile(t, filepath.Join(dir, "alone.c"), "typedef short sample_t;\n"+
		"float Alone(const sample_t* in, int n, void* work, unsigned char out[3]) { return in[n] + (work != out); }\n")
	draft := func(file, name string) *modelfile.Draft {
		d, err := modelfile.New(t.Context(), "cc", filepath.Join(dir, file), name)
		must(t, err)
		return d
	}
	d := draft("net.h", "net_run")
	hasNames := func(d *modelfile.Draft) bool {
		return !strings.Contains(strings.Join(d.Open, "\n"), "and the like: names")
	}
	if hasNames(d) {
		t.Errorf("a header has no names: %q", d.Open)
	}
	file := filepath.Join(dir, "net_run.json")
	must(t, d.Write(file))
	testkit.WantError(t, d.Write(file), failure.Config)
	_, err := modelfile.Pack(os.DirFS(dir), "net_run.json", file)
	for _, want := range []string{
		"arguments[0].shape[0]: 0 is not between", "arguments[5].members[0].shape[0]: 0 is not between",
	} {
		testkit.WantError(t, err, "", want)
	}
	text := string(testkit.ReadFile(t, file))
	for old, filled := range map[string]string{
		"\n        0\n      ]": "[2]", "\n        0,\n        3\n      ]": "[2, 3]", "\n            0\n          ]": "[4]",
		`"arena": "arg4"`: `"arena": "arg4", "bytes": 64`, `"?"`: `"2"`,
	} {
		filled = strings.TrimPrefix(filled, "[")
		testkit.WantText(t, text, old)
		text = strings.ReplaceAll(text, old, filled)
	}
	testkit.WriteFile(t, filepath.Join(dir, "net.json"), text)
	_, err = modelfile.Pack(os.DirFS(dir), "net.json", "net.json")
	must(t, err)

	d = draft("alone.c", "Alone")
	a := d.Arguments
	if d.Name != "alone" || len(a) != 4 || a[0].Input != "in" || a[0].DType != "int16" || a[0].CType != "sample_t" ||
		a[1].Expression != "?" || a[2].Arena != "work" || a[3].Output != "out" || a[3].CType != "unsigned char" ||
		d.Returns.DType != "float32" || !hasNames(d) || len(d.Sources) > 0 || d.Include[0] != "alone.c" {
		t.Errorf("%+v", d)
	}
	a = draft("net.h", "net_modes").Arguments
	if len(a) != 2 || a[0].DType != "uint32" || a[0].CType != "enum net_mode" || a[1].DType != "int32" ||
		a[1].CType != "enum net_level" {
		t.Errorf("enumerations: %+v", a)
	}
	// Without const, the first pointer is the input. A function that nothing calls, and that gets a name, loads weights.
	testkit.WriteFile(t, filepath.Join(dir, "score.c"), "double score(double* x) { return x[0]; }\n"+
		"void both(void (*log)(const char*), float* x, float* y) { log(\"\"); y[0] = x[0]; }\n"+
		"static int own(const char* name) { return name[0]; }\n"+
		"_Bool score_load(const char *path) { return own(path); }\nint two(const char* a, int b) { return a[b]; }\n"+
		"void note(const char* text) { own(text); }\n")
	d = draft("score.c", "score")
	open := strings.Join(d.Open, "\n")
	if a = d.Arguments; a[0].Input != "x" || d.Returns.Output != "result" ||
		strings.Count(open, "if it loads weights") != 1 || !strings.Contains(open, "score_load(const char*): ") ||
		!strings.Contains(open, "x: an input, or an output") {
		t.Errorf("%+v", d)
	}
	if a = draft("score.c", "both").Arguments; a[1].Input != "x" || a[2].Output != "y" {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		file, name, want string
		class            failure.Class
	}{
		{"net.h", "none", "undeclared", failure.Compile},
		{"net.h", "no name", "is not a C identifier", failure.Config},
		{"alone.c", "alone", "alone.c has no function alone", failure.Config},
		{"none.c", "none", "No such file", failure.Compile},
	} {
		_, err := modelfile.New(t.Context(), "cc", filepath.Join(dir, c.file), c.name)
		testkit.WantError(t, err, c.class, c.want)
		if c.file == "alone.c" && failure.Next(err) != "name one of its functions: Alone" {
			t.Errorf("next: %s", failure.Next(err))
		}
	}
}
