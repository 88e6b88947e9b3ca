// This file reads sets from files.

package measure

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
	"github.com/boardsmith/boardsmith/internal/nextstep"
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

	Arrays []ndarray.Named   // in place of Inputs; the set keeps their data. nil: Inputs
	Names  map[string]string // names of tensors by those of arrays in the files, where these differ
}

// ReadSet reads a set for a model. Without Inputs and Arrays it is the model's own examples, compared by the model's
// rule (mlf.Model.Compare), and Expected and Labels replace the examples' outputs and labels. Real numbers for a
// quantized tensor become the integers that stand for them (mlf.Tensor.Scale). Errors: class config; class interrupted
// or timeout if ctx ends, which is checked before each file.
func ReadSet(ctx context.Context, f Files, m *mlf.Model) (*Set, error) {
	r := newReader(m)
	r.names = f.Names

	switch {
	case f.Arrays != nil:
		if err := r.add("sample", f.Arrays, inputKind); err != nil {
			return nil, failure.Errorf(failure.Config, "%w", err)
		}
	case f.Inputs == "" && m.Examples != nil:
		if err := r.addExamples(f); err != nil {
			return nil, failure.Errorf(failure.Config, "the model's examples: %w", err)
		}
	}

	for of, path := range []string{inputKind: f.Inputs, outputKind: f.Expected, labelKind: f.Labels} {
		if path == "" {
			continue
		}

		had := r.most(kind(of))
		if err := r.read(ctx, path, kind(of)); err != nil {
			return nil, err
		}
		if r.most(kind(of)) == 0 {
			return nil, failure.New(failure.Config, kind(of).advice(), "%s has no samples", path)
		}
		if had > 0 {
			return nil, failure.New(failure.Config, "leave one of them out", "%s: the inputs' files have these arrays too", path)
		}
	}

	// Only now are the names of all arrays known.
	if err := tensorlist.CheckNames(r.names, r.arrays); err != nil {
		return nil, err
	}
	return r.set()
}

// A reader collects the arrays of a set.
type reader struct {
	Set
	model  *mlf.Model
	left   int               // bytes
	names  map[string]string // Files.Names
	arrays []string          // of the files, by their own names
}

func newReader(m *mlf.Model) *reader {
	r := &reader{model: m, left: ndarray.MaxBytes}
	for k, of := range [][]mlf.Tensor{m.Inputs, m.Outputs, {{}}} {
		for _, t := range tensors(of) {
			r.columns[k] = append(r.columns[k], &column{kind: kind(k), Tensor: t})
		}
	}
	return r
}

// addExamples adds the model's examples, except for the kinds of arrays that have files of their own.
func (r *reader) addExamples(f Files) error {
	arrays, err := ndarray.DecodeNPZ(r.model.Examples)
	if err != nil {
		return err
	}
	if err := r.add("examples", arrays, inputKind); err != nil {
		return err
	}

	// The model's rule is for its own outputs.
	if f.Expected == "" {
		if r.rule, err = ParseRule(r.model.Compare); err != nil {
			return err
		}
	}

	for of, path := range []string{outputKind: f.Expected, labelKind: f.Labels} {
		for _, c := range r.columns[of] {
			if path != "" {
				*c = column{kind: c.kind, Tensor: c.Tensor}
			}
		}
	}
	return nil
}

// read adds the arrays of a file or folder for a kind.
func (r *reader) read(ctx context.Context, path string, of kind) error {
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
		if err := r.add(f.path, arrays, of); err != nil {
			return failure.Errorf(failure.Config, "%s: %w", f.path, err)
		}
	}
	return nil
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

	c, number := r.lookup(array, inputKind)
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

// add adds the arrays of a file for a kind: an array without a name is of that. The inputs' files may have all kinds.
func (r *reader) add(file string, arrays []ndarray.Named, of kind) error {
	next := map[*column]int{} // numbered samples of this file
	whole := map[*column]bool{}

	for _, a := range arrays {
		if r.left -= len(a.Data); r.left < 0 {
			return fmt.Errorf("all files of a set together are larger than %d MiB", ndarray.MaxBytes>>20)
		}

		c, number, err := r.column(a.Name, of)
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
		if err := c.fill(a.Array, filepath.Base(file)); err != nil {
			return fmt.Errorf("array %q: %w", a.Name, err)
		}
		if number >= 0 && c.len() != had+1 {
			return fmt.Errorf("array %q holds %d samples, not one", a.Name, c.len()-had)
		}

		next[c], whole[c] = number+1, number < 0
	}
	return nil
}

