// This file removes projects.

package targets

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Clean removes the project PROJECT.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	FORCE=1      removes edited files, too
//	DRYRUN=1     prints what would be done, without doing it
func Clean(ctx context.Context) error { return doClean(ctx) }

var doClean = jobTarget("clean", "", cleanProject)

// cleanInputs are the variables of clean.
type cleanInputs struct {
	inputs.OfProject
	inputs.Dry
	Force bool `var:"FORCE"`
}

func cleanProject(ctx context.Context, j *job, _ cleanInputs) error {
	in := j.in
	if j.project != nil {
		if err := j.matches(); err != nil {
			return err
		}
	}

	var dirs []string
	for _, dir := range []string{in.Project, residentFolder(in.Project)} {
		if project.Exists(dir) {
			dirs = append(dirs, dir)
		}
	}

	switch {
	case len(dirs) == 0:
		if err := j.builder().Clean(ctx, in.Project, in.Force); err != nil {
			return err // it is no project
		}
		j.Printf("clean: there is no %s", in.Project)
		j.JSONLine(jsonlines.Clean{Status: jsonlines.StatusUpToDate, Project: in.Project})
		return nil
	case j.DryRun:
		return j.Would("remove %s", strings.Join(dirs, " and "))
	}

	if err := j.close(); err != nil { // Clean takes the lock itself
		return err
	}

	line := jsonlines.Clean{Project: in.Project}
	for _, dir := range dirs {
		if err := j.builder().Clean(ctx, dir, in.Force); err != nil {
			if errors.Is(err, project.ErrEdited) {
				return failure.New(failure.Config, "FORCE=1 removes them too", "%w", err)
			}
			return err
		}

		line.Left = append(line.Left, filesIn(dir)...)
		j.Printf("clean: removed %s", dir)
	}

	if len(line.Left) > 0 {
		j.Printf("clean: left files that are not the project's: %s", strings.Join(line.Left, ", "))
	}
	j.JSONLine(line)
	return nil
}

// filesIn returns the paths of the files in a folder; none if there is no such folder.
func filesIn(dir string) (files []string) {
	// With a separator, it walks the folder that a link leads to.
	_ = filepath.WalkDir(dir+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return nil
	})
	return files
}
