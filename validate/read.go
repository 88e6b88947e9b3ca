// This file reads sets from files.

package validate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// maxFiles limits the files of a folder.
const maxFiles = 1 << 16

// labelsName is the name of the array of labels.
const labelsName = "labels"

// Files are the files of a set: each an .npz or .npy, or a folder whose .npz and .npy files are read in the order of
// their names. Their arrays are named as the model's tensors. An array holds one sample, or several on its first axis;
// NAME_0, NAME_1, … are samples of the tensor NAME. The expected outputs are output0, output1, …, or have the model's
// names; labels holds a class for each sample. In a folder, NAME.npy is the array NAME, and NAME_0.npy, NAME_1.npy, …
// are parts of it, in the order of their numbers; any other .npy, and one outside a folder, is of the only input,
// output or labels that its field is for. Together they take at most ndarray.MaxBytes.
type Files struct {
	Inputs   string // may have expected outputs and labels too
	Expected string // "": those in Inputs, if there are any
	Labels   string // "": those in Inputs, if there are any

	Names map[string]string // names of tensors by those of arrays in the files, where these differ
}

// allKinds are those of arrays that may be with the inputs.
var allKinds = []kind{inputKind, outputKind, labelKind}

// Read reads a set for a model. Without Inputs it is the model's own examples, compared by the model's rule
// (mlf.Model.Compare), and Expected and Labels replace the examples' outputs and labels. Real numbers for a quantized
// tensor become the integers that stand for them (mlf.Tensor.Scale). Errors: class config; class interrupted or timeout
// if ctx ends, which is checked before each file.
func Read(ctx context.Context, f Files, m *mlf.Model) (*Set, error) {
	r := newReader(m)
	r.names = f.Names

	if f.Inputs == "" && m.Examples != nil {
		if err := r.addExamples(f); err != nil {
			return nil, failure.Errorf(failure.Config, "the model's examples: %w", err)
		}
	}

	for _, x := range []struct {
		path  string
		kinds []kind
		only  kind
	}{
		{f.Inputs, allKinds, inputKind},
		{f.Expected, []kind{outputKind}, outputKind},
		{f.Labels, []kind{labelKind}, labelKind},
	} {
		if x.path == "" {
			continue
		}

		had := r.count(x.only)
		if err := r.read(ctx, x.path, x.kinds, x.only); err != nil {
			return nil, err
		}

		if had > 0 && len(x.kinds) == 1 {
			return nil, failure.New(failure.Config, "leave one of them out", "%s: the inputs' files have these arrays too",
				x.path)
		}
	}

	// Only now are the names of all arrays known.
	if err := tensorlist.CheckNames(r.names, r.arrays); err != nil {
		return nil, err
	}

	return r.set()
}

// addExamples adds the model's examples, except for the kinds of arrays that have files of their own.
func (r *reader) addExamples(f Files) error {
	arrays, err := ndarray.DecodeNPZ(r.model.Examples)
	if err != nil {
		return err
	}
	if err := r.add("examples", arrays, allKinds, inputKind); err != nil {
		return err
	}

	// The model's rule is for its own outputs.
	if f.Expected == "" {
		if r.rule, err = ParseRule(r.model.Compare); err != nil {
			return err
		}
	}

	for _, c := range r.columns {
		if c.kind == outputKind && f.Expected != "" || c.kind == labelKind && f.Labels != "" {
			*c = column{kind: c.kind, index: c.index}
		}
	}

	return nil
}

// read adds the arrays of a file or folder.
func (r *reader) read(ctx context.Context, path string, kinds []kind, only kind) error {
	files, err := r.filesOf(path)
	if err != nil {
		return err
	}

	for _, f := range files {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "reading %s", f.path)
		}

		arrays, err := ndarray.ReadNPZ(f.path)
		if err != nil {
			return err
		}

		// The array of an .npy has no name of its own.
		if len(arrays) == 1 && arrays[0].Name == "" {
			arrays[0].Name = f.array
		}
		for i, a := range arrays {
			r.arrays = append(r.arrays, a.Name)
			arrays[i].Name = cmp.Or(r.names[a.Name], a.Name)
		}

		if err := r.add(f.path, arrays, kinds, only); err != nil {
			return failure.Errorf(failure.Config, "%s: %w", f.path, err)
		}
	}
	return nil
}

// New returns a set of arrays that are named as in a file. It keeps their data.
func New(arrays []ndarray.Named, m *mlf.Model) (*Set, error) {
	r := newReader(m)
	if err := r.add("sample", arrays, allKinds, inputKind); err != nil {
		return nil, failure.Errorf(failure.Config, "%w", err)
	}
	return r.set()
}

// A file is one of a set's.
type file struct {
	path   string
	array  string // what the array of an .npy is called; "": nothing
	stem   string // the file's name, or the array's if that has a number
	number int    // orders files of one stem
}

