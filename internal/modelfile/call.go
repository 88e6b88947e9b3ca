// This file generates the typed call of a model's function, and the metadata of its archive.

package modelfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/tarfile"
)

// CallSuffix ends the name of the source with the typed call. Builds do not suppress its warnings: it makes errors of
// those about a wrong description.
const CallSuffix = "_call.c"

// runSuffix ends the name of the source with the C interface's function.
const runSuffix = "_interface.c"

// A writer writes C whose errors have the lines of the description.
type writer struct {
	b    strings.Builder
	file string // the description
}

// at writes a line of C at the line of the description that label stands in, with it in place of a file's name.
func (w *writer) at(line int, label, format string, args ...any) {
	fmt.Fprintf(&w.b, "#line %d %q\n"+format+"\n", append([]any{max(line, 1), w.file + ": " + label}, args...)...)
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// strict makes errors of what is a wrong description. Other compilers have warnings of their own.
const strict = `#if defined(__GNUC__)
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#pragma GCC diagnostic error "-Wint-conversion"
#pragma GCC diagnostic error "-Wimplicit-function-declaration"
#pragma GCC diagnostic error "-Wpointer-sign"
#pragma GCC diagnostic error "-Wconversion"
#pragma GCC diagnostic error "-Woverflow"
#endif
`

// callC returns the source with the typed call.
func (m *model) callC() string {
	w := &writer{file: m.file}
	w.line("// SPDX-License-Identifier: 0BSD\n//\n// Made by boardsmith: calls %s as %s describes it.", m.Function, m.file)

	// In a checked build the call has another name, and firmware calls the function that checked writes.
	w.line("#define BOARDSMITH_0_FILE %q\n%s#define %s %s\n#endif", m.file, checkedC, m.main(), m.unchecked())
	w.b.WriteString(m.macros())
	w.line("#include <stdint.h>\n#include <string.h>")
	w.line("__attribute__((weak)) void TVMAPIErrorf(const char* fmt, ...);  // of a runtime, if there is one")

	for _, name := range m.includes {
		w.line("#include \"%s\"", name)
	}

	// From here on, so that the model's headers are compiled as usual.
	w.b.WriteString(strict)

	for _, s := range m.states {
		if s.ctype == "" {
			w.line("static uint8_t %s[%d] __attribute__((aligned(%d)));", local(s.name), s.bytes, s.align)
		} else {
			w.at(s.line, "state "+s.name, "static %s %s;", s.ctype, local(s.name))
		}
	}

	for _, c := range []call{m.init, m.run} {
		if c.function != "" {
			w.written(c)
		}
	}

	main := m.main() + "(" + m.parameters() + ")"
	w.line("int32_t %s;", main)
	w.at(m.run.line, m.Function, "int32_t %s {", main)
	for _, p := range m.pools {
		w.line("  void* %s = (void*)(((uintptr_t)%s_0_var + %dU) & ~(uintptr_t)%dU);", local(p.name), p.name,
			p.align-1, p.align-1)
	}

	if m.Init != nil {
		w.line("  static int %s;\n  if (!%[1]s) {", readyVariable)
		w.call(m.init)
		w.line("  %s = 1;\n  }", readyVariable)
	}

	w.call(m.run)
	w.line("  return 0;\n}")
	w.checked(m)
	return w.b.String()
}

// local is the name of a variable of the call, which no header defines.
func local(name string) string { return "boardsmith_" + name }

// The call's own variables. A name of the description begins with no digit, so that none of its variables is the same.
const (
	readyVariable  = "boardsmith_0_ready"
	statusVariable = "boardsmith_0_status"
)

// main is the name of the function that gets the tensors' addresses and pools (mlf.md §6).
func (m *model) main() string { return "tvmgen_" + m.Name + "___tvm_main__" }

func (m *model) parameters() string {
	var list []string
	for _, t := range append(append([]tensor{}, m.inputs...), m.outputs...) {
		list = append(list, "void* "+local(t.name))
	}
	for _, p := range m.pools {
		list = append(list, "uint8_t* "+p.name+"_0_var")
	}
	return strings.Join(list, ", ")
}

// written declares a function again, with the arguments that it writes: GCC finds those that it cannot, because they
// are const. Of a macro it is not asked.
func (w *writer) written(c call) {
	w.line("#if defined(__has_attribute) && !defined(%s)\n#if __has_attribute(access)", c.function)
	w.line("#pragma GCC diagnostic push\n#pragma GCC diagnostic error \"-Wattributes\"")
	w.line("#pragma GCC diagnostic ignored \"-Wredundant-decls\"")
	for i, a := range c.arguments {
		if a.structure == "" && (a.Output != "" || a.Arena != "") {
			w.at(a.line, a.label, "extern __typeof__(%s) %s __attribute__((access(read_write, %d)));", c.function, c.function,
				i+1)
		}
	}
	w.line("#pragma GCC diagnostic pop\n#endif\n#endif")
}

// call writes a call in a block.
func (w *writer) call(c call) {
	w.line("  {")
	// Before the structs, which take the addresses of these copies.
	for _, a := range c.arguments {
		for _, v := range append([]value{a.value}, a.members...) {
			w.booleans(v)
		}
	}
	for _, a := range c.arguments {
		if a.structure != "" {
			w.structure(a)
		}
	}

	before, after := "  ", ";"
	switch {
	case c.returns.Status != nil:
		before, after = "  const long long "+statusVariable+" = (long long)(0 |", ");" // | takes only integers
	case c.returns.Output != "":
		before = fmt.Sprintf("  *(%s*)%s =", c.element, local(c.returns.Output))
	case c.returns.Ignored:
		before = "  (void)"
	}

	for _, a := range c.arguments {
		w.checkElement(a.value)
		for _, v := range a.members {
			w.checkElement(v)
		}
	}

	w.at(c.line, c.function, "%s%s(", before, c.function)
	var all []string
	for i, a := range c.arguments {
		end := ","
		if i == len(c.arguments)-1 {
			end = ")" + after
		}
		text := a.expression()
		all = append(all, text)
		w.at(a.line, a.label, "    %s%s", text, end)
	}

	// Else the last argument has closed the parenthesis.
	if len(c.arguments) == 0 {
		w.line("  )%s", after)
	}

	for _, a := range c.arguments {
		w.copyBack(a)
	}

	switch {
	case c.returns.Status != nil:
		w.line("  if (%s != %dLL) {", statusVariable, *c.returns.Status)
		w.line("    const int32_t status = (int32_t)%s;", statusVariable)
		w.line("    if (TVMAPIErrorf) {")
		w.line("      TVMAPIErrorf(\"%s returned %%d, not %d\", (int)status);\n    }", c.function, *c.returns.Status)
		w.line("    return (status != 0) ? status : -1;\n  }")
	case c.returns.Output == "" && !c.returns.Ignored:
		const text = "%s returns a value: describe it in returns"
		w.at(c.line, c.function, "  _Static_assert(__builtin_types_compatible_p(__typeof__(%s(%s)), void), \""+text+"\");",
			c.function, strings.Join(all, ", "), c.function)
	}
	w.line("  }")
}

// expression returns an argument in C.
func (a argument) expression() string {
	if a.structure == "" {
		return a.value.expression()
	}
	if a.Pass == byValue || a.isArray() {
		return a.variable()
	}
	return "&" + a.variable()
}

// isArray reports whether an argument is an array of the struct's type.
func (a argument) isArray() bool {
	return len(a.members) > 0 && strings.HasPrefix(a.members[0].member, "[")
}

// of returns a member of the argument's variable.
func (a argument) of(v value) string {
	if a.isArray() {
		return a.variable() + v.member
	}
	return a.variable() + "." + v.member
}

// length returns, of an array of structs, its length as in a declaration.
func (a argument) length() string {
	if !a.isArray() {
		return ""
	}

	last := 0
	for _, v := range a.members {
		digits, _, _ := strings.Cut(v.member[1:], "]")
		if i, err := strconv.Atoi(digits); err == nil { // checked
			last = max(last, i)
		}
	}
	return fmt.Sprintf("[%d]", last+1)
}

// checkElement writes a check that the ctype of a tensor's elements has the size of its dtype, is an integer as it, and
// has a sign as it: char has one on some boards.
func (w *writer) checkElement(v value) {
	if v.CType == "" || v.DType == "" {
		return
	}
	const same = "  _Static_assert(sizeof(%s) == sizeof(%s) && ((%s)1.5 == 1.5) == ((%s)1.5 == 1.5), \"%s is not %s\");"
	const sign = "  _Static_assert(((%s)-1 < 1) == ((%s)-1 < 1), \"the sign of %s is not that of %s\");"
	const number = "  _Static_assert(__builtin_classify_type(*(%s*)0) < 9 && __builtin_classify_type(*(%s*)0) != 5, " +
		"\"%s is not the type of a number\");" // as the values in GCC's typeclass.h

	w.at(v.line, v.label, number, v.CType, v.CType, v.CType)
	usual := Elements[v.DType]
	w.at(v.line, v.label, same, v.CType, usual, v.CType, usual, v.CType, v.DType)
	w.at(v.line, v.label, sign, v.CType, usual, v.CType, v.DType)
}

// bytes returns, of an input that may be of _Bool, its number of bytes, else 0.
func (v value) bytes() int64 {
	if v.Input == "" || v.CType == "" || v.DType != "uint8" {
		return 0
	}

	n := int64(1)
	for _, d := range v.dims {
		n *= d
	}
	return n
}

// booleans has an input of _Bool that is passed by its address hold 0 and 1 only: C may do anything with another value
// of that type. It gets a copy, as the caller's bytes may be constant. In a checked build they are a copy already.
func (w *writer) booleans(v value) {
	n := v.bytes()
	// expression and structure convert values and copies.
	if n == 0 || v.Pass == byValue || v.isCopied() {
		return
	}

	is, name := fmt.Sprintf("((int)(%s)2 == 1)", v.CType), local(v.Input)
	to := "boardsmith_0_of_" + v.Input
	w.line("#ifdef BOARDSMITH_0_CHECKED\n  uint8_t* %s = %s;\n#else", to, name)
	w.line("  static uint8_t %s[%s ? %d : 1] __attribute__((aligned(%s ? %d : 1)));\n#endif", to, is, n, is, defaultAlign)
	w.line("  if %s {\n    for (uint32_t i = 0; i < %dU; i++) {", is, n)
	w.line("      %s[i] = ((const uint8_t*)%s)[i] != 0;\n    }\n    %s = %s;\n  }", to, name, name, to)
}

func (v value) expression() string {
	name := local(v.name())
	switch {
	case v.Expression != "":
		return v.Expression
	case v.Arena != "":
		return "(void*)" + name
	case v.State != "" && v.Pass == byValue:
		return name
	case v.State != "":
		return "&" + name
	case v.bytes() > 0 && v.Pass == byValue:
		return fmt.Sprintf("(%s)*(const uint8_t*)%s", v.element, name) // a byte becomes 0 or 1 of _Bool
	case v.Pass == byValue:
		return fmt.Sprintf("*(const %s*)%s", v.element, name)
	case v.Pass == byArray && len(v.dims) > 1:
		return fmt.Sprintf("(%s (*)%s)%s", v.element, brackets(v.dims[1:]), name)
	}
	return fmt.Sprintf("(%s*)%s", v.element, name)
}

func brackets(dims []int64) string {
	var b strings.Builder
	for _, n := range dims {
		fmt.Fprintf(&b, "[%d]", n)
	}
	return b.String()
}

// variable returns the name of the struct that an argument is.
func (a argument) variable() string { return fmt.Sprintf("boardsmith_%d_struct", a.number) }

// structure writes a struct's variable and sets its members.
func (w *writer) structure(a argument) {
	storage := ""
	for _, v := range a.members {
		if v.isCopied() {
			storage = "static " // it may be large
		}
	}

	w.at(a.line, a.label, "  %s%s %s%s;", storage, a.structure, a.variable(), a.length())
	w.at(a.line, a.label, "  memset(&%s, 0, sizeof(%s));", a.variable(), a.variable())
	for _, v := range a.members {
		at := a.of(v)
		if !v.isCopied() {
			w.at(v.line, v.label, "  %s = %s;", at, v.expression())
			continue
		}

		dims := v.dims
		// One dimension with all elements.
		if v.Pass == byFlat {
			dims = []int64{1}
			for _, n := range v.dims {
				dims[0] *= n
			}
		}

		declared := v.element + " " + v.member + brackets(dims)
		const same = "_Static_assert(__builtin_types_compatible_p(__typeof__(%s), %s%s), \"the member is not %s\");"
		w.at(v.line, v.label, "  "+same, at, v.element, brackets(dims), declared)
		if v.Input != "" {
			w.line("  memcpy(&%s, %s, sizeof(%s));", at, local(v.Input), at)
		}

		// A copied member of _Bool holds 0 and 1 only, as in booleans.
		if n := v.bytes(); n > 0 {
			w.line("  if ((int)(%s)2 == 1) {\n    uint8_t* boardsmith_0_bytes = (uint8_t*)&%s;", v.CType, at)
			w.line("    for (uint32_t i = 0; i < %dU; i++) {", n)
			w.line("      boardsmith_0_bytes[i] = boardsmith_0_bytes[i] != 0;\n    }\n  }")
		}
	}
}

// isCopied reports whether a member of a struct is the tensor itself, in place of its address.
func (v value) isCopied() bool { return v.member != "" && (v.Pass == byArray || v.Pass == byFlat) }

// copyBack writes the copies of outputs that are members of a struct.
func (w *writer) copyBack(a argument) {
	for _, v := range a.members {
		if v.isCopied() && v.Output != "" {
			at := a.of(v)
			w.line("  memcpy(%s, &%s, sizeof(%s));", local(v.Output), at, at)
		}
	}
}

// runC returns the source of the C interface's function (mlf.md §5).
func (m *model) runC() string {
	w := &writer{}
	var args []string
	for _, t := range m.inputs {
		args = append(args, "inputs->"+t.name)
	}
	for _, t := range m.outputs {
		args = append(args, "outputs->"+t.name)
	}
	for _, p := range m.pools {
		args = append(args, "workspace_pools->"+p.name)
	}

	w.line("// SPDX-License-Identifier: 0BSD\n//\n// Made by boardsmith.\n#include <tvmgen_%s.h>", m.Name)
	w.line("int32_t %s(%s);", m.main(), m.parameters())
	w.line("int32_t %s {\n  return %s(%s);\n}", m.runDeclaration(), m.main(), strings.Join(args, ", "))
	return w.b.String()
}

func (m *model) runDeclaration() string {
	s := fmt.Sprintf("tvmgen_%s_run(struct tvmgen_%s_inputs* inputs, struct tvmgen_%s_outputs* outputs", m.Name, m.Name,
		m.Name)
	if len(m.pools) > 0 {
		s += fmt.Sprintf(", struct tvmgen_%s_workspace_pools* workspace_pools", m.Name)
	}
	return s + ")"
}

// header returns the header of the C interface (mlf.md §5).
func (m *model) header() string {
	w := &writer{}
	macro := "TVMGEN_" + strings.ToUpper(m.Name) + "_"
	w.line("// SPDX-License-Identifier: 0BSD\n//\n// Made by boardsmith.\n#ifndef %sH_\n#define %sH_", macro, macro)
	w.line("#include <stdint.h>")
	for _, t := range append(append([]tensor{}, m.inputs...), m.outputs...) {
		w.line("#define %s%s_SIZE %d", macro, strings.ToUpper(t.name), t.bytes)
	}

	members := map[string][]string{}
	for _, t := range m.inputs {
		members["inputs"] = append(members["inputs"], t.name)
	}
	for _, t := range m.outputs {
		members["outputs"] = append(members["outputs"], t.name)
	}
	for _, p := range m.pools {
		members["workspace_pools"] = append(members["workspace_pools"], p.name)
		w.line("#define %s%s_WORKSPACE_POOL_SIZE %d", macro, strings.ToUpper(p.name), p.bytes)
	}

	for _, of := range []string{"inputs", "outputs", "workspace_pools"} {
		if of == "workspace_pools" && len(m.pools) == 0 {
			continue
		}
		w.line("struct tvmgen_%s_%s {", m.Name, of)
		for _, name := range members[of] {
			w.line("  void* %s;", name)
		}
		w.line("};")
	}

	w.line("int32_t %s;\n#endif", m.runDeclaration())
	return w.b.String()
}

// metadata returns metadata.json (mlf.md §3).
func (m *model) metadata() ([]byte, error) {
	type jsonTensor struct {
		DType string  `json:"dtype"`
		Size  int     `json:"size"`
		Shape []int64 `json:"shape"`
		Scale float64 `json:"scale,omitzero"`
		Zero  int64   `json:"zero_point,omitzero"`
	}
	list := func(ts []tensor) (map[string]jsonTensor, int) {
		all, bytes := map[string]jsonTensor{}, 0
		for _, t := range ts {
			all[t.name] = jsonTensor{t.dtype.String(), t.bytes, t.shape, t.scale, t.zero}
			bytes += t.bytes
		}
		return all, bytes
	}

	inputs, in := list(m.inputs)
	outputs, out := list(m.outputs)
	var workspace int64
	for _, p := range m.pools {
		workspace += p.bytes
	}

	type object = map[string]any
	// A fixed date, since equal files give equal archives.
	all := object{
		"model_name": m.Name, "export_datetime": "1970-01-01 00:00:00Z", "style": "full-model", "executors": []string{"aot"},
		"target": []string{"c"}, "external_dependencies": []string{},
		"memory": object{"functions": object{"operator_functions": []string{}, "main": []object{{
			"device": 1, "workspace_size_bytes": workspace, "constants_size_bytes": 0, "io_size_bytes": in + out,
			"inputs": inputs, "outputs": outputs,
		}}}},
	}

	if m.Examples != "" {
		all["examples"], all["compare"] = m.examplesFile(), m.Compare
	}
	return json.MarshalIndent(object{"version": 7, "modules": object{m.Name: all}}, "", "  ")
}

// tar returns the archive.
func (m *model) tar() ([]byte, error) {
	metadata, err := m.metadata()
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	description, err := json.MarshalIndent(m.Description, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}

	own := []member{
		{name: "metadata.json", data: metadata},
		{name: "src/" + m.Name + ".json", data: description},
		{name: headerFolder + "tvmgen_" + m.Name + ".h", data: []byte(m.header())},
		{name: sourceFolder + m.Name + runSuffix, data: []byte(m.runC())},
		{name: sourceFolder + m.Name + CallSuffix, data: []byte(m.callC())},
	}

	var files []tarfile.File
	for _, f := range append(own, m.files...) {
		files = append(files, tarfile.File{Name: "./" + f.name, Data: f.data})
	}

	data, err := tarfile.Of(files)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.Name, err)
	}
	return data, nil
}
