// Package crt holds the sources of the standalone C runtime, in the binary: a project gets a copy of them.
//
// It compiles nothing and runs nothing; the C is specified in boardsmith.md and tested by `make -C crt test`.
package crt

import "embed"

var (
	//go:embed all:include all:src
	runtime embed.FS
	//go:embed candidate/shim.c
	shim []byte
	//go:embed candidate/llvm.c
	llvm []byte
	//go:embed candidate/ffi.c all:candidate/include
	ffi embed.FS
	//go:embed all:embedded
	embedded embed.FS
	//go:embed test/*.c test/*.h
	tests embed.FS
)

// Sources are the C files, by their use.
var Sources = struct {
	// Runtime has include/ and src/, as they come to lie in a project's crt/.
	Runtime embed.FS
	// Shim is the C file that takes the runtime's place in uploaded code.
	Shim []byte
	// LLVM is a C file with what objects of TVM's LLVM need; it is linked with uploaded code, in RAM and in firmware.
	LLVM []byte
	// FFI has candidate/: ffi.c is linked with uploaded operators of TVM 0.21 and later, which include the headers of
	// include/.
	FFI embed.FS
	// Embedded has embedded/: what a generated model uses of the runtime, in firmware that no host talks to.
	Embedded embed.FS
	// Tests has test/, the unit tests: package accept runs those on boards that need no simulated link.
	Tests embed.FS
}{runtime, shim, llvm, ffi, embedded, tests}
