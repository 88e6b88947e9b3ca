// This file determines which files of a project are inputs of its build.

package templatefile

import (
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/library"
	"github.com/boardsmith/boardsmith/templates"
)

// excludes begins an entry of Inputs that removes files from the others.
const excludes = "!"

// TakesAll reports whether all files of a project are inputs, except those that Inputs excludes.
func (t *Description) TakesAll() bool { return len(t.namedInputs()) == 0 }

func (t *Description) namedInputs() []string {
	return slices.DeleteFunc(slices.Clone(t.Inputs), func(p string) bool { return strings.HasPrefix(p, excludes) })
}

// AddInput makes a file or folder an input of a template that names its inputs.
func (t *Description) AddInput(name string) {
	if !t.TakesAll() {
		t.Inputs = append(slices.Clip(t.Inputs), name)
	}
}

// InputRoots returns the files and folders that have the inputs, of the entries of a project's folder. IsInput decides
// about the files in them.
func (t *Description) InputRoots(entries []string) []string {
	if named := t.namedInputs(); len(named) > 0 {
		return named
	}
	return slices.DeleteFunc(slices.Clone(entries), func(name string) bool { return !t.isOfBuild(name) })
}

// IsInput reports whether a file of a project, by its slash path, is an input.
func (t *Description) IsInput(name string) bool {
	return !t.Excludes(name) && (slices.ContainsFunc(t.namedInputs(), func(p string) bool { return isBelow(name, p) }) ||
		t.TakesAll() && t.isOfBuild(name))
}

// Excludes reports whether Inputs excludes a file: its name or one of its folders' matches !PATTERN.
func (t *Description) Excludes(name string) bool {
	for _, entry := range t.Inputs {
		pattern, excluding := strings.CutPrefix(entry, excludes)
		for at := name; excluding && at != "."; at = path.Dir(at) {
			if ok, _ := path.Match(pattern, at); ok { // check has validated the pattern
				return true
			}
		}
	}
	return false
}

// ofOthers are files of a project that no build reads: for later steps, for editors, and what TVM's Python starts.
var ofOthers = []string{
	SamplesFile, CompileFile, library.LicenceFolder, templates.LaunchScript, "microtvm-api-server", "boardsmith-keeper",
}

// isOfBuild reports whether a build may read a file of a project. It does not read results, files for others, hidden
// files, and other parts of the model than its code.
func (t *Description) isOfBuild(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	if strings.HasPrefix(top, ".") || top == t.BuildFolder() || reserved(top) ||
		slices.Contains(ofOthers, strings.TrimSuffix(top, ".exe")) {
		return false
	}
	return !t.Landmarks.Folders.InModel(name) || isBelow(name, t.Landmarks.Folders.OfModel()+"/codegen")
}

func isBelow(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }
