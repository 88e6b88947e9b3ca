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
	calls := failuretest.Calls{
		"Open":       func(ctx context.Context) error { _, err := executor.Open(ctx, s, m); return err },
		"OpenLoaded": func(ctx context.Context) error { _, err := executor.OpenLoaded(ctx, s, rpc.Module{}, m); return err },
		"OpenStandalone": func(ctx context.Context) error {
			host, _ := transporttest.Pair()
			_, err := executor.OpenStandalone(ctx, standalone.New(host, standalone.Options{}), m)
			return err
		},
		"Graph.Debug": func(ctx context.Context) error { _, err := g.Debug(ctx, rpc.TimeOptions{}); return err },
		"SetInputs": func(ctx context.Context) error {
			return executor.SetInputs(ctx, g, []ndarray.Named{{Name: "x", Array: x}})
		},
	}
	for name, call := range (failuretest.Calls{
		"SetInput": func(ctx context.Context) error { return g.SetInput(ctx, "x", x) },
		"Output": func(ctx context.Context) error {
			if err := g.Run(context.Background()); err != nil { // a run that did not start leaves no output
				return err
			}
			_, err := g.Output(ctx, 0)
			return err
		},
		"Time":  func(ctx context.Context) error { _, err := g.Time(ctx, rpc.TimeOptions{}); return err },
		"Run":   g.Run,
		"Close": g.Close,
	}) {
		calls["Executor."+name], calls["Graph."+name] = call, call
	}
	failuretest.Ended(t, calls)
	failuretest.EndedCalls(t, failuretest.Calls{
		"RunTimed": func(ctx context.Context) error { _, err := openMeter(t).RunTimed(ctx); return err },
		"Stack":    func(ctx context.Context) error { _, err := openMeter(t).Stack(ctx); return err },
	})
}

// A meter is a model of standalone firmware.
type meter interface {
	RunTimed(ctx context.Context) (standalone.Ticks, error)
	Stack(ctx context.Context) (standalone.Stack, error)
}

// openMeter opens the model of standalone firmware with samples that answers nothing but what opening needs.
func openMeter(t *testing.T) meter {
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
	return e.(meter)
}
