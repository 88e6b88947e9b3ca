// Package mlf reads Model Library Format archives, what TVM exports for a microcontroller (mlf.md).
//
// It says what is in an archive and whether it can work; it compiles nothing, runs nothing and knows no boards.
// Everything read is taken as hostile: an archive is either understood whole or refused with the member and the
// reason.
package mlf

import (
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/ndarray"
)

// A Style says what an archive holds.
type Style string

// The two styles (mlf.md §2, §4).
const (
	FullModel Style = "full-model" // whole networks, with an executor
	Operator  Style = "operator"   // one operator, as a tuner measures it
)

// An Executor says who calls a model's operators in their order.
type Executor string

// The executors.
const (
	Graph Executor = "graph" // a graph in JSON, walked by an executor on the host or the device
	AOT   Executor = "aot"   // a main function that TVM generated
	None  Executor = ""      // nobody: the archive is one operator
)

// An Interface says how a model's entry point takes its tensors.
type Interface string

// The interfaces (crt_abi.md §10).
const (
	Packed Interface = "packed" // as a packed function, found by name in the system library
	C      Interface = "c"      // as a C function with structs of pointers, declared in a header
)

// An Archive is all that one file holds. It is read-only once opened.
type Archive struct {
	Path    string // as given to Open; for messages only
	Version int
	Digest  string // SHA-256 of Raw, in hexadecimal: the archive's name in caches
	Raw     []byte // the tar as it was given, uncompressed
	Files   []File // all members that are files, in the archive's order
	Models  []*Model
}

// A File is a member of an archive.
type File struct {
	Name string // relative, with slashes, clean: no "." or ".." in it
	Data []byte
}

// A Tensor is what a model takes or gives.
type Tensor struct {
	Name  string // the model's own name where it is known, not made fit for C
	DType ndarray.DType
	Shape []int64 // nil if the archive does not say; a scalar's is empty
	Bytes int64   // 0 if the archive does not say
}

// String describes a tensor in one line, such as `image int8 (1, 1, 8, 8)`.
func (t Tensor) String() string {
	if t.Shape == nil {
		return fmt.Sprintf("%s %v, %d bytes", t.Name, t.DType, t.Bytes)
	}
	return fmt.Sprintf("%s %v %s", t.Name, t.DType, ndarray.ShapeString(t.Shape))
}

// An Argument is one of an operator's arguments.
type Argument struct {
	Tensor
	Output bool // the operator writes it
}

// A Pool is memory that a model wants from its caller (mlf.md §6).
type Pool struct {
	Name  string // the member of the struct of pools
	Bytes int64  // 0: the model declares the pool and does not use it
	Data  string // macro with a constant pool's initialiser; "" for workspace
}

// A Module is one model of an archive.
type Model struct {
	Name      string
	Style     Style
	Executor  Executor
	Interface Interface
	ABI       ABI
	Entry     string     // operator style: the operator's function; ahead of time, packed: what the executor starts
	Arguments []Argument // operator style: all of Entry's arguments, in order
	Targets   []string   // what TVM compiled for, as it printed it

	Sources []File // C and C++ sources, to be compiled
	Objects []File // objects, to be linked as they are
	Headers []File // of the C interface
	Graph   []byte // the graph's JSON, nil without one
	Params  []byte // the parameters' blob, nil without one; it may hold none

	Inputs  []Tensor // in the order of the entry point's arguments; parameters are not among them
	Outputs []Tensor // in the same order

	Header    *Header  // the C interface, nil without one
	Pools     []Pool   // workspace that the entry gets as arguments, in their order
	Devices   []string // device contexts that the caller must bring
	Workspace int64    // bytes of memory that the model's temporaries take, by its own account
	Constants int64    // bytes of constants, by its own account
	IO        int64    // bytes of inputs and outputs, by its own account

	SystemLib bool     // there is a TVMSystemLibEntryPoint
	Functions []string // registered in the system library, in the registry's order where it can be known
	Needs     []Need   // what the sources want of the core or of others' libraries

	listed bool      // metadata.json lists inputs or outputs
	scan   *codeScan // for Check
}

// A Need is something that a module's code uses and not every build has.
type Need struct {
	Kind  NeedKind
	Name  string // the header or library
	Where string // the member that asks for it
}

// A NeedKind says what could meet a need.
type NeedKind string

// The kinds of needs.
const (
	NeedDSP    NeedKind = "arm-dsp" // the core's DSP extension (arm_acle.h: SMLAD and the like)
	NeedHeader NeedKind = "header"  // a header of neither C, TVM nor the archive: some other library's
)

// Find returns the member of that name, or nil.
func (a *Archive) Find(name string) *File {
	for i := range a.Files {
		if a.Files[i].Name == name {
			return &a.Files[i]
		}
	}
	return nil
}

// Module returns the module of that name; with "" the only one. Anything else is an error that lists them.
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
		return nil, a.fault("", "say which of its models you mean", "it holds %d models: %q", len(names), names)
	}
	return nil, a.fault("", nearest(name, names), "there is no model %q; it holds %q", name, names)
}

// Prefix is what the names of the module's functions begin with.
func (m *Model) Prefix() string { return "tvmgen_" + m.Name }

// Has says whether the system library registers a function.
func (m *Model) Has(function string) bool { return slices.Contains(m.Functions, function) }
