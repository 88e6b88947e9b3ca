// Package abspath makes paths absolute where a value takes them that outlasts the call: neither a later change of the
// working folder nor a program that runs in another one then changes what they name.
//
// It opens no files, and only Resolved follows symbolic links.
package abspath

import (
	"path/filepath"
	"slices"
	"strings"
)

// Of returns the absolute path of a file or folder; "" stays "". If the working folder was removed, a relative path
// stays as it is, and using it fails.
func Of(path string) string {
	if path == "" {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// Resolved is Of without symbolic links, as far as the path exists.
func Resolved(path string) string {
	if path = Of(path); path == "" {
		return ""
	}
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	if dir := filepath.Dir(path); dir != path {
		return filepath.Join(Resolved(dir), filepath.Base(path))
	}
	return path
}

// OfWord is Of for a word that is a path if it has a separator, and otherwise a name, which stays.
func OfWord(word string) string {
	if !strings.ContainsAny(word, `/\`) {
		return word
	}
	return Of(word)
}

// Fix makes paths absolute in place. It writes only those that are relative.
func Fix(paths ...*string) {
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = Of(*p)
		}
	}
}

// FixEach makes the paths of a list absolute: it replaces the list by another one if some of them are relative.
func FixEach(list *[]string) {
	if !slices.ContainsFunc(*list, func(p string) bool { return p != "" && !filepath.IsAbs(p) }) {
		return
	}
	all := slices.Clone(*list)
	for i := range all {
		all[i] = Of(all[i])
	}
	*list = all
}
