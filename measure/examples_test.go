package measure_test

import (
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestExamples reads the examples of a model's description. Real numbers are of the type of a tensor with a scale.
func TestExamples(t *testing.T) {
	_, m := mlftest.Open(t, "../examples/c-model/dense.json")
	s, err := measure.ReadSet(t.Context(), measure.Files{}, m)
	if err != nil || s.Len() != 4 || !s.HasExpected() {
		t.Errorf("%+v, %v", s, err)
	}
	real, err := ndarray.DecodeNPZ(m.Examples)
	must(t, err)

	quantized := *m
	quantized.Inputs, quantized.Outputs = []mlf.Tensor{m.Inputs[0]}, []mlf.Tensor{m.Outputs[0]}
	int8s := ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	quantized.Inputs[0].DType, quantized.Outputs[0].DType = int8s, int8s
	files := measure.Files{Arrays: real}
	_, err = measure.ReadSet(t.Context(), files, &quantized)
	wantError(t, err, "", "wrong type")
	quantized.Inputs[0].Scale, quantized.Outputs[0].Scale = 0.5, 0.25
	if s, err := measure.ReadSet(t.Context(), files, &quantized); err != nil || s.Len() != 4 || !s.HasExpected() {
		t.Errorf("%+v, %v", s, err)
	}

	damaged := *m
	damaged.Examples = m.Examples[:100]
	_, err = measure.ReadSet(t.Context(), measure.Files{}, &damaged)
	wantError(t, err, failure.Config, "the model's examples: ")
}
