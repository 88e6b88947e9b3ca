// Package crt holds the sources of the standalone C runtime, in the binary: a project gets a copy of them.
//
// It compiles nothing and runs nothing; the C is specified in boardsmith.md and tested by `make -C crt test`.
package crt

import "embed"

// FS holds include/ and src/, as they come to lie in a project's crt/.
//
//go:embed all:include all:src
var FS embed.FS

// Shim is the C file that takes the runtime's place in uploaded code.
//
//go:embed candidate/shim.c
var Shim []byte

// FFI holds candidate/: ffi.c is linked with uploaded operators of TVM 0.21 and later, which include the headers of
// include/.
//
//go:embed candidate/ffi.c all:candidate/include
var FFI embed.FS

// Embedded holds embedded/: what a generated model uses of the runtime, in firmware that no host talks to.
//
//go:embed all:embedded
var Embedded embed.FS

// Tests holds test/, the unit tests: package accept runs those on boards that need no simulated link.
//
//go:embed test/*.c test/*.h
var Tests embed.FS
