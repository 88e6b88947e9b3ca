package tensorlist

import (
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestRandomInputs: inputs of each type but wide integers, which may be indices, are random.
func TestRandomInputs(t *testing.T) {
	for name, random := range map[string]bool{
		"int8": true, "uint8": true, "int16": true, "uint16": true, "float16": true, "bfloat16": true, "float32": true,
		"float64": true, "bool": true, "int32": false, "uint32": false, "int64": false, "uint64": false,
	} {
		d, err := ndarray.ParseDType(name)
		if err != nil {
			t.Fatal(err)
		}
		arrays, err := RandomInputs(&mlf.Model{Inputs: []mlf.Tensor{{Name: "x", DType: d, Shape: []int64{100}}}}, 1)
		if err != nil {
			t.Fatal(name, err)
		}
		data := slices.Clone(arrays[0].Data)
		slices.Sort(data)
		if n := len(slices.Compact(data)); (n > 1) != random {
			t.Errorf("%s: %d different bytes", name, n)
		}
	}
}

// TestCheckInputs: each input needs one array, by its name or its name in C.
func TestCheckInputs(t *testing.T) {
	m := &mlf.Model{Inputs: []mlf.Tensor{{Name: "x:0"}, {Name: "y"}}}
	for want, names := range map[string][]string{
		"":                           {"y", "x_0"},
		"no array for y":             {"x:0"},
		`two arrays for input "x:0"`: {"x:0", "x_0", "y"},
		`no input "z"`:               {"x:0", "y", "z"},
	} {
		var arrays []ndarray.Named
		for _, n := range names {
			arrays = append(arrays, ndarray.Named{Name: n})
		}
		err := CheckInputs(m, arrays)
		if want == "" && err != nil || want != "" &&
			(err == nil || failure.Of(err) != failure.Config || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v", names, err)
		}
	}
}

// TestUnknownShape: data of an input whose shape is unknown has one axis, as on the device.
func TestUnknownShape(t *testing.T) {
	in := mlf.Tensor{Name: "x", DType: ndarray.DType{Code: ndarray.Int, Bits: 16, Lanes: 1}, Bytes: 128}
	arrays, err := RandomInputs(&mlf.Model{Inputs: []mlf.Tensor{in}}, 1)
	if err != nil || !slices.Equal(arrays[0].Shape, []int64{64}) {
		t.Fatalf("%v, %v", arrays, err)
	}
	if err := CheckInput(in, arrays[0].Array); err != nil {
		t.Error(err)
	}
	arrays[0].Array.Shape = []int64{8, 8}
	if err := CheckInput(in, arrays[0].Array); !strings.Contains(failure.Next(err), "reshape((64,))") {
		t.Errorf("%v: %s", err, failure.Next(err))
	}
}

// TestCheckNames: a mapping of an array that no file has is an error, with the nearest one.
func TestCheckNames(t *testing.T) {
	err := CheckNames(map[string]string{"featurs": "x"}, []string{"features"})
	if failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "features") {
		t.Errorf("%v, next %q", err, failure.Next(err))
	}
	if err := CheckNames(map[string]string{"features": "x"}, []string{"a", "features"}); err != nil {
		t.Error(err)
	}
	for range 50 { // the first of several, always
		err := CheckNames(map[string]string{"b": "x", "c": "y", "d": "z"}, []string{"a"})
		if err == nil || !strings.Contains(err.Error(), `no array "b"`) {
			t.Fatal(err)
		}
	}
}
