package projectapi

import (
	"errors"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestLongGraph: TVM's host sends a graph's JSON as one message. The server makes the packet buffer of firmware that
// can run graphs large enough for it, but not if the user has chosen its size, nor where the firmware runs no graphs.
func TestLongGraph(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	c := started(t, folderOf(t, "folder"))
	path := mlftest.Path(t, "digits_i8.graph")
	_, m := mlftest.Open(t, path)
	if len(m.Graph) <= 2048 {
		t.Fatalf("a graph of %d bytes", len(m.Graph))
	}
	generate := func(packet string, options map[string]any) *client {
		t.Helper()
		made, p := c.project(t, path, options)
		testkit.WantText(t, string(readFile(t, made+"/crt_config/crt_config.h")),
			"#define TVM_CRT_MAX_PACKET_SIZE_BYTES "+packet+"\n")
		return p
	}
	generate("1024", map[string]any{"packet_bytes": 1024})
	generate("2048", map[string]any{"graph_executor": "host"}) // the board's
	p := generate("8192", nil)
	l, _ := p.flashed(t)
	s := session(t, l)
	create, err := s.Function(t.Context(), "tvm.graph_executor.create")
	lib, err2 := s.SystemLib(t.Context())
	must(t, errors.Join(err, err2))
	executor, err := create.Call(t.Context(), string(m.Graph), lib, int(tvmrpc.CPU.Type), int(tvmrpc.CPU.ID))
	if _, ok := executor.(rpc.Module); !ok || err != nil {
		t.Errorf("%v, %v", executor, err)
	}
}
