package project

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// graphPacket is larger than all graphs and some of their parameters.
const graphPacket = 1 << 16

// TestGraphOnDevice runs graphs with the device's executor. Its outputs are those of the host's, which calls the same
// operators.
func TestGraphOnDevice(t *testing.T) {
	t.Parallel()
	var graphs []string
	for _, path := range mlftest.Archives(t) {
		if name := mlftest.Name(path); strings.HasSuffix(name, ".graph") || strings.HasSuffix(name, ".graph_linked") {
			graphs = append(graphs, path)
		}
	}
	on := []string{"host"}
	if drawn.InFull() { // takes seconds for each
		on = append(on, "mps2_an385")
	}
	for _, board := range on {
		for _, path := range drawn.Of(t, "graphs on "+board, graphs, 1) {
			t.Run(board+"/"+mlftest.Name(path), func(t *testing.T) {
				t.Parallel()
				needBoardTools(t, board, nil)
				o := boards.Options{GraphExecutor: boards.OnDevice, PacketBytes: graphPacket, ArenaKiB: 1024}
				p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: board, Model: path, Options: o})
				s, err := p.Run(t.Context(), testEnv().desk(), "")
				must(t, err)
				defer func() { _ = s.Close(t.Context()) }()
				_, m, err := p.Model()
				must(t, err)
				file, _ := mlftest.Arrays(path)
				inputs, err := ndarray.ReadNPZ(file)
				must(t, err)
				want := outputsOfHost(t, s, m, inputs)
				got := outputsOfDevice(t, s, m, inputs)
				if len(got) != len(want) {
					t.Fatalf("%d outputs, want %d", len(got), len(want))
				}
				for i := range want {
					if !bytes.Equal(got[i], want[i]) {
						t.Errorf("output %d: % x, want % x", i, got[i], want[i])
					}
				}
			})
		}
	}
}

// outputsOfHost runs the model with the executor on the host.
func outputsOfHost(t *testing.T, s *rpc.Session, m *mlf.Model, inputs []ndarray.Named) (outputs [][]byte) {
	t.Helper()
	e, err := executor.Open(t.Context(), s, m)
	must(t, err)
	for _, in := range inputs {
		must(t, e.SetInput(t.Context(), in.Name, in.Array))
	}
	must(t, e.Run(t.Context()))
	for i := range e.Outputs() {
		a, err := e.Output(t.Context(), i)
		must(t, err)
		outputs = append(outputs, a.Data)
	}
	must(t, e.Close(t.Context()))
	return outputs
}

// outputsOfDevice runs the model with the executor on the device, as TVM's host does.
func outputsOfDevice(t *testing.T, s *rpc.Session, m *mlf.Model, inputs []ndarray.Named) (outputs [][]byte) {
	t.Helper()
	create, err := s.Function(t.Context(), "tvm.graph_executor.create")
	must(t, err)
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	made, err := create.Call(t.Context(), string(m.Graph), lib, int(rpc.CPU.Type), int(rpc.CPU.ID))
	must(t, err)
	call := func(name string, args ...any) any {
		t.Helper()
		f, err := made.(rpc.Module).Function(t.Context(), name)
		must(t, err)
		result, err := f.Call(t.Context(), args...)
		must(t, err)
		return result
	}
	params, err := paramblob.Parse(m.Params)
	if m.Params != nil {
		must(t, err)
	}
	if len(m.Params) > graphPacket/2 { // too long for a call
		inputs = slices.Concat(params, inputs)
	} else if len(params) > 0 {
		call("load_params", m.Params)
	}
	for _, in := range inputs {
		must(t, call("get_input", in.Name).(*rpc.Tensor).Write(t.Context(), in.Array.Data))
	}
	call("run")
	for i := range int(call("get_num_outputs").(int64)) {
		output := call("get_output", i).(*rpc.Tensor)
		data := make([]byte, output.Bytes())
		must(t, output.Read(t.Context(), data))
		outputs = append(outputs, data)
	}
	return outputs
}
