// This file parses space files.

package space

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
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
	Kernel      []string   `json:"kernel"`
	Entry       string     `json:"entry"`
	Function    string     `json:"function"`
	Args        []argFile  `json:"args"`
	Knobs       []knobFile `json:"knobs"`
	Constraints []string   `json:"constraints"`
}

type knobFile struct {
	Name   string     `json:"name"`
	Define []any      `json:"define"` // numbers and strings
	Range  *rangeFile `json:"range"`
	Flags  [][]string `json:"flags"`
}

type rangeFile struct {
	From        *int64 `json:"from"`
	To          *int64 `json:"to"`
	Step        *int64 `json:"step"`
	PowersOfTwo bool   `json:"powers_of_two"`
}

type argFile struct {
	DType  string      `json:"dtype"`
	Shape  []int64     `json:"shape"`
	Value  json.Number `json:"value"`
	Data   *arrayFile  `json:"data"`
	Seed   *uint64     `json:"seed"`
	Want   *arrayFile  `json:"want"`
	RelTol float64     `json:"rel_tol"`
	AbsTol float64     `json:"abs_tol"`
}

type arrayFile struct {
	File  string `json:"file"`
	Array string `json:"array"`
}

// wordRE matches a C identifier.
var wordRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

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
	r := &reader{path: path, dir: filepath.Dir(path)}
	var err error
	if r.lines, err = jsonfile.Decode(path, data, &r.file); err != nil {
		return nil, err
	}
	r.space = &Space{Entry: r.file.Entry, Function: r.file.Function, file: path}
	for _, step := range []func() error{r.readKernel, r.readArgs, r.readKnobs, r.readConstraints} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r.space, nil
}

// A reader converts a decoded file to a Space.
type reader struct {
	path, dir string
	lines     jsonfile.Lines
	file      spaceFile
	space     *Space
	bytes     int // of the arguments' contents
}

func (r *reader) wrong(line int, err error) error {
	return &jsonfile.Error{File: r.path, Line: line, Err: err}
}

// at returns an error with the line of a field, or of an element of a list ("knobs[2]").
func (r *reader) at(field, format string, args ...any) error {
	return r.wrong(r.lines[field], fmt.Errorf(field+": "+format, args...))
}