// fill adds the samples of an array of a file.
func (c *column) fill(a *ndarray.Array, file string) (err error) {
	var parts [][]byte
	var labels []int64
	if c.kind == labelKind {
		labels, err = labelsOf(a)
	} else {
		parts, err = split(c.Tensor, a)
	}
	if err != nil {
		return failure.New(failure.Config, cmp.Or(failure.Next(err), c.advice()), "%w", err)
	}

	c.parts, c.labels = append(c.parts, parts...), append(c.labels, labels...)
	n := len(c.parts) + len(c.labels)
	if n == c.len() {
		return failure.New(failure.Config, c.advice(), "it has no samples")
	}
	if n > maxSamples {
		return tooMany(int64(n), "samples")
	}

	for i := c.len(); i < n; i++ {
		c.names = append(c.names, fmt.Sprintf("%s, sample %d", file, i))
	}
	return nil
}

// column returns where an array belongs, and its number if it is a single sample by its name, else -1.
func (r *reader) column(name string, of kind) (*column, int, error) {
	if name == "" {
		if len(r.columns[of]) != 1 {
			return nil, 0, failure.New(failure.Config, "give an .npz, or a folder with files that are called NAME.npy",
				"the model has several tensors, and the array of this .npy has no name of one")
		}
		return r.columns[of][0], -1, nil
	}

	if c, number := r.lookup(name, of); c != nil {
		return c, number, nil
	}
	return nil, 0, r.unknown(name, of)
}

// lookup returns the column of an array's name, or nil, and the number at the name's end if it has one, else -1.
func (r *reader) lookup(name string, of kind) (*column, int) {
	// the whole name first: a tensor's own name may end in a number
	if c := r.named(name, of); c != nil {
		return c, -1
	}

	if at := strings.LastIndexByte(name, '_'); at > 0 {
		number, err := strconv.ParseUint(name[at+1:], 10, 31)
		// as FormatUint writes it: without leading zeros
		if c := r.named(name[:at], of); c != nil && err == nil && strconv.FormatUint(number, 10) == name[at+1:] {
			return c, int(number)
		}
	}
	return nil, -1
}

// takes reports whether a file for the kind may have arrays of another one: the inputs' files may have all.
func (k kind) takes(other kind) bool { return k == inputKind || k == other }

// named returns the column of a tensor's name, or nil.
func (r *reader) named(name string, of kind) *column {
	r.arrays = append(r.arrays, name)
	name = cmp.Or(r.names[name], name)

	if of.takes(inputKind) {
		if i, err := tensorlist.Lookup("input", r.model.Inputs, name); err == nil {
			return r.columns[inputKind][i]
		}
	}

	if of.takes(outputKind) {
		if i, err := tensorlist.Lookup("output", r.model.Outputs, name); err == nil {
			return r.columns[outputKind][i]
		}
		for i, c := range r.columns[outputKind] {
			if name == tensorlist.OutputName(r.model.Outputs, i) {
				return c
			}
		}
	}

	if of.takes(labelKind) && name == labelsName {
		return r.columns[labelKind][0]
	}
	return nil
}

// unknown returns the error for an array that is of no tensor.
func (r *reader) unknown(name string, of kind) error {
	var names, list []string
	for k, columns := range r.columns {
		if !of.takes(kind(k)) {
			continue
		}
		for i, c := range columns {
			switch kind(k) {
			case inputKind:
				names, list = append(names, c.Name), append(list, "the input "+c.String())
			case outputKind:
				name := tensorlist.OutputName(r.model.Outputs, i)
				names = append(names, name, c.Name)
				list = append(list, name+", the output "+c.String())
			case labelKind:
				names, list = append(names, labelsName), append(list, labelsName)
			}
		}
	}

	next := spelling.Nearest(name, names)
	switch {
	case next != "":
	case of == inputKind:
		next = "rename the array, leave it out, or map it, as in " + nextstep.Option("Files.Names", names[0]+"="+name)
	case len(names) > 0:
		next = "name the array " + names[0] + ", or leave it out"
	}

	return failure.New(failure.Config, next, "array %q is none of: %s", name, strings.Join(list, "; "))
}

// set returns the collected samples, if all tensors have the same number of them.
func (r *reader) set() (*Set, error) {
	n := r.Len()
	if n == 0 {
		return nil, failure.New(failure.Config, "give arrays of the model's inputs", "the set has no samples")
	}

	for k, columns := range r.columns {
		for _, c := range columns {
			if r.most(kind(k)) > 0 && c.len() != n {
				return nil, failure.New(failure.Config, "give one for each sample", "the set has %d samples, and %d of %s", n,
					c.len(), c.title())
			}
		}
	}

	r.class = classOutput(r.columns[outputKind])
	return &r.Set, r.checkLabels()
}

func (c *column) title() string {
	return [...]string{fmt.Sprintf("the input %q", c.Name), fmt.Sprintf("the output %q", c.Name), "labels"}[c.kind]
}
