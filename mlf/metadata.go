// This file reads metadata.json, in its seven versions (mlf.md §1, §3, §4).

package mlf

import (
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/ndarray"
)

// The supported versions of the format.
const (
	minVersion = 1
	maxVersion = 7
)

// rawMetadata is metadata.json. Up to version 6 the top level describes the archive's only model.
type rawMetadata struct {
	Version *int                 `json:"version"`
	Modules map[string]*rawModel `json:"modules"`
	rawModel
}

type rawModel struct {
	ModelName string          `json:"model_name"`
	Style     string          `json:"style"`     // from version 4
	Executors []string        `json:"executors"` // from version 5
	Runtimes  []string        `json:"runtimes"`  // to version 4
	Memory    json.RawMessage `json:"memory"`    // from version 2 an object, before that the list of storage ids
	Examples  string          `json:"examples"`  // boardsmith only: the member with examples
	Compare   string          `json:"compare"`   // boardsmith only
}

// rawMemory is a full model's memory from version 2.
type rawMemory struct {
	Functions struct {
		Main []rawMain `json:"main"` // one per device
	} `json:"functions"`
}

type rawMain struct {
	Workspace int64                `json:"workspace_size_bytes"`
	Constants int64                `json:"constants_size_bytes"`
	IO        int64                `json:"io_size_bytes"`
	Inputs    map[string]rawTensor `json:"inputs"`
	Outputs   map[string]rawTensor `json:"outputs"`
}

type rawTensor struct {
	Size  int64  `json:"size"`
	DType string `json:"dtype"`
	// boardsmith's exporter, and models in plain C, only
	Shape     []int64 `json:"shape"` // nil: the Relay text has it
	Scale     float64 `json:"scale"` // 0: none
	ZeroPoint int64   `json:"zero_point"`
}

