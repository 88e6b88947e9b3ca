// This file makes a kernel callable from plain C.

package space

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
)

// examplesFile has the content of arguments.
const examplesFile = "examples.npz"

// plainSuffix follows the name of the kernel's function in the name of the one that calls it.
const plainSuffix = "_plain"

// Plain returns files to be beside those of the kernel: NAME_plain.c and .h, a function that calls the kernel's
// function NAME, and model.json, which describes them as a model in plain C (docs/c-models.md), with examples.npz, the
// content of the arguments, unless their files cannot be read any more. The function takes a
// pointer to the first element of each argument; for a plain kernel, an input of shape [] is a value (tune.Func). An
// argument without content before the call, or with an expected one, is an output. Errors have class config: an element
// that plain C has no type for, an argument that is both, and a plain function that no C file names.
func (s *Space) Plain() ([]Source, error) {
	w := plainWriter{space: s, name: cmp.Or(s.Function, s.Entry) + plainSuffix}
	for i, a := range s.Args {
		if err := w.add(i, a); err != nil {
			return nil, failure.New(failure.Config, "call the kernel's function", "%s: argument %d: %w", s.file, i+1, err)
		}
	}
	if err := w.findIncluded(); err != nil {
		return nil, failure.New(failure.Config, "call the kernel's function", "%s: %w", s.file, err)
	}
	examples := w.examples()
	files := []Source{
		{w.name + ".h", []byte(w.header())},
		{w.name + ".c", []byte(w.source())},
		{"model.json", w.description(examples != nil)},
	}
	if examples != nil {
		files = append(files, Source{examplesFile, examples})
	}
	for _, f := range files {
		if slices.ContainsFunc(s.Kernel, func(k Source) bool { return k.Name == f.Name }) {
			return nil, failure.New(failure.Config, "rename it", "%s: the kernel has a file %s", s.file, f.Name)
		}
	}
	return files, nil
}

// A plainArgument is an argument in model.json.
type plainArgument struct {
	Input  string  `json:"input,omitempty"`
	Output string  `json:"output,omitempty"`
	DType  string  `json:"dtype"`
	Shape  []int64 `json:"shape"`
	Pass   string  `json:"pass,omitempty"`
}

type plainWriter struct {
	space      *Space
	name       string
	parameters []string // in C
	tensors    strings.Builder
	arguments  []plainArgument
	passed     []string // to a plain function, in C
	included   string   // the file of a plain function, which may be static
}

// findIncluded finds the file of a plain function, as tune.Func does.
func (w *plainWriter) findIncluded() error {
	if w.space.Function == "" {
		return nil
	}
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(w.space.Function) + `\b`)
	i := slices.IndexFunc(w.space.Kernel, func(f Source) bool { return path.Ext(f.Name) == ".c" && word.Match(f.Data) })
	if i < 0 {
		return errors.New("no C file of the kernel has the name " + w.space.Function)
	}
	w.included = w.space.Kernel[i].Name
	return nil
}

// codes are the names of DLDataTypeCode.
var codes = map[uint8]string{ndarray.Int: "kDLInt", ndarray.UInt: "kDLUInt", ndarray.Float: "kDLFloat"}

func (w *plainWriter) add(i int, a Arg) error {
	input, output := a.Data != nil || a.Seed != nil || a.Value != nil, a.Want != nil
	ctype := map[string]string{"float32": "float", "float64": "double"}[a.DType.String()]
	if code := a.DType.Code; code == ndarray.Int || code == ndarray.UInt {
		ctype = a.DType.String() + "_t"
	}
	switch {
	case a.Value != nil && w.space.Function == "":
		return fmt.Errorf("a model has no arguments that are numbers, as the packed function has")
	case input && output:
		return fmt.Errorf("a pointer is an input or an output, not both")
	case ctype == "" || a.DType.Lanes != 1 || a.DType.Bits%8 != 0:
		return fmt.Errorf("plain C has no type %v", a.DType)
	}
	name := argumentName(i)
	x := plainArgument{Output: name, DType: a.DType.String(), Shape: append([]int64{}, a.Shape...)}
	if input {
		x.Input, x.Output, ctype = name, "", "const "+ctype
	}
	parameter, passed := ctype+"* "+name, "(void*)"+name // of whatever type the function has
	if input && len(a.Shape) == 0 && w.space.Function != "" {
		parameter, passed, x.Pass = strings.TrimPrefix(ctype, "const ")+" "+name, name, "value"
	}
	w.arguments, w.parameters, w.passed = append(w.arguments, x), append(w.parameters, parameter), append(w.passed, passed)
	shape := "NULL"
	if len(a.Shape) > 0 {
		shape = fmt.Sprintf("shape%d", i)
		dims := make([]string, len(a.Shape))
		for k, d := range a.Shape {
			dims[k] = fmt.Sprint(d)
		}
		fmt.Fprintf(&w.tensors, "  int64_t %s[] = {%s};\n", shape, strings.Join(dims, ", "))
	}
	fmt.Fprintf(&w.tensors, "  DLTensor tensor%d = {.data = (void*)%s, .device = {kDLCPU, 0}, .ndim = %d,\n"+
		"                      .dtype = {%s, %d, 1}, .shape = %s};\n"+
		"  values[%[1]d].v_handle = &tensor%[1]d;\n  codes[%[1]d] = kTVMDLTensorHandle;\n",
		i, name, len(a.Shape), codes[a.DType.Code], a.DType.Bits, shape)
	return nil
}

