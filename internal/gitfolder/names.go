// This file refuses names and links that could lead out of the folder.

package gitfolder

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// checkName returns an error for a file or folder that no checkout may create, on any system.
func checkName(name string) error {
	bare := strings.TrimRight(strings.ToLower(name), ". ") // Windows drops these
	if bare == "" || bare == ".git" || bare == "git~1" || strings.ContainsAny(name, "/\\\x00:") ||
		!filepath.IsLocal(name) {
		return fmt.Errorf("the name %q is not allowed", name)
	}
	return nil
}

var errLink = errors.New("the link leads out of the folder")

// checkLink returns an error unless a link at a slash path leads to a place in the folder. Its target goes up first,
// then down: after a name, which may be a link itself, it cannot go up again.
func checkLink(at, target string) error {
	if path.IsAbs(target) || strings.ContainsAny(target, "\\\x00:") {
		return errLink
	}

	depth, down := strings.Count(at, "/"), false
	for _, part := range strings.Split(target, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			down = true
		case down || depth == 0:
			return errLink
		default:
			depth--
		}
	}
	return nil
}
