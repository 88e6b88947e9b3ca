package projectapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// A recorded message of testdata/tvm_sessions.
type recorded struct {
	Server string   `json:"server"`
	To     *request `json:"to"`
	From   *struct {
		Result json.RawMessage
		Error  json.RawMessage
	} `json:"from"`
}

// TestSessionsOfTVM repeats what TVM 0.14's own host said in its tests, first to our template's server, then to the
// server and the firmware of the project that it has made, and compares the answers.
func TestSessionsOfTVM(t *testing.T) {
	t.Parallel()
	_ = folderOf(t, "none") // skips on Windows
	needTools(t, "host")
	files, err := filepath.Glob("testdata/tvm_sessions/*.jsonl.gz")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d sessions, %v", len(files), err)
	}
	for _, file := range drawn.Of(t, "sessions of TVM", files, 3) {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			messages, err := readSession(file)
			must(t, err)
			repeat(t, messages, strings.TrimSuffix(file, ".jsonl.gz")+".tar.gz")
		})
	}
}

func unzipped(t *testing.T, file string) []byte {
	t.Helper()
	data, err := inflated(file)
	must(t, err)
	return data
}

// inflated returns the content of a gzip file.
func inflated(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return io.ReadAll(z)
}

// readSession returns the messages of a recorded session.
func readSession(file string) (all []recorded, err error) {
	data, err := inflated(file)
	for line := range bytes.Lines(data) {
		var r recorded
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	return all, err
}

// repeat sends the calls of both servers. Of what goes over the transport it takes the requests, with the replies that
// TVM's runtime gave, and repeats these over ours.
func repeat(t *testing.T, messages []recorded, archive string) {
	ctx := testkit.Context(t)
	plain := t.TempDir() + "/model.tar"
	writeFile(t, plain, string(unzipped(t, archive)))
	made := t.TempDir() + "/project"
	clients := map[string]*client{"template": started(t, folderOf(t, "folder"))}
	var written, read []byte
	for i, r := range messages {
		if r.To == nil {
			continue
		}
		switch q := r.To; q.Method {
		case "server_info_query":
			if r.Server == "project" {
				launcher(t, made, "folder")
				clients["project"] = started(t, made)
			}
		case "generate_project", "build", "flash":
			params := map[string]any{}
			for name, v := range q.Params {
				params[name] = v
			}
			if q.Method == "generate_project" {
				params["project_dir"], params["model_library_format_path"] = made, plain
			}
			if err := clients[r.Server].call(q.Method, params, nil); err != nil {
				t.Fatalf("%s: %v", q.Method, err)
			}
		case "write_transport":
			written = append(written, dataOf(t, q.Params["data"])...)
		case "read_transport":
			var result struct{ Data json.RawMessage }
			if from := messages[i+1].From; from != nil && json.Unmarshal(from.Result, &result) == nil && result.Data != nil {
				read = append(read, dataOf(t, result.Data)...)
			}
		}
	}
	l, _, err := clients["project"].Open()
	must(t, err)
	s := session(t, l)
	requests, replies := packets(t, written), packets(t, read)
	if len(requests) == 0 || len(replies) < len(requests)-1 {
		t.Fatalf("%d requests, %d replies recorded", len(requests), len(replies))
	}
	same := own{ids: map[uint64]uint64{}}
	for i, q := range requests {
		if q.Code == tvmrpc.CodeShutdown || i >= len(replies) {
			continue
		}
		if err := same.repeat(ctx, s, q, replies[i]); err != nil {
			t.Fatalf("request %d of %d, %v: %v", i+1, len(requests), q.Code, err)
		}
	}
}

func dataOf(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	var text string
	err := json.Unmarshal(raw, &text)
	must(t, err)
	data, err := decodeBase85(text)
	must(t, err)
	return data
}

// packets returns the RPC packets in a recorded stream.
func packets(t *testing.T, stream []byte) (all []*tvmrpc.Packet) {
	t.Helper()
	var u framing.Unframer
	for len(stream) > 0 {
		n, event := u.Next(stream)
		stream = stream[n:]
		if event != framing.Frame {
			continue
		}
		const header, normal = 3, 0x10
		message := bytes.Clone(u.Payload())
		if len(message) < header || message[2] != normal {
			continue
		}
		p := new(tvmrpc.Packet)
		must(t, p.Parse(message[header:]))
		if encoded := p.Append(nil); !bytes.Equal(encoded, message[header:]) {
			t.Errorf("% x encodes to % x", message[header:], encoded)
		}
		all = append(all, p)
	}
	return all
}

// own maps the recorded device's handles and addresses to those of this one.
type own struct{ ids map[uint64]uint64 }

// repeat sends a recorded request, and compares the answer with the recorded one, but for handles, addresses and times.
func (o own) repeat(ctx context.Context, s *rpc.Session, q, want *tvmrpc.Packet) error {
	mine := *q
	mine.Handle = o.id(q.Handle)
	mine.Tensor.Data = o.id(q.Tensor.Data)
	mine.Args = nil
	for _, a := range q.Args {
		if isID(a.Type) {
			a.Word = o.id(a.Word)
		}
		if a.Tensor != nil {
			moved := *a.Tensor
			moved.Data = o.id(moved.Data)
			a.Tensor = &moved
		}
		mine.Args = append(mine.Args, a)
	}
	if mine.Code == tvmrpc.CodeInitServer {
		return nil // the session has done so
	}
	got, err := s.Do(ctx, &mine)
	if err != nil {
		return err
	}
	if got.Code != want.Code {
		return fmt.Errorf("answer %v %v, TVM's was %v %v", got.Code, got.Args, want.Code, want.Args)
	}
	if want.Code == tvmrpc.CodeException {
		return nil // texts are our own
	}
	if !bytes.Equal(got.Data, want.Data) {
		return fmt.Errorf("%d bytes % .32x, TVM's were %d: % .32x", len(got.Data), got.Data, len(want.Data), want.Data)
	}
	if len(got.Args) != len(want.Args) {
		return fmt.Errorf("%d values, TVM's were %d", len(got.Args), len(want.Args))
	}
	for i, w := range want.Args {
		if err := o.sameValue(got.Args[i], w); err != nil {
			return fmt.Errorf("value %d: %w", i+1, err)
		}
	}
	return nil
}

// sameValue compares a value of an answer; a handle or an address becomes known.
func (o own) sameValue(got, want tvmrpc.Value) error {
	switch {
	case got.Type != want.Type:
		return fmt.Errorf("type %v, TVM's was %v", got.Type, want.Type)
	case isID(want.Type):
		if (got.Word == 0) != (want.Word == 0) {
			return fmt.Errorf("%#x, TVM's was %#x", got.Word, want.Word)
		}
		o.ids[want.Word] = got.Word
	case want.Type == tvmrpc.TypeBytes:
		if len(got.Data) != len(want.Data) { // times
			return fmt.Errorf("%d bytes, TVM's were %d", len(got.Data), len(want.Data))
		}
	case want.Tensor != nil:
		if got.Tensor == nil || fmt.Sprint(got.Tensor.Shape, got.Tensor.DType) != fmt.Sprint(want.Tensor.Shape,
			want.Tensor.DType) {
			return errors.New("another tensor")
		}
		o.ids[want.Tensor.Data] = got.Tensor.Data
	case got.Word != want.Word || !bytes.Equal(got.Data, want.Data):
		return fmt.Errorf("%#x %q, TVM's was %#x %q", got.Word, got.Data, want.Word, want.Data)
	}
	return nil
}

func (o own) id(theirs uint64) uint64 {
	if mine, ok := o.ids[theirs]; ok {
		return mine
	}
	return theirs
}

// isID reports whether a value is a handle or an address of the device.
func isID(t tvmrpc.TypeCode) bool {
	switch t {
	case tvmrpc.TypeHandle, tvmrpc.TypeModule, tvmrpc.TypeFunction, tvmrpc.TypeNDArray:
		return true
	}
	return false
}
