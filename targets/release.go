// This file writes a release: the folder of a finished firmware.

package targets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
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
	o, err := v.releaseOptions(ctx, in)
	if err != nil {
		return err
	}
	r, err := release.Of(v.project, image, o)
	if err != nil {
		return err
	}
	return v.writeRelease(ctx, r, dir, jsonlines.Release{Image: v.imageLine(image)})
}

// releaseOptions returns the product, its version, the repository's texts of licences, and boardsmith's version.
func (v *invocation) releaseOptions(ctx context.Context, in *inputs.Inputs) (release.Options, error) {
	o := release.Options{Product: in.Product, Version: in.Version, Boardsmith: release.RunningVersion()}
	if in.Config.File != "" {
		o.Licences = []string{filepath.Join(filepath.Dir(in.Config.File), release.LicenceFolder)}
	}
	if o.Boardsmith.Module != "" {
		return o, nil
	}
	dir, err := v.moduleFolder(ctx)
	if err != nil || dir == "" {
		return o, err
	}
	o.Boardsmith.Commit, o.Boardsmith.Changed, err = sourcetree.Commit(ctx, dir)
	return o, err
}

// moduleFolder returns the folder of boardsmith's sources that Go builds this program from, or "" if Go is not
// installed or does not find them from here, as for a program that was built elsewhere.
func (v *invocation) moduleFolder(ctx context.Context) (string, error) {
	compiler, err := exec.LookPath("go")
	if err != nil {
		return "", nil
	}
	var out bytes.Buffer
	err = command.Command{
		Path: compiler, Args: []string{"list", "-m", "-f", "{{.Dir}}", "github.com/boardsmith/boardsmith"}, Dir: v.Dir,
		Timeout: programTimeout, Env: console.ToolEnv(), Stdout: &out,
	}.Run(ctx)
	if failed := new(command.Error); errors.As(err, &failed) && ctx.Err() == nil {
		return "", nil
	}
	return strings.TrimSpace(out.String()), err
}

// writeRelease writes a release unless the folder has it, and prints its digest.
func (v *invocation) writeRelease(ctx context.Context, r *release.Release, dir string, line jsonlines.Release,
) error {
	path := dir
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.Dir, path)
	}
	what := "wrote"
	if r.IsIn(path) {
		what, line.Status = "up to date:", jsonlines.StatusUpToDate
	} else if err := r.Write(ctx, path, v.Env.On("FORCE")); err != nil {
		return err
	}
	v.Printf("release: %s %s, %d files, SHA-256 of SHA256SUMS %s", what, dir, len(r.Files), r.Digest())
	line.Folder, line.Files, line.SHA256 = dir, len(r.Files), r.Digest()
	v.JSONLine(line)
	return nil
}
