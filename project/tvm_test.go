//go:build unix

// This file has the Python of an unmodified TVM talk to firmware of ours. A test here is a script of testdata/tvm.

package project

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/framing"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/transport"
)

// tvmVariable names the environment variable with the path of Python. TVM is not a tool of boardsmith: without the
// variable, these tests are skipped.
const tvmVariable = "BOARDSMITH_TVM_PYTHON"

// TestTVMSession has a tvm.micro.Session use firmware whose packet buffer is longer than the 2048 bytes that TVM's own
// host receives at once: tensors of up to 64 KiB both ways, functions, times.
func TestTVMSession(t *testing.T) {
	t.Parallel()
	python := tvmPython(t)
	for _, board := range []string{"host", "mps2_an385"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			spec := Spec{Board: board, Model: mlftest.Path(t, "add.graph"), Options: boards.Options{PacketBytes: 4096}}
			converse(t, python, linkTo(t, spec), "session.py", "tvmgen_add_fused_add")
		})
	}
}

// TestTVMDamage damages long requests of a tvm.micro.Session on their way. Each request has one reply, and TVM raises
// an error for each damaged one.
func TestTVMDamage(t *testing.T) {
	t.Parallel()
	python := tvmPython(t)
	for _, board := range []string{"host", "mps2_an385"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			link := &damagingLink{Link: linkTo(t, Spec{Board: board, Model: mlftest.Path(t, "add.graph")})}
			converse(t, python, link, "damaged.py", "tvmgen_add_fused_add")
			if link.damaged == 0 || link.requests != link.replies {
				t.Errorf("%d requests, %d of them damaged, have %d replies", link.requests, link.damaged, link.replies)
			}
		})
	}
}

// A damagingLink changes a bit in the last bytes of every seventh request of more than 60 bytes. It counts requests and
// replies.
type damagingLink struct {
	transport.Link
	sent, received             framing.Unframer
	raw, long                  int // bytes of the current frame; long requests so far
	requests, damaged, replies int
}

// requestType is the type of a session message that is a request or its reply (wire.md, 2.1).
const requestType = 0x10

func isRequest(u *framing.Unframer) bool {
	p := u.Payload()
	return len(p) > 2 && p[2] == requestType
}

func (l *damagingLink) Write(ctx context.Context, p []byte) error {
	p = bytes.Clone(p)
	for i := range p {
		if l.raw++; l.raw == 60 {
			if l.long++; l.long%7 == 0 && p[i]|1 != 0xff {
				p[i] ^= 1
				l.damaged++
			}
		}
		_, event := l.sent.Next(p[i : i+1])
		if (event == framing.Frame || event == framing.BadCRC) && isRequest(&l.sent) {
			l.requests++
		}
		if l.sent.Idle() {
			l.raw = 0
		}
	}
	return l.Link.Write(ctx, p)
}

func (l *damagingLink) Read(ctx context.Context, p []byte) (int, error) {
	n, err := l.Link.Read(ctx, p)
	for rest := p[:n]; len(rest) > 0; {
		used, event := l.received.Next(rest)
		rest = rest[used:]
		if event == framing.Frame && isRequest(&l.received) {
			l.replies++
		}
	}
	return n, err
}

// tvmPython returns the Python that has TVM, or skips.
func tvmPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv(tvmVariable)
	if python == "" {
		t.Skip(tvmVariable + " names no Python that has TVM with its micro part")
	}
	output(t, exec.CommandContext(t.Context(), python, "-c", "import tvm.micro; tvm.micro.Session"))
	return python
}

// linkTo builds firmware, starts it and returns the bare link to it.
func linkTo(t *testing.T, s Spec) transport.Link {
	t.Helper()
	b := findBoard(t, s.Board)
	needBoard(t, b)
	i := built(t, generated(t, s))
	d, err := newDesk().Attach(t.Context(), b, "")
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	link, err := d.Link(t.Context(), i)
	must(t, err)
	t.Cleanup(func() { _ = link.Close() })
	return link
}

// converse runs a script of testdata/tvm with the link as its standard input and output, and fails if the script does.
func converse(t *testing.T, python string, link transport.Link, script string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-B", filepath.Join("testdata", "tvm", script)}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.Stdout = linkEnd{ctx, link}
	in, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(in, linkEnd{ctx, link}) // until the device ends, which the script then sees, or the script
		_ = in.Close()
	}()
	err = cmd.Wait()
	cancel()
	<-done
	if err != nil {
		t.Errorf("%s: %v\n%s", script, err, said.Bytes())
	}
}

// A linkEnd is a link as a stream, for as long as its context allows.
type linkEnd struct {
	ctx  context.Context
	link transport.Link
}

func (l linkEnd) Read(p []byte) (int, error) { return l.link.Read(l.ctx, p) }

func (l linkEnd) Write(p []byte) (int, error) {
	if err := l.link.Write(l.ctx, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// TestPipesAreRefused passes pipes without a writer instead of files: no call blocks.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	must(t, os.Remove(p.at("src/main.c")))
	must(t, syscall.Mkfifo(p.at("src/main.c"), 0o644))
	pipe := filepath.Join(t.TempDir(), "project.json")
	must(t, syscall.Mkfifo(pipe, 0o644))

	inTime := func(what string, do func()) {
		ended := make(chan struct{})
		go func() { defer close(ended); do() }()
		select {
		case <-ended:
		case <-testkit.Context(t).Done():
			t.Errorf("%s: it waits for the pipe", what)
		}
	}
	for what, do := range map[string]func() error{
		"a model":      func() error { return last(generate(t, Spec{Model: pipe})) },
		"desk.json":    func() error { return last(device.ReadDeskFile(pipe)) },
		"project.json": func() error { return last(newBuilder().Open(filepath.Dir(pipe))) },
	} {
		inTime(what, func() { wantError(t, do(), failure.Config, "it is not a file") })
	}
	inTime("a source", func() {
		if edited, err := p.Edited(); err != nil || !slices.Equal(edited, []string{"src/main.c"}) {
			t.Errorf("edited: %v, %v", edited, err)
		}
	})
}