// filesOf returns the path, or the files in it.
func (r *reader) filesOf(path string) ([]file, error) {
	const next = "give a file .npz or .npy, or a folder of such files"
	info, err := os.Stat(path)
	if err != nil {
		return nil, failure.New(failure.Config, next, "%w", err)
	}
	if !info.IsDir() {
		return []file{{path: path}}, nil
	}

	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, failure.New(failure.Config, next, "%w", err)
	}

	var files []file
	for _, e := range entries {
		if end := filepath.Ext(e.Name()); !e.IsDir() && (end == ".npz" || end == ".npy") {
			files = append(files, r.fileOf(path, e.Name()))
		}
	}

	if len(files) == 0 || len(files) > maxFiles {
		return nil, failure.New(failure.Config, next, "%s has %d files .npz or .npy, not 1 to %d", path, len(files), maxFiles)
	}

	// 10 follows 9, in the order of the numbers.
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.stem, b.stem), cmp.Compare(a.number, b.number))
	})

	return files, nil
}

// fileOf returns a file of a folder. An .npy whose name is that of an array of the set, or that and a number, holds
// this array or a part of it.
func (r *reader) fileOf(folder, name string) file {
	f := file{path: filepath.Join(folder, name), stem: name}
	array, ok := strings.CutSuffix(name, ".npy")
	if !ok {
		return f
	}

	c, number := r.lookup(array, allKinds)
	switch {
	case c == nil:
	case number < 0:
		f.array = array
	default:
		f.array = array[:strings.LastIndexByte(array, '_')]
		f.stem, f.number = f.array, number
	}

	return f
}

// A kind of arrays.
type kind int

const (
	inputKind kind = iota
	outputKind
	labelKind
)

// advice is the next step after an array of the kind that the model does not have.
func (k kind) advice() string {
	switch k {
	case inputKind:
		return "convert the samples to the type and shape of the model's input"
	case outputKind:
		return "expect what this model returns, with its types and shapes: another model's outputs cannot be compared"
	}
	return "give the number of its class, from 0, for each sample"
}

// A column holds the samples of one tensor, or the labels.
type column struct {
	kind
	index  int
	parts  [][]byte
	labels []int64
	names  []string // of the samples
}

func (c *column) len() int { return len(c.names) }

// A reader collects the arrays of a set.
type reader struct {
	model           *mlf.Model
	inputs, outputs []tensor
	columns         []*column
	left            int               // bytes
	names           map[string]string // Files.Names
	arrays          []string          // of the files, by their own names
	rule            Rule              // of the examples
}

func newReader(m *mlf.Model) *reader {
	r := &reader{model: m, inputs: tensors(m.Inputs), outputs: tensors(m.Outputs), left: ndarray.MaxBytes}
	for i := range r.inputs {
		r.columns = append(r.columns, &column{kind: inputKind, index: i})
	}
	for i := range r.outputs {
		r.columns = append(r.columns, &column{kind: outputKind, index: i})
	}
	r.columns = append(r.columns, &column{kind: labelKind})
	return r
}

// count returns the most samples of a column of a kind.
func (r *reader) count(k kind) (most int) {
	for _, c := range r.columns {
		if c.kind == k {
			most = max(most, c.len())
		}
	}
	return most
}

// add adds the arrays of a file, of these kinds. An array without a name is of the kind only.
func (r *reader) add(file string, arrays []ndarray.Named, kinds []kind, only kind) error {
	next := map[*column]int{} // numbered samples of this file
	whole := map[*column]bool{}

	for _, a := range arrays {
		if r.left -= len(a.Data); r.left < 0 {
			return fmt.Errorf("all files of a set together are larger than %d MiB", ndarray.MaxBytes>>20)
		}

		c, number, err := r.column(a.Name, kinds, only)
		if err != nil {
			return err
		}

		// A tensor's samples are in one array, or each in one with a number.
		if whole[c] || number < 0 && next[c] > 0 {
			return fmt.Errorf("array %q: there is another one of the same tensor", a.Name)
		}
		if number >= 0 && number != next[c] {
			return fmt.Errorf("array %q: number %d is expected here", a.Name, next[c])
		}

		had := c.len()
		if err := r.fill(c, a.Array, filepath.Base(file)); err != nil {
			return fmt.Errorf("array %q: %w", a.Name, err)
		}
		if number >= 0 && c.len() != had+1 {
			return fmt.Errorf("array %q holds %d samples, not one", a.Name, c.len()-had)
		}

		next[c], whole[c] = number+1, number < 0
	}
	return nil
}

// fill adds the samples of an array to a column.
func (r *reader) fill(c *column, a *ndarray.Array, file string) (err error) {
	var parts [][]byte
	var labels []int64

	switch c.kind {
	case labelKind:
		labels, err = labelsOf(a)
	case inputKind:
		parts, err = r.inputs[c.index].parts(a)
	case outputKind:
		parts, err = r.outputs[c.index].parts(a)
	}
	if err != nil {
		return failure.New(failure.Config, cmp.Or(failure.Next(err), c.kind.advice()), "%w", err)
	}

	c.parts, c.labels = append(c.parts, parts...), append(c.labels, labels...)
	n := len(c.parts) + len(c.labels)
	if n > maxSamples {
		return tooMany(int64(n), "samples")
	}

	for i := c.len(); i < n; i++ {
		c.names = append(c.names, fmt.Sprintf("%s, sample %d", file, i))
	}
	return nil
}

