// This file prints the generated files.

package cmodel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"text/template"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// files makes tvm_<model>.h, .c and .json.
func (g *model) files(code *Code) ([]mlf.File, error) {
	base := "tvm_" + g.C
	var files []mlf.File
	var example bytes.Buffer
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

// jsonVersion is the version of tvm_<model>.json; docs/embedded.md describes it.
const jsonVersion = 1

type description struct {
	Version    int             `json:"version"`
	Model      string          `json:"model"`
	CName      string          `json:"c_name"`
	ID         string          `json:"id"`
	Digest     string          `json:"archive_sha256"`
	Format     int             `json:"archive_version"`
	Entry      string          `json:"entry"`
	Inputs     []jsonTensor    `json:"inputs"`
	Outputs    []jsonTensor    `json:"outputs"`
	Workspaces []jsonWorkspace `json:"workspaces"`
	Bytes      int64           `json:"workspace_bytes"`
	Devices    []jsonDevice    `json:"devices"`
	Parameters *jsonParameters `json:"parameters,omitempty"`
	Graph      *jsonGraph      `json:"graph,omitempty"`
	Sources    []string        `json:"sources"`
	Objects    []string        `json:"objects"`
	Renamed    []Renamed       `json:"renamed"`
	Target     *Target         `json:"target,omitempty"`
}

type jsonTensor struct {
	Name  string  `json:"name"`
	CName string  `json:"c_name,omitempty"`
	Macro string  `json:"macro,omitempty"`
	Index int     `json:"index"`
	DType string  `json:"dtype"`
	CType string  `json:"c_type,omitempty"`
	Shape []int64 `json:"shape"`
	Bytes int64   `json:"bytes"`
}

type jsonWorkspace struct {
	Name  string `json:"name"`
	CName string `json:"c_name"`
	Macro string `json:"macro"`
	Index int    `json:"index"`
	Bytes int64  `json:"bytes"`
}

type jsonDevice struct {
	Name  string `json:"name"`
	CName string `json:"c_name"`
	Macro string `json:"macro"`
	Index int    `json:"index"`
}

type jsonParameters struct {
	Place   string       `json:"place"` // "flash" or "ram"
	Bytes   int64        `json:"bytes"`
	Tensors []jsonTensor `json:"tensors"`
}

type jsonGraph struct {
	Calls  int   `json:"calls"`
	AtOnce int64 `json:"bytes_in_use_at_once"`
	TVM    int64 `json:"bytes_by_tvms_plan"`
}

func (g *model) description(code *Code) description {
	d := description{
		Version: jsonVersion, Model: g.M.Name, CName: g.C, ID: fmt.Sprintf("%#08x", g.ID()), Digest: g.Archive.Digest,
		Format: g.Archive.Version, Entry: g.Entry, Bytes: g.WorkspaceBytes(),
		Inputs: jsonTensors(g.Inputs), Outputs: jsonTensors(g.Outputs), Workspaces: []jsonWorkspace{},
		Devices: []jsonDevice{}, Sources: []string{}, Objects: []string{}, Renamed: append([]Renamed{}, g.Renamed...),
		Target: g.Target,
	}
	for _, w := range g.Workspaces {
		d.Workspaces = append(d.Workspaces, jsonWorkspace{w.Name, w.C, w.Macro, w.Index, w.Bytes})
	}
	for _, v := range g.Devices {
		d.Devices = append(d.Devices, jsonDevice{v.Name, v.C, v.Macro, v.Index})
	}
	for _, f := range code.Sources {
		d.Sources = append(d.Sources, path.Base(f.Name))
	}
	for _, f := range code.Objects {
		d.Objects = append(d.Objects, path.Base(f.Name))
	}
	if g.Graph != nil {
		d.Graph = &jsonGraph{len(g.Graph.Calls), g.Graph.AtOnce, g.Graph.TVM}
		if len(g.Graph.Params) > 0 {
			p := &jsonParameters{Place: "flash", Bytes: g.Graph.Data}
			if g.RAM {
				p.Place = "ram"
			}
			for i, a := range g.Graph.Params {
				p.Tensors = append(p.Tensors, jsonTensor{
					Name: a.Name, Index: i, DType: a.Array.DType.String(), Shape: a.Array.Shape, Bytes: int64(len(a.Array.Data)),
				})
			}
			d.Parameters = p
		}
	}
	return d
}

func jsonTensors(ts []tensor) []jsonTensor {
	out := []jsonTensor{}
	for _, t := range ts {
		out = append(out, jsonTensor{t.Name, t.C, t.Macro, t.Index, t.DType.String(), t.Type, shapeOf(t.Tensor), t.Bytes})
	}
	return out
}

// dataC returns the elements of an array as an initialiser. Floats are exact; an array with infinities or NaNs is one
// of words with the same bits.
func dataC(a *ndarray.Array) string {
	if len(a.Data) == 0 {
		return "0"
	}
	float := dataType(a)
	width := max(1, a.DType.Size())
	switch width {
	case 2, 4, 8:
	default:
		width = 1
	}
	var b strings.Builder
	for i := 0; i*width < len(a.Data); i++ {
		if i > 0 {
			b.WriteString([]string{", ", ",\n    "}[btoi(i%12 == 0)])
		}
		word := a.Data[i*width:]
		switch {
		case float == "float":
			v := math.Float32frombits(binary.LittleEndian.Uint32(word))
			b.WriteString(strconv.FormatFloat(float64(v), 'x', -1, 32) + "F")
		case float == "double":
			v := math.Float64frombits(binary.LittleEndian.Uint64(word))
			b.WriteString(strconv.FormatFloat(v, 'x', -1, 64))
		default:
			var n uint64
			for j := width - 1; j >= 0; j-- {
				n = n<<8 | uint64(word[j])
			}
			fmt.Fprintf(&b, "%#xU", n)
		}
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dataType returns the C type of a parameter's elements in its table.
func dataType(a *ndarray.Array) string {
	if t := elementType(a.DType); t == "float" || t == "double" {
		for i := range a.Len() {
			if v := a.Float(i); math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Sprintf("uint%d_t", a.DType.Bits)
			}
		}
		return t
	}
	switch width := a.DType.Size(); width {
	case 2, 4, 8:
		return fmt.Sprintf("uint%d_t", 8*width)
	}
	return "uint8_t"
}

// elements returns the number of elements of dataC, at least 1.
func elements(a *ndarray.Array) int {
	switch width := a.DType.Size(); width {
	case 2, 4, 8:
		return max(1, len(a.Data)/width)
	}
	return max(1, len(a.Data))
}

// ShapeRef returns an expression for the address of a shape.
func (g *model) ShapeRef(t mlf.Tensor) string {
	shape := shapeOf(t)
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

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\' || c == '?': // ? prevents trigraphs
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// comment makes a name harmless in a comment of one line.
func comment(s string) string {
	s = strings.Trim(strconv.QuoteToASCII(s), `"`)
	return strings.TrimRight(strings.ReplaceAll(s, "*/", "* /"), `\`)
}

var functions = template.FuncMap{
	"quote": quote, "comment": comment, "list": list, "dtype": dtypeC, "data": dataC, "dataType": dataType,
	"elements": elements, "elementCount": elementCount, "shape": shapeOf, "add": func(a, b int) int { return a + b },
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

// elementCount returns the elements of a tensor's type in C, at least 1.
func elementCount(t tensor) int64 {
	size := int64(1)
	switch t.Type {
	case "int16_t", "uint16_t":
		size = 2
	case "int32_t", "uint32_t", "float":
		size = 4
	case "int64_t", "uint64_t", "double":
		size = 8
	}
	return max(1, t.Bytes/size)
}
