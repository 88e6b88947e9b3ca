// Package cmodel generates the C through which a firmware runs a model without a host: a header with its tensors, a
// source with its tables, and the same facts as JSON. docs/embedded.md describes them.
//
// It writes no files and compiles nothing. The interface that the C belongs to is crt/include/tvm_micro_runtime.h.
package cmodel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// Options are the choices for one model. The zero value is the normal case.
type Options struct {
	// The target of a library that is compiled with the headers; nil if only sources are made.
	Target *target

	// Parameters lie in RAM, where the firmware may replace them; by default they are constants. Only graph models with
	// parameters beside the code have such parameters.
	RAMParameters bool

	// Reasons why a run may need more memory than the archive lists, for Code.Unsure: project.Builder's HeaderFolders
	// returns those of libraries.
	Unsure []string
}

// A Code is what a firmware compiles for one model.
type Code struct {
	Name      string     // <model> in tvm_<model>.h and the C names
	Generated []mlf.File // tvm_<model>.h, tvm_<model>.c and tvm_<model>.json, without a folder
	Sources   []mlf.File // files of the archive to compile with it
	Objects   []mlf.File // files of the archive to link with it
	Headers   []mlf.File // files of the archive that the sources may include
	Renamed   []renamed
	Unsure    []string // reasons why a run may need more memory than the workspaces have

	example string // of main.c
	target  *target
	model   *model
}

// A renamed is a name that is not the same in C.
type renamed struct {
	Kind   string `json:"kind"` // "model", "input", "output", "workspace" or "device"
	Name   string `json:"name"`
	CName  string `json:"c_name"`
	Reason string `json:"reason"`
}

// alignment is TVM_WORKSPACE_ALIGNMENT.
const alignment = 16

// The kinds of entries that the C calls.
const (
	entryUnpacked = "unpacked" // main with one pointer for each tensor and pool
	entryHeader   = "header"   // the function of the C interface, with its structs
	entryPacked   = "packed"   // main, or an operator, with six arguments
	entryGraph    = "graph"    // a table of operators
)

// A model is what the templates of the C and the JSON print.
type model struct {
	C       string // the name in C
	M       *mlf.Model
	Archive *mlf.Archive
	Entry   string // kind of the entry
	Call    string // the function to call

	Inputs, Outputs []tensor
	Workspaces      []workspace
	Devices         []device
	Memory          *workspace // TVMBackendAllocWorkspace's, of an ahead-of-time model; nil if its code does not call it
	Args            []argument // of Call, in order
	Constants       []constant // pools of constants
	Header          string     // file name of TVM's header, "" if the C does not include it
	Graph           *graphCode
	RAM             bool
	Target          *target
	Renamed         []renamed
	Unsure          []string
}

type tensor struct {
	mlf.Tensor
	C, Macro string // the member's name, and the part of macros' names
	Type     string // of an element in C
	Index    int    // among the inputs or outputs
}

// A workspace is also its entry in tvm_<model>.json, as a device is.
type workspace struct {
	Name   string `json:"name"`
	C      string `json:"c_name"`
	Macro  string `json:"macro"`
	Index  int    `json:"index"`
	Bytes  int64  `json:"bytes"`
	Offset int64  `json:"-"` // in one buffer for all of them
	Field  string `json:"-"` // the member of TVM's struct of pools; "" if there is none
}

type device struct {
	Name  string `json:"name"`
	C     string `json:"c_name"`
	Macro string `json:"macro"`
	Index int    `json:"index"`
}

// An argument is what a function of the model gets: one of these.
type argument struct {
	Input, Output, Workspace, Constant int // an index, or -1
}

func inputArg(i int) argument     { return argument{i, -1, -1, -1} }
func outputArg(i int) argument    { return argument{-1, i, -1, -1} }
func workspaceArg(i int) argument { return argument{-1, -1, i, -1} }
func constantArg(i int) argument  { return argument{-1, -1, -1, i} }
func noArg() argument             { return argument{-1, -1, -1, -1} }

// A constant is a pool of constants.
type constant struct {
	C          string
	Definition string // "static const ..."
	Field      string
}

// WorkspaceBytes returns the size of one buffer for all workspaces, 0 without any. TVM_<model>_WORKSPACE_SIZE is at
// least 1.
func (c *Code) WorkspaceBytes() int64 { return c.model.WorkspaceBytes() }

// Archive returns the file name of the model's archive, and its digest.
func (c *Code) Archive() (name, digest string) {
	return path.Base(filepath.ToSlash(c.model.Archive.Path)), c.model.Archive.Digest
}

// RAMParameters reports whether the model's parameters are in RAM.
func (c *Code) RAMParameters() bool { return c.model.RAM }

