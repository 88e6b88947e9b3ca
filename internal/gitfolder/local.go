// This file fetches from a repository on this computer, by git's own program, of which no process outlives the fetch.

package gitfolder

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/boardsmith/boardsmith/internal/command"
)

// grace is how long a git that is told to stop may still run.
const grace = time.Second

// A session asks one repository. It is what go-git's sessions have and a remote needs.
type session interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// A local is a session with a running git upload-pack. Its methods end with the context that it was opened with.
type local struct {
	to    *os.File
	from  *io.PipeReader
	stop  context.CancelFunc
	ended chan struct{}
}

func openLocal(ctx context.Context, at *transport.Endpoint) (*local, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	stdin, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, stdout := io.Pipe()
	ctx, stop := context.WithCancel(ctx)
	l := &local{to, from, stop, make(chan struct{})}
	dir := at.Path
	if runtime.GOOS == "windows" {
		dir = strings.TrimPrefix(dir, "/") // of /C:/kiln.git
	}
	go func() {
		defer close(l.ended)
		defer stdin.Close()
		stdout.CloseWithError(command.Command{
			Path: git, Args: []string{"upload-pack", dir}, Env: os.Environ(), Stdin: stdin, Stdout: stdout, Grace: grace,
		}.Run(ctx))
	}()
	return l, nil
}

// AdvertisedReferencesContext reads what git sends first.
func (l *local) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(l.from)
	if errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && refs.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	if err != nil {
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// UploadPack asks for a pack and returns the answer, which is read from git.
func (l *local) UploadPack(_ context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	err := req.UploadRequest.Encode(l.to)
	if err == nil {
		err = req.UploadHaves.Encode(l.to, false)
	}
	if err == nil {
		err = pktline.NewEncoder(l.to).Encodef("done\n")
	}
	if err = errors.Join(err, l.to.Close()); err != nil {
		return nil, err
	}
	answer := packp.NewUploadPackResponse(req)
	return answer, answer.Decode(l.from)
}

// Close ends git with all its processes.
func (l *local) Close() error {
	l.stop()
	_ = l.to.Close() // it may be closed
	_ = l.from.Close()
	<-l.ended
	return nil
}
