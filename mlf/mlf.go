// Package mlf reads Model Library Format archives, which TVM exports for microcontrollers (mlf.md).
//
// It parses an archive and checks whether it can be built. Input may be hostile: an archive is either understood as
// a whole or rejected with the member and the reason. The package does not compile or run anything.
package mlf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/ndarray"
)

// The values of Model.Style (mlf.md §2, §4).
const (
	fullModel = "full-model" // networks, with an executor
	operator  = "operator"   // a single operator, as tuners measure it
)

// An Executor is the part that calls a model's operators in order.
type Executor string

// The executors.
const (
	Graph Executor = "graph" // a graph in JSON, walked by an executor on the host or the device
	AOT   Executor = "aot"   // a main function that TVM generated
	None  Executor = ""      // none: the archive has a single operator
)

// The values of Model.Interface (crt_abi.md §10).
const (
	packedInterface = "packed" // as a packed function, found by name in the system library
	cInterface      = "c"      // as a C function with structs of pointers, declared in a header
)

// An Archive is the content of one file. It is read-only, and so may be used from several goroutines.
type Archive struct {
	Path    string // path given to Open, or name given to Parse; for messages only
	Version int
	Digest  string // SHA-256 of Raw, in hexadecimal
	Raw     []byte // the tar as it was given, uncompressed
	Files   []File // all members that are files, in the archive's order
	Models  []*Model
}

// A File is a member of an archive.
type File struct {
	Name string // relative, with slashes, clean: no "." or ".." in it
	Data []byte
}

// A Tensor describes an input or output of a model.
type Tensor struct {
	Name  string // the model's own name if known, else the one in C
	DType ndarray.DType
	Shape []int64 // nil if unknown; empty for a scalar
	Bytes int64   // 0 if unknown

	// Of quantized integers, q stands for (q - ZeroPoint) * Scale. 0: the archive does not state it
	Scale     float64
	ZeroPoint int64
}

// String describes a tensor in one line, such as `image int8 (1, 1, 8, 8)`.
func (t Tensor) String() string {
	if t.Shape == nil {
		return fmt.Sprintf("%s %v, %d bytes", t.Name, t.DType, t.Bytes)
	}
	return fmt.Sprintf("%s %v %s", t.Name, t.DType, ndarray.ShapeString(t.Shape))
}

// Dims returns the shape; if it is unknown, one axis with as many elements as fill the bytes.
func (t Tensor) Dims() []int64 {
	if size := t.DType.Size(); t.Shape == nil && size > 0 {
		return []int64{t.Bytes / int64(size)}
	}
	return t.Shape
}

// An argument is one of an operator's arguments.
type argument struct {
	Tensor
	Output bool // the operator writes it
}

// A Buffer is memory that the caller of a model provides: a pool (mlf.md §6), or a tensor of the C interface.
type Buffer struct {
	Name  string // the member of the C interface's struct
	Bytes int64  // 0: of a tensor, unknown; of a pool, the model declares it but does not use it
	Data  string // macro with a constant pool's initialiser; "" for others
}

// A Model is one model of an archive.
type Model struct {
	Name      string
	Style     string // "full-model": a network with an executor, or "operator": a single one, as tuners measure it
	Executor  Executor
	Interface string // "packed": the entry is a packed function; "c": a C function with structs of pointers, in Headers
	ABI       ABI
	// operator style: the operator's function; ahead of time, packed: the function that the executor calls
	Entry     string
	Arguments []argument // operator style: all of Entry's arguments, in order

	Sources []File // C and C++ sources, to be compiled
	Objects []File // objects, to be linked as they are
	Headers []File // what sources may include: first the C interface's header, if there is one
	Graph   []byte // the graph's JSON, nil without one
	Params  []byte // the parameters' blob, nil without one; it may hold none

	Inputs  []Tensor // in the order of the entry point's arguments; parameters are not among them
	Outputs []Tensor // in the same order

	Header    *Header  // the C interface, nil without one
	Pools     []Buffer // workspace that the entry gets as arguments, in their order
	Workspace int64    // bytes of the model's temporaries, according to its metadata
	Constants int64    // bytes of constants, according to its metadata

	Examples []byte // .npz with inputs and expected outputs, as package measure reads it; nil without one
	Compare  string // rule for comparing outputs with those of Examples, as measure.ParseRule reads it; "" without one

	SystemLib bool     // there is a TVMSystemLibEntryPoint
	Functions []string // functions in the system library, in the registry's order if known

	listed    bool // metadata.json lists inputs or outputs
	described bool // the model's code does
	// operator style: all of Entry's arguments are tensors; false: the archive does not state it
	onlyTensors bool

	scan *codeScan // for Check
}

// Find returns the member of that name, or nil.
func (a *Archive) Find(name string) *File {
	for i := range a.Files {
		if a.Files[i].Name == name {
			return &a.Files[i]
		}
	}
	return nil
}

// Model returns the model of that name; with "" the only one. Anything else is an error that lists them.
func (a *Archive) Model(name string) (*Model, error) {
	if name == "" && len(a.Models) == 1 {
		return a.Models[0], nil
	}

	var names []string
	for _, m := range a.Models {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}

	if name == "" {
		choose := "choose one of its models, with " + nextstep.Option("Spec.ModelName", names[0]) + " for instance"
		return nil, a.fault("", choose, "it holds %d models: %q", len(names), names)
	}
	next := cmp.Or(spelling.Nearest(name, names), "choose one of these")
	return nil, a.fault("", next, "there is no model %q; it holds %q", name, names)
}

// Prefix is what the names of the model's functions begin with.
func (m *Model) Prefix() string { return "tvmgen_" + m.Name }

// Has reports whether the system library registers a function.
func (m *Model) Has(function string) bool { return slices.Contains(m.Functions, function) }

// RunFunction returns the function that runs an ahead-of-time model.
func (m *Model) RunFunction() string {
	switch {
	case m.Entry != "":
		return m.Entry
	case m.Header != nil:
		return "tvmgen_" + m.Header.Name + "_run"
	}
	return m.Prefix() + "_run"
}
