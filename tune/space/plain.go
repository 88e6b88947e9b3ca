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
	"github.com/boardsmith/boardsmith/internal/plainc"
	"github.com/boardsmith/boardsmith/ndarray"
)

// examplesFile has the content of arguments.
const examplesFile = "examples.npz"

// plainSuffix follows the name of the kernel's function in the name of the one that calls it.
const plainSuffix = "_plain"

// Plain returns files to be beside those of the kernel: NAME_plain.c and .h, a function that calls the kernel's
// function NAME, and model.json, which describes them as a model in plain C (docs/c-models.md), with examples.npz, the
// content of the arguments. The function takes a pointer to the first element of each argument; for a plain kernel, an
// input of shape [] is a value (tune.Func). An argument without content before the call, or with an expected one, is an
// output. Errors have class config: an element that plain C has no type for, an argument that is both, and a plain
// function that no C file names.
func (s *Space) Plain() ([]Source, error) {
	files, err := s.plainFiles()
	if err != nil {
		return nil, failure.New(failure.Config, "call the kernel's function", "%s: %w", s.file, err)
	}
	for _, f := range files {
		if slices.ContainsFunc(s.Kernel, func(k Source) bool { return k.Name == f.Name }) {
			return nil, failure.New(failure.Config, "rename it", "%s: the kernel has a file %s", s.file, f.Name)
		}
	}
	return files, nil
}

func (s *Space) plainFiles() ([]Source, error) {
	w := plainWriter{space: s}
	w.Function = cmp.Or(s.Function, s.Entry) + plainSuffix
	inputs := false
	for i, a := range s.Args {
		if err := w.add(i, a); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		inputs = inputs || a.Data != nil
	}
	if inputs {
		w.Examples, w.Compare = examplesFile, s.tolerance()
	}
	if err := w.describe(); err != nil {
		return nil, err
	}

	description, err := json.MarshalIndent(w.Description, "", "  ")
	files := []Source{
		{w.Function + ".h", []byte(w.header())},
		{w.Function + ".c", []byte(w.source())},
		{plainc.File, append(description, '\n')},
	}
	if err != nil || !inputs {
		return files, err
	}
	examples, err := ndarray.EncodeNPZ(w.contents)
	return append(files, Source{examplesFile, examples}), err
}

type plainWriter struct {
	plainc.Description
	space      *Space
	parameters []string // in C
	passed     []string // to a plain function, in C
	tensors    strings.Builder
	contents   []ndarray.Named
	included   string // the file of a plain function, which may be static
}

// add adds argument i.
func (w *plainWriter) add(i int, a Arg) error {
	name, shape := fmt.Sprintf("argument%d", i), append([]int64{}, a.Shape...)
	v := plainc.Value{Output: name, DType: a.DType.String(), Shape: shape}
	ctype, content := plainc.Elements[v.DType], a.Want
	switch {
	case a.Data != nil && a.Want != nil:
		return errors.New("a pointer is an input or an output, not both")
	case ctype == "":
		return fmt.Errorf("plain C has no type %v", a.DType)
	}

	parameter, passed := ctype+"* "+name, "(void*)"+name // of whatever type the function has
	if a.Data != nil {
		v.Input, v.Output, content = name, "", a.Data
		parameter = "const " + parameter
		if len(shape) == 0 && w.space.Function != "" {
			parameter, passed, v.Pass = ctype+" "+name, name, "value"
		}
	}
	w.Arguments = append(w.Arguments, plainc.Argument{Value: v})
	w.parameters, w.passed = append(w.parameters, parameter), append(w.passed, passed)
	if content != nil {
		array := &ndarray.Array{DType: a.DType, Shape: shape, Data: content}
		w.contents = append(w.contents, ndarray.Named{Name: name, Array: array})
	}

	dims := "NULL"
	if len(shape) > 0 {
		dims = fmt.Sprintf("shape%d", i)
		fmt.Fprintf(&w.tensors, "  int64_t %s[] = {%s};\n", dims,
			strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]"))
	}
	fmt.Fprintf(&w.tensors, "  DLTensor tensor%d = {.data = (void*)%s, .device = {kDLCPU, 0}, .ndim = %d,\n"+
		"                      .dtype = {.code = %d, .bits = %d, .lanes = 1}, .shape = %s};\n"+
		"  values[%[1]d].v_handle = &tensor%[1]d;\n  codes[%[1]d] = kTVMDLTensorHandle;\n",
		i, name, len(shape), a.DType.Code, a.DType.Bits, dims)
	return nil
}

// describe completes the description. The file of a plain function is found as tune.Func does.
func (w *plainWriter) describe() error {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(w.space.Function) + `\b`)
	w.Sources, w.Headers, w.Include = []string{w.Function + ".c"}, []string{w.Function + ".h"}, []string{w.Function + ".h"}
	for _, f := range w.space.Kernel {
		isC := path.Ext(f.Name) == ".c"
		switch {
		case isC && w.space.Function != "" && w.included == "" && word.Match(f.Data):
			w.included = f.Name
			w.Headers = append(w.Headers, f.Name)
		case isC:
			w.Sources = append(w.Sources, f.Name)
		default:
			w.Headers = append(w.Headers, f.Name)
		}
	}
	if w.space.Function != "" && w.included == "" {
		return errors.New("no C file of the kernel has the name " + w.space.Function)
	}

	name := strings.Trim(strings.ToLower(strings.TrimSuffix(w.Function, plainSuffix)), "_0123456789")
	w.Name, w.Returns.Status = cmp.Or(name[:min(len(name), 64)], "kernel"), new(int64)
	return nil
}

// tolerance returns the largest tolerances of the arguments, in the notation of model.json.
func (s *Space) tolerance() string {
	var abs, rel float64
	for _, a := range s.Args {
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

func (w *plainWriter) prototype() string {
	return fmt.Sprintf("int %s(%s)", w.Function, strings.Join(w.parameters, ", "))
}

func (w *plainWriter) header() string {
	return fmt.Sprintf("// Calls %s; returns 0, or the error of a packed function.\n"+
		"#pragma once\n#include <stdint.h>\n\n%s;\n", strings.TrimSuffix(w.Function, plainSuffix), w.prototype())
}

func (w *plainWriter) source() string {
	if w.included != "" {
		// Without a declaration, a float would be passed as a double.
		const strict = "#pragma GCC diagnostic error \"-Wimplicit-function-declaration\"\n"
		return fmt.Sprintf("#include \"%s.h\"\n\n#include \"%s\"\n\n"+strict+"%s {\n  (void)%s(%s);\n  return 0;\n}\n",
			w.Function, w.included, w.prototype(), w.space.Function, strings.Join(w.passed, ", "))
	}
	n := len(w.space.Args)
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
`, w.Function, w.space.Entry, w.prototype(), max(n, 1), w.tensors.String(), n)
}
