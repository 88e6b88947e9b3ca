// This file parses space files.

package space

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// Limits, so that no file can exhaust memory.
const (
	maxFileBytes   = 1 << 20  // of a space file
	maxSourceBytes = 16 << 20 // of a file of the kernel
	maxDataBytes   = ndarray.MaxBytes + 1<<20
	maxKnobs       = 1000
	maxValues      = 1 << 20 // of a knob
)

// spaceFile is the content of a space file.
type spaceFile struct {
	Kernel      []string   `json:"kernel" is:"required .c|.h"`
	Entry       string     `json:"entry" is:"identifier either"`
	Function    string     `json:"function" is:"identifier either"`
	Args        []argFile  `json:"args"`
	Knobs       []knobFile `json:"knobs" is:"required"`
	Constraints []string   `json:"constraints"`
}

type knobFile struct {
	Name   string     `json:"name" is:"required identifier"`
	Define []any      `json:"define" is:"either"` // numbers and strings
	Range  *rangeFile `json:"range" is:"either"`
	Flags  [][]string `json:"flags" is:"text either"`
}

type rangeFile struct {
	From        *int64 `json:"from" is:"required"`
	To          *int64 `json:"to" is:"required"`
	Step        *int64 `json:"step" is:"1..9223372036854775807"`
	PowersOfTwo bool   `json:"powers_of_two"`
}

type argFile struct {
	DType  string      `json:"dtype"`
	Shape  []int64     `json:"shape"`
	Value  json.Number `json:"value"`
	Data   *arrayFile  `json:"data"`
	Seed   *uint64     `json:"seed"`
	Want   *arrayFile  `json:"want"`
	RelTol float64     `json:"rel_tol" is:"0..1e300" with:"want"`
	AbsTol float64     `json:"abs_tol" is:"0..1e300" with:"want"`
}

type arrayFile struct {
	File  string `json:"file" is:"required .npy|.npz"`
	Array string `json:"array"` // its name in an .npz; "" in an .npy
}

// Read reads the space file at path and the files that it names. Errors are of class config; those of the content
// name the line.
func Read(path string) (*Space, error) {
	data, err := readFile(path, maxFileBytes)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "space file: %w", err)
	}
	return parseFile(data, path)
}

// parseFile is Read for a file with the content data. It does not read path, but errors name it, and the files that
// data names are in its folder.
func parseFile(data []byte, path string) (*Space, error) {
	r := &reader{space: Space{file: path, byName: map[string]int{}}}
	var err error
	if r.lines, err = jsonfile.Decode(path, data, &r.file); err != nil {
		return nil, err
	}

	f := r.file
	r.space.Entry, r.space.Function = f.Entry, f.Function

	// Constraints follow the knobs that they name.
	for _, list := range []struct {
		name string
		size int
		read func(i int) error
	}{
		{"kernel", len(f.Kernel), r.readSource},
		{"args", len(f.Args), r.readArg},
		{"knobs", len(f.Knobs), r.readKnob},
		{"constraints", len(f.Constraints), r.readConstraint},
	} {
		for i := range list.size {
			if err := list.read(i); err != nil {
				field := fmt.Sprintf("%s[%d]", list.name, i)
				return nil, &jsonfile.Error{File: path, Line: r.lines[field], Err: fmt.Errorf("%s: %w", field, err)}
			}
		}
	}

	content, err := json.Marshal(r.space)
	r.space.digest = sha256.Sum256(content)
	return &r.space, err
}

// A reader converts a decoded file to a Space.
type reader struct {
	lines jsonfile.Lines
	file  spaceFile
	space Space
	bytes int // of the arguments' contents
}

// path returns the path of a file that the space file names.
func (r *reader) path(name string) string {
	if filepath.IsAbs(name) {
		return filepath.FromSlash(name)
	}
	return filepath.Join(filepath.Dir(r.space.file), name)
}

