// This file reads the description in the C of an ahead-of-time model with the packed interface, from which the
// executor on the device takes tensors and pools (crt_abi.md §10).

package mlf

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A description is a model's TVMMetadata.
type description struct {
	inputs, outputs []Tensor
	pools           []Buffer
	constantPools   int
}

// The patterns follow TVM's text of the description: an array for each shape, and an initialiser for each tensor.
var (
	describes      = []byte("kTvmgenMetadata[1]")
	describedShape = regexp.MustCompile(`kTvmgenMetadata_(\w+_\d+)_shape\[\d+\] = \{([^}]*)\};`)
	described      = regexp.MustCompile(`"((?:[^"\\]|\\.)*)" /\* name\*/,\s*kTvmgenMetadata_((inputs|outputs|workspace_pools)_\d+)_shape,` +
		`\s*\d+L? /\* num_shape\*/,\s*\{(\d+), (\d+), (\d+)\} /\* dtype\*/`)
	describedConstants = regexp.MustCompile(`(\d+)L? /\* num_constant_pools\*/`)
)

// describe returns the description found in the sources, or nil.
func describe(sources []File) (*description, error) {
	for _, f := range sources {
		if !bytes.Contains(f.Data, describes) {
			continue
		}

		d, err := parseDescription(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		return d, nil
	}
	return nil, nil
}

func parseDescription(src []byte) (*description, error) {
	shapes := map[string][]int64{}
	for _, s := range describedShape.FindAllSubmatch(src, -1) {
		shapes[string(s[1])] = dimensions(s[2])
	}

	var d description
	for _, s := range described.FindAllSubmatch(src, -1) {
		name, code, bits, lanes := string(s[1]), number(s[4]), number(s[5]), number(s[6])
		dtype := ndarray.DType{Code: uint8(code), Bits: uint8(bits), Lanes: uint16(lanes)}
		t, ok := shaped(name, dtype, shapes[string(s[2])])
		if !ok || min(code, bits, lanes) < 0 || code > math.MaxUint8 || bits > math.MaxUint8 || lanes > math.MaxUint16 {
			return nil, fmt.Errorf("the description of %q has an invalid shape or type", name)
		}

		switch string(s[3]) {
		case "inputs":
			d.inputs = append(d.inputs, t)
		case "outputs":
			d.outputs = append(d.outputs, t)
		default:
			d.pools = append(d.pools, Buffer{Name: name, Bytes: t.Bytes})
		}
	}

	if s := describedConstants.FindSubmatch(src); s != nil {
		d.constantPools = int(number(s[1]))
	}
	return &d, nil
}

// dimensions reads the numbers of an array's initialiser.
func dimensions(list []byte) []int64 {
	shape := []int64{}
	for _, word := range bytes.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		shape = append(shape, number(bytes.TrimRight(word, "LU")))
	}
	return shape
}

// number parses a number of generated code. It returns -1, invalid in shapes and types, for anything else.
func number(text []byte) int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// readDescription takes the model's entry and pools from its description, and its tensors if metadata.json lists
// none (before TVM 0.11).
func (a *Archive) readDescription(m *Model) error {
	if m.Executor != AOT || m.Interface != packedInterface {
		return nil
	}

	// _run first, since it brings TVM's own pools.
	for _, suffix := range []string{"_run", mainSuffix} {
		if f := m.Prefix() + suffix; m.Has(f) {
			m.Entry = f
			break
		}
	}

	d, err := describe(m.Sources)
	switch {
	case err != nil:
		return a.fault("", "", "model %s: %w", m.Name, err)
	case d == nil:
		return nil
	}

	m.described, m.Pools, m.scan.constantPools = true, d.pools, d.constantPools
	if !m.listed {
		m.Inputs, m.Outputs = d.inputs, d.outputs
	}

	if len(m.Inputs) != len(d.inputs) || len(m.Outputs) != len(d.outputs) {
		return a.fault("", "", "model %s: its code describes %d inputs and %d outputs, %s %d and %d",
			m.Name, len(d.inputs), len(d.outputs), metadataFile, len(m.Inputs), len(m.Outputs))
	}
	return errors.Join(a.asDescribed(m, m.Inputs, d.inputs), a.asDescribed(m, m.Outputs, d.outputs))
}

// asDescribed returns an error if tensors of metadata.json differ from those of the code, and gives them the shapes
// that only the code has. Tensors are compared by name, or by position if no name is in both.
func (a *Archive) asDescribed(m *Model, listed, code []Tensor) error {
	find := func(t Tensor) int {
		name := spelling.Sanitize(t.Name)
		return slices.IndexFunc(code, func(d Tensor) bool { return spelling.Sanitize(d.Name) == name })
	}
	byName := slices.ContainsFunc(listed, func(t Tensor) bool { return find(t) >= 0 })

	for i := range listed {
		t, at := &listed[i], i
		if byName {
			at = find(*t)
		}
		if at < 0 {
			continue
		}

		described := code[at]
		if t.DType != described.DType || t.Bytes != described.Bytes {
			return a.fault(metadataFile, "", "model %s: %s is %v of %d bytes, in its code %v of %d bytes", m.Name, t.Name,
				t.DType, t.Bytes, described.DType, described.Bytes)
		}
		if t.Shape == nil {
			t.Shape = described.Shape
		}
	}
	return nil
}

// mainSuffix ends the name of the function that runs the operators and gets every pool as an argument. TVM 0.9 to 0.11
// register it alone; from 0.12 on "_run", which calls it and brings TVM's own pools, is registered as well.
const mainSuffix = "___tvm_main__"

// ownPool is the prefix of pools that TVM adds if the user named none.
const ownPool = "global_workspace"

// ExecutorPools returns the pools that the device's executor takes from the arena: those that the user named, and TVM's
// own where the executor starts the model's main function.
func (m *Model) ExecutorPools() []Buffer {
	if m.ABI == ABIUnpacked {
		return nil // the adapter provides them
	}
	if strings.HasSuffix(m.Entry, mainSuffix) {
		return m.Pools
	}
	return slices.DeleteFunc(slices.Clone(m.Pools), func(p Buffer) bool { return strings.HasPrefix(p.Name, ownPool) })
}
