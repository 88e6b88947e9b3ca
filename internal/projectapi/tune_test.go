package projectapi

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
	"github.com/boardsmith/boardsmith/tune"
)

// A serverPlace is a place of a tuning run behind the server of the firmware's project.
type serverPlace struct {
	options ClientOptions
	client  *Client // nil: not started
}

// Prepare flashes by the server. It writes the whole image, as far as this side is told.
func (p *serverPlace) Prepare(ctx context.Context, i *image.Image) (tune.Tier, string, error) {
	if p.client == nil {
		dir := filepath.Dir(i.Path)
		for !project.Exists(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
		var err error
		if p.client, err = Start(ctx, dir, p.options); err != nil {
			return "", "", err
		}
	}
	return tune.Image, "its server flashes whole images", errors.Join(p.client.Build(ctx, nil), p.client.Flash(ctx, nil))
}

func (p *serverPlace) Open(ctx context.Context, _ *image.Image) (*rpc.Session, error) {
	l, _, err := p.client.Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	s, err := transport.Dial(ctx, l, transport.SessionOptions{})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return rpc.New(s, rpc.Options{}), nil
}

func (p *serverPlace) Confirm(context.Context, *rpc.Session, *image.Image) error { return nil }

func (p *serverPlace) Reset(context.Context, int) error { return p.Close() }

func (p *serverPlace) Close() (err error) {
	if p.client != nil {
		err = p.client.Close()
		p.client = nil
	}
	return err
}

// TestTuneBehindServer measures candidates over the transport of a project's server: those that are right and fast, and
// one that is wrong.
func TestTuneBehindServer(t *testing.T) {
	t.Parallel()
	_ = folderOf(t, "none") // skips on Windows
	needTools(t, "host")
	server := executable(t)
	o := ClientOptions{Env: []string{"BOARDSMITH_API_SERVER=" + server, "BOARDSMITH_HOME=" + t.TempDir()}}
	store := cache.New(testcache.Dir(), cache.Options{})
	run, err := tune.OpenRun(t.Context(), t.TempDir(), &device.Desk{}, []string{"host"}, tune.Options{
		Builder: &project.Builder{Host: device.Host{Cache: store}}, MinSample: time.Microsecond,
		Place: func(string, tune.Place) tune.Place { return &serverPlace{options: o} },
	})
	must(t, err)
	defer run.Close()
	const source = `#include <tvm/runtime/c_runtime_api.h>
int twice(TVMValue* args, int* codes, int count, TVMValue* result, int* result_code, void* resource) {
  const signed char* in = (const signed char*)((DLTensor*)args[0].v_handle)->data;
  signed char* out = (signed char*)((DLTensor*)args[1].v_handle)->data;
  for (int i = 0; i < N; i++) {
    out[i] = 2 * in[i];
  }
  return 0;
}`
	bytes := ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	for flag, right := range map[string]bool{"-DN=4": true, "-DN=3": false} {
		r, err := run.Measure(t.Context(), tune.Candidate{
			ID: flag, Entry: "twice",
			Operators: project.Operators{
				Files: []mlf.File{{Name: "twice.c", Data: []byte(source)}}, Flags: []string{flag},
			},
			Args: []tune.Arg{
				{DType: bytes, Shape: []int64{4}, Data: []byte{1, 2, 3, 4}},
				{DType: bytes, Shape: []int64{4}, Want: []byte{2, 4, 6, 8}},
			},
		})
		must(t, err)
		if right && (r.Failure != nil || r.Time == nil || r.Tier != tune.RAM) {
			t.Errorf("%s: %+v", flag, r)
		}
		if !right && (r.Failure == nil || !strings.Contains(r.Failure.Message, "differ")) {
			t.Errorf("%s: %+v", flag, r)
		}
	}
}
