package projectapi

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestContexts calls every function of this package with contexts that have ended.
func TestContexts(t *testing.T) {
	t.Parallel()
	template := folderAt(t, folderOf(t, "folder"))
	archive := mlftest.Path(t, "add.aot_packed")
	made := filepath.Join(t.TempDir(), "p")
	must(t, template.Generate(t.Context(), generation{Archive: archive, Dir: made}, nil))
	f := folderAt(t, made)
	must(t, f.Build(t.Context(), nil))
	r, w := io.Pipe()
	defer w.Close()
	calls := failuretest.Calls{
		"Folder.Generate": func(ctx context.Context) error {
			return template.Generate(ctx, generation{Archive: archive, Dir: made + "2"}, nil)
		},
		"Folder.Build": func(ctx context.Context) error { return f.Build(ctx, nil) },
		"Folder.Flash": func(ctx context.Context) error { return f.Flash(ctx, nil) },
		"Folder.Open":  func(ctx context.Context) error { _, err := f.Open(ctx, nil); return err },
		"Folder.Read": func(ctx context.Context) error {
			if _, err := f.Open(context.Background(), nil); err != nil {
				return err
			}
			_, err := f.Read(ctx, 1)
			return err
		},
		"Folder.Write": func(ctx context.Context) error {
			if _, err := f.Open(context.Background(), nil); err != nil {
				return err
			}
			return f.Write(ctx, []byte{1})
		},
	}
	failuretest.EndedCalls(t, calls)
	failuretest.Ended(t, failuretest.Calls{
		"Serve": func(ctx context.Context) error { return Serve(ctx, r, io.Discard, Folder{}) },
	})
}
