// This file checks what operators include: a result belongs to the contents of their files.

package ramlink

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// hiddenFile matches flags by which a compiler reads files that its list of headers lacks.
var hiddenFile = regexp.MustCompile(
	`^(@|-isystem|-idirafter|-iprefix|-isysroot|--sysroot|-fplugin|-fprofile-use|-specs|--specs|-B|-wrapper|-W[pa],|-X)`)

const includeHelp = "add it to the files, or name a library of the project that has it"

// checkFlags refuses flags that name files whose contents no result could belong to.
func checkFlags(flags []string) error {
	for _, flag := range flags {
		if hiddenFile.MatchString(flag) {
			return failure.New(failure.Config, includeHelp, "operators: flag %q names files outside of theirs", flag)
		}
	}
	return nil
}

// checkIncludes returns an error if a C file in dir included a header that belongs neither to the operators nor to the
// firmware or a library. It reads the list that the compiler has written beside the object (-MMD).
func (l *Linker) checkIncludes(dir, source string) error {
	list, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(objectName(source), ".o")+".d"))
	if err != nil {
		return err
	}
	for _, file := range prerequisites(string(list)) {
		if !l.mayInclude(dir, file) {
			return failure.New(failure.Config, includeHelp, "%s includes %s, which is not among the operators' files",
				source, file)
		}
	}
	return nil
}

func (l *Linker) mayInclude(dir, file string) bool {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	file = filepath.Clean(file)
	if contains(dir, file) {
		return true
	}
	for _, word := range l.compile[1:] {
		if at := strings.Index(word, "/"); at >= 0 && contains(word[at:], file) {
			return true
		}
	}
	return false
}

// contains reports whether a file is a folder's, or is the folder itself.
func contains(folder, file string) bool {
	rel, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// escapes are those of make in the compiler's list.
var escapes = strings.NewReplacer("\\ ", "\x00", "\\#", "#", "$$", "$", "\\\n", " ")

// prerequisites returns the files behind the first colon of a rule of make.
func prerequisites(rule string) []string {
	_, files, _ := strings.Cut(escapes.Replace(rule), ": ")
	all := strings.Fields(files)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "\x00", " ")
	}
	return all
}