// column returns where an array belongs, and its number if it is a single sample by its name, else -1.
func (r *reader) column(name string, kinds []kind, only kind) (*column, int, error) {
	if name == "" {
		if r.size(only) != 1 {
			return nil, 0, failure.New(failure.Config, "give an .npz, or a folder with files that are called NAME.npy",
				"the model has several tensors, and the array of this .npy has no name of one")
		}
		return r.find(only, 0), -1, nil
	}

	if c, number := r.lookup(name, kinds); c != nil {
		return c, number, nil
	}
	return nil, 0, r.unknown(name, kinds)
}

// lookup returns the column of an array's name, or nil, and the number at the name's end if it has one, else -1.
func (r *reader) lookup(name string, kinds []kind) (*column, int) {
	// the whole name first: a tensor's own name may end in a number
	if c := r.named(name, kinds); c != nil {
		return c, -1
	}

	if at := strings.LastIndexByte(name, '_'); at > 0 {
		number, err := strconv.ParseUint(name[at+1:], 10, 31)
		// as FormatUint writes it: without leading zeros
		if c := r.named(name[:at], kinds); c != nil && err == nil && strconv.FormatUint(number, 10) == name[at+1:] {
			return c, int(number)
		}
	}
	return nil, -1
}

// size returns the number of columns of a kind.
func (r *reader) size(k kind) (n int) {
	for _, c := range r.columns {
		if c.kind == k {
			n++
		}
	}
	return n
}

func (r *reader) find(k kind, index int) *column {
	for _, c := range r.columns {
		if c.kind == k && c.index == index {
			return c
		}
	}
	return nil
}

// named returns the column of a tensor's name, or nil.
func (r *reader) named(name string, kinds []kind) *column {
	for _, k := range kinds {
		switch k {
		case inputKind:
			if i, err := tensorlist.Lookup("input", r.model.Inputs, name); err == nil {
				return r.find(k, i)
			}
		case outputKind:
			if digits, ok := strings.CutPrefix(name, "output"); ok {
				i, err := strconv.Atoi(digits)
				if err == nil && strconv.Itoa(i) == digits && i >= 0 && i < len(r.outputs) {
					return r.find(k, i)
				}
			}

			if i, err := tensorlist.Lookup("output", r.model.Outputs, name); err == nil {
				return r.find(k, i)
			}
		case labelKind:
			if name == labelsName {
				return r.find(k, 0)
			}
		}
	}
	return nil
}

// unknown returns the error for an array that is of no tensor.
func (r *reader) unknown(name string, kinds []kind) error {
	var names, list []string
	for _, k := range kinds {
		switch k {
		case inputKind:
			for _, t := range r.inputs {
				names, list = append(names, t.Name), append(list, "the input "+t.String())
			}
		case outputKind:
			for i, t := range r.outputs {
				number := fmt.Sprintf("output%d", i)
				names, list = append(names, number, t.Name), append(list, fmt.Sprintf("%s, the output %v", number, t.Tensor))
			}
		case labelKind:
			names, list = append(names, labelsName), append(list, labelsName)
		}
	}

	next := spelling.Nearest(name, names)
	switch {
	case next != "":
	case slices.Contains(kinds, inputKind):
		next = "rename the array, leave it out, or map it, as in " + failure.Option("Files.Names", names[0]+"="+name)
	case len(names) > 0:
		next = "name the array " + names[0] + ", or leave it out"
	}

	return failure.New(failure.Config, next, "array %q is none of: %s", name, strings.Join(list, "; "))
}

// set returns the collected samples, if all tensors have the same number of them.
func (r *reader) set() (*Set, error) {
	if r.count(inputKind) == 0 {
		return nil, failure.New(failure.Config, "give arrays of the model's inputs", "the set has no samples")
	}

	s := &Set{
		inputs: r.inputs, outputs: r.outputs, samples: make([]sample, r.count(inputKind)),
		expected: r.count(outputKind) > 0, labels: r.count(labelKind) > 0, class: classOutput(r.outputs), rule: r.rule,
	}

	for _, c := range r.columns {
		if c.kind == outputKind && !s.expected || c.kind == labelKind && !s.labels {
			continue
		}

		if c.len() != len(s.samples) {
			return nil, failure.New(failure.Config, "give one for each sample", "the set has %d samples, and %d of %s",
				len(s.samples), c.len(), r.title(c))
		}
		for i := range s.samples {
			x := &s.samples[i]
			// by the inputs, which are the first columns
			x.name = cmp.Or(x.name, c.names[i])
			switch c.kind {
			case inputKind:
				x.inputs = append(x.inputs, c.parts[i])
			case outputKind:
				x.want = append(x.want, c.parts[i])
			case labelKind:
				x.label = c.labels[i]
			}
		}
	}

	return s, s.checkLabels()
}

func (r *reader) title(c *column) string {
	switch c.kind {
	case inputKind:
		return fmt.Sprintf("the input %q", r.inputs[c.index].Name)
	case outputKind:
		return fmt.Sprintf("the output %q", r.outputs[c.index].Name)
	}
	return "labels"
}
