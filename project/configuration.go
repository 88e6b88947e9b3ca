// This file finds inputs that a build may read without a compiler that reports it: what it made of them is not made
// again when they change.

package project

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/templates"
)

// configuration sets r.configures and r.named. What a build file sets may stay, as in CMake's cache; so all build files
// configure later builds, that is, all inputs outside of the model but sources, headers, and what is generated of
// options. If one of them may read others, then these do so too, and if it speaks of the model, the model's files. An
// assembler's directive may read any file that is named beside it, and a source outside of the model its headers.
func (p *Project) configuration(t *tree, r *recipe) error {
	r.configures, r.named = map[string]bool{}, map[string]bool{}
	// Texts of build files, of those that may read others or run when one does, of code outside of the model, and of what
	// an assembler is told in all code.
	var build, readers, code, assembled []byte
	reads := false // whether one of the readers does
	for name, digest := range r.inputs {
		data, err := t.readSome(name, maxSearched)
		if err != nil && !notThere(err) { // Project.unchanged reports one that has gone
			return t.error("read", name, err)
		}
		inModel := p.folders().InModel(name)
		switch {
		case isSourceOrHeader(name):
			if !isShipped(digest) && assembling.Match(data) {
				assembled = append(append(assembled, data...), 0)
			}
			if !inModel {
				code = append(append(code, data...), 0)
			}
		case inModel || p.ofOptions(name):
		default:
			build = append(append(build, data...), 0)
			if isShipped(digest) {
				continue
			}
			text := withoutComments(name, data)
			if may := p.mayRead(name, text); may || !isCMake(name) && !isMake(name) { // which list what is compiled
				readers, reads = append(append(readers, text...), 0), reads || may
			}
		}
	}
	ofModel := reads && p.isAbout(readers, r)
	for name := range r.inputs {
		base := []byte(path.Base(name))
		inBuild := bytes.Contains(build, base)
		switch {
		case p.folders().InModel(name):
			r.configures[name] = ofModel || bytes.Contains(assembled, base) ||
				isHeader(name) && (inBuild || bytes.Contains(code, base))
			r.named[name] = inBuild
		case p.ofOptions(name):
			r.configures[name] = reads
		case isSourceOrHeader(name):
			r.configures[name] = reads || len(assembled) > 0 || isHeader(name) && inBuild
		default: // the board's own are for the link, which comes later, unless the build makes a system of its own
			r.configures[name] = reads || p.state.Template.Kept || !strings.HasPrefix(name, generator.Board+"/")
		}
	}
	return nil
}

// isAbout reports whether the text of build files names a file or the folder of the model.
func (p *Project) isAbout(text []byte, r *recipe) bool {
	if bytes.Contains(text, []byte(path.Base(p.folders().OfModel()))) {
		return true
	}
	for name := range r.inputs {
		if p.folders().InModel(name) && bytes.Contains(text, []byte(path.Base(name))) {
			return true
		}
	}
	return false
}

// ofOptions reports whether an input is generated of options.
func (p *Project) ofOptions(name string) bool {
	return slices.Contains(p.state.Template.Generate, name)
}

// isShipped reports whether a file has the content of one of boardsmith's own: those read no files but such that
// configure builds, and have no assembler's include.
func isShipped(digest string) bool { return shipped()[digest] }

var shipped = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, files := range []fs.FS{templates.FS, crt.FS} {
		_ = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if data, failed := fs.ReadFile(files, name); err == nil && failed == nil {
				all[image.DigestOf(data)] = true
			}
			return nil
		})
	}
	return all
})

// mayRead reports whether a build file may read others, or make a program do so. Of CMake's commands, all may that are
// not known to read none.
func (p *Project) mayRead(name string, text []byte) bool {
	switch {
	case isCMake(name):
		own := map[string]bool{}
		for _, m := range cmakeDefinition.FindAllSubmatch(text, -1) {
			own[strings.ToLower(string(m[1]))] = true
		}
		return slices.ContainsFunc(cmakeCommand.FindAllSubmatch(text, -1), func(m [][]byte) bool {
			command := strings.ToLower(string(m[1]))
			return !own[command] && !matches(harmless, command) && !matches(p.state.Template.ReadsNone, command) &&
				(command != "file" || !globs.Match(m[2]))
		})
	case isMake(name):
		return makeReads.Match(text)
	case strings.HasPrefix(path.Base(name), "Kconfig"):
		return bytes.Contains(text, []byte("$("))
	case slices.Contains([]string{".overlay", ".dts", ".dtsi", ".ld"}, path.Ext(name)):
		return includes.Match(text)
	}
	return false // scripts run if one of the others calls them
}

// matches reports whether one of the patterns matches a name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, _ := path.Match(pattern, name) // they have been checked
		return found
	})
}

// harmless are patterns of CMake's own commands that read no file.
var harmless = strings.Fields(`add_compile_definitions add_compile_options add_definitions add_dependencies
	add_library add_link_options add_subdirectory and break cmake_language cmake_minimum_required cmake_path
	cmake_policy continue else elseif endforeach endfunction endif endmacro endwhile find_package foreach function
	get_directory_property get_filename_component get_property get_target_property if include include_directories
	include_guard link_libraries list macro mark_as_advanced math message not option or project return
	separate_arguments set set_property set_source_files_properties set_target_properties string target_* unset while`)

var (
	cmakeCommand    = regexp.MustCompile(`([A-Za-z_]\w*)\s*\((\s*\w*)`)
	cmakeDefinition = regexp.MustCompile(`(?i)\b(?:function|macro)\s*\(\s*(\w+)`)
	globs           = regexp.MustCompile(`^\s*(?i:GLOB|GLOB_RECURSE)$`)
	makeReads       = regexp.MustCompile(`\$[({](?:shell|file|eval|guile)\b|!=|\bload\b`)
	includes        = regexp.MustCompile(`(?i)\binc(?:lude|bin)\b`)
	comments        = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	// assembling matches an assembler's directives that read files.
	assembling = regexp.MustCompile(`(?i)\.\s*inc(?:lude|bin)\b`)
)

// withoutComments returns a build file's text without its comments, where they are CMake's or make's.
func withoutComments(name string, text []byte) []byte {
	if isCMake(name) || isMake(name) {
		return comments.ReplaceAll(text, nil)
	}
	return text
}

func isCMake(name string) bool {
	return path.Base(name) == "CMakeLists.txt" || path.Ext(name) == ".cmake"
}

func isMake(name string) bool {
	return slices.Contains([]string{"makefile", "gnumakefile"}, strings.ToLower(path.Base(name))) ||
		path.Ext(name) == ".mk"
}

func isSourceOrHeader(name string) bool {
	return isSource(name) || isHeader(name) || slices.Contains([]string{".cc", ".cpp", ".cxx", ".s"}, path.Ext(name))
}

func isHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(name))
}

// maxSearched limits how much of an input is searched for names, in bytes.
const maxSearched = 64 << 20
