package stackdepth

import (
	"debug/elf"
	"slices"
	"strings"
)

// This file gives tests that build firmware access to its decoded machine code.

type (
	Code     = machineCode
	Function = function
)

// IndirectCall is GCC's name for the callee of a pointer.
const IndirectCall = "__indirect_call"

func ReadCode(image *elf.File) (*Code, error) { return readCode(image, nil) }
func (m *machineCode) Functions() []*function { return m.functions }
func (f *function) Name() string              { return f.name }
func (f *function) Frame() int64              { return f.frame }

func PlainName(title string) string {
	name, _, _ := strings.Cut(title[strings.LastIndexByte(title, ':')+1:], ".") // file.c:name.constprop.0
	return name
}

// MakesCall reports whether, by its machine code, a function calls another one, or calls through a pointer.
func (m *machineCode) MakesCall(f *function, name string) bool {
	if name == IndirectCall {
		return f.pointers
	}
	alias, ok := m.symbols[name] // one of several names
	return slices.ContainsFunc(slices.Concat(f.calls, f.tails), func(addr uint64) bool {
		addr = m.codeAddress(addr)
		g := m.functionAt(addr)
		return g != nil && strings.TrimPrefix(PlainName(g.name), "__wrap_") == name || ok &&
			m.codeAddress(alias.Value) == addr
	})
}
