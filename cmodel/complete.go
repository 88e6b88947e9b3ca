// This file finds functions that a model calls and its archive lacks, which only a user's linker would report.

package cmodel

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/boardsmith/boardsmith/mlf"
)

// ofTVM matches calls, declarations and definitions of TVM's functions.
var ofTVM = regexp.MustCompile(`(tvmgen_\w+)\s*\(`)

// definitions returns the functions that C defines, and other names before (...) {. It takes linear time, and little of
// it for constants.
func definitions(src []byte) (names []string) {
	for {
		head, rest, more := bytes.Cut(src, []byte("{"))
		if !more {
			return names
		}
		src = rest
		head = bytes.TrimSpace(head)

		if at := bytes.LastIndexByte(head, '('); at >= 0 && bytes.HasSuffix(head, []byte(")")) {
			head = bytes.TrimSpace(head[:at])
			names = append(names, string(head[bytes.LastIndexFunc(head, notInName)+1:]))
		}
	}
}

func notInName(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// checkComplete returns an error if a function that the model calls is neither in its sources nor in its objects. Other
// functions than those of the graph, of the entry and of TVM's names may come from a library of the user.
func (g *model) checkComplete(code *Code) error {
	called, defined, err := g.functions(code)
	if err != nil {
		return err
	}
	for _, name := range called {
		if !defined[name] {
			return g.fault("export it again, with all files of codegen/host", "function %s is called, but not in the archive",
				name)
		}
	}
	return nil
}

// functions returns the functions that the model calls, and those that its code defines.
func (g *model) functions(code *Code) (called []string, defined map[string]bool, err error) {
	defined = map[string]bool{}
	if g.Graph != nil {
		called = slices.Clone(g.Graph.Functions)
	} else {
		called = []string{g.Call}
	}

	for _, f := range code.Sources {
		if path.Ext(f.Name) != ".c" {
			return nil, nil, g.fault(`export it for a target that generates C, such as "c"`,
				"%s: C++ sources are not supported", f.Name)
		}
		for _, name := range definitions(f.Data) {
			defined[name] = true
		}
		for _, m := range ofTVM.FindAllSubmatch(f.Data, -1) {
			called = append(called, string(m[1]))
		}
	}

	for _, f := range code.Objects {
		o, err := f.Info()
		if err != nil {
			return nil, nil, g.fault("export it again", "%s: %v", f.Name, err)
		}
		for _, name := range o.Defined {
			defined[name] = true
		}
		called = append(called, tvms(o)...)
	}
	return called, defined, nil
}

// tvms returns the undefined functions of an object whose names are TVM's.
func tvms(o mlf.ObjectInfo) (names []string) {
	for _, name := range o.Undefined {
		if strings.HasPrefix(name, "tvmgen_") {
			names = append(names, name)
		}
	}
	return names
}
