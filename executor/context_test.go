package executor_test

import (
	"context"
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
	g := opened(t, ctx, s, m).(*executor.Graph)
	x := square(1, 2, 3, 4)
	must(t, g.SetInput(ctx, "x", x))
	must(t, g.Run(ctx))
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
	s := answering(t, func(words string) string {
		if words == "model" {
			return "model 0001 0001 1"
		}
		return "no request"
	})
	m := &mlf.Model{Inputs: make([]mlf.Tensor, 1), Outputs: make([]mlf.Tensor, 1)}
	e, err := executor.OpenStandalone(testkit.Context(t), s, m)
	must(t, err)
	return e.(interface {
		RunTimed(ctx context.Context) (standalone.Ticks, error)
		Stack(ctx context.Context) (standalone.Stack, error)
	})
}
