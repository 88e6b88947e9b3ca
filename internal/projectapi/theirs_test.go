package projectapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// This file tests the client against TVM's own server of its template for this computer, and firmware made of TVM's
// own runtime: with the variable, the server itself; always, a recording.

var update = flag.Bool("update", false, "TestTVMsTemplate writes its recording")

// theirRecording has what our host and TVM's firmware have exchanged in the session of runOver.
const theirRecording = "testdata/tvm_server/add.aot_packed.recording.gz"

// TestTVMsTemplate makes a project of TVM's own template, with TVM's own server and runtime, and runs a model in it.
func TestTVMsTemplate(t *testing.T) {
	tvm := tvmFor(t)
	template := started(t, tvm.built+"/microtvm_template_projects/crt", tvm.env(tvm.built)...)
	archive := mlftest.Path(t, "add.aot_packed")
	made := t.TempDir() + "/p"
	plain := t.TempDir() + "/model.tar"
	writeFile(t, plain, string(unzipped(t, archive)))
	must(t, template.Generate(plain, tvm.built+"/standalone_crt", made, nil))
	p := started(t, made, tvm.env(tvm.built)...)
	if i := p.Info; i.Template || i.Platform != "host" || i.Archive != made+"/model.tar" {
		t.Errorf("%+v", i)
	}
	l, _ := p.flashed(t)
	var recording bytes.Buffer
	l = transport.Record(l, &recording)
	runOver(t, l, archive)
	if *update {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(recording.Bytes())
		must(t, errors.Join(err, z.Close()))
		writeFile(t, theirRecording, b.String())
	}
	wantError(t, p.do("build", nil), "", "Traceback") // TVM's server does not expect the folder that it has made
}

// TestRecordedServer drives what TVM's own server and its firmware have answered.
func TestRecordedServer(t *testing.T) {
	t.Parallel()
	data, err := filepath.Abs("testdata")
	must(t, err)
	c := started(t, folderOf(t, "theirs="+data))
	if i := c.Info; i.Template || i.Platform != "host" || len(i.Options) != 2 || i.Options[1].Default != 2097152.0 {
		t.Errorf("%+v", i)
	}
	l, advice := c.flashed(t)
	testkit.Equal(t, "timeouts", advice, timeouts{})
	runOver(t, l, mlftest.Path(t, "add.aot_packed")) // closing it fails if the session is not the recorded one
}

// theirs is TVM's server of a project as it was recorded: its answers, and the traffic of its firmware.
type theirs struct {
	echo
	answers map[string]json.RawMessage // results by method
	link    transport.Link
	traffic []byte
}

// newTheirs reads both from the folder testdata.
func newTheirs(testdata string) (*theirs, error) {
	s := &theirs{answers: map[string]json.RawMessage{}}
	session, err := readSession(testdata + "/tvm_sessions/aot_executor.jsonl.gz")
	if err != nil {
		return nil, err
	}
	method := ""
	for _, r := range session {
		switch {
		case r.Server != "project":
		case r.To != nil:
			method = r.To.Method
		default:
			s.answers[method] = r.From.Result
		}
	}
	s.traffic, err = inflated(filepath.Dir(testdata) + "/" + theirRecording)
	return s, err
}

// Info returns the recorded answer.
func (s *theirs) Info(string) (i info, err error) {
	err = json.Unmarshal(s.answers["server_info_query"], &i)
	return i, err
}

// Open replays the traffic.
func (s *theirs) Open(context.Context, values) (timeouts, error) {
	var answer struct{ Timeouts timeouts }
	err := json.Unmarshal(s.answers["open_transport"], &answer)
	if err == nil {
		s.link, err = transporttest.OpenReplay(bytes.NewReader(s.traffic))
	}
	return answer.Timeouts, err
}

// CloseTransport fails if the client has not sent all that was recorded.
func (s *theirs) CloseTransport() error { return s.link.(*transporttest.Replay).Done() }

func (s *theirs) Read(ctx context.Context, n int) ([]byte, error) {
	data := make([]byte, n)
	n, err := s.link.Read(ctx, data)
	return data[:n], ofLink(err)
}

func (s *theirs) Write(ctx context.Context, data []byte) error {
	return ofLink(s.link.Write(ctx, data))
}
