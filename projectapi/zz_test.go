package projectapi

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/emulated"
	"github.com/boardsmith/boardsmith/internal/mlftest"
	"github.com/boardsmith/boardsmith/internal/virtualprobe/keepertest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// folderLink is the link of a Folder, as TVM's host uses it: each read and write is a call.
type folderLink struct {
	f    *Folder
	n, w int
	rest []byte
}

func (l *folderLink) Lossy() bool  { return false }
func (l *folderLink) Close() error { return l.f.CloseTransport() }
func (l *folderLink) Read(ctx context.Context, p []byte) (int, error) {
	if len(l.rest) == 0 {
		l.n++
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

func (l *folderLink) Write(ctx context.Context, p []byte) error {
	for len(p) > 0 { // as TVM's framer
		n := min(len(p), 128)
		l.w++
		if err := l.f.Write(ctx, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func TestZZ(t *testing.T) {
	board := os.Getenv("ZZ")
	keepertest.Use(t)
	state, dir := t.TempDir(), folderOf(t, "none")
	folder := func(path string) *Folder {
		f := methodsOf("folder", path).(*Folder)
		f.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn})
		f.Desk.Probes, f.Desk.StateDir, f.Desk.LeaseDir = emulated.Probes(), state, filepath.Join(state, "leases")
		return f
	}
	t.Cleanup(func() {
		f := folder(dir)
		b, err := boards.Find(board, nil)
		if err == nil {
			_, err = f.Desk.StopEmulated(context.Background(), b)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
	})
	made := filepath.Join(t.TempDir(), "p")
	template, p := folder(dir), folder(made)
	began := time.Now()
	step := func(what string) { t.Logf("%8.2fs %s", time.Since(began).Seconds(), what) }
	err := template.Generate(t.Context(), Generation{Archive: mlftest.Path(t, "add.aot_packed"), Dir: made},
		Values{"board": []byte(`"` + board + `"`)})
	step("generated")
	if err == nil {
		err = errors.Join(p.Build(t.Context(), nil))
		step("built")
	}
	if err == nil {
		err = errors.Join(p.Flash(t.Context(), nil))
		step("flashed")
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Open(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	step("opened")
	l := &folderLink{f: p}
	base, err := transport.Dial(t.Context(), l, transport.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.New(base, rpc.Options{})
	step("session")
	for _, size := range []int{1, 63, 1024, 2048, 4096, 8192, 20000, 65536} {
		x, err := s.Empty(t.Context(), ndarray.DType{Code: 1, Bits: 8, Lanes: 1}, []int64{int64(size)})
		if err != nil {
			t.Log(size, err)
			break
		}
		data := bytes.Repeat([]byte{1, 2, 3, 255}, size/4+1)[:size]
		l.n, l.w = 0, 0
		was := time.Now()
		if err := x.Write(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		wrote := time.Since(was)
		w := l.w
		was = time.Now()
		got := make([]byte, size)
		if err := x.Read(t.Context(), got); err != nil || !bytes.Equal(got, data) {
			t.Fatal(err)
		}
		t.Logf("%d bytes: written in %v (%d calls), read in %v (%d calls)", size, wrote, w, time.Since(was), l.n)
		if err := x.Free(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(s.Close(t.Context()), p.Close())
}
