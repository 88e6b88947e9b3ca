//go:build linux

package project

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestContexts ends the contexts of all that this package does before it begins.
func TestContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generatedIn(t, dir, spec)
	built(t, p)
	failuretest.Ended(t, failuretest.Calls{
		"Project.OperatorLinker": func(ctx context.Context) error { _, err := p.OperatorLinker(ctx); return err },
		"Project.Resident": func(ctx context.Context) error {
			_, err := p.Resident(ctx, filepath.Join(t.TempDir(), "resident"), Spec{})
			return err
		},
		"Project.LoadRAM": func(ctx context.Context) error {
			_, err := p.LoadRAM(ctx, nil, ramProgram("-DCANCELLED"))
			return err
		},
		"Builder.Generate": func(ctx context.Context) error {
			_, err := generateIn(ctx, filepath.Join(t.TempDir(), "q"), spec, testEnv())
			return err
		},
		"Builder.Check": func(ctx context.Context) error {
			return testEnv().builder().Check(ctx, filepath.Join(t.TempDir(), "q"), spec)
		},
		"Builder.HeaderFolders": func(ctx context.Context) error {
			_, _, err := testEnv().builder().HeaderFolders(ctx, &boards.Board{}, nil)
			return err
		},
		"Builder.Fetch": func(ctx context.Context) error {
			_, err := testEnv().builder().Fetch(ctx, "https://h.example/kiln@main")
			return err
		},
		"Builder.Update": func(ctx context.Context) error {
			_, _, err := testEnv().builder().Update(ctx, "https://h.example/kiln@main")
			return err
		},
		"Repository":       func(ctx context.Context) error { _, err := Repository(ctx, dir); return err },
		"Project.Generate": func(ctx context.Context) error { return p.Generate(ctx, spec) },
		"Project.Preprocess": func(ctx context.Context) error {
			_, err := p.Preprocess(ctx, "port/process.c", "")
			return err
		},
		"Project.CompileBehind": func(ctx context.Context) error {
			_, err := p.CompileBehind(ctx, "port/process.c", nil)
			return err
		},
		"Project.Build": func(ctx context.Context) error { _, err := p.Build(ctx); return err },
		"Project.Run":   func(ctx context.Context) error { _, err := p.Run(ctx, testEnv().desk(), ""); return err },
		"Project.RunStandalone": func(ctx context.Context) error {
			_, err := p.RunStandalone(ctx, testEnv().desk(), "")
			return err
		},
		"Builder.FindTemplate": func(ctx context.Context) error {
			_, err := testEnv().builder().FindTemplate(ctx, spec, nil)
			return err
		},
		"Builder.Needs": func(ctx context.Context) error { _, err := testEnv().builder().Needs(ctx, dir); return err },
		"Builder.SystemBoards": func(ctx context.Context) error {
			_, _, err := testEnv().builder().SystemBoards(ctx, dir)
			return err
		},
		"Builder.Clean": func(ctx context.Context) error { return clean(ctx, dir, true, testEnv()) },
	})
	if !Exists(dir) {
		t.Error("a Clean whose context had ended has cleaned")
	}
}
