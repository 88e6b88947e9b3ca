package rpc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// If the device has too little memory, the advice is to give it more; if a request was damaged, to check the link.
func TestDeviceErrorAdvice(t *testing.T) {
	for message, want := range map[string]failure.Class{
		"out of memory": failure.DoesNotFit, "out of workspace memory": failure.DoesNotFit,
		"boardsmith: damaged request": failure.Transport, "boom": failure.Fault, "": failure.Fault,
		"takes 2 tensors, not 1: add": failure.Config, "error 0x800": failure.Config, "error 0x803": failure.Config,
		"takes 2 tensors, but argument 1 has type code 0: add": failure.Config, "takes too long": failure.Fault,
	} {
		e := &rpc.DeviceError{Message: message}
		advice := map[failure.Class]string{
			failure.DoesNotFit: "arena_kib", failure.Transport: "link", failure.Config: "arguments",
		}[want]
		got, next := failure.Of(e), failure.Next(e)
		if got != want || !strings.Contains(next, advice) || (advice == "") != (next == "") {
			t.Errorf("%q: class %s, next %q", message, got, next)
		}
	}
}

// TestLeakAdvice: workspace memory is too small for a function's first call, but a function leaks if only a later call
// finds no memory, also while it is timed.
func TestLeakAdvice(t *testing.T) {
	left := 0
	leak := func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		if left--; left < 0 {
			return nil, errors.New("out of workspace memory")
		}
		return rpctest.Nothing(), nil
	}
	s := open(t, &rpctest.Device{Module: map[string]rpctest.Func{"leak": leak}})
	m, f := library(t, s), operator(t, s, "leak")
	ctx := t.Context()
	call := func() error { _, err := f.Call(ctx); return err }
	measure := func() error { _, err := m.Time(ctx, "leak", rpc.TimeOptions{}); return err }
	allocate := func() error { _, err := s.Alloc(ctx, 16, 16); return err }
	const free = "TVMBackendFreeWorkspace"
	for n, c := range []struct {
		left       int
		call       func() error
		class      failure.Class
		text, next string
	}{
		{0, call, failure.DoesNotFit, "out of workspace", "arena_kib"},
		{1, call, "", "", ""},
		{0, call, failure.Fault, "does not free", free},
		{0, measure, failure.Fault, "does not free", free},
		{0, allocate, "", "", ""},
		{0, call, failure.DoesNotFit, "out of workspace", "arena_kib"}, // there is less memory now
	} {
		left = c.left
		err := c.call()
		if failure.Of(err) != c.class || c.text != "" && !strings.Contains(err.Error(), c.text) ||
			!strings.Contains(failure.Next(err), c.next) {
			t.Errorf("call %d: %v of class %s, next %q", n, err, failure.Of(err), failure.Next(err))
		}
	}
}

// A call that is too long is rejected before any of it is sent; the longest call works.
func TestTooLongCallIsNotSent(t *testing.T) {
	for name, d := range map[string]*rpctest.Device{
		"packets": {Packet: 1024}, "streams": {Packet: 1024, Streams: true}, "long packets": {Packet: 6000, Streams: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testkit.Context(t)
			d.Globals = device().Globals
			s := open(t, d)
			f := global(t, s, "echo")
			fits := d.Packet - 3 - 8 - 4 - 8 - 4 - 4 - 8
			must(t, last(f.Call(ctx, random(fits))))
			wantError(t, last(f.Call(ctx, random(fits+1))), failure.DoesNotFit,
				fmt.Sprintf(": %d bytes instead of %d", d.Packet+1, d.Packet))
			wantEqual(t, d.Longest, d.Packet, "longest message")
		})
	}
}

// A tensor whose description alone is too long for a packet cannot be copied.
func TestTooLongShapeCannotBeCopied(t *testing.T) {
	ctx := testkit.Context(t)
	d := &rpctest.Device{Packet: 1024}
	s := open(t, d)
	tensor := value(s.Empty(ctx, i8, slices.Repeat([]int64{1}, 200)))(t)
	wantError(t, tensor.Write(ctx, []byte{1}), failure.DoesNotFit)
	if d.Longest > 2*1024 {
		t.Errorf("a message of %d bytes was sent", d.Longest)
	}
}