// Generate makes the C of one model of the archive. Errors have class config, also for an archive that lacks a function
// which the model calls.
func Generate(a *mlf.Archive, m *mlf.Model, o Options) (*Code, error) {
	g := &model{M: m, Archive: a, RAM: o.RAMParameters, Target: o.Target}
	n := &namer{}
	g.C = n.model(m.Name)
	code := &Code{Name: g.C, Objects: m.Objects, target: o.Target, model: g}

	if len(m.Outputs) == 0 {
		return nil, g.fault("", "it has no outputs")
	}
	for _, t := range slices.Concat(m.Inputs, m.Outputs) {
		if t.Bytes > math.MaxInt32 {
			return nil, g.fault("", "%v is larger than 2 GiB", t)
		}
	}
	if max(len(m.Inputs), len(m.Outputs)) > math.MaxUint16 {
		return nil, g.fault("", "it has %d inputs and %d outputs", len(m.Inputs), len(m.Outputs))
	}

	g.Inputs = n.tensors("input", m.Inputs)
	g.Outputs = n.tensors("output", named(m.Outputs))

	var err error
	switch m.Executor {
	case mlf.Graph:
		err = g.readGraph()
	case mlf.AOT:
		err = g.readAOT()
	case mlf.None:
		err = g.readOperator()
	}

	// The C includes TVM's header, which must compile.
	if err == nil && g.Header != "" {
		err = m.Header.CheckNames()
	}
	if err != nil {
		return nil, err
	}

	if o.RAMParameters && (g.Graph == nil || len(g.Graph.Params) == 0) {
		return nil, g.fault("leave them in flash, or export the model for the graph executor, with link-params off",
			"its parameters are part of its code, so that they cannot be in RAM")
	}
	if len(g.Devices) > math.MaxUint8 {
		return nil, g.fault("", "it has %d devices, more than %d", len(g.Devices), math.MaxUint8)
	}

	g.nameWorkspaces(n)
	if len(g.Workspaces) > math.MaxUint8 || g.WorkspaceBytes() > math.MaxInt32 {
		return nil, g.fault("", "it has %d workspaces of %d bytes", len(g.Workspaces), g.WorkspaceBytes())
	}

	g.Renamed, code.Renamed, code.Unsure = n.renamed, n.renamed, slices.Concat(g.Unsure, o.Unsure)

	// The function of the C interface is TVM's own wrapper: then no source is replaced.
	for _, f := range m.Sources {
		if path.Ext(f.Name) != ".c" {
			return nil, g.fault(`export it for a target that generates C, such as "c"`, "%s: C++ sources are not supported", f.Name)
		}
		if g.Entry == entryHeader || !g.replaces(f) {
			code.Sources = append(code.Sources, tolerated(f))
		}
	}
	code.Headers = m.Headers
	if g.Entry == entryGraph {
		code.Objects = slices.DeleteFunc(slices.Clone(m.Objects), g.replacesObject)
	}

	code.Generated, err = g.files(code)
	return code, err
}

// named gives an only output TVM's default name if the archive does not name it: descriptions in C number it.
func named(outputs []mlf.Tensor) []mlf.Tensor {
	if len(outputs) == 1 && outputs[0].Name == "output0" {
		outputs = slices.Clone(outputs)
		outputs[0].Name = "output"
	}
	return outputs
}

// fault is an error about the model.
func (g *model) fault(next, format string, args ...any) error {
	return failure.New(failure.Config, next, "%s: model %s: %s", g.Archive.Path, g.M.Name, fmt.Sprintf(format, args...))
}

// nameWorkspaces gives the workspaces their names in C and their places in one buffer.
func (g *model) nameWorkspaces(n *namer) {
	// Behind the pools, whose indices Args has.
	if g.Memory != nil {
		g.Memory.Index = len(g.Workspaces)
		g.Workspaces = append(g.Workspaces, *g.Memory)
	}

	names := n.group("workspace")
	var offset int64
	for i := range g.Workspaces {
		w := &g.Workspaces[i]
		w.C, w.Macro = names.add(w.Name)
		w.Index, w.Offset = i, offset
		offset += aligned(w.Bytes)
	}
}

// WorkspaceBytes returns the size of one buffer for all workspaces.
func (g *model) WorkspaceBytes() int64 {
	var n int64
	for _, w := range g.Workspaces {
		n = w.Offset + aligned(w.Bytes)
	}
	return n
}

// BufferBytes returns the size of an array in C for all workspaces.
func (g *model) BufferBytes() int64 { return max(g.WorkspaceBytes(), 1) }

