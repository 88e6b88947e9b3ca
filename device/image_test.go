package device_test

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// rebuilt builds a project, and builds it again with another option into the same folder.
func rebuilt(t *testing.T, s project.Spec, e env) (first, second *image.Image) {
	t.Helper()
	p := generated(t, s, e)
	first = built(t, p)
	s.Options.OperatorOpt = "O0"
	must(t, p.Generate(t.Context(), s))
	second = built(t, p)
	if first.Path != second.Path || first.Digest == second.Digest {
		t.Fatalf("%v and %v in %s", first, second, second.Path)
	}
	return first, second
}

// TestHoldsByAnswerOrLedger: the held image is found by the board's answer, or else by the ledger.
func TestHoldsByAnswerOrLedger(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	first, _ := rebuilt(t, project.Spec{Board: "microbit", Model: mlftest.Tiny(t, nil)}, d.env)
	dev := d.attach()
	ctx := t.Context()
	wantError(t, last(dev.CurrentImage(ctx)), failure.Verify)
	must(t, last(dev.Flash(ctx, first)))
	for range 2 {
		i, err := dev.CurrentImage(ctx)
		must(t, err)
		wantEqual(t, i.BuildID, first.BuildID) // other tests may have built the same, in another file
		*dev.Port() = "/nowhere"               // no firmware answers
	}
}

// A muteLink can drop everything that the device sends.
type muteLink struct {
	transport.Link
	mute atomic.Bool
}

func (m *muteLink) Read(ctx context.Context, p []byte) (int, error) {
	if m.mute.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return m.Link.Read(ctx, p)
}

// TestFlashLogsEarlierFault: a fault that was not reported yet is resolved with the build that caused it, before
// another build is flashed.
func TestFlashLogsEarlierFault(t *testing.T) {
	d := newDesk(t, "microbit", "openocd")
	var log bytes.Buffer
	d.env.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
	broken := strings.Replace(mlftest.TinyOperator, "return 0;", "return *(volatile int*)0x18000000U;", 1)
	first, second := rebuilt(t, project.Spec{Board: "microbit", Model: mlftest.Operator(t, broken)}, d.env)
	dev := d.attach()
	must(t, last(dev.Flash(t.Context(), first)))
	link, err := dev.OpenPort(t.Context())
	must(t, err)
	muted := &muteLink{Link: link}
	s, err := transport.Dial(t.Context(), muted, transport.SessionOptions{})
	must(t, err)
	session := rpc.New(s, rpc.Options{})
	twice, x := rpctest.Twice(t, session)
	lib, err := session.Function(t.Context(), "runtime.SystemLib")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	must(t, last(lib.Call(ctx))) // the device has this deadline's budget then, and the next call is sent at once
	muted.mute.Store(true)
	time.AfterFunc(2*time.Second, cancel)
	wantError(t, last(twice.Call(ctx, x, x)), "")
	must(t, link.Close())
	log.Reset()
	must(t, last(dev.Flash(t.Context(), second)))
	if !strings.Contains(log.String(), "fault in operator twice") {
		t.Errorf("logged %s", log.String())
	}
}
