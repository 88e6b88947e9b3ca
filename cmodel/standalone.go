// This file generates the buffers of a model in a firmware that runs nothing else.

package cmodel

import (
	"bytes"
	"fmt"
	"slices"
	"text/template"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// standaloneFile is the name of the file that Standalone makes.
const standaloneFile = "boardsmith_standalone.c"

// Standalone makes the C file with the model's buffers, as crt/include/boardsmith/standalone.h declares them. With
// samples, which are one array per input in any order, the inputs are constants of the firmware; without, they are
// buffers in RAM.
func (c *Code) Standalone(samples []ndarray.Named) (mlf.File, error) {
	data := standaloneData{model: c.model}
	if len(samples) > 0 {
		var err error
		if data.Samples, err = c.model.inOrder(samples); err != nil {
			return mlf.File{}, err
		}
	}

	var out bytes.Buffer
	if err := standaloneC.Execute(&out, data); err != nil {
		return mlf.File{}, fmt.Errorf("model %s: %s: %w", c.Name, standaloneFile, err)
	}
	return mlf.File{Name: standaloneFile, Data: out.Bytes()}, nil
}

// inOrder returns the model's inputs in its order, from arrays with their names.
func (g *model) inOrder(samples []ndarray.Named) ([]*ndarray.Array, error) {
	list := make([]*ndarray.Array, len(g.Inputs))
	for _, s := range samples {
		i, err := tensorlist.Lookup("input", g.M.Inputs, s.Name)
		if err != nil {
			return nil, err
		}

		want := g.M.Inputs[i]
		if err := s.Check(); err != nil {
			return nil, failure.Errorf(failure.Config, "sample of input %q: %w", want.Name, err)
		}
		if s.DType != want.DType || int64(len(s.Data)) != want.Bytes || want.Shape != nil &&
			!slices.Equal(s.Shape, want.Shape) {
			return nil, failure.New(failure.Config, "convert it first", "sample of input %q is %v %s, the model's is %v %s",
				want.Name, s.DType, ndarray.ShapeString(s.Shape), want.DType, ndarray.ShapeString(want.Shape))
		}
		if list[i] != nil {
			return nil, failure.Errorf(failure.Config, "two samples of input %q", want.Name)
		}
		list[i] = s.Array
	}

	for i, a := range list {
		if a == nil {
			return nil, failure.New(failure.Config, "give a sample of every input", "no sample of input %q",
				g.M.Inputs[i].Name)
		}
	}
	return list, nil
}

// standaloneData is what the template prints.
type standaloneData struct {
	*model
	Samples []*ndarray.Array // of the inputs; nil: none
}

// HasSamples reports whether nothing may write the inputs.
func (d standaloneData) HasSamples() bool { return d.Samples != nil || len(d.Inputs) == 0 }

var standaloneC = template.Must(template.New(standaloneFile).Funcs(functions).Parse(`{{$d := .}}
{{- ""}}// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith for model {{comment .M.Name}}: its buffers, for main.c.
#include <boardsmith/standalone.h>
#include <stddef.h>
#include <tvm_{{.C}}.h>
{{range $i, $t := .Inputs}}
{{- with $d.Samples}}{{with index . $i}}
static const TVM_WORKSPACE_ALIGNED {{dataType .}} in_{{$t.C}}[{{elements .}}] = {
    {{data .}}};
{{- end}}{{else}}
static TVM_WORKSPACE_ALIGNED {{$t.Type}} in_{{$t.C}}[{{$t.Count}}];
{{- end}}{{end}}{{range .Outputs}}
static TVM_WORKSPACE_ALIGNED {{.Type}} out_{{.C}}[{{.Count}}];
{{- end}}

static const TVM_{{.C}}_input input = {
{{- range .Inputs}}
    (const {{.Type}}*)in_{{.C}},
{{- else}}
    NULL,
{{- end}}
};

static const TVM_{{.C}}_output output = {
{{- range .Outputs}}
    out_{{.C}},
{{- end}}
};
{{if not .HasSamples}}
static uint8_t* const input_data[] = {
{{- range .Inputs}}
    (uint8_t*)in_{{.C}},
{{- end}}
};
{{end}}
static uint8_t* const output_data[] = {
{{- range .Outputs}}
    (uint8_t*)out_{{.C}},
{{- end}}
};

const standalone_model_t standalone_model = {
    .model = &tvm_{{.C}},
    .input = &input,
    .output = &output,
    .input_data = {{if .HasSamples}}NULL{{else}}input_data{{end}},
    .output_data = output_data,
    .has_samples = {{if .HasSamples}}1{{else}}0{{end}},
};
`))
