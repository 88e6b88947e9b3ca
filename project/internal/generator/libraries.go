// This file makes libraries.mk, from which the Makefile compiles libraries.

package generator

import (
	"fmt"
	"path"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/library"
)

// Libraries is the project's folder of libraries, each in a folder of its name.
const Libraries = "libraries"

// LibrariesMakefile names the libraries of a project, their sources and their flags. A library that others need follows
// them.
func LibrariesMakefile(b *boards.Board, all []*library.Library) []byte {
	var w, names, includes strings.Builder
	for _, l := range all {
		dir := path.Join(Libraries, l.Name)
		fmt.Fprintf(&names, " %s", l.Name)
		for _, h := range l.Headers {
			fmt.Fprintf(&includes, " -I%s", path.Join(dir, h))
		}

		fmt.Fprintf(&w, "LIBRARY_FLAGS_%s :=%s\nLIBRARY_SOURCES_%s :=", l.Name, makeWords(l.Flags...), l.Name)
		for _, s := range l.Resolved {
			fmt.Fprintf(&w, " %s", path.Join(dir, s))
		}
		w.WriteString("\n")
	}

	return fmt.Appendf(nil, `# SPDX-License-Identifier: 0BSD
# The libraries of this project, for the Makefile.
AR := %s
CXX := %s
LIBRARIES :=%s
LIBRARY_INCLUDES :=%s
%s`, makeWords(b.Toolchain.AR)[1:], makeWords(cxxOf(b.Toolchain.CC))[1:], names.String(), includes.String(), w.String())
}

// cxxOf returns the C++ compiler of a C compiler.
func cxxOf(cc string) string {
	if start, ok := strings.CutSuffix(cc, "gcc"); ok {
		return start + "g++"
	}
	if start, ok := strings.CutSuffix(cc, "cc"); ok {
		return start + "c++"
	}
	return cc + "++" // clang
}
