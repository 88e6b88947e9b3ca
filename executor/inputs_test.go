package executor_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

func TestReadInputs(t *testing.T) {
	bytesType := ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	m := &mlf.Model{Inputs: []mlf.Tensor{
		{Name: "x:0", DType: bytesType, Shape: []int64{2}}, {Name: "y", DType: bytesType, Shape: []int64{2}},
	}}
	a := &ndarray.Array{DType: bytesType, Shape: []int64{2}, Data: []byte{1, 2}}
	path := filepath.Join(t.TempDir(), "in.npz")
	for want, names := range map[string][]string{
		"":                           {"y", "x_0"},
		"in.npz: no array for y":     {"x:0"},
		`two arrays for input "x:0"`: {"x:0", "x_0", "y"},
		`no input "z"`:               {"x:0", "y", "z"},
	} {
		var arrays []ndarray.Named
		for _, n := range names {
			arrays = append(arrays, ndarray.Named{Name: n, Array: a})
		}
		if err := ndarray.WriteNPZ(path, arrays); err != nil {
			t.Fatal(err)
		}
		got, err := executor.ReadInputs(path, m)
		if want == "" && (err != nil || len(got) != 2) || want != "" &&
			(err == nil || failure.Of(err) != failure.Config || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v: %v, %v", names, got, err)
		}
	}
	one, err := tensorlist.RandomInputs(m, 7)
	two, _ := tensorlist.RandomInputs(m, 7)
	other, _ := tensorlist.RandomInputs(m, 8)
	if err != nil || len(one) != 2 || !one[0].Equal(two[0].Array) ||
		bytes.Equal(one[0].Data, other[0].Data) && bytes.Equal(one[1].Data, other[1].Data) {
		t.Errorf("%v, %v, %v, %v", one, two, other, err)
	}
}
