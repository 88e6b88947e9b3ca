// This file chooses names in C.

package cmodel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/mlf"
)

// reserved lists the names that a member of a struct cannot have besides those of spelling.IsKeyword: keywords of C++,
// and macros and types of the headers that the generated one includes.
var reserved = strings.Fields(`
	alignas alignof and and_eq atomic_cancel atomic_commit atomic_noexcept bitand bitor bool catch char8_t char16_t
	char32_t class compl concept consteval constexpr constinit const_cast co_await co_return co_yield decltype
	delete dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator or
	or_eq private protected public reflexpr reinterpret_cast requires static_assert static_cast synchronized
	template this thread_local throw true try typeid typename typeof_unqual using virtual wchar_t xor xor_eq errno
	near far interrupt offsetof size_t ptrdiff_t ssize_t max_align_t`)

// reservedForms matches more such names: macros and types of stdint.h, macros of the runtime's headers.
var reservedForms = regexp.MustCompile(
	`^((U?INT\w*|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MIN|MAX|WIDTH|C)|u?int\w*_t|TVM_\w*|DLPACK_\w*|BOARDSMITH_\w*)$`)

// compilers matches names that belong to the compiler and its library.
var compilers = regexp.MustCompile(`^_[A-Z_]`)

const whyReserved = "a reserved name of C or C++"

// A namer collects the names that differ in C.
type namer struct{ renamed []renamed }

// model returns a model's name in C. It always follows a prefix, so that a keyword or a digit is no problem.
func (n *namer) model(name string) string {
	c := spelling.Sanitize(name)
	if c != name {
		n.renamed = append(n.renamed, renamed{"model", name, c, "characters that C does not allow"})
	}
	return c
}

// A group holds the names of one struct.
type group struct {
	of     *namer
	kind   string
	macros []string
}

func (n *namer) group(kind string) *group { return &group{of: n, kind: kind} }

// add returns a name's identifier and its part in the names of macros. Both are unique in the group.
func (g *group) add(name string) (c, macro string) {
	c = spelling.Sanitize(name)
	reason := ""
	if c != name {
		reason = "characters that C does not allow"
	}

	if compilers.MatchString(c) {
		c, reason = strings.TrimLeft(c, "_"), whyReserved
	}
	if c == "" || c[0] >= '0' && c[0] <= '9' {
		c, reason = "_"+c, "it does not begin with a letter"
	}

	// After the other changes, which may result in a reserved name.
	if spelling.IsKeyword(c) || slices.Contains(reserved, c) || reservedForms.MatchString(c) {
		c, reason = c+"_", whyReserved
	}

	// Macros are upper-case, so that names that differ in case alone collide, too.
	unique := c
	for i := 2; slices.Contains(g.macros, strings.ToUpper(unique)); i++ {
		unique, reason = fmt.Sprintf("%s_%d", c, i), "another name is the same in C"
	}

	macro = strings.ToUpper(unique)
	g.macros = append(g.macros, macro)
	if unique != name {
		g.of.renamed = append(g.of.renamed, renamed{g.kind, name, unique, reason})
	}
	return unique, macro
}

func (n *namer) tensors(kind string, ts []mlf.Tensor) []tensor {
	var out []tensor
	g := n.group(kind)
	for i, t := range ts {
		c, macro := g.add(t.Name)
		out = append(out, tensor{Tensor: t, C: c, Macro: macro, Type: elementOf(t.DType).name, Index: i})
	}
	return out
}
