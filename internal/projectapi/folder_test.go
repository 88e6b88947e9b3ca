package projectapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// TestFolder takes an archive through a template's server and a project's server, as TVM does, and runs it over the
// transport.
func TestFolder(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "boards through servers", []string{"host", "mps2_an385"}, 1) {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			needTools(t, board)
			throughServers(t, board)
		})
	}
}

// needTools skips a test for whose board a tool is missing.
func needTools(t *testing.T, board string) {
	t.Helper()
	b, err := boards.Find(board, nil)
	must(t, err)
	compiler, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range append(compiler, emulator...) {
		t.Skipf("board %s: %v", board, e)
	}
}

func throughServers(t *testing.T, board string) {
	template := started(t, folderOf(t, "folder"))
	if i := template.Info; !i.Template || i.Archive != "" || i.Platform != "host" {
		t.Errorf("template: %+v", i)
	}
	archive := mlftest.Path(t, "add.aot_packed")
	// tvmc gives all values as strings.
	options := map[string]any{"board": board, "workspace_size_bytes": "65536", "verbose": "false"}
	made, p := template.project(t, archive, options)
	if i := p.Info; i.Template || i.Archive != made+"/model.tar" || i.Platform != board {
		t.Errorf("project: %+v", i)
	}
	_, _, err := p.Open()
	wantError(t, err, "", "call build first")
	for range 2 { // a project is used again
		l, timeouts := p.flashed(t)
		if timeouts.StartRetry <= 0 || timeouts.Start < timeouts.StartRetry || timeouts.Established < 10 {
			t.Errorf("timeouts %+v", timeouts)
		}
		runOver(t, l, archive)
	}
}

// session begins a session over a link, which ends with the test.
func session(t *testing.T, l transport.Link) *rpc.Session {
	t.Helper()
	base, err := transport.Dial(t.Context(), l, transport.SessionOptions{Seed: 1}) // the same bytes each time
	must(t, err)
	s := rpc.New(base, rpc.Options{})
	t.Cleanup(func() { _ = errors.Join(s.Close(context.Background()), l.Close()) })
	return s
}

// runOver runs an archive's model over a link, compares the outputs, and closes the link.
func runOver(t *testing.T, l transport.Link, archive string) {
	t.Helper()
	ctx := testkit.Context(t)
	s := session(t, l)
	_, m := mlftest.Open(t, archive)
	e, err := executor.Open(ctx, s, m)
	must(t, err)
	in, out := mlftest.Arrays(archive)
	must(t, errors.Join(executor.SetInputs(ctx, e, mlftest.Read(t, in)), e.Run(ctx)))
	for i, w := range mlftest.Read(t, out) {
		if got, err := e.Output(ctx, i); err != nil || !bytes.Equal(got.Data, w.Array.Data) {
			t.Errorf("output %d differs: %v", i, err)
		}
	}
	must(t, errors.Join(e.Close(ctx), s.Close(ctx), l.Close()))
}

// TestFolderErrors: what fails in a folder is reported with its cause, and leaves nothing.
func TestFolderErrors(t *testing.T) {
	t.Parallel()
	c := started(t, folderOf(t, "folder"))
	archive := mlftest.Path(t, "add.aot_packed")
	none := t.TempDir() + "/p"
	for want, options := range map[string]map[string]any{
		"mps2_an385":                      {"board": "mps2_an38"},
		`"demo" is not host_driven`:       {"project_type": "demo"},
		"option workspace_size_bytes":     {"workspace_size_bytes": "much"},
		"arena":                           {"workspace_size_bytes": 1 << 40},
		"-include does not begin with -D": {"compile_definitions": "-DX=1 -include x"},
	} {
		wantError(t, c.Generate(archive, "", none, options), "", want)
		if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("options %v: a project was left", options)
		}
	}
	broken := t.TempDir() + "/broken.tar"
	writeFile(t, broken, "no archive")
	wantError(t, c.Generate(broken, "", none, nil), "", "broken.tar")
	wantError(t, c.do("build", nil), "", "generate_project")
	made, p := c.project(t, mlftest.Operator(t, "int x = y;\n"), nil)
	wantError(t, p.do("build", nil), "", "y", "undeclared")
	wantError(t, c.Generate(archive, "", made, nil), "", "exists")
}

// TestReadReturnsAll: a read returns what has arrived, also more than the client has asked for.
func TestReadReturnsAll(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	f := generated(t, mlftest.Path(t, "add.aot_packed"), nil)
	must(t, f.Build(t.Context(), nil))
	_, err := f.Open(t.Context(), nil)
	must(t, err)
	// Terminate and Init (wire.md §4): the firmware answers with 12 and more bytes in one write.
	hello := []byte("\xfe\xff\xfd\x03\x00\x00\x00\x00\x00\x02\x66\x77\xff\xfd\x04\x00\x00\x00\x42\x00\x00\x01\xdf\x5a")
	must(t, f.Write(t.Context(), hello))
	ctx := testkit.Context(t)
	for total := 0; total < 24; {
		data, err := f.Read(ctx, 1)
		must(t, err)
		if total += len(data); len(data) > 1 {
			return
		}
	}
	t.Error("each read returned one byte")
}

// written keeps what each write has sent.
type written struct {
	transport.Link
	parts []string
}

