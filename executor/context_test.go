package executor_test

import (
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/internal/failuretest"
	"github.com/boardsmith/boardsmith/internal/transporttest"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/standalone"
)

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	a := graphArchive(t, false, 2)
	ctx, s := open(t, a)
	m := a.Models[0]
	opened, err := executor.Open(ctx, s, m)
	if err != nil {
		t.Fatal(err)
	}
	g := opened.(*executor.Graph)
	x := &ndarray.Array{DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{2, 2}, Data: []byte{1, 2, 3, 4}}
	if err := g.SetInput(ctx, "x", x); err != nil {
		t.Fatal(err)
	}
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
	time := func(ctx context.Context) error { _, err := e.Time(ctx, rpc.TimeOptions{}); return err }
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
	both := failuretest.Calls{"SetInput": setInput, "Output": output, "Time": time, "Close": e.Close}
	for name, call := range both {
		calls["Executor."+name], calls["Graph."+name] = call, call
	}
	calls["Executor.Run"], calls["Graph.Run"] = e.Run, g.Run
	failuretest.Ended(t, calls)
}
