// This file adapts operators of TVM 0.21 and later (mlf.ABITVMFFI) to the packed functions that firmware calls: a
// generated packed function for each entry, linked with crt/candidate/ffi.c.

package ramlink

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/mlf"
)

// ffiPrefix begins the C names of operators with this ABI.
const ffiPrefix = "__tvm_ffi_"

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// packed returns operators whose entries are packed functions, with the objects that they need in RAM and in firmware.
// Operators with the packed ABI are returned as they are.
func (l *Linker) packed(ctx context.Context, o Operators) (Operators, []mlf.File, error) {
	switch o.ABI {
	case "", mlf.ABIPacked:
		return o, l.llvm, nil
	case mlf.ABITVMFFI:
	default:
		return o, nil, failure.Errorf(failure.Config, "operators: functions of ABI %q cannot be called", o.ABI)
	}

	headers, sources, err := ffiFiles()
	if err != nil {
		return o, nil, err
	}
	adapters, entries, err := ffiAdapters(o.Entries)
	if err != nil {
		return o, nil, err
	}

	// Only C files include headers.
	if slices.ContainsFunc(o.Files, func(f mlf.File) bool { return path.Ext(f.Name) == ".c" }) {
		o.Files = slices.Concat(o.Files, headers)
	}
	o.Entries = entries

	// Entries of different candidates usually have the same names: their adapters come from the cache.
	own, err := l.compileOwn(ctx, nil, slices.Concat(headers, sources, []mlf.File{adapters})...)
	return o, slices.Concat(l.llvm, own), err
}

// ffiFiles returns the headers that operators with this ABI include, and the sources linked with them.
func ffiFiles() (headers, sources []mlf.File, err error) {
	const include = "candidate/include"
	err = fs.WalkDir(crt.Sources.FFI, include, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		data, err := fs.ReadFile(crt.Sources.FFI, name)
		headers = append(headers, mlf.File{Name: strings.TrimPrefix(name, include+"/"), Data: data})
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	data, err := fs.ReadFile(crt.Sources.FFI, "candidate/ffi.c")
	return headers, []mlf.File{{Name: "boardsmith_ffi.c", Data: data}}, err
}

// ffiAdapters returns a source with a packed function for each entry, and the entries with the packed functions.
func ffiAdapters(entries []string) (mlf.File, []string, error) {
	var c strings.Builder
	c.WriteString("#include <boardsmith/ffi.h>\n")
	adapted := make([]string, len(entries))
	for i, e := range entries {
		name, symbol := firmware.EntryNames(e)

		// The C function of entry NAME is __tvm_ffi_NAME.
		if !strings.HasPrefix(symbol, ffiPrefix) {
			symbol = ffiPrefix + symbol
		}
		if !identifier.MatchString(symbol) {
			return mlf.File{}, nil, failure.Errorf(failure.Config, "operators: %q is no name of a C function", symbol)
		}

		adapter := fmt.Sprintf("boardsmith_ffi_%d", i)
		fmt.Fprintf(&c, "BOARDSMITH_FFI_ADAPTER(%s, %s, %q)\n", adapter, symbol, strings.TrimPrefix(symbol, ffiPrefix))
		adapted[i] = name + "=" + adapter
	}

	return mlf.File{Name: "boardsmith_ffi_adapters.c", Data: []byte(c.String())}, adapted, nil
}
