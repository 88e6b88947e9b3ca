// This file writes a release: the folder of a finished firmware.

package targets

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/release"
)

// release builds the firmware, standalone by default, and writes its release to OUTPUT.
func (v *invocation) release(ctx context.Context) error {
	in, err := v.withoutHost(ctx)
	if err != nil {
		return err
	}
	if v.Env("IMAGE") != "" {
		return failure.New(failure.Config, "leave IMAGE out", "a release is made of the project's build")
	}
	dir := cmp.Or(in.Output, filepath.Clean(in.Project)+".release")
	if in.Library {
		return v.releaseLibrary(ctx, in, dir)
	}
	if v.Env.On("DRYRUN") {
		return v.Would("write a release of %s for board %s to %s", in.Project, in.Board.Value, dir)
	}
	image, err := v.built(ctx)
	if err != nil {
		return err
	}
	r, err := release.Of(v.project, image)
	if err != nil {
		return err
	}
	line := v.imageFields(image)
	return v.writeRelease(ctx, r, dir, line)
}

// writeRelease writes a release unless the folder has it, and prints its digest.
func (v *invocation) writeRelease(ctx context.Context, r *release.Release, dir string, line fields) error {
	path := dir
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.Dir, path)
	}
	what := "wrote"
	if r.IsIn(path) {
		what, line["status"] = "up to date:", "up-to-date"
	} else if err := r.Write(ctx, path, v.Env.On("FORCE")); err != nil {
		return err
	}
	v.Printf("release: %s %s, %d files, SHA-256 of SHA256SUMS %s", what, dir, len(r.Files), r.Digest())
	line["folder"], line["files"], line["sha256"] = dir, len(r.Files), r.Digest()
	v.JSONLine(line)
	return nil
}
