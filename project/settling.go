// This file finds inputs that a build may read without a compiler that reports it: what it made of them is not made
// again when they change.

package project

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/generator"
)

// settling sets r.settles and r.named. What a build file sets may stay, as in CMake's cache; so all inputs settle
// something but sources, headers, the model, and what is generated of options. Of these, a header settles something if
// a build file names it, a source if a build file reads it, and the model's headers if a source outside of the model
// names them; all files do that an assembler's directive includes.
func (p *Project) settling(t *tree, r *recipe) error {
	r.settles, r.named = map[string]bool{}, map[string]bool{}
	var build, read, code, assembled []byte
	for name := range r.inputs {
		if p.ofOptions(name) {
			continue
		}
		data, err := t.readSome(name, maxSearched)
		if err != nil && !notThere(err) { // Project.unchanged reports one that has gone
			return t.error("read", name, err)
		}
		switch {
		case isHeader(name) || isCompiled(name):
			assembled = append(assembled, bytes.Join(assembling.FindAll(data, -1), []byte{0})...)
			if !p.folders().InModel(name) {
				code = append(append(code, data...), 0)
			}
		case !p.folders().InModel(name):
			r.settles[name] = true
			build = append(append(build, data...), 0)
			if listsSources(name) {
				data = bytes.Join(readingCommand.FindAll(data, -1), []byte{0})
			}
			read = append(append(read, data...), 0)
		}
	}
	everyHeader := headersListed.Match(build)
	everySource := computedSource.Match(sourcesListed.ReplaceAll(read, nil))
	for name := range r.inputs {
		base := []byte(path.Base(name))
		switch {
		case p.ofOptions(name) || r.settles[name]:
		case bytes.Contains(assembled, base):
			r.settles[name] = true
		case p.folders().InModel(name):
			r.settles[name] = isHeader(name) && (bytes.Contains(build, base) || bytes.Contains(code, base))
			r.named[name] = bytes.Contains(build, base)
		case isHeader(name):
			r.settles[name] = everyHeader || bytes.Contains(build, base)
		default:
			r.settles[name] = everySource || bytes.Contains(read, base)
		}
	}
	return nil
}

// listsSources reports whether a build file is in the language of CMake or make, in which a source that is named outside
// of the commands that read files is one to compile.
func listsSources(name string) bool {
	base := strings.ToLower(path.Base(name))
	return slices.Contains([]string{"cmakelists.txt", "makefile", "gnumakefile"}, base) ||
		slices.Contains([]string{".cmake", ".mk", ".mak"}, path.Ext(base))
}

// ofOptions reports whether an input is generated of options and the board.
func (p *Project) ofOptions(name string) bool {
	return slices.Contains(p.state.Template.Generate, name) || strings.HasPrefix(name, generator.Board+"/")
}

func isCompiled(name string) bool {
	return slices.Contains([]string{".c", ".cc", ".cpp", ".cxx", ".S", ".s"}, path.Ext(name))
}

func isHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(name))
}

var (
	// readingCommand matches commands of CMake and make that read files when they configure, with their arguments.
	readingCommand = regexp.MustCompile(`(?is)\b(?:file|configure_file|execute_process|try_compile|try_run)\s*` +
		`\((?:"(?:[^"\\]|\\.)*"|\([^)]*\)|[^()"])*|(?:\$\(shell |!=)(?:[^\n\\]|\\.)*`)
	// sourcesListed matches a list that CMake makes of the sources in a folder, in order to compile them.
	sourcesListed = regexp.MustCompile(`(?i)\bfile\s*\(\s*GLOB[^)]*`)
	// computedSource matches a pattern of sources' names, or one that a variable is a part of.
	computedSource = regexp.MustCompile(`[*?$\]})][\w.-]*\.(?:c|cc|cpp|cxx|S|s)\b`)
	// headersListed matches a list that CMake makes of the headers in a folder, whose names are then in no build file.
	headersListed = regexp.MustCompile(`(?i)\bfile\s*\(\s*GLOB[^)]*\*\.h(?:h|pp)?\b`)
	// assembling matches an assembler's directives with the names of the files that they read.
	assembling = regexp.MustCompile(`\.inc(?:lude|bin)\b[^\n]*`)
)

// maxSearched limits how much of an input is searched for names, in bytes.
const maxSearched = 64 << 20