func (w *plainWriter) prototype() string {
	return fmt.Sprintf("int %s(%s)", w.name, strings.Join(w.parameters, ", "))
}

func (w *plainWriter) header() string {
	about := fmt.Sprintf("Calls %s; returns 0, or what it returns.", w.space.Entry)
	if w.included != "" {
		about = fmt.Sprintf("Calls %s; returns 0.", w.space.Function)
	}
	return fmt.Sprintf("// %s\n#pragma once\n#include <stdint.h>\n\n%s;\n", about, w.prototype())
}

func (w *plainWriter) source() string {
	n := len(w.space.Args)
	if w.included != "" {
		// Without a declaration, a float would be passed as a double.
		const strict = "#pragma GCC diagnostic error \"-Wimplicit-function-declaration\"\n"
		return fmt.Sprintf("#include \"%s.h\"\n\n#include \"%s\"\n\n"+strict+"%s {\n  (void)%s(%s);\n  return 0;\n}\n",
			w.name, w.included, w.prototype(), w.space.Function, strings.Join(w.passed, ", "))
	}
	return fmt.Sprintf(`#include "%s.h"

#include <stddef.h>
#include <tvm/runtime/c_runtime_api.h>

int %s(TVMValue* args, int* codes, int count, TVMValue* result, int* result_code, void* resource);

%s {
  TVMValue values[%d];
  int codes[%[4]d];
  TVMValue result;
  int result_code;
%[5]s  return %[2]s(values, codes, %[6]d, &result, &result_code, NULL);
}
`, w.name, w.space.Entry, w.prototype(), max(n, 1), w.tensors.String(), n)
}

func (w *plainWriter) description(examples bool) []byte {
	name := strings.Trim(strings.ToLower(strings.TrimSuffix(w.name, plainSuffix)), "_0123456789")
	d := struct {
		Name      string          `json:"name"`
		Sources   []string        `json:"sources"`
		Headers   []string        `json:"headers"`
		Include   []string        `json:"include"`
		Function  string          `json:"function"`
		Arguments []plainArgument `json:"arguments"`
		Returns   map[string]int  `json:"returns"`
		Examples  string          `json:"examples,omitempty"`
		Compare   string          `json:"compare,omitempty"`
	}{
		Name: name[:min(len(name), 64)], Sources: []string{w.name + ".c"}, Headers: []string{w.name + ".h"},
		Include: []string{w.name + ".h"}, Function: w.name, Arguments: w.arguments, Returns: map[string]int{"status": 0},
	}
	if d.Name == "" {
		d.Name = "kernel"
	}
	if examples {
		d.Examples, d.Compare = examplesFile, w.tolerance()
	}
	for _, f := range w.space.Kernel {
		if path.Ext(f.Name) == ".c" && f.Name != w.included {
			d.Sources = append(d.Sources, f.Name)
		} else {
			d.Headers = append(d.Headers, f.Name)
		}
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // plain values only
	}
	return append(data, '\n')
}

// examples returns the content of the inputs and what is expected of the outputs, as an .npz; nil without inputs.
func (w *plainWriter) examples() []byte {
	data, want, err := w.space.Contents()
	if err != nil {
		return nil
	}
	var arrays []ndarray.Named
	inputs := false
	for i, a := range w.space.Args {
		array := &ndarray.Array{DType: a.DType, Shape: a.Shape, Data: want[i]}
		if data[i] != nil {
			array.Data, inputs = data[i], true
		}
		if array.Data != nil {
			arrays = append(arrays, ndarray.Named{Name: argumentName(i), Array: array})
		}
	}
	file, err := ndarray.EncodeNPZ(arrays)
	if err != nil || !inputs {
		return nil
	}
	return file
}

func argumentName(i int) string { return fmt.Sprintf("argument%d", i) }

// tolerance returns the largest tolerances of the arguments, in the notation of model.json.
func (w *plainWriter) tolerance() string {
	var abs, rel float64
	for _, a := range w.space.Args {
		abs, rel = max(abs, a.AbsTol), max(rel, a.RelTol)
	}
	var words []string
	if abs > 0 {
		words = append(words, fmt.Sprintf("abs=%g", abs))
	}
	if rel > 0 {
		words = append(words, fmt.Sprintf("rel=%g", rel))
	}
	return strings.Join(words, ",")
}
