// This file prints the generated files.

package cmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"github.com/boardsmith/boardsmith/mlf"
)

// files makes tvm_<model>.h, .c and .json.
func (g *model) files(code *Code) ([]mlf.File, error) {
	base := "tvm_" + g.C

	var files []mlf.File
	var example bytes.Buffer

	// The example is not a file: integration joins those of all models in main.c.
	if err := templates.ExecuteTemplate(&example, "example", g); err != nil {
		return nil, fmt.Errorf("model %s: %w", g.M.Name, err)
	}
	code.example = example.String()

	for _, f := range []struct{ name, template string }{
		{base + ".h", "header"}, {base + ".c", "source"},
	} {
		var out bytes.Buffer
		if err := templates.ExecuteTemplate(&out, f.template, g); err != nil {
			return nil, fmt.Errorf("model %s: %s: %w", g.M.Name, f.name, err)
		}
		files = append(files, mlf.File{Name: f.name, Data: out.Bytes()})
	}

	text, err := json.MarshalIndent(g.description(code), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", g.M.Name, err)
	}
	return append(files, mlf.File{Name: base + ".json", Data: append(text, '\n')}), nil
}

// ShapeRef returns an expression for the address of a shape.
func (g *model) ShapeRef(t mlf.Tensor) string {
	shape := t.Dims()
	if len(shape) == 0 {
		return "NULL"
	}

	var parts []string
	for _, n := range shape {
		parts = append(parts, fmt.Sprint(n))
	}
	return "shape_" + strings.Join(parts, "_")
}

// Shapes returns the distinct shapes of all tensors of the tables, each once.
func (g *model) Shapes() []mlf.Tensor {
	var all []mlf.Tensor
	seen := map[string]bool{"NULL": true}
	add := func(t mlf.Tensor) {
		if ref := g.ShapeRef(t); !seen[ref] {
			seen[ref] = true
			all = append(all, t)
		}
	}

	for _, t := range append(append([]tensor{}, g.Inputs...), g.Outputs...) {
		add(t.Tensor)
	}

	if g.Graph != nil {
		for _, ts := range [][]graphTensor{g.Graph.Tensors, g.Graph.Arena, g.Graph.Consts} {
			for _, t := range ts {
				add(t.Tensor)
			}
		}
		for _, p := range g.Graph.Params {
			// Only the table of parameters in RAM has these.
			if g.RAM {
				add(mlf.Tensor{DType: p.Array.DType, Shape: p.Array.Shape})
			}
		}
	}
	return all
}

// HasMemory reports whether the generated C uses the parts of embedded/.
func (g *model) HasMemory() bool { return g.Graph != nil || g.Memory != nil }

// Tensor returns the tensor of an argument of a packed function.
func (g *model) Tensor(a argument) *tensor {
	switch {
	case a.Input >= 0:
		return &g.Inputs[a.Input]
	case a.Output >= 0:
		return &g.Outputs[a.Output]
	}
	return nil
}

// Value returns the address that an argument stands for.
func (g *model) Value(a argument) string {
	switch {
	case a.Input >= 0:
		return "(void*)in->" + g.Inputs[a.Input].C // only read
	case a.Output >= 0:
		return "out->" + g.Outputs[a.Output].C
	case a.Workspace >= 0:
		return fmt.Sprintf("workspaces[%d]", a.Workspace)
	case a.Constant >= 0:
		return "(void*)&" + g.Constants[a.Constant].C // only read
	}
	return "NULL"
}

// ParamType returns the type of an argument of a function that is not packed.
func (g *model) ParamType(a argument) string {
	if a.Input >= 0 || a.Output >= 0 {
		return "void*"
	}
	return "uint8_t*"
}

var functions = template.FuncMap{
	"quote": quote, "comment": comment, "list": list, "dtype": dtypeC, "data": dataC, "dataType": dataType,
	"elements": elements, "add": func(a, b int) int { return a + b },
}

var templates = template.Must(template.New("").Funcs(functions).Parse(headerText + sourceText + exampleText))

// ParamShape returns an expression for the address of a parameter's shape.
func (g *model) ParamShape(p param) string {
	return g.ShapeRef(mlf.Tensor{DType: p.Array.DType, Shape: p.Array.Shape})
}

// TypeCodes returns the type codes of the call with most arguments.
func (g *model) TypeCodes() []string {
	codes := make([]string, g.Graph.MostArgs)
	for i := range codes {
		codes[i] = "(int)kTVMDLTensorHandle"
	}
	return codes
}