func (w *written) Write(_ context.Context, p []byte) error {
	w.parts = append(w.parts, string(p))
	return nil
}

// TestWritesWholeFrames: a frame is sent at once, but for a nop and an ff before it, whatever its parts are. Bytes
// outside of frames, and frames that are longer than what a folder keeps, are not held back.
func TestWritesWholeFrames(t *testing.T) {
	t.Parallel()
	var framer framing.Framer
	frame := framer.Append(nil, bytes.Repeat([]byte{0xFF, 0xFD, 7}, 50))
	long := framer.Append(nil, make([]byte, longest+3*most))
	for size := range len(frame) + 1 {
		w := new(written)
		f := &folder{link: w}
		send := func(data []byte) {
			for len(data) > 0 {
				n := min(max(size, 1), len(data))
				must(t, f.Write(t.Context(), data[:n]))
				data = data[n:]
			}
		}
		send(frame)
		if parts := w.parts; len(parts) > 3 || strings.Join(parts, "") != string(frame) {
			t.Errorf("in parts of %d bytes: sent as %q", size, parts)
		}
	}
	w := new(written)
	f := &folder{link: w}
	for _, data := range [][]byte{[]byte("noise"), long[:most], long[most : longest-1], long[longest-1:]} {
		must(t, f.Write(t.Context(), data))
	}
	if strings.Join(w.parts, "") != "noise"+string(long) || w.parts[0] != "noise" || len(w.parts[1]) < longest {
		t.Errorf("%d writes", len(w.parts))
	}
}

// TestCompileDefinitions: macros reach the model's C, as a list, as TVM's scripts have them, and as text.
func TestCompileDefinitions(t *testing.T) {
	t.Parallel()
	needTools(t, "host")
	model := mlftest.Operator(t, "#if X != 1 || Y != 2\n#error X, Y\n#endif\n"+mlftest.TinyOperator)
	for _, value := range []string{`["-DX=1", "-DY=2"]`, `"-DX=1 -DY=2"`, `"-DX=1,-DY=2"`} {
		t.Log(value)
		must(t, generated(t, model, values{optDefines: json.RawMessage(value)}).Build(t.Context(), nil))
	}
}

// TestGenerateAtOnce: of servers that are to make one folder, one makes it, and the others leave it alone.
func TestGenerateAtOnce(t *testing.T) {
	t.Parallel()
	archive, dir := mlftest.Path(t, "add.aot_packed"), folderOf(t, "none")
	for range 5 {
		made := t.TempDir() + "/below/p"
		errs := make([]error, 3)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				errs[i] = folderAt(t, dir).Generate(t.Context(), generation{Archive: archive, Dir: made}, nil)
			})
		}
		all.Wait()
		failed := 0
		for _, err := range errs {
			if err != nil && strings.Contains(err.Error(), "exists already") {
				failed++
			}
		}
		if failed != len(errs)-1 || !project.Exists(made) {
			t.Errorf("%v; the project exists: %v", errs, project.Exists(made))
		}
	}
}

// TestVerboseOfOneCall: the log's level is that of the call.
func TestVerboseOfOneCall(t *testing.T) {
	t.Parallel()
	f := folderAt(t, folderOf(t, "none"))
	var said bytes.Buffer
	f.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &said})
	for _, value := range []string{"true", "false", "null"} {
		made := t.TempDir() + "/" + value
		g := generation{Archive: mlftest.Path(t, "add.aot_packed"), Dir: made}
		said.Reset()
		must(t, f.Generate(t.Context(), g, values{optVerbose: json.RawMessage(value)}))
		testkit.Equal(t, value, strings.Contains(said.String(), made), value == "true")
	}
}

// TestModelName: the option chooses a model of an archive, and the error for an archive with several names it.
func TestModelName(t *testing.T) {
	t.Parallel()
	s, err := specOf(values{optModel: json.RawMessage(`"two"`)}, "host")
	must(t, err)
	testkit.Equal(t, "model", s.ModelName, "two")
	one, _ := mlftest.Open(t, mlftest.Path(t, "add.aot_packed"))
	one.Models = append(one.Models, one.Models[0])
	_, err = one.Model("")
	if got := advice(err); err == nil || !strings.Contains(got, "with model_name="+one.Models[0].Name) {
		t.Errorf("%v: %s", err, got)
	}
}

// TestTheirOptions: what TVM's names and ours say about one thing, and what is refused under the name that was used.
func TestTheirOptions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"workspace_size_bytes": 5000, "warning_as_error": true}`: "arena_kib=5",
		`{"workspace_size_bytes": 0, "arena_kib": 7}`:              "arena_kib=7",
		`{"config_main_stack_size": "4096"}`:                       "stack_bytes=4096",
		`{"workspace_size_bytes": -5}`:                             "option workspace_size_bytes: -5 is not a number of bytes",
		`{"config_main_stack_size": -1}`:                           "option config_main_stack_size: -1 is not",
		`{"workspace_size_bytes": 5000, "arena_kib": 7}`:           "options workspace_size_bytes and arena_kib exclude",
	} {
		var v values
		must(t, json.Unmarshal([]byte(text), &v))
		words, err := optionWords(v)
		testkit.WantText(t, fmt.Sprint(text, ": ", strings.Join(words, " "), err), want)
	}
}
