//go:build linux

package project

import (
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

// TestContexts ends the contexts of all that this package does before it begins.
func TestContexts(t *testing.T) {
	spec := complete(t, Spec{})
	p, b, other := generated(t, spec), newBuilder(), newDir(t)
	built(t, p)
	const place = "https://h.example/kiln@main"
	failuretest.Ended(t, failuretest.Calls{
		"Project.OperatorLinker": failuretest.Of(p.OperatorLinker),
		"Project.Resident":       func(ctx context.Context) error { return last(p.Resident(ctx, other, Spec{})) },
		"Project.LoadRAM":        func(ctx context.Context) error { return last(p.LoadRAM(ctx, nil, ramProgram("-DX"))) },
		"Builder.Generate":       func(ctx context.Context) error { return last(b.Generate(ctx, other, spec)) },
		"Builder.Check":          func(ctx context.Context) error { return b.Check(ctx, other, spec) },
		"Builder.HeaderFolders": func(ctx context.Context) error {
			return lastOf3(b.HeaderFolders(ctx, &boards.Board{}, nil))
		},
		"Builder.Fetch":      failuretest.Of(b.Fetch, place),
		"Builder.Update":     func(ctx context.Context) error { return lastOf3(b.Update(ctx, place)) },
		"Repository":         failuretest.Of(Repository, p.Dir()),
		"Project.Generate":   func(ctx context.Context) error { return p.Generate(ctx, spec) },
		"Project.Preprocess": func(ctx context.Context) error { return last(p.Preprocess(ctx, "port/process.c", "")) },
		"Project.CompileBehind": func(ctx context.Context) error {
			return last(p.CompileBehind(ctx, "port/process.c", nil))
		},
		"Project.Build":         failuretest.Of(p.Build),
		"Project.Run":           func(ctx context.Context) error { return last(p.Run(ctx, newDesk(), "")) },
		"Project.RunStandalone": func(ctx context.Context) error { return last(p.RunStandalone(ctx, newDesk(), "")) },
		"Builder.FindTemplate":  func(ctx context.Context) error { return last(b.FindTemplate(ctx, spec, nil)) },
		"Builder.Needs":         failuretest.Of(b.Needs, p.Dir()),
		"Builder.SystemBoards":  func(ctx context.Context) error { return lastOf3(b.SystemBoards(ctx, p.Dir())) },
		"Builder.Clean":         func(ctx context.Context) error { return b.Clean(ctx, p.Dir(), true) },
	})
	if !Exists(p.Dir()) {
		t.Error("a Clean whose context had ended has cleaned")
	}
}