func (r *reader) readSource(i int) error {
	name := r.file.Kernel[i]
	if strings.ContainsAny(name, `/\`) || slices.Contains(r.file.Kernel[:i], name) {
		return fmt.Errorf("%q is not the name of another file beside the space file", name)
	}
	data, err := readFile(r.path(name), maxSourceBytes)
	r.space.Kernel = append(r.space.Kernel, mlf.File{Name: name, Data: data})
	return err
}

func (r *reader) readArg(i int) error {
	a := r.file.Args[i]
	arg := arg{Shape: a.Shape, RelTol: a.RelTol, AbsTol: a.AbsTol}

	var err error
	if arg.DType, err = ndarray.ParseDType(a.DType); err != nil {
		return err
	}

	bytes, err := ndarray.Bytes(arg.DType, a.Shape)
	switch {
	case err != nil:
	case a.Data != nil && a.Seed != nil || a.Value != "" && (a.Data != nil || a.Seed != nil || len(a.Shape) > 0):
		err = errors.New("it has more than one of data, seed and value, or a value that is not of shape []")
	case a.Value != "":
		arg.Data, err = number(arg.DType, a.Value)
	case a.Seed != nil:
		arg.Data = make([]byte, bytes)
		tensorlist.FillRandom(arg.DType, arg.Data, rand.New(rand.NewPCG(*a.Seed, 0)))
	case a.Data != nil:
		arg.Data, err = r.array("data", a.Data, arg)
	}

	if err == nil && a.Want != nil {
		arg.Want, err = r.array("want", a.Want, arg)
	}

	if r.bytes += len(arg.Data) + len(arg.Want); r.bytes > maxDataBytes {
		return fmt.Errorf("the arguments are larger than %d MiB", maxDataBytes>>20)
	}

	r.space.Args = append(r.space.Args, arg)
	return err
}

// number returns a number as an element of a type.
func number(d ndarray.DType, text json.Number) ([]byte, error) {
	element := map[string]any{
		"int8": new(int8), "int16": new(int16), "int32": new(int32), "int64": new(int64),
		"uint8": new(uint8), "uint16": new(uint16), "uint32": new(uint32), "uint64": new(uint64),
		"float32": new(float32), "float64": new(float64),
	}[d.String()]

	if element == nil || json.Unmarshal([]byte(text), element) != nil {
		return nil, fmt.Errorf("value %s is no %v", text, d)
	}
	return binary.Append(nil, binary.LittleEndian, element)
}

// array returns the content of an array that has the type and the shape of an argument.
func (r *reader) array(field string, a *arrayFile, of arg) ([]byte, error) {
	path := r.path(a.File)
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}

	i := slices.IndexFunc(arrays, func(named ndarray.Named) bool { return named.Name == a.Array })
	if i < 0 {
		return nil, fmt.Errorf("%s: %s has no array %q", field, path, a.Array)
	}

	if array := arrays[i]; array.DType != of.DType || !slices.Equal(array.Shape, of.Shape) {
		return nil, fmt.Errorf("%s: %s %s is %v %d, not %v %d", field, path, a.Array, array.DType, array.Shape, of.DType,
			of.Shape)
	}

	return arrays[i].Data, nil
}

func (r *reader) readKnob(i int) error {
	f := r.file.Knobs[i]
	k, err := newKnob(f)

	if _, twice := r.space.byName[f.Name]; twice {
		err = errors.New("there are two knobs of this name")
	} else if i == maxKnobs {
		err = fmt.Errorf("a space has at most %d knobs", maxKnobs)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}

	r.space.knobs, r.space.byName[f.Name] = append(r.space.knobs, k), i
	return nil
}

func (r *reader) readConstraint(i int) error {
	text := r.file.Constraints[i]
	e, err := r.space.parseCondition(text)
	if err != nil {
		return fmt.Errorf("%.*q: %w", maxConstraintBytes, text, err)
	}

	line := r.lines[fmt.Sprintf("constraints[%d]", i)]
	r.space.constraints = append(r.space.constraints, constraint{text, line, e})
	return nil
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// One byte more than the limit shows that a file is larger.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
	}

	return data, err
}
