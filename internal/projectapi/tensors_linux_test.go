package projectapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// folderLink is the link of a Folder as TVM's host uses it: calls with parts of a frame.
type folderLink struct {
	f    *folder
	rest []byte
}

func (l *folderLink) Lossy() bool  { return false }
func (l *folderLink) Close() error { return l.f.CloseTransport() }

func (l *folderLink) Read(ctx context.Context, p []byte) (int, error) {
	if len(l.rest) == 0 {
		d, err := l.f.Read(ctx, 1)
		if err != nil {
			return 0, err
		}
		l.rest = bytes.Clone(d)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// framerBytes is the most that TVM's framer writes at once.
const framerBytes = 128

func (l *folderLink) Write(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), framerBytes)
		if err := l.f.Write(ctx, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// TestTensorsBehindProbe copies tensors of up to 64 KiB, or what the arena holds, both ways to boards with an emulated
// probe, whose UARTs take one byte at a time. TestInterop does so with TVM's host.
func TestTensorsBehindProbe(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("flashes boards; run by full tests")
	}
	for _, board := range []string{"microbit", "netduinoplus2"} {
		t.Run(board, func(t *testing.T) { tensorsBehindProbe(t, board) })
	}
}

// probed returns what opens folders whose board is behind an emulated probe, and log.
func probed(t *testing.T, board string, log io.Writer) (open func(dir string) *folder) {
	t.Helper()
	needTools(t, board)
	keepertest.Use(t)
	state := t.TempDir()
	open = func(dir string) *folder {
		f := folderAt(t, dir)
		f.Log = hclog.New(&hclog.LoggerOptions{Output: log, Level: hclog.Warn})
		f.Desk.Probes, f.Desk.StateDir, f.Desk.LeaseDir = emulated.Probes(), state, state+"/leases"
		return f
	}
	t.Cleanup(func() {
		b, err := boards.Find(board, nil)
		must(t, err)
		_, err = open(t.TempDir()).Desk.StopEmulated(context.Background(), b)
		must(t, err)
	})
	return open
}

// flashed makes, builds and flashes a project of an archive.
func flashed(t *testing.T, open func(string) *folder, board, archive string) *folder {
	t.Helper()
	p := open(t.TempDir() + "/p")
	options := values{"board": []byte(`"` + board + `"`)}
	must(t, open(folderOf(t, "none")).Generate(t.Context(), generation{Archive: archive, Dir: p.Dir}, options))
	must(t, p.Build(t.Context(), nil))
	must(t, p.Flash(t.Context(), nil))
	return p
}

func tensorsBehindProbe(t *testing.T, board string) {
	p := flashed(t, probed(t, board, io.Discard), board, mlftest.Path(t, "add.aot_packed"))
	_, err := p.Open(t.Context(), nil)
	must(t, err)
	s := session(t, &folderLink{f: p})
	copied := 0
	for _, size := range []int{1, 63, 1024, 2033, 2048, 4096, 20000, 65536} {
		x, err := s.Empty(t.Context(), ndarray.DType{Code: 1, Bits: 8, Lanes: 1}, []int64{int64(size)})
		if refused := (*rpc.DeviceError)(nil); errors.As(err, &refused) {
			break // the arena is full
		}
		must(t, err)
		data := bytes.Repeat([]byte{1, 2, 3, 255}, size/4+1)[:size]
		got := make([]byte, size)
		must(t, errors.Join(x.Write(t.Context(), data), x.Read(t.Context(), got)))
		if !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as others", size)
		}
		must(t, x.Free(t.Context()))
		copied = size
	}
	if copied < 4096 {
		t.Errorf("no tensor of more than %d bytes", copied)
	}
}
