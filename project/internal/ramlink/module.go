// This file reads modules that TVM has exported for its RPC server: a tar of C files and objects, one object, or the
// archive of a model.

package ramlink

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/mlf"
)

// maxModule limits a module's size in bytes, unpacked. Those for microcontrollers have some kilobytes.
const maxModule = 64 << 20

// entryNames are the names with which TVM's clients look up the function of a module that has only one.
var entryNames = []string{"main", "__tvm_main__", "default_function"}

// ReadModule returns the operators of a module: a tar, gzipped or not, or an object. Their ABI is that of the functions
// they define, their Entries the functions' names, and the names with which clients look up the only one. Those of an
// archive of a model are the functions of its system library. They are Untrusted. Errors are of class config.
func ReadModule(module []byte) (Operators, error) {
	o := Operators{Untrusted: true}
	if bytes.HasPrefix(module, []byte("\x7fELF")) {
		o.Files = []mlf.File{{Name: "lib0.o", Data: module}}
	} else {
		members, err := mlf.ReadFiles("module", module, maxModule)
		if err != nil {
			return o, err
		}
		if slices.ContainsFunc(members, func(m mlf.File) bool { return m.Name == "metadata.json" }) {
			return readModel(module)
		}
		o.Files = members
	}

	for _, f := range o.Files {
		if !slices.Contains([]string{".c", ".h", ".o"}, path.Ext(f.Name)) {
			return o, failure.New(failure.Config, `compile it with target "c" or "llvm"`,
				"module: %q is neither a C file nor an object", f.Name)
		}
	}

	// The names come from a stranger.
	if err := checkNames(o.Files); err != nil {
		return o, err
	}

	functions, err := o.findFunctions()
	if err != nil {
		return o, err
	}
	if o.ABI == "" {
		return o, failure.New(failure.Config, "export it with tvm.build or tvm.compile and export_library",
			"module: no file defines a function with an ABI of TVM: __tvm_ffi_NAME (TVM 0.21 and later) or a packed one")
	}

	o.Entries = moduleEntries(functions)
	if o.ABI == mlf.ABIPacked {
		o.renameMain()
	}

	return o, nil
}

// readModel returns the operators of an archive of a model, whose functions are packed ones.
func readModel(packed []byte) (Operators, error) {
	archive, err := mlf.Parse("module", packed)
	if err != nil {
		return Operators{}, err
	}
	m, err := archive.Model("")
	if err != nil {
		return Operators{}, err
	}

	for _, name := range m.Functions {
		if !identifier.MatchString(name) {
			return Operators{}, failure.Errorf(failure.Config, "module: %.100q is no name of a C function", name)
		}
	}

	o := CodeOf(m)
	o.Untrusted, o.ABI, o.Entries = true, m.ABI, m.Functions
	return o, nil
}

// findFunctions sets the ABI, and returns the names of its functions, sorted. If a file defines functions of TVM 0.21's
// ABI, others count as their parts.
func (o *Operators) findFunctions() ([]string, error) {
	functions := map[mlf.ABI]map[string]bool{mlf.ABITVMFFI: {}, mlf.ABIPacked: {}}
	for _, f := range o.Files {
		switch path.Ext(f.Name) {
		case ".o":
			info, err := f.Info()
			if err != nil {
				return nil, failure.New(failure.Config, "compile it for the board's processor", "module: %s: %w", f.Name, err)
			}
			for _, symbol := range info.Defined {
				name, isFFI := strings.CutPrefix(symbol, ffiPrefix)
				switch {
				// The context is a variable, and no function of C has other characters in its name.
				case !identifier.MatchString(symbol), symbol == ffiContext:
				case isFFI:
					functions[mlf.ABITVMFFI][name] = true
				// Compilers' own functions begin with two underscores.
				case !strings.HasPrefix(symbol, "__"):
					functions[mlf.ABIPacked][symbol] = true
				}
			}
		case ".c":
			for _, m := range ffiDefinition.FindAllSubmatch(f.Data, -1) {
				functions[mlf.ABITVMFFI][string(m[1])] = true
			}
			for _, m := range packedDefinition.FindAllSubmatch(f.Data, -1) {
				functions[mlf.ABIPacked][string(m[1])] = true
			}
		}
	}

	for _, abi := range []mlf.ABI{mlf.ABITVMFFI, mlf.ABIPacked} {
		if len(functions[abi]) > 0 {
			o.ABI = abi
			return slices.Sorted(maps.Keys(functions[abi])), nil
		}
	}
	return nil, nil
}

const ffiContext = ffiPrefix + "_library_ctx" // a variable

var (
	ffiDefinition    = regexp.MustCompile(`\bint32_t\s+__tvm_ffi_(\w+)\s*\(\s*void\s*\*[^()]*\)\s*\{`)
	packedDefinition = regexp.MustCompile(`\bint32_t\s+(\w+)\s*\(\s*(?:void|TVMValue)\s*\*\s*args\b[^()]*\)\s*\{`)
)

// moduleEntries returns the functions, and entryNames that none has as names of the main function.
func moduleEntries(functions []string) []string {
	main := ""
	for _, name := range entryNames {
		if main == "" && slices.Contains(functions, name) {
			main = name
		}
	}

	if len(functions) == 1 {
		main = functions[0]
	}

	entries := slices.Clone(functions)
	for _, name := range entryNames {
		if main != "" && !slices.Contains(functions, name) {
			entries = append(entries, name+"="+main)
		}
	}
	return entries
}

// renameMain gives the packed function main of C files, whose type is not that of a program's main, another C name.
func (o *Operators) renameMain() {
	const renamed = "boardsmith_main"
	if slices.ContainsFunc(o.Files, func(f mlf.File) bool { return path.Ext(f.Name) == ".o" }) {
		return // objects have the old name, and no compiler objects to it
	}

	for i, e := range o.Entries {
		if name, symbol := firmware.EntryNames(e); symbol == "main" {
			o.Entries[i], o.Flags = name+"="+renamed, []string{"-Dmain=" + renamed}
		}
	}
}
