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
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// examplesFile has the content of arguments.
const examplesFile = "examples.npz"

// Plain returns files to be beside those of the kernel: NAME_plain.c and .h, a function that calls the kernel's
// function NAME, and model.json, which describes them as a model in plain C (docs/c-models.md), with examples.npz, the
// content of the arguments. The function takes a pointer to the first element of each argument; for a plain kernel, an
// input of shape [] is a value (tune.Func). An argument without content before the call, or with an expected one, is an
// output. Without files, doubt has class config: an element that plain C has no type for, an argument that is both, a
// plain function that no C file names, and a file of the kernel with one of these names. With files, it is why there
// are no examples: they have one rule for all outputs, and must be compared as tune compares the arguments.
func (s *Space) Plain() (files []mlf.File, doubt error) {
	w := plainWriter{space: s, called: cmp.Or(s.Function, s.Entry)}

	err := w.describe()

	for i, a := range s.Args {
		err = cmp.Or(err, w.add(i, a))
	}
	switch rules := slices.Compact(slices.Clone(w.rules)); {
	case w.Examples == "" || len(rules) == 0:
	case len(rules) == 1:
		w.Compare = rules[0]
	default:
		w.Examples, doubt = "", failure.Errorf(failure.Config, "%s: no examples: model.json has one rule for all outputs, "+
			"not %q (\"\": no want)", s.file, rules)
	}

	description, jsonErr := json.MarshalIndent(w.Description, "", "  ")
	examples, npzErr := ndarray.EncodeNPZ(w.contents)
	if err := cmp.Or(err, jsonErr, npzErr); err != nil {
		return nil, failure.New(failure.Config, "call the kernel's function", "%s: no model.json: %w", s.file, err)
	}

	prototype := fmt.Sprintf("int %s(%s)", w.Function, strings.Join(w.parameters, ", "))
	header := fmt.Appendf(nil, "// Calls %s; returns 0, or the error of a packed function.\n"+
		"#pragma once\n#include <stdint.h>\n\n%s;\n", w.called, prototype)

	files = []mlf.File{
		{Name: w.Function + ".h", Data: header},
		{Name: w.Function + ".c", Data: w.source(prototype)},
		{Name: modelfile.File, Data: append(description, '\n')},
	}

	if w.Examples != "" {
		files = append(files, mlf.File{Name: examplesFile, Data: examples})
	}

	return files, doubt
}

type plainWriter struct {
	modelfile.Description
	space      *Space
	called     string   // the kernel's function
	parameters []string // in C
	passed     []string // to a plain function, in C
	tensors    strings.Builder
	contents   []ndarray.Named
	rules      []string // of the outputs
	included   string   // the file of a plain function, which may be static
}

// describe begins the description. The file of a plain function is found as tune.Func does.
func (w *plainWriter) describe() error {
	w.Function, w.Returns.Status = w.called+"_plain", new(int64)
	name := strings.Trim(strings.ToLower(w.called), "_0123456789")
	w.Name = cmp.Or(name[:min(len(name), 64)], "kernel")
	w.Sources, w.Headers, w.Include = []string{w.Function + ".c"}, []string{w.Function + ".h"}, []string{w.Function + ".h"}

	word := regexp.MustCompile(`\b` + w.called + `\b`)

	for _, f := range w.space.Kernel {
		isC := path.Ext(f.Name) == ".c"

		if strings.TrimSuffix(f.Name, path.Ext(f.Name)) == w.Function {
			return fmt.Errorf("the kernel has a file %s: rename it", f.Name)
		}

		if isC && w.space.Function != "" && w.included == "" && word.Match(f.Data) {
			isC, w.included = false, f.Name
		}

		if isC {
			w.Sources = append(w.Sources, f.Name)
		} else {
			w.Headers = append(w.Headers, f.Name)
		}
	}

	if w.space.Function != "" && w.included == "" {
		return errors.New("no C file of the kernel has the name " + w.called)
	}
	return nil
}

// add adds argument i.
func (w *plainWriter) add(i int, a arg) error {
	name, shape := fmt.Sprintf("argument%d", i), append([]int64{}, a.Shape...)

	v := modelfile.Value{Output: name, DType: a.DType.String(), Shape: shape}

	ctype, content := modelfile.Elements[v.DType], a.Want
	switch {
	case a.Data != nil && a.Want != nil:
		return fmt.Errorf("argument %d: a pointer is an input or an output, not both", i+1)
	case ctype == "":
		return fmt.Errorf("argument %d: plain C has no type %v", i+1, a.DType)
	}

	parameter, passed := ctype+"* "+name, "(void*)"+name // of whatever type the function has
	if a.Data != nil {
		v.Input, v.Output, content, w.Examples = name, "", a.Data, examplesFile
		parameter = "const " + parameter
		if len(shape) == 0 && w.space.Function != "" {
			parameter, passed, v.Pass = ctype+" "+name, name, "value"
		}
	} else {
		w.rules = append(w.rules, a.rule())
	}

	w.Arguments = append(w.Arguments, modelfile.Argument{Value: v})
	w.parameters, w.passed = append(w.parameters, parameter), append(w.passed, passed)

	if content != nil {
		array := &ndarray.Array{DType: a.DType, Shape: shape, Data: content}
		w.contents = append(w.contents, ndarray.Named{Name: name, Array: array})
	}

	var dims strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&dims, "%d, ", n)
	}
	fmt.Fprintf(&w.tensors, "  DLTensor tensor%d = {.data = (void*)%s, .device = {kDLCPU, 0}, .ndim = %d,\n"+
		"                      .dtype = {.code = %d, .bits = %d, .lanes = 1}, .shape = (int64_t[]){%s0}};\n"+
		"  values[%[1]d].v_handle = &tensor%[1]d;\n  codes[%[1]d] = kTVMDLTensorHandle;\n",
		i, name, len(shape), a.DType.Code, a.DType.Bits, dims.String())

	return nil
}

// rule returns how an output is compared, in the notation of model.json; "" without an expected content.
func (a arg) rule() string {
	if a.Want == nil {
		return ""
	}

	none := regexp.MustCompile(`(abs|rel)=0(,|$)`)
	text := none.ReplaceAllString(fmt.Sprintf("abs=%g,rel=%g", a.AbsTol, a.RelTol), "")
	return cmp.Or(strings.Trim(text, ","), "exact")
}

func (w *plainWriter) source(prototype string) []byte {
	if w.included != "" {
		// Without a declaration, a float would be passed as a double.
		const strict = "#pragma GCC diagnostic error \"-Wimplicit-function-declaration\"\n"
		return fmt.Appendf(nil, "#include \"%s.h\"\n\n#include \"%s\"\n\n"+strict+"%s {\n  (void)%s(%s);\n  return 0;\n}\n",
			w.Function, w.included, prototype, w.called, strings.Join(w.passed, ", "))
	}

	n := len(w.space.Args)
	return fmt.Appendf(nil, `#include "%s.h"

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
`, w.Function, w.called, prototype, max(n, 1), w.tensors.String(), n)
}