func (r *reader) readKernel() error {
	f, h := &r.file, sha256.New()
	field, name := "entry", f.Entry
	if f.Function != "" {
		field, name = "function", f.Function
	}
	switch {
	case f.Entry != "" && f.Function != "":
		return r.at("function", "it has entry, a packed function, and function, a plain one")
	case !wordRE.MatchString(name):
		return r.at(field, "%q is not the name of a C function", name)
	}
	fmt.Fprintf(h, "space v1\n%s %q\n", field, name)
	for i, name := range f.Kernel {
		field := fmt.Sprintf("kernel[%d]", i)
		if ext := filepath.Ext(name); strings.ContainsAny(name, `/\`) || (ext != ".c" && ext != ".h") {
			return r.at(field, "%q is not the name of a .c or .h file beside the space file", name)
		}
		if slices.Contains(f.Kernel[:i], name) {
			return r.at(field, "%q is named twice", name)
		}
		data, err := readFile(filepath.Join(r.dir, name), maxSourceBytes)
		if err != nil {
			return r.at(field, "%w", err)
		}
		fmt.Fprintf(h, "source %q %x\n", name, sha256.Sum256(data))
		r.space.Kernel = append(r.space.Kernel, Source{name, data})
	}
	if !slices.ContainsFunc(f.Kernel, func(name string) bool { return filepath.Ext(name) == ".c" }) {
		return r.at("kernel", "it names no .c file")
	}
	h.Sum(r.space.digest[:0])
	return nil
}

func (r *reader) readArgs() error {
	for i, a := range r.file.Args {
		arg, key, err := r.arg(a)
		if r.bytes += len(arg.Data) + len(arg.Want); err == nil && r.bytes > maxDataBytes {
			err = fmt.Errorf("the arguments are larger than %d MiB", maxDataBytes>>20)
		}
		if err != nil {
			return r.at(fmt.Sprintf("args[%d]", i), "%w", err)
		}
		r.space.Args = append(r.space.Args, arg)
		r.space.digest = sha256.Sum256(fmt.Appendf(r.space.digest[:], "arg %s", key))
	}
	return nil
}

// arg reads an argument. The key covers all that could change the result of a call with it.
func (r *reader) arg(a argFile) (arg Arg, key string, err error) {
	arg = Arg{Shape: a.Shape, RelTol: a.RelTol, AbsTol: a.AbsTol}
	if arg.DType, err = ndarray.ParseDType(a.DType); err != nil {
		return arg, "", err
	}
	bytes, err := ndarray.Bytes(arg.DType, a.Shape)
	switch {
	case err != nil:
		return arg, "", err
	case a.Value != "" && (a.Data != nil || a.Seed != nil || len(a.Shape) > 0):
		return arg, "", errors.New("a value is of shape [], without data and seed")
	case a.Data != nil && a.Seed != nil:
		return arg, "", errors.New("it has both data and seed")
	case a.RelTol < 0 || a.AbsTol < 0:
		return arg, "", errors.New("a tolerance is negative")
	case a.Want == nil && (a.RelTol != 0 || a.AbsTol != 0):
		return arg, "", errors.New("it has a tolerance, but no want")
	}

	key = fmt.Sprintf("%s %d %g %g", arg.DType, arg.Shape, a.RelTol, a.AbsTol)
	if a.Value != "" {
		if arg.Data, err = number(arg.DType, a.Value); err != nil {
			return arg, "", err
		}
		key += fmt.Sprintf(" value %x", arg.Data)
	}
	if a.Seed != nil {
		arg.Data = make([]byte, bytes)
		tensorlist.FillRandom(arg.DType, arg.Data, rand.New(rand.NewPCG(*a.Seed, 0)))
		key += fmt.Sprintf(" seed %d", *a.Seed)
	}
	for _, f := range []struct {
		field string
		from  *arrayFile
		to    *[]byte
	}{{"data", a.Data, &arg.Data}, {"want", a.Want, &arg.Want}} {
		if f.from == nil {
			continue
		}
		content, digest, err := r.array(f.from, arg)
		if err != nil {
			return arg, "", fmt.Errorf("%s: %w", f.field, err)
		}
		*f.to = content
		key += fmt.Sprintf(" %s %x %q", f.field, digest, f.from.Array)
	}
	return arg, key, nil
}

// number returns a number as an element of a type.
func number(d ndarray.DType, text json.Number) ([]byte, error) {
	low, high := d.Range()
	switch d.String() {
	case "float32":
		v, err := strconv.ParseFloat(text.String(), 32)
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))), err
	case "float64":
		v, err := text.Float64()
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), err
	case "int64":
		low, high = math.MinInt64, math.MaxInt64
	}
	v, err := text.Int64()
	switch {
	case low == high:
		return nil, fmt.Errorf("a value of type %v: take data from a file", d)
	case err != nil || v < low || v > high:
		return nil, fmt.Errorf("value %s is no %v", text, d)
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(v))[:d.Size()], nil
}

// array returns an array that has the type and the shape of an argument, and the digest of its file.
func (r *reader) array(a *arrayFile, of Arg) (content []byte, digest [32]byte, err error) {
	switch ext := filepath.Ext(a.File); {
	case ext != ".npy" && ext != ".npz":
		return nil, digest, fmt.Errorf("%q is neither an .npy nor an .npz", a.File)
	case (a.Array != "") != (ext == ".npz"):
		return nil, digest, errors.New("array names one of the arrays in an .npz; an .npy has no names")
	}
	path := filepath.FromSlash(a.File)
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.dir, path)
	}
	data, err := readFile(path, maxDataBytes)
	if err != nil {
		return nil, digest, err
	}
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, digest, err
	}

	for _, named := range arrays {
		found := named.Array
		switch {
		case named.Name != a.Array:
		case found.DType != of.DType || !slices.Equal(found.Shape, of.Shape):
			return nil, digest, fmt.Errorf("%s %s is %v %s, not %v %s", path, a.Array, found.DType,
				ndarray.ShapeString(found.Shape), of.DType, ndarray.ShapeString(of.Shape))
		default:
			return found.Data, sha256.Sum256(data), nil
		}
	}
	return nil, digest, fmt.Errorf("%s has no array %q", path, a.Array)
}

func (r *reader) readKnobs() error {
	s := r.space
	if n := len(r.file.Knobs); n == 0 || n > maxKnobs {
		return r.at("knobs", "%d knobs; a space has 1 to %d", n, maxKnobs)
	}
	for i, f := range r.file.Knobs {
		field := fmt.Sprintf("knobs[%d]", i)
		switch {
		case !wordRE.MatchString(f.Name):
			return r.at(field, "the name %q is not a C identifier", f.Name)
		case slices.Contains(s.names(), f.Name):
			return r.at(field, "there are two knobs %q", f.Name)
		}
		k, err := newKnob(f)
		if err != nil {
			return r.at(field, "%s: %w", f.Name, err)
		}
		s.knobs = append(s.knobs, k)
	}
	return nil
}

func newKnob(f knobFile) (k knob, err error) {
	k = knob{name: f.Name, values: f.Define, numeric: f.Flags == nil}
	if f.Range != nil && f.Define == nil && f.Flags == nil {
		k.numbers, err = f.Range.progression()
		return k, err
	}
	if f.Range != nil || (f.Define == nil) == (f.Flags == nil) {
		return k, errors.New("a knob has one of define, range and flags")
	}
	for _, flags := range f.Flags {
		k.values = append(k.values, flags)
	}
	if len(k.values) == 0 {
		return k, errors.New("it has no values")
	}

	seen := map[string]bool{}
	for i, v := range k.values {
		if k.values[i], err = checkValue(v); err != nil {
			return k, err
		}
		if _, isNumber := k.values[i].(int64); !isNumber {
			k.numeric = false
		}
		key := fmt.Sprintf("%#v", k.values[i])
		if seen[key] {
			return k, fmt.Errorf("it has the value %v twice", v)
		}
		seen[key] = true
	}
	return k, nil
}

// checkValue returns a value of a knob. A text of a macro that is a number is the number.
func checkValue(v any) (any, error) {
	switch v := v.(type) {
	case []string:
		if v == nil {
			return nil, errors.New("a value is a list of flags, [] for none")
		}
		if slices.Contains(v, "") {
			return nil, errors.New("a flag is empty")
		}
		return v, nil
	case json.Number:
		if n, ok := parseNumber(v.String()); ok {
			return n, nil
		}
		return nil, fmt.Errorf("%s is not an integer of 64 bits; put other numbers in quotes", v)
	case string:
		if n, ok := parseNumber(v); ok {
			return n, nil
		}
		return v, nil
	}
	return nil, fmt.Errorf("%v is neither a number nor a text", v)
}

func (f *rangeFile) progression() (p progression, err error) {
	if f.From == nil || f.To == nil {
		return p, errors.New("a range needs from and to")
	}
	from, to, step := *f.From, *f.To, int64(1)
	if f.Step != nil {
		step = *f.Step
	}
	n := uint64(to-from) / uint64(max(step, 1)) // correct also if to - from wraps
	switch {
	case from > to:
		return p, fmt.Errorf("the range from %d to %d is empty", from, to)
	case f.PowersOfTwo && f.Step != nil:
		return p, errors.New("a range has a step or powers_of_two, not both")
	case f.PowersOfTwo && from < 1:
		return p, fmt.Errorf("powers of two start at 1, not at %d", from)
	case f.PowersOfTwo:
		first, end := bits.Len64(uint64(from-1)), bits.Len64(uint64(to)) // exponents
		if first == end {
			return p, fmt.Errorf("there is no power of two from %d to %d", from, to)
		}
		return progression{1 << first, 0, end - first}, nil
	case step < 1:
		return p, fmt.Errorf("the step %d is not positive", step)
	case n >= maxValues:
		return p, fmt.Errorf("the range has more than %d values", maxValues)
	}
	return progression{from, step, int(n) + 1}, nil
}

func (r *reader) readConstraints() error {
	s := r.space
	for i, text := range r.file.Constraints {
		c := constraint{text: text, line: r.lines[fmt.Sprintf("constraints[%d]", i)]}
		var err error
		c.term, err = parseCondition(text, func(name string) (term, error) {
			at, err := s.numericKnob(name)
			if err != nil {
				return nil, err
			}
			c.last = max(c.last, at)
			k := &s.knobs[at]
			return func(index []int) (int64, bool) { return k.number(index[at]), true }, nil
		})
		if err != nil {
			return r.wrong(c.line, err)
		}
		s.constraints = append(s.constraints, c)
	}
	slices.SortStableFunc(s.constraints, func(a, b constraint) int { return cmp.Compare(a.last, b.last) })
	return nil
}

// numericKnob returns the index of a knob that a constraint may name.
func (s *Space) numericKnob(name string) (int, error) {
	names := s.names()
	k := slices.Index(names, name)
	switch {
	case k < 0:
		return 0, fmt.Errorf("knob %q is not known%s", name, jsonfile.DidYouMean(name, names))
	case !s.knobs[k].numeric:
		return 0, fmt.Errorf("knob %s is not a number in all its values", name)
	}
	return k, nil
}

func readFile(path string, limit int64) ([]byte, error) {
	f, err := plainfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, limit>>20)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
