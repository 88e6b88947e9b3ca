package transport_test

import (
	"bytes"
	"context"
	"errors"
	"path"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

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

func TestReplayReportsDifference(t *testing.T) {
	var recording bytes.Buffer
	r := transport.Record(answered(), &recording)
	must(t, errors.Join(talk(testkit.Context(t), r, 4), r.Close()))
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
			r, err := transporttest.OpenReplay(bytes.NewReader(recording.Bytes()))
			must(t, err)
			old := quick
			quick.Seed = c.seed
			err = talk(testkit.Context(t), r, c.messages)
			quick = old
			if err == nil {
				err = r.Done()
			}
			wantError(t, err, "", "replay: after", c.want)
			if r.Done() == nil {
				t.Error("the replay is complete")
			}
		})
	}
}

// A recorder returns an error if its disk is full.
func TestRecordingNotWritten(t *testing.T) {
	host, _ := transporttest.Pair()
	full := errors.New("no space left")
	r := transport.Record(host, failingWriter{full})
	must(t, r.Write(context.Background(), []byte{1}))
	wantIs(t, r.Close(), full)
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
