// This file holds what building needs of a computer, and what builds that run at once share.

package project

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
)

// A Builder generates and builds projects. The zero value is the usual one. After its fields are set, it may be
// used from many goroutines; Progress must allow for that. All its builds together run at most Jobs compilers, and
// identify each compiler once.
//
// Relative paths are relative to the working folder. The first call that uses the fields makes them absolute.
//
// A Builder must not be copied after its first use.
type Builder struct {
	device.Host

	// Templates are more places of templates, by name: a folder, or URL[//FOLDER]@REVISION of a git repository
	Templates map[string]string
	// Libraries are places of libraries, by name, besides those in libraries/ of the folders of Path: a folder, or
	// URL[//FOLDER]@REVISION of a git repository
	Libraries map[string]string
	// LockFile is boardsmith.lock.json, which holds the commits of the branches and tags that were fetched; "": none, and
	// each Generate with a branch or tag asks its server
	LockFile string
	Jobs     int // compilers at once; 0 means one per processor
	// Build also makes the image's raw and Intel HEX files, for tools other than boardsmith's programmers
	Forms bool
	// Fresh builds once more, from nothing, and fails if the image is another one: class config, with the files of which
	// the build command may have missed a change
	Fresh bool
	// Variables are values of environment variables that templates read, by name, in place of this process's own
	Variables map[string]string
	Programs  []string // folders in which programs of build commands are searched before PATH

	mu    sync.Mutex // of anchor
	tools buildenv.Tools
}

// A Spec is the input of Generate. Only Board and Model, or Archive instead, must be set.
type Spec struct {
	Board string // a name, or the path of a board file
	// Template is a name, the path of a folder with a template.json, or that of one in a git repository:
	// URL[//FOLDER]@REVISION; "": the board's first
	Template  string
	Model     string         // the path of an archive
	Archive   *mlf.Archive   // instead of Model: an archive that was opened, or parsed from bytes; its Path names it
	ModelName string         // which of the archive's models; "": the only one
	Libraries []string       // names, folders with a library.json, or such of git repositories; in the link's order
	Options   boards.Options // zero fields are the board's own
	// Samples, one array per input, are the inputs of standalone firmware (Options.App), compiled in; nil: the host sends
	// them
	Samples []ndarray.Named
	// Runtime is a folder with include/ and src/, laid out as in package crt, in place of the runtime there; "": none.
	// project.json has the digests of its files, but not its path.
	Runtime string
	Force   bool // replace files that the user has changed, and keep a copy of each
}

func (b *Builder) log() hclog.Logger {
	if b.Log == nil {
		return hclog.NewNullLogger()
	}
	return b.Log.Named("project")
}

// anchor makes the paths in b's fields absolute.
func (b *Builder) anchor() {
	b.mu.Lock()
	defer b.mu.Unlock()

	abspath.Fix(&b.LockFile)
	abspath.FixEach(&b.Path)
	abspath.FixEach(&b.Programs)

	for _, places := range []*map[string]string{&b.Templates, &b.Libraries} {
		absolute := map[string]string{}
		for name, place := range *places {
			absolute[name] = place
			if !gitfolder.IsRef(place) {
				absolute[name] = abspath.Of(place)
			}
		}
		// A later call writes nothing: others read these fields without the lock.
		if !maps.Equal(absolute, *places) {
			*places = absolute
		}
	}
}

// Absolute returns s with absolute paths, for a caller that generates with it again later.
func (b *Builder) Absolute(s Spec) Spec {
	b.anchor()
	if _, file := boards.Locate(s.Board, b.Path); file != "" {
		s.Board = file
	}
	abspath.Fix(&s.Model, &s.Runtime)
	s.Template = absolutePlace(s.Template, b.Templates)

	s.Libraries = slices.Clone(s.Libraries)
	for i, l := range s.Libraries {
		s.Libraries[i] = absolutePlace(l, b.Libraries)
	}
	return s
}

// absolutePlace makes a template or library absolute unless it has a name, or is in a git repository.
func absolutePlace(text string, named map[string]string) string {
	if named[text] != "" || gitfolder.IsRef(text) {
		return text
	}
	return abspath.OfWord(text)
}

func (b *Builder) jobs() int {
	if b.Jobs > 0 {
		return b.Jobs
	}
	return runtime.NumCPU()
}

// takeJob waits until a compiler may run. give lets another one run.
func (b *Builder) takeJob(ctx context.Context) (give func(), err error) {
	return b.tools.TakeJob(ctx, b.jobs())
}
