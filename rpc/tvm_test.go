//go:build unix

package rpc_test

// This file replays sessions of TVM 0.14's host (testdata/tvm_sessions).

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/transport"
)

const tvmSessions = "testdata/tvm_sessions"

// A line is one write of the host, or the result of one read.
type tvmLine struct {
	toHost bool
	data   []byte
}

func tvmSession(t *testing.T, name string) (lines []tvmLine) {
	t.Helper()
	f, err := os.Open(filepath.Join(tvmSessions, name+".jsonl.gz"))
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	type message struct {
		Server string
		To     struct {
			Method string
			Params struct{ Data string }
		}
		From struct{ Result json.RawMessage }
	}
	var asked string
	for dec := json.NewDecoder(z); dec.More(); {
		var m message
		must(t, dec.Decode(&m))
		if m.To.Method != "" {
			asked = m.To.Method
		}
		var result struct{ Data string }
		switch {
		case m.To.Method == "write_transport":
			lines = append(lines, tvmLine{false, base85(t, m.To.Params.Data)})
		case m.To.Method == "" && asked == "read_transport" && json.Unmarshal(m.From.Result, &result) == nil:
			lines = append(lines, tvmLine{true, base85(t, result.Data)})
		}
	}
	return lines
}

// base85 decodes the output of Python's b85encode.
func base85(t *testing.T, s string) []byte {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	pad := (5 - len(s)%5) % 5
	s += strings.Repeat("~", pad)
	var out []byte
	for ; s != ""; s = s[5:] {
		var v uint32
		for i := range 5 {
			d := strings.IndexByte(digits, s[i])
			if d < 0 {
				t.Fatalf("%q is not base 85", s)
			}
			v = v*85 + uint32(d)
		}
		out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return out[:len(out)-pad]
}

// A tvmMessage is a session message of a recording.
type tvmMessage struct {
	toHost bool
	data   []byte // header and body
}

// messages returns the frames that were written and read.
func messages(t *testing.T, lines []tvmLine) (all []tvmMessage) {
	t.Helper()
	var un [2]framing.Unframer
	for _, l := range lines {
		way := 0
		if l.toHost {
			way = 1
		}
		for p := l.data; len(p) > 0; {
			n, ev := un[way].Next(p)
			p = p[n:]
			switch ev {
			case framing.NeedMore:
			case framing.Frame:
				all = append(all, tvmMessage{l.toHost, bytes.Clone(un[way].Payload())})
			default:
				t.Fatalf("%v in a recording", ev)
			}
		}
	}
	return all
}

var tvmNames = []string{
	"aot_executor", "aot_executor_usmp_const_pool", "compile_runtime", "compile_runtime_llvm", "graph_executor",
	"platform_timer", "reset", "std_math_functions_1", "std_math_functions_2",
}

const (
	tvmInit, tvmReply, tvmTerminate, tvmLog, tvmNormal = 0x00, 0x01, 0x02, 0x03, 0x10
)

// Every packet that TVM's host and device sent decodes, and encodes to the same bytes.
func TestTVMPacketsEncodeToSameBytes(t *testing.T) {
	packets := 0
	for _, name := range tvmNames {
		for _, m := range messages(t, tvmSession(t, name)) {
			if m.data[2] != tvmNormal {
				continue
			}
			packets++
			var p tvmrpc.Packet
			if err := p.Parse(m.data[3:]); err != nil {
				t.Errorf("%s: % x: %v", name, m.data, err)
			} else if encoded := p.Append(nil); !bytes.Equal(encoded, m.data[3:]) {
				t.Errorf("%s: % x encodes to % x", name, m.data[3:], encoded)
			}
			if err := p.CheckArgs(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if packets < 500 {
		t.Errorf("only %d packets", packets)
	}
}

// The recorded requests of TVM's host get the same answers from boardsmith firmware of the same archive.
func TestFirmwareAnswersTVMHostAsRecorded(t *testing.T) {
	for _, name := range tvmNames {
		t.Run(name, func(t *testing.T) {
			if name == "compile_runtime_llvm" && runtime.GOARCH != "amd64" {
				t.Skipf("its operator is an object for x86-64, this is %s", runtime.GOARCH)
			}
			all := messages(t, tvmSession(t, name))
			h := &tvmHost{t: t, link: tvmFirmware(t, name), handles: map[uint64]uint64{0: 0}, timed: name == "platform_timer"}
			for _, m := range all {
				h.message(m)
			}
			h.silence()
		})
	}
}

// tvmFirmware starts firmware of a recording's archive.
func tvmFirmware(t *testing.T, name string) transport.Link {
	t.Helper()
	needTools(t)
	if _, err := buildFirmware(); err != nil { // cache for the runtime
		t.Fatal(err)
	}
	dir := filepath.Join(scratch, name)
	must(t, os.MkdirAll(filepath.Join(dir, "build"), 0o755))
	must(t, os.Symlink(filepath.Join(scratch, "build", "crt"), filepath.Join(dir, "build", "crt")))
	untar(t, filepath.Join(tvmSessions, name+".tar.gz"), filepath.Join(dir, "model"))
	path, err := makeFirmware(filepath.Join(dir, "model"), filepath.Join(dir, "build"))
	must(t, err)
	return startFirmware(t, path)
}

func untar(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatalf("%s: %v", h.Name, err)
		}
		path := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o755)
		} else {
			data, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(path, data, 0o644))
		}
		must(t, err)
	}
}

// A tvmHost sends the recorded requests to the firmware, with its session id and handles instead of the recorded
// ones.
type tvmHost struct {
	t       *testing.T
	link    transport.Link
	framer  framing.Framer
	un      framing.Unframer
	in      []byte
	id      [2]byte           // of our session
	handles map[uint64]uint64 // recorded handles and addresses to the firmware's
	asked   tvmrpc.Packet     // the last request
	timed   bool              // byte arrays are time samples
}

func (h *tvmHost) message(m tvmMessage) {
	h.t.Helper()
	switch kind := m.data[2]; {
	case !m.toHost:
		h.send(bytes.Clone(m.data))
	case kind == tvmReply:
		reply := h.receive(tvmReply)
		h.id = [2]byte(reply)
		if h.id[0] != m.data[0] || h.id[1] == 0 || reply[3] != 1 {
			h.t.Fatalf("reply % x", reply)
		}
	case kind == tvmNormal:
		h.compare(m.data, h.receive(tvmNormal))
	case kind == tvmTerminate && h.id != [2]byte{}:
		h.receive(tvmTerminate)
	}
}

func (h *tvmHost) send(msg []byte) {
	h.t.Helper()
	if msg[2] == tvmNormal {
		copy(msg, h.id[:])
		if err := h.asked.Parse(msg[3:]); err != nil {
			h.t.Fatal(err)
		}
		h.translate(&h.asked)
		msg = h.asked.Append(msg[:3:3])
	}
	if err := h.link.Write(testkit.Context(h.t), h.framer.Append(nil, msg)); err != nil {
		h.t.Fatal(err)
	}
}

// translate replaces recorded handles and addresses.
func (h *tvmHost) translate(p *tvmrpc.Packet) {
	h.t.Helper()
	p.Handle = h.handle(p.Handle)
	p.Tensor.Data = h.handle(p.Tensor.Data)
	for i := range p.Args {
		switch v := &p.Args[i]; v.Type {
		case tvmrpc.TypeHandle, tvmrpc.TypeModule, tvmrpc.TypeFunction:
			v.Word = h.handle(v.Word)
		case tvmrpc.TypeTensor:
			v.Tensor.Data = h.handle(v.Tensor.Data)
		}
	}
}

func (h *tvmHost) handle(recorded uint64) uint64 {
	h.t.Helper()
	local, ok := h.handles[recorded]
	if !ok {
		h.t.Fatalf("the recorded host uses %#x, which is in no answer", recorded)
	}
	return local
}

// receive waits for a message of a type. Before it, only logs and the Terminate of a boot are allowed.
func (h *tvmHost) receive(kind byte) []byte {
	h.t.Helper()
	buf := make([]byte, 4096)
	for {
		n, ev := h.un.Next(h.in)
		h.in = h.in[n:]
		switch ev {
		case framing.NeedMore:
			n, err := h.link.Read(testkit.Context(h.t), buf)
			if err != nil {
				h.t.Fatalf("after %v: %v", h.asked.Code, err)
			}
			h.in = buf[:n]
		case framing.Frame:
			msg := bytes.Clone(h.un.Payload())
			booting := msg[2] == tvmTerminate && h.id == [2]byte{}
			if msg[2] == kind {
				return msg
			}
			if msg[2] != tvmLog && !booting {
				h.t.Fatalf("got % x, want a message of type %d", msg, kind)
			}
		default:
			h.t.Fatalf("%v from the firmware", ev)
		}
	}
}

// silence checks that there are no further answers, which would shift later ones.
func (h *tvmHost) silence() {
	h.t.Helper()
	n, err := h.link.Read(within(h.t, 50*time.Millisecond), make([]byte, 64))
	if len(h.in) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		h.t.Errorf("%d and %d more bytes at the end, %v", len(h.in), n, err)
	}
}

// compare compares two answers, and maps recorded handles to the firmware's.
func (h *tvmHost) compare(recorded, local []byte) {
	h.t.Helper()
	var want, got tvmrpc.Packet
	if err := errors.Join(want.Parse(recorded[3:]), got.Parse(local[3:])); err != nil {
		h.t.Fatal(err)
	}
	if [2]byte(local) != h.id || got.Code != want.Code || len(got.Args) != len(want.Args) ||
		!bytes.Equal(got.Data, want.Data) {
		h.t.Fatalf("%v answered by %+v, want %+v", h.asked.Code, got, want)
	}
	for i, w := range want.Args {
		h.compareValue(w, got.Args[i])
	}
}

func (h *tvmHost) compareValue(want, got tvmrpc.Value) {
	h.t.Helper()
	same := want.Type == got.Type
	switch {
	case !same:
	case want.Type == tvmrpc.TypeHandle:
		same = (want.Word == 0) == (got.Word == 0)
		h.handles[want.Word] = got.Word
	case want.Type == tvmrpc.TypeTensor:
		h.handles[want.Tensor.Data] = got.Tensor.Data
		expect := *want.Tensor
		expect.Data = got.Tensor.Data
		same = reflect.DeepEqual(expect, *got.Tensor)
	case want.Type == tvmrpc.TypeBytes && h.timed:
		same = len(want.Data) == len(got.Data)
	default:
		same = want.Word == got.Word && bytes.Equal(want.Data, got.Data)
	}
	if !same {
		h.t.Errorf("%v %+v: answer %+v, want %+v", h.asked.Code, h.asked.Args, got, want)
	}
}
