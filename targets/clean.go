// This file removes projects.

package targets

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/project"
)

// Clean removes the project PROJECT.
func Clean(ctx context.Context) error { return doJob(ctx, "clean", cleanProject) }

func cleanProject(ctx context.Context, j *job) error {
	in := j.in
	if j.project != nil {
		if err := j.matches(); err != nil {
			return err
		}
	}
	if _, err := os.Stat(in.Project); errors.Is(err, fs.ErrNotExist) {
		j.Printf("clean: there is no %s", in.Project)
		j.JSONLine(jsonlines.Clean{Status: jsonlines.StatusUpToDate, Project: in.Project})
		return nil
	}
	if j.Env.On("DRYRUN") {
		return j.Would("remove %s", in.Project)
	}
	if err := j.close(); err != nil { // Clean takes the lock itself
		return err
	}
	if err := j.builder().Clean(ctx, in.Project, j.Env.On("FORCE")); err != nil {
		var edited *project.EditedError
		if errors.As(err, &edited) {
			return failure.New(failure.Config, "FORCE=1 removes them too", "%w", err)
		}
		return err
	}
	j.Printf("clean: removed %s", in.Project)
	j.JSONLine(jsonlines.Clean{Project: in.Project})
	return nil
}
