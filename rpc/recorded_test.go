//go:build unix

package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

var update = flag.Bool("update", false, "record testdata/session.jsonl again, with real firmware")

const recording = "testdata/session.jsonl"

// wholeSession uses every function of a session once, on the firmware of testdata/model.
func wholeSession(ctx context.Context, link transport.Link) error {
	s, err := transport.Dial(ctx, link, transport.SessionOptions{Seed: 7})
	if err != nil {
		return err
	}
	r := rpc.New(s, rpc.Options{})
	// A deadline's budget would not be the same each time.
	if err := r.SetBudget(ctx, 5*time.Second); err != nil {
		return err
	}
	lib, err := r.SystemLib(ctx)
	if err != nil {
		return err
	}
	negate, err := lib.Function(ctx, "negate")
	if err != nil {
		return err
	}
	if _, err := lib.Function(ctx, "absent"); !errors.Is(err, rpc.ErrNotFound) {
		return errors.Join(errors.New("function absent was found"), err)
	}
	in, err := r.NewArray(ctx, &ndarray.Array{DType: i8, Shape: []int64{2, 2}, Data: []byte{1, 0xff, 0xfd, 4}})
	if err != nil {
		return err
	}
	out, err := r.Empty(ctx, i8, []int64{2, 2})
	if err != nil {
		return err
	}
	if _, err := negate.Call(ctx, in, out); err != nil {
		return err
	}
	got, err := out.Array(ctx)
	if err != nil {
		return err
	}
	if want := []byte{0xff, 1, 3, 0xfc}; !bytes.Equal(got.Data, want) {
		return errors.New("wrong answer")
	}
	if err := out.CopyTo(ctx, in); err != nil {
		return err
	}
	if _, err := lib.Time(ctx, "count", rpc.TimeOptions{Number: 2, Repeat: 2}); err != nil {
		return err
	}
	return errors.Join(ping(ctx, r), r.Close(ctx))
}

// The host still sends, byte for byte, what it sent to real firmware when the session was recorded.
func TestRequestsMatchRecording(t *testing.T) {
	ctx := testkit.Context(t)
	if *update {
		var b bytes.Buffer
		must(t, wholeSession(ctx, transport.Record(firmware(t), &b)))
		writeFile(t, recording, b.String())
	}
	f, err := os.Open(recording)
	must(t, err)
	defer f.Close()
	r, err := transporttest.OpenReplay(f)
	must(t, err)
	if err := errors.Join(wholeSession(ctx, r), r.Done()); err != nil {
		t.Error(err)
	}
}
