//go:build linux

package tune_test

import (
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// TestArchiveArraysAreAssignedByNameOrOrder assigns arrays to arguments: all by name, or all in order with one for
// each. Another shape or type is an error.
func TestArchiveArraysAreAssignedByNameOrOrder(t *testing.T) {
	path := mlftest.Path(t, "matmul_03")
	a, _ := mlftest.Open(t, path)
	inputs, outputs := mlftest.Arrays(path)
	in, out := mlftest.Read(t, inputs), mlftest.Read(t, outputs) // A and B, C
	named := func(names ...string) (all []ndarray.Named) {
		for i, name := range names {
			all = append(all, ndarray.Named{Name: name, Array: in[i].Array})
		}
		return all
	}
	flat := *in[0].Array
	flat.Shape = []int64{int64(flat.Len())}
	renamed := []ndarray.Named{{Name: "Z", Array: out[0].Array}}
	for name, c := range map[string]struct {
		inputs, want []ndarray.Named
		err          string
	}{
		"by name":          {inputs: in, want: out},
		"reversed":         {inputs: []ndarray.Named{in[1], in[0]}},
		"in order":         {inputs: named("first", "second"), want: renamed},
		"one input":        {inputs: in[1:]},
		"a wrong name":     {inputs: []ndarray.Named{{Name: "first", Array: in[0].Array}, in[1]}, err: `no input "first"`},
		"twice":            {inputs: []ndarray.Named{in[0], in[0]}, err: "two arrays for input A "},
		"too few in order": {inputs: named("first"), err: "1 input arrays, none with the name of a tensor, and 2"},
		"output as input":  {inputs: out, err: `no input "C"`},
		"other shape":      {inputs: []ndarray.Named{{Name: "A", Array: &flat}}, err: `array "A" is `},
	} {
		got, err := tune.CandidateOf("x", a, c.inputs, c.want)
		if c.err != "" {
			wantError(t, err, failure.Config, c.err)
			continue
		}
		must(t, err)
		want := [][]byte{in[0].Array.Data, in[1].Array.Data}
		if len(c.inputs) < 2 {
			want[0] = make([]byte, len(want[0]))
		}
		for i, data := range want {
			if !slices.Equal(got.Args[i].Data, data) {
				t.Errorf("%s: argument %d has other data", name, i)
			}
		}
		testkit.Equal(t, name+": output is compared", got.Args[2].Want != nil, c.want != nil)
	}
	_, err := tune.CandidateOf("x@flash", a, in, out)
	wantError(t, err, failure.Config)
}
