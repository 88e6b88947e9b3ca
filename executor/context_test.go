package executor_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	a := graphArchive(t, false, 2)
	ctx, s := open(t, a)
	m := a.Models[0]
	opened, err := executor.Open(ctx, s, m)
	testkit.Must(t, err)
	g := opened.(*executor.Graph)
	x := &ndarray.Array{DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{2, 2}, Data: []byte{1, 2, 3, 4}}
	testkit.Must(t, g.SetInput(ctx, "x", x))
	if err := g.Run(ctx); err != nil {
		t.Fatal(err)
	}
	var e executor.Executor = g
	setInput := func(ctx context.Context) error { return e.SetInput(ctx, "x", x) }
	output := func(ctx context.Context) error {
		if err := e.Run(context.Background()); err != nil { // a run that did not start leaves no output
			return err
		}
		_, err := e.Output(ctx, 0)
		return err
	}
	timed := func(ctx context.Context) error { _, err := e.Time(ctx, rpc.TimeOptions{}); return err }
	calls := failuretest.Calls{
		"Open":       func(ctx context.Context) error { _, err := executor.Open(ctx, s, m); return err },
		"OpenLoaded": func(ctx context.Context) error { _, err := executor.OpenLoaded(ctx, s, rpc.Module{}, m); return err },
		"OpenStandalone": func(ctx context.Context) error {
			host, _ := transporttest.Pair()
			_, err := executor.OpenStandalone(ctx, standalone.New(host, standalone.Options{}), m)
			return err
		},
		"Graph.Debug": func(ctx context.Context) error { _, err := g.Debug(ctx, rpc.TimeOptions{}); return err },
	}
	calls["SetInputs"] = func(ctx context.Context) error {
		return executor.SetInputs(ctx, e, []ndarray.Named{{Name: "x", Array: x}})
	}
	both := failuretest.Calls{"SetInput": setInput, "Output": output, "Time": timed, "Close": e.Close}
	for name, call := range both {
		calls["Executor."+name], calls["Graph."+name] = call, call
	}
	calls["Executor.Run"], calls["Graph.Run"] = e.Run, g.Run
	failuretest.Ended(t, calls)
	failuretest.EndedCalls(t, failuretest.Calls{
		"RunTimed": func(ctx context.Context) error { _, err := meter(t).RunTimed(ctx); return err },
		"Stack":    func(ctx context.Context) error { _, err := meter(t).Stack(ctx); return err },
	})
}

// meter opens the model of standalone firmware with samples that answers nothing but what opening needs.
func meter(t *testing.T) interface {
	RunTimed(ctx context.Context) (standalone.Ticks, error)
	Stack(ctx context.Context) (standalone.Stack, error)
} {
	t.Helper()
	host, device := transporttest.Pair()
	t.Cleanup(func() { host.Close(); device.Close() })
	go func() {
		var line []byte
		for b := make([]byte, 1); ; {
			if n, err := device.Read(context.Background(), b); err != nil || n == 0 {
				return
			}
			if line = append(line, b...); b[0] != '\n' {
				continue
			}
			var number uint16
			var request string
			answers := map[string]string{"model": "model 0001 0001 1", "tensor": "no request"}
			if _, err := fmt.Sscanf(string(line), "?%04x %s", &number, &request); err == nil && answers[request] != "" {
				answer := fmt.Sprintf("=%04x %s ", number, answers[request])
				answer = fmt.Sprintf("%s%08x\n", answer, crc32.ChecksumIEEE([]byte(answer)))
				if device.Write(context.Background(), []byte(answer)) != nil {
					return
				}
			}
			line = nil
		}
	}()
	ctx := testkit.Context(t)
	e, err := executor.OpenStandalone(ctx, standalone.New(host, standalone.Options{}), &mlf.Model{
		Inputs: make([]mlf.Tensor, 1), Outputs: make([]mlf.Tensor, 1),
	})
	testkit.Must(t, err)
	return e.(interface {
		RunTimed(ctx context.Context) (standalone.Ticks, error)
		Stack(ctx context.Context) (standalone.Stack, error)
	})
}
