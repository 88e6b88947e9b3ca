// This file limits how long a server may take, and how much it may send.

package gitfolder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A watch ends a fetch whose server sends nothing for too long, or too much.
type watch struct {
	ctx   context.Context
	end   context.CancelFunc
	timer *time.Timer
	idle  time.Duration
	left  int64 // bytes that the server may still send
}

var (
	errSilent  = errors.New("the server sent nothing")
	errSlow    = errors.New("the fetch took too long")
	errTooMuch = errors.New("the repository is too large")
)

func (s *Store) watch(ctx context.Context) *watch {
	limit := orDefault(s.Timeout, defaultTimeout)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: over %v", errSlow, limit))
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{ctx: ctx, idle: orDefault(s.Idle, defaultIdle), left: s.maxBytes()}
	w.timer = time.AfterFunc(w.idle, func() { cancel(fmt.Errorf("%w for %v", errSilent, w.idle)) })
	w.end = func() {
		w.timer.Stop()
		cancel(nil)
		stop()
	}
	return w
}

// pause lets the server send nothing, while this computer works on what it has sent. The fetch's own limit stays.
func (w *watch) pause() { w.timer.Stop() }

// resume begins to wait for the server.
func (w *watch) resume() { w.timer.Reset(w.idle) }

// explain returns the reason why the watch has ended, which errors of the transport only repeat; else err.
func (w *watch) explain(err error) error {
	if err != nil && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// reader passes on what arrives, up to most bytes. It reads from the server itself: a decoder would not pass on the
// empty packets that say that the server still works.
func (w *watch) reader(r io.Reader, most int64) io.Reader { return &watched{w, r, most} }

type watched struct {
	watch *watch
	from  io.Reader
	left  int64
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if n > 0 {
		r.watch.resume()
		r.left -= int64(n)
	}
	if r.left < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// Limits for what the server sends besides the pack, which go-git holds in memory.
const (
	maxRefs  = 64 << 20
	maxError = 64 << 10
)

// RoundTrip limits the answers of an HTTP server. It is of the client that a watch gives to go-git.
func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	w.resume()
	most := int64(maxRefs)
	switch {
	case res.StatusCode != http.StatusOK:
		most = maxError
	case req.Method == http.MethodPost:
		most = w.left
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{w.reader(res.Body, most), res.Body}
	return res, nil
}

func orDefault(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return d
}

// classed gives an error of a fetch its class and the next step.
func classed(ctx context.Context, url string, err error) error {
	var advised interface{ NextStep() string }
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "fetch %s", url)
	case errors.As(err, &advised):
		return err
	case errors.Is(err, exec.ErrNotFound):
		return failure.New(failure.ToolMissing, "apt-get install git", "fetch %s: repositories of this computer need git: %w",
			url, err)
	case errors.Is(err, errSilent), errors.Is(err, errSlow):
		return failure.New(failure.Timeout, "check the network, then try again", "fetch %s: %w", url, err)
	}
	return failure.New(failure.Config, "check the URL and the network: git ls-remote "+url, "fetch %s: %w", url, err)
}