// rawArgument is one argument of an archive with one operator.
type rawArgument struct {
	Size  int64   `json:"size_bytes"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
}

const metadataFile = "metadata.json"

func (a *Archive) readMetadata() error {
	f := a.Find(metadataFile)
	if f == nil {
		const next = "export the model again with TVM's export_model_library_format; of a model in plain C, " +
			"pack its description as model.json"
		return a.fault("", next, "it has no %s: it is not a Model Library Format archive", metadataFile)
	}

	var raw rawMetadata
	if err := json.Unmarshal(f.Data, &raw); err != nil {
		return a.fault(metadataFile, "", "%w", jsonfile.Plain(err))
	}

	switch {
	case raw.Version == nil:
		return a.fault(metadataFile, "", "it has no version")
	case *raw.Version < minVersion || *raw.Version > maxVersion:
		return a.fault(metadataFile, "export the model with TVM 0.8 to 0.18",
			"unsupported version %d; versions %d to %d are supported", *raw.Version, minVersion, maxVersion)
	}

	a.Version = *raw.Version
	models := raw.Modules
	if len(models) == 0 {
		models = map[string]*rawModel{raw.ModelName: &raw.rawModel}
	}

	var names []string
	for name := range models {
		names = append(names, name)
	}

	// A fixed order, which a map does not have.
	sort.Strings(names)

	for _, name := range names {
		m, err := a.readModelOf(name, models[name])
		if err != nil {
			return err
		}
		a.Models = append(a.Models, m)
	}
	return a.assignCode()
}

// readModelOf reads a model without its code.
func (a *Archive) readModelOf(name string, raw *rawModel) (*Model, error) {
	switch {
	case raw == nil:
		return nil, a.fault(metadataFile, "", "model %q has no description", name)
	case !isIdentifier(name) && raw.Style != operator || name == "":
		return nil, a.fault(metadataFile, "", "invalid model name %q: TVM uses letters, digits and underscores only", name)
	}

	m := &Model{Name: name, Style: raw.Style, Interface: packedInterface}
	var err error
	switch m.Style {
	case operator:
		err = a.readOperator(m, raw)
	case fullModel, "":
		m.Style = fullModel
		err = a.readModel(m, raw)
	default:
		err = a.fault(metadataFile, "", "model %s: unsupported style %q", name, raw.Style)
	}
	return m, err
}

func (a *Archive) readModel(m *Model, raw *rawModel) error {
	// Up to version 4, the field runtimes has the executors.
	executors := raw.Executors
	if len(executors) == 0 {
		executors = raw.Runtimes
	}

	if len(executors) != 1 || executors[0] != string(Graph) && executors[0] != string(AOT) {
		return a.fault(metadataFile, "", "model %s: unsupported executors %q; graph and aot are supported", m.Name, executors)
	}

	m.Executor = Executor(executors[0])
	memory, err := a.readMemory(m, raw)
	if err != nil {
		return err
	}

	if f := a.oneOf("parameters/"+m.Name+".params", "parameters/*.params"); f != nil {
		m.Params = f.Data
	}

	if raw.Examples != "" {
		f := a.Find(raw.Examples)
		if f == nil {
			return a.fault(metadataFile, "", "model %s: the archive lacks its examples, %q", m.Name, raw.Examples)
		}
		m.Examples, m.Compare = f.Data, raw.Compare
	}

	params, err := a.readParams(m)
	if err != nil {
		return err
	}

	// The header, if there is one, decides on the interface.
	if f := a.findHeader(m.Name); f != nil {
		if m.Header, err = parseHeader(f.Data); err != nil {
			return a.fault(f.Name, "", "%w", err)
		}
		m.Headers, m.Interface = []File{*f}, cInterface
		m.Pools = m.Header.Pools
	}

	if m.Executor == Graph {
		return a.readGraph(m, memory, params)
	}
	return a.readEntry(m, memory)
}

// figures are a model's tensors in its metadata: names, types and sizes, unordered.
type figures struct{ inputs, outputs map[string]Tensor }

func (a *Archive) readMemory(m *Model, raw *rawModel) (figures, error) {
	memory := figures{map[string]Tensor{}, map[string]Tensor{}}
	if a.Version == 1 {
		return memory, nil // storage ids only, which the graph has too
	}

	var mem rawMemory
	if len(raw.Memory) > 0 {
		if err := json.Unmarshal(raw.Memory, &mem); err != nil {
			return memory, a.fault(metadataFile, "", "model %s: memory: %w", m.Name, jsonfile.Plain(err))
		}
	}

	for _, main := range mem.Functions.Main {
		// There is one entry per device.
		if main.Workspace < 0 || main.Constants < 0 || main.IO < 0 {
			return memory, a.fault(metadataFile, "", "model %s: a negative memory size", m.Name)
		}
		m.Workspace += main.Workspace
		m.Constants += main.Constants
		if err := readTensors(main.Inputs, memory.inputs); err != nil {
			return memory, a.fault(metadataFile, "", "model %s: %w", m.Name, err)
		}
		if err := readTensors(main.Outputs, memory.outputs); err != nil {
			return memory, a.fault(metadataFile, "", "model %s: %w", m.Name, err)
		}
	}
	return memory, nil
}

func readTensors(raw map[string]rawTensor, into map[string]Tensor) error {
	for name, t := range raw {
		d, err := ndarray.ParseDType(t.DType)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}

		if t.Size < 0 || t.Size > ndarray.MaxBytes {
			return fmt.Errorf("tensor %q has an invalid size, %d bytes", name, t.Size)
		}
		if t.Scale < 0 {
			return fmt.Errorf("tensor %q has an invalid scale, %v", name, t.Scale)
		}
		into[name] = Tensor{Name: name, DType: d, Shape: t.Shape, Bytes: t.Size, Scale: t.Scale, ZeroPoint: t.ZeroPoint}

		// The shape, if it is there, must have the size.
		if t.Shape == nil {
			continue
		}
		if n, err := ndarray.Bytes(d, t.Shape); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		} else if int64(n) != t.Size {
			return fmt.Errorf("tensor %q: %v %s has %d bytes, not %d", name, d, ndarray.ShapeString(t.Shape), n, t.Size)
		}
	}
	return nil
}

// readParams parses the parameters for their names, and so detects a damaged blob before it reaches a device.
func (a *Archive) readParams(m *Model) (map[string]bool, error) {
	names := map[string]bool{}
	if m.Params == nil {
		return names, nil
	}

	params, err := paramblob.Parse(m.Params)
	if err != nil {
		return nil, a.fault("parameters/"+m.Name+".params", "", "%w", err)
	}

	for _, p := range params {
		names[p.Name] = true
	}
	return names, nil
}

// oneOf returns the member of that name, else the only one that matches the pattern. Before version 7 the file's
// name may differ from the model's.
func (a *Archive) oneOf(name, pattern string) *File {
	if f := a.Find(name); f != nil || a.Version >= 7 {
		return f
	}

	var file *File
	for i := range a.Files {
		if ok, _ := path.Match(pattern, a.Files[i].Name); ok {
			// Of several, none can be chosen.
			if file != nil {
				return nil
			}
			file = &a.Files[i]
		}
	}
	return file
}

// findHeader finds the interface header; TVM writes its name in lower case.
func (a *Archive) findHeader(model string) *File {
	for i := range a.Files {
		if strings.EqualFold(a.Files[i].Name, "codegen/host/include/tvmgen_"+model+".h") {
			return &a.Files[i]
		}
	}
	return nil
}

func (a *Archive) readOperator(m *Model, raw *rawModel) error {
	var functions map[string][]rawArgument
	if err := json.Unmarshal(raw.Memory, &functions); err != nil {
		return a.fault(metadataFile, "", "operator %s: memory: %w", m.Name, jsonfile.Plain(err))
	}

	if len(functions) != 1 {
		return a.fault(metadataFile, "", "operator %s: %d functions are described instead of one", m.Name, len(functions))
	}

	var args []Tensor
	for name, raw := range functions {
		m.Entry = name
		for i, arg := range raw {
			t, err := arg.tensor(fmt.Sprintf("arg%d", i))
			if err != nil {
				return a.fault(metadataFile, "", "operator %s: %w", m.Name, err)
			}
			args = append(args, t)
		}
	}

	if !isIdentifier(m.Entry) {
		return a.fault(metadataFile, "", "operator function %q is not a C identifier", m.Entry)
	}
	if len(args) == 0 {
		return a.fault(metadataFile, "", "operator %s has no arguments", m.Name)
	}

	// The metadata does not list which arguments are written.
	var written []bool
	written, m.onlyTensors = a.readTIR(m.Entry, args)
	for i, t := range args {
		m.Arguments = append(m.Arguments, argument{t, written[i]})
		if written[i] {
			m.Outputs = append(m.Outputs, t)
		} else {
			m.Inputs = append(m.Inputs, t)
		}
	}
	return nil
}

func (r rawArgument) tensor(name string) (Tensor, error) {
	d, err := ndarray.ParseDType(r.DType)
	if err != nil {
		return Tensor{}, fmt.Errorf("%s: %w", name, err)
	}

	n, err := ndarray.Bytes(d, r.Shape)
	if err != nil {
		return Tensor{}, fmt.Errorf("%s: %w", name, err)
	}

	if r.Size != 0 && r.Size != int64(n) {
		return Tensor{}, fmt.Errorf("%s: %v %s has %d bytes, not %d", name, d, ndarray.ShapeString(r.Shape), n, r.Size)
	}
	return Tensor{Name: name, DType: d, Shape: append([]int64{}, r.Shape...), Bytes: int64(n)}, nil
}
