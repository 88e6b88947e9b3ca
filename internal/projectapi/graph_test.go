package projectapi

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// TestLongGraph: TVM's host sends a graph's JSON as one message. The server makes the packet buffer of firmware that
// can run graphs large enough for it, but not if the user has chosen its size, nor where the firmware runs no graphs.
func TestLongGraph(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	c := started(t, folderOf(t, "folder"))
	path := mlftest.Path(t, "digits_i8.graph")
	a, err := mlf.Open(path)
	must(t, err)
	m, err := a.Model("")
	if err != nil || len(m.Graph) <= 2048 {
		t.Fatalf("a graph of %d bytes, %v", len(m.Graph), err)
	}
	generate := func(options map[string]any) (made, packet string) {
		t.Helper()
		made = filepath.Join(t.TempDir(), "p")
		must(t, c.Generate(path, "", made, options))
		text := readFile(t, filepath.Join(made, "crt_config", "crt_config.h"))
		_, packet, _ = strings.Cut(string(text), "#define TVM_CRT_MAX_PACKET_SIZE_BYTES ")
		packet, _, _ = strings.Cut(packet, "\n")
		return made, packet
	}
	if _, packet := generate(map[string]any{"packet_bytes": 1024}); packet != "1024" {
		t.Errorf("a packet buffer of 1024 bytes became %s", packet)
	}
	if _, packet := generate(map[string]any{"graph_executor": "host"}); packet != "2048" {
		t.Errorf("without graphs on the device: %s, want the board's 2048", packet)
	}
	made, packet := generate(nil)
	if packet != "8192" {
		t.Errorf("for a graph of %d bytes: %s, want 8192", len(m.Graph), packet)
	}
	launcher(t, made, "folder")
	p := started(t, made)
	must(t, p.do("build", nil))
	l, _, err := p.Open()
	must(t, err)
	defer l.Close()
	base, err := transport.Dial(t.Context(), l, transport.SessionOptions{})
	must(t, err)
	s := rpc.New(base, rpc.Options{})
	defer s.Close(t.Context())
	create, err := s.Function(t.Context(), "tvm.graph_executor.create")
	lib, err2 := s.SystemLib(t.Context())
	must(t, errors.Join(err, err2))
	executor, err := create.Call(t.Context(), string(m.Graph), lib, int(tvmrpc.CPU.Type), int(tvmrpc.CPU.ID))
	if _, ok := executor.(rpc.Module); !ok || err != nil {
		t.Errorf("%v, %v", executor, err)
	}
}