func aligned(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// ID returns the first four bytes of the archive's digest.
func (g *model) ID() uint32 {
	b, err := hex.DecodeString(g.Archive.Digest)
	if err != nil || len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// tolerance makes newer compilers accept what TVM's C does, whatever flags it is compiled with: these are errors since
// GCC 14 and clang 16. #line keeps the file's lines.
const tolerance = `#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wincompatible-pointer-types"
#pragma GCC diagnostic ignored "-Wint-conversion"
#pragma GCC diagnostic ignored "-Wimplicit-function-declaration"
#pragma GCC diagnostic ignored "-Wimplicit-int"
#endif
#line 1
`

// tolerated returns a file of an archive as it is written for compilers.
func tolerated(f mlf.File) mlf.File {
	if path.Ext(f.Name) == ".c" {
		f.Data = append([]byte(tolerance), f.Data...)
	}
	return f
}

// Bundle returns the files of several models, and of the runtime what they use, as one folder: src/ holds all sources
// to compile, include/ their headers, lib/ the objects to link; the others are for make, CMake and Zephyr. It is an
// error if two models have the same name in C or different files of one name, or if a model's file has the name of one
// of the runtime.
func Bundle(codes ...*Code) ([]mlf.File, error) {
	runtime, err := runtimeFiles()
	if err != nil {
		return nil, err
	}
	files := slices.Clone(runtime)
	if len(codes) > 0 && codes[0].target != nil {
		check := codes[0].target.Check()
		check.Data = append(check.Data, checkRuntime(runtimeID(runtime))...)
		files = append(files, check)
	}

	type owned struct {
		of   *Code // nil: the runtime
		data []byte
	}
	owner := map[string]owned{}
	for _, f := range files {
		owner[f.Name] = owned{nil, f.Data}
	}

	for _, c := range codes {
		for _, f := range c.Files() {
			other, twice := owner[f.Name]
			isSame := twice && bytes.Equal(other.data, f.Data)
			switch {
			case twice && c.isHeader(f) && (other.of == nil || isSame):
				continue // in firmware, too, the runtime's headers are found before the archive's
			case isSame && other.of != nil && other.of.isArchived(f) && c.isArchived(f):
				continue // code that the models have together
			}
			if twice {
				return nil, sameFile(f.Name, c, other.of)
			}
			owner[f.Name] = owned{c, f.Data}
			files = append(files, f)
		}
	}

	more, err := integration(codes, runtime, files[len(runtime):])
	return append(files, more...), err
}

// sameFile is the error of a file of c that is also one of other, or of the runtime if other is nil.
func sameFile(name string, c, other *Code) error {
	if other == nil {
		return failure.New(failure.Config, "give the model another name when you export it",
			"model %s has a file %s, which is also one of the runtime", c.Name, name)
	}
	if other == c {
		return failure.New(failure.Config, "rename it", "model %s: boardsmith writes a file of the name %s beside its code",
			c.Name, name)
	}
	return failure.New(failure.Config, "give the models different names when you export them; of plain C, rename the file",
		"models %s and %s both have a file %s", other.Name, c.Name, name)
}

// Files returns the model's files as Bundle has them.
func (c *Code) Files() (files []mlf.File) {
	for i, dir := range []string{"include/", "src/", ""} { // of .h, .c and .json
		files = append(files, mlf.File{Name: dir + c.Generated[i].Name, Data: c.Generated[i].Data})
	}
	return append(files, c.Archived()...)
}

// isArchived reports whether a file of c is one of its archive's sources or objects.
func (c *Code) isArchived(f mlf.File) bool {
	return slices.ContainsFunc(slices.Concat(c.Sources, c.Objects), func(o mlf.File) bool { return o.InCode() == f.Name })
}

// isHeader reports whether a file of c is one of its archive's headers.
func (c *Code) isHeader(f mlf.File) bool {
	return slices.ContainsFunc(c.Headers, func(h mlf.File) bool { return h.InCode() == f.Name })
}

// Archived returns the files of the model's archive as Bundle has them.
func (c *Code) Archived() (files []mlf.File) {
	for _, f := range slices.Concat(c.Sources, c.Objects, c.Headers) {
		files = append(files, mlf.File{Name: f.InCode(), Data: f.Data})
	}
	return files
}

// Runtime returns the files of Bundle that are the same for all models and compilers.
func (c *Compiler) Runtime() ([]mlf.File, error) { return runtimeFiles() }

// runtimeFiles returns all headers of the runtime, and the sources of embedded/.
func runtimeFiles() (files []mlf.File, err error) {
	for _, tree := range []struct {
		fs        fs.FS
		from, dir string
	}{{crt.Sources.Runtime, "include", ""}, {crt.Sources.Embedded, "embedded", "src/"}} {
		err = errors.Join(err, fs.WalkDir(tree.fs, tree.from, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := fs.ReadFile(tree.fs, name)
			// No source of an archive has this prefix (mlf).
			if tree.dir != "" {
				name = tree.dir + "boardsmith_" + path.Base(name)
			}
			files = append(files, mlf.File{Name: name, Data: data})
			return err
		}))
	}
	return files, err
}
