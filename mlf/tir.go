// This file reads the arguments' names, and which are written, from an operator's TIR text.

package mlf

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	tirAlias = regexp.MustCompile(`^(\w+) = T\.(?:Buffer|decl_buffer)\(.*data=(\w+)\.data[,)]`)
	tirStore = regexp.MustCompile(`^(\w+)\[.*\] = `)
)

// readTIR sets the arguments' names from the TIR text and marks those that are written. Without usable text it
// keeps the names and marks the last argument. usable reports that the text names these arguments and no others.
func (a *Archive) readTIR(function string, args []Tensor) (written []bool, usable bool) {
	written = make([]bool, len(args))
	for _, f := range a.Files {
		if ok, _ := path.Match("src/tir-*.txt", f.Name); !ok {
			continue
		}

		names, body, ok := tirFunction(string(f.Data), function)
		if !ok || len(names) != len(args) {
			continue
		}

		for i := range args {
			args[i].Name = names[i]
		}
		markStores(body, names, written)
		usable = true
		break
	}

	if !slices.Contains(written, true) {
		written[len(args)-1] = true
	}
	return written, usable
}

// tirFunction finds `def name(A: T.Buffer(...), ...):` and returns the arguments' names and the lines after it.
func tirFunction(text, name string) (names []string, body string, ok bool) {
	_, text, ok = strings.Cut(text, "def "+name+"(")
	if !ok {
		return nil, "", false
	}

	args, body, ok := bracketed("(" + text)
	if !ok {
		return nil, "", false
	}

	for _, arg := range splitTop(args) {
		n, ty, ok := strings.Cut(arg, ":")
		if !ok || !strings.HasPrefix(strings.TrimSpace(ty), "T.Buffer(") || slices.Contains(names, n) {
			return nil, "", false
		}
		names = append(names, n)
	}

	if next := strings.Index(body, "\n    @T.prim_func"); next >= 0 {
		body = body[:next]
	}
	return names, body, true
}

// markStores marks the arguments that a line of the body assigns to, by their own name or by an alias.
func markStores(body string, names []string, written []bool) {
	owner := map[string]int{}
	for i, n := range names {
		owner[n] = i
	}

	for _, line := range strings.Split(body, "\n") {
		line = strings.TrimSpace(line)
		if m := tirAlias.FindStringSubmatch(line); m != nil {
			if i, ok := owner[m[2]]; ok {
				owner[m[1]] = i
			}
			continue
		}
		if m := tirStore.FindStringSubmatch(line); m != nil {
			if i, ok := owner[m[1]]; ok {
				written[i] = true
			}
		}
	}
}
