package projectapi

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	t.Parallel()
	template := folderAt(t, folderOf(t, "folder"))
	archive := mlftest.Path(t, "add.aot_packed")
	f := generated(t, archive, nil)
	must(t, f.Build(t.Context(), nil))
	r, w := io.Pipe()
	defer w.Close()
	open := func(ctx context.Context) error { _, err := f.Open(ctx, nil); return err }
	calls := failuretest.Calls{
		"Folder.Generate": func(ctx context.Context) error {
			return template.Generate(ctx, generation{Archive: archive, Dir: f.Dir + "2"}, nil)
		},
		"Folder.Build": func(ctx context.Context) error { return f.Build(ctx, nil) },
		"Folder.Flash": func(ctx context.Context) error { return f.Flash(ctx, nil) },
		"Folder.Open":  open,
		"Folder.Read": func(ctx context.Context) error {
			err := open(context.Background())
			_, failed := f.Read(ctx, 1)
			return errors.Join(err, failed)
		},
		"Folder.Write": func(ctx context.Context) error {
			return errors.Join(open(context.Background()), f.Write(ctx, []byte{1}))
		},
	}
	failuretest.EndedCalls(t, calls)
	failuretest.Ended(t, failuretest.Calls{
		"Serve": func(ctx context.Context) error { return Serve(ctx, r, io.Discard, Folder{}) },
	})
}
