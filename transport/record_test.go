package transport_test

import (
	"bytes"
	"context"
	"errors"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

func TestLoopbackContract(t *testing.T) {
	transporttest.Run(t, openLoopback)
}

// A host that sends everything but does not read the last answer has not done all that was recorded.
func TestReplayNotRead(t *testing.T) {
	host, device := transporttest.Pair()
	go transporttest.Echo(device)
	var b bytes.Buffer
	l := transport.Record(host, &b)
	ctx := testkit.Context(t)
	must(t, l.Write(ctx, []byte{1}))
	if _, err := l.Read(ctx, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	must(t, l.Close())
	r, err := transporttest.OpenReplay(&b)
	must(t, err)
	must(t, r.Write(ctx, []byte{1}))
	if err := r.Done(); err == nil || !strings.Contains(err.Error(), "1 more reads were recorded") {
		t.Errorf("one answer is not read: %v", err)
	}
	if _, err := r.Read(ctx, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

// After the last recorded read, a host that has more to send waits, and a host that has sent everything gets an error.
func TestReplayReadsOn(t *testing.T) {
	r, err := transporttest.OpenReplay(strings.NewReader(
		`{"boardsmith_recording":1}` + "\n" + `{"to":"device","hex":"0102"}` + "\n" + `{"to":"host","hex":"03"}`))
	must(t, err)
	ctx := testkit.Context(t)
	must(t, r.Write(ctx, []byte{1, 2}))
	p := make([]byte, 1)
	if n, err := r.Read(ctx, p); n != 1 || err != nil {
		t.Fatalf("recorded read: %d, %v", n, err)
	}
	if n, err := r.Read(ctx, p); n != 0 || err == nil || !strings.Contains(err.Error(), "after 2 bytes from the host") {
		t.Errorf("read after the last one: %d, %v", n, err)
	}
	r, err = transporttest.OpenReplay(strings.NewReader(
		`{"boardsmith_recording":1}` + "\n" + `{"to":"device","hex":"01"}`))
	must(t, err)
	if n, err := r.Read(within(t, 10*time.Millisecond), p); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read before the host has sent everything: %d, %v", n, err)
	}
}

func openLoopback(*testing.T) transport.Link {
	host, device := transporttest.Pair()
	go transporttest.Echo(device)
	return host
}

// The contract suite is recorded once, and holds again for the replay of what was recorded.
func TestRecordAndReplayContract(t *testing.T) {
	recordings := map[string]*bytes.Buffer{}
	t.Run("record", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transport.Link {
			var b bytes.Buffer
			recordings[path.Base(t.Name())] = &b
			return transport.Record(openLoopback(t), &b)
		})
	})
	t.Run("replay", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transport.Link {
			r, err := transporttest.OpenReplay(recordings[path.Base(t.Name())])
			must(t, err)
			return r
		})
	})
}

func record(t *testing.T) string {
	t.Helper()
	host, device := transporttest.Pair()
	go transporttest.Answer(device)
	var b bytes.Buffer
	r := transport.Record(host, &b)
	must(t, talk(testkit.Context(t), r, 4))
	must(t, r.Close())
	return b.String()
}

func TestReplay(t *testing.T) {
	recording := record(t)
	r, err := transporttest.OpenReplay(strings.NewReader(recording))
	must(t, err)
	if err := talk(testkit.Context(t), r, 4); err != nil {
		t.Error(err)
	}
	if n, err := r.Read(testkit.Context(t), nil); n != 0 || err != nil {
		t.Errorf("read of nothing: %d, %v", n, err)
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestReplayReportsDifference(t *testing.T) {
	recording := record(t)
	for name, c := range map[string]struct {
		messages int
		seed     byte
		want     string
	}{
		"another nonce": {4, 0x23, "after 18 bytes from the host: the host sends other bytes: recorded 4"},
		"fewer":         {3, 0x22, ""},
		"more":          {5, 0x22, "the host sends more"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := transporttest.OpenReplay(strings.NewReader(recording))
			must(t, err)
			old := quick
			quick.Seed = c.seed
			err = talk(testkit.Context(t), r, c.messages)
			quick = old
			if err == nil {
				err = r.Done()
			}
			if err == nil || !strings.Contains(err.Error(), "replay: after") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if r.Done() == nil {
				t.Error("the replay is complete")
			}
		})
	}
}

func TestBadRecordings(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"boardsmith_recording":2}`, "not json",
		"{\"boardsmith_recording\":1}\n{\"to\":\"host\",\"hex\":\"0\"}",
		"{\"boardsmith_recording\":1}\n{\"to\":\"moon\",\"hex\":\"00\"}",
		"{\"boardsmith_recording\":1}\n{\"to\":\"host\"}",
		"{\"boardsmith_recording\":1}\n{\"to\":\"host\",\"end\":\"tired\"}",
	} {
		if _, err := transporttest.OpenReplay(strings.NewReader(text)); failure.Of(err) != failure.Config {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// A recorder returns an error if its disk is full.
func TestRecordingNotWritten(t *testing.T) {
	host, _ := transporttest.Pair()
	full := errors.New("no space left")
	r := transport.Record(host, failingWriter{full})
	must(t, r.Write(context.Background(), []byte{1}))
	if err := r.Close(); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
