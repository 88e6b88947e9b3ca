package fit

import (
	"slices"
	"strings"
)

// This file gives tests that build firmware access to its decoded machine code.

type (
	Code     = program
	Function = codeFunction
)

// IndirectCall is GCC's name for the callee of a pointer.
const IndirectCall = "__indirect_call"

func ReadCode(l *Layout) (*Code, error)       { return readProgram(l) }
func (p *program) Functions() []*codeFunction { return p.functions }
func (f *codeFunction) Name() string          { return f.name }
func (f *codeFunction) Frame() int64          { return f.frame }

func PlainName(title string) string {
	name, _, _ := strings.Cut(title[strings.LastIndexByte(title, ':')+1:], ".") // file.c:name.constprop.0
	return name
}

// MakesCall reports whether, by its machine code, a function calls another one, or calls through a pointer.
func (p *program) MakesCall(f *codeFunction, name string) bool {
	if name == IndirectCall {
		return f.pointers
	}
	alias, known := p.symbols[name] // one of several names
	return slices.ContainsFunc(slices.Concat(f.calls, f.tails), func(addr uint64) bool {
		addr = p.codeAddress(addr)
		g := p.function(addr)
		return g != nil && strings.TrimPrefix(PlainName(g.name), "__wrap_") == name || known &&
			p.codeAddress(alias.Value) == addr
	})
}
