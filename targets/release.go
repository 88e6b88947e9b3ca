// This file writes a release: the folder of a finished firmware.

package targets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/internal/sourcetree"
	"github.com/boardsmith/boardsmith/project/release"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Release writes the built firmware, its licences and digests to the folder OUTPUT. The firmware is standalone by
// default; sizes and a bill of materials are beside it: docs/release.md. APP=library releases the model's C and
// library; FORCE=1 replaces another release.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [standalone]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PARAMS       ram makes the parameters of graph models variables [flash]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	OUTPUT       its folder [<project>.release]
//	FORCE=1      replaces another release
//	DRYRUN=1     prints what would be done, without doing it
//	PRODUCT      the product's name: release.md [the models' names and the board]
//	VERSION      the product's version [the build id]
func Release(ctx context.Context) error { return doRelease(ctx) }

var doRelease = jobTarget("release", boards.Standalone, releaseFirmware)

// releaseInputs are the variables of release.
type releaseInputs struct {
	inputs.OfBuild
	Params  string `var:"PARAMS"`
	Output  string `var:"OUTPUT"`
	Force   bool   `var:"FORCE"`
	Product string `var:"PRODUCT"`
	Version string `var:"VERSION"`
}

func releaseFirmware(ctx context.Context, j *job, _ releaseInputs) error {
	in := j.in
	dir := cmp.Or(in.Output, filepath.Join(in.Project, "..", filepath.Base(abspath.Of(in.Project))+".release"))
	if in.Library {
		return releaseLibrary(ctx, j, dir)
	}

	// A release in the project would be an input of the next build, and change it.
	relative, err := filepath.Rel(abspath.Resolved(in.Project), abspath.Resolved(dir))
	if err == nil && filepath.IsLocal(relative) {
		return failure.New(failure.Config, "choose a folder outside of it", "OUTPUT=%s is in project %s, whose files are "+
			"inputs of its build", dir, in.Project)
	}

	if j.DryRun {
		return j.would(ctx, "write a release of %s for board %s to %s", in.Project, in.Board, dir)
	}

	image, err := j.built(ctx)
	if err != nil {
		return err
	}

	o, err := releaseOptions(ctx, j)
	if err == nil && len(j.project.Board().Memory) > 0 { // a process has the system's libraries
		o.Notices, err = toolchainNotices(ctx, image.Map)
	}
	if err != nil {
		return err
	}

	r, err := release.Of(j.project, image, o)
	if err != nil {
		return err
	}

	return writeRelease(ctx, j, r, dir, jsonlines.Release{Firmware: j.imageLine(image)})
}

// releaseOptions returns the product, its version, the repository's texts of licences, and boardsmith's version.
func releaseOptions(ctx context.Context, j *job) (release.Options, error) {
	in := j.in
	o := release.Options{Product: in.Product, Version: in.Version}

	repository := j.Dir
	if in.Config.File != "" {
		repository = filepath.Dir(in.Config.File)
		o.Licences = []string{filepath.Join(repository, library.LicenceFolder)}
	}

	var err error
	top, _ := sourcetree.Top(repository)
	if o.Commit, o.Changed, err = sourcetree.Commit(ctx, top); err != nil {
		return o, err
	}

	// A program of a working tree has no version, but sources with a commit.
	if o.Boardsmith.Module != "" || !j.IsOfMage() {
		return o, nil
	}

	dir, err := moduleFolder(ctx, j.Console)
	if err != nil || dir == "" {
		return o, err
	}

	o.Boardsmith.Commit, o.Boardsmith.Changed, err = sourcetree.Commit(ctx, dir)
	return o, err
}

// toolchainNotices returns the licence texts of the C library and the compiler's own that the linker of a map took,
// from the packages of Debian that have these libraries: PACKAGE.copyright (Debian Policy, 12.5); of others none.
func toolchainNotices(ctx context.Context, mapFile string) (notices []release.File, err error) {
	dpkg, err := exec.LookPath("dpkg-query")
	if err != nil {
		return nil, nil
	}
	text, err := os.ReadFile(mapFile)
	if err != nil {
		return nil, regularfile.Error("read", mapFile, err)
	}

	seen := map[string]bool{}
	for _, m := range loadedLibrary.FindAllStringSubmatch(string(text), -1) {
		// Several names may lead to one library, by links.
		library, err := filepath.EvalSymlinks(m[1])
		if err != nil || seen[library] {
			continue
		}
		seen[library] = true

		owner, _, err := command.Command{Path: dpkg, Args: []string{"-S", library}, Timeout: programTimeout}.Capture(ctx)
		if ctx.Err() != nil {
			return nil, failure.Stopped(ctx, "licences of %s", library)
		}

		name, _, _ := strings.Cut(owner, ":")
		// One package may have several of the libraries.
		copyright, unread := os.ReadFile(filepath.Join("/usr/share/doc", name, "copyright"))
		if err != nil || unread != nil || seen[name] {
			continue
		}

		seen[name] = true
		notices = append(notices, release.File{Name: name + ".copyright", Data: copyright})
	}
	return notices, nil
}

// loadedLibrary matches a library in a linker's map.
var loadedLibrary = regexp.MustCompile(`(?m)^LOAD (/.+\.a)$`)

// moduleFolder returns the folder of boardsmith's sources that mage has made this program from, or "" if Go does not
// find them.
func moduleFolder(ctx context.Context, c *console.Console) (string, error) {
	compiler, err := exec.LookPath("go")
	if err != nil {
		return "", nil
	}

	var out bytes.Buffer
	err = command.Command{
		Path: compiler, Args: []string{"list", "-m", "-f", "{{.Dir}}", "github.com/boardsmith/boardsmith"}, Dir: c.Dir,
		Timeout: programTimeout, Env: console.ToolEnv(), Stdout: &out,
	}.Run(ctx)

	if failed := new(command.Error); errors.As(err, &failed) && ctx.Err() == nil {
		return "", nil
	}

	return strings.TrimSpace(out.String()), err
}

// writeRelease writes a release unless the folder has it, and prints its digest.
func writeRelease(ctx context.Context, j *job, r *release.Release, dir string, line jsonlines.Release,
) error {
	path := j.Abs(dir)

	outcome := "wrote"
	// An equal release stays, with its times.
	if r.Matches(path) {
		outcome, line.Status = "up to date:", jsonlines.StatusUpToDate
	} else if err := r.Write(ctx, path, j.in.Force); err != nil {
		return err
	}

	j.Printf("release: %s %s, %d files, SHA-256 of SHA256SUMS %s", outcome, dir, len(r.Files), r.Digest())
	line.Folder, line.Files, line.SHA256 = dir, len(r.Files), r.Digest()
	j.JSONLine(line)
	return nil
}

// releaseLibrary writes the library and what describes it to dir.
func releaseLibrary(ctx context.Context, j *job, dir string) error {
	if j.DryRun {
		return j.Would("write a release of a library for board %s to %s", j.in.Board, dir)
	}

	files, codes, c, err := compileModels(ctx, j)
	if err != nil {
		return err
	}

	sizes, err := c.Sizes(ctx, files)
	if err != nil {
		return err
	}

	o, err := releaseOptions(ctx, j)
	if err != nil {
		return err
	}

	r, err := release.OfLibrary(files, codes, c, sizes, o)
	if err != nil {
		return err
	}

	line := jsonlines.Release{Models: printNames(j.Console, codes)}
	line.Board = c.Board.Name
	return writeRelease(ctx, j, r, dir, line)
}
