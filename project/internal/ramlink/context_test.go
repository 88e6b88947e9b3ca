package ramlink_test

import (
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/ramlink"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestContexts ends the contexts of links before they begin.
func TestContexts(t *testing.T) {
	p, l := linkerFor(t, "host")
	o := ramlink.Operators{
		Files: []mlf.File{{Name: "f.c", Data: []byte("int f(void) { return 1; }")}}, Entries: []string{"f"},
	}
	failuretest.Ended(t, failuretest.Calls{
		"New": func(ctx context.Context) error { _, err := p.OperatorLinker(ctx); return err },
		"Linker.Link": func(ctx context.Context) error {
			_, err := l.Link(ctx, o, rpc.Window{Base: 1 << 30, Bytes: 1 << 14, Alignment: 64})
			return err
		},
		"Linker.Archive": func(ctx context.Context) error {
			_, err := l.Archive(ctx, map[string]ramlink.Operators{"f": o}, nil)
			return err
		},
		"Linker.ModuleArchive": func(ctx context.Context) error { _, err := l.ModuleArchive(ctx, o); return err },
	})
}
