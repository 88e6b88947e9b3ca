// This file assigns an archive's sources, objects and headers to models, and reads from them what the metadata lacks:
// the functions of the system library.

package mlf

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var libName = regexp.MustCompile(`^(?:(\w+)_)?lib\d+\.\w+$`)

// sourceExt lists the extensions of the formats in which TVM writes modules as C or C++.
var sourceExt = []string{".c", ".cc", ".cpp"}

// uncompiled lists extensions of code that is not compiled or linked, and that no source includes.
var uncompiled = []string{".S", ".s", ".asm", ".C", ".cxx", ".c++", ".o", ".a", ".so"}

// The folders of code.
const (
	codeFolder   = "codegen/host/"
	sourceFolder = codeFolder + "src/"
	objectFolder = codeFolder + "lib/"
)

// assignCode assigns the code files to the models. From version 3 on, a file's name begins with its model's name.
// Other sources and objects, such as an external code generator's, go to every model: each may call their functions.
// What else lies in the folder of code is for #include, by any model: only a compiler finds out whether it is included.
func (a *Archive) assignCode() error {
	// The headers of C interfaces, which readModel has added.
	interfaces := map[string]bool{}
	for _, m := range a.Models {
		for _, f := range m.Headers {
			interfaces[f.Name] = true
		}
	}

	for _, f := range a.Files {
		dir, base := path.Split(f.Name)
		ext, owners := path.Ext(base), a.Models
		module := libName.FindStringSubmatch(base)
		if module != nil {
			if i := slices.IndexFunc(a.Models, func(m *Model) bool { return m.Name == module[1] }); i >= 0 {
				owners = a.Models[i : i+1]
			}
		}

		if err := a.checkCodeName(f.Name); err != nil {
			return err
		}

		switch {
		case dir == sourceFolder && (ext == ".c" || module != nil && slices.Contains(sourceExt, ext)):
			for _, m := range owners {
				m.Sources = append(m.Sources, f)
			}
		case dir == objectFolder && ext == ".o":
			for _, m := range owners {
				m.Objects = append(m.Objects, f)
			}
		// Not code, or the header of an interface, which readModel has assigned.
		case !strings.HasPrefix(dir, "codegen/") || interfaces[f.Name]:
		case strings.HasPrefix(dir, objectFolder) && ext != ".h",
			dir == sourceFolder && (module != nil || slices.Contains(uncompiled, ext)),
			!strings.HasPrefix(dir, codeFolder) && ext != ".h":
			return a.fault(f.Name, "", "unsupported file: C in %s is compiled, objects (.o) in %s are linked",
				sourceFolder, objectFolder)
		case strings.HasPrefix(dir, codeFolder):
			for _, m := range a.Models {
				m.Headers = append(m.Headers, f)
			}
		}
	}

	for _, m := range a.Models {
		if err := a.scanCode(m); err != nil {
			return err
		}
	}
	return nil
}

// checkCodeName returns an error for code that not every build would take: make does not find a file whose name begins
// with a dot, and the files of boardsmith itself would replace those of their names, or be replaced.
func (a *Archive) checkCodeName(name string) error {
	dir, base := path.Split(name)
	ext := path.Ext(base)
	isSource, isObject := dir == sourceFolder && ext == ".c", dir == objectFolder && ext == ".o"

	if (isSource || isObject) && strings.HasPrefix(base, ".") {
		return a.fault(name, "rename it", "a name that begins with a dot is hidden: builds do not find the file")
	}

	isInterface := dir == codeFolder+"include/" && ext == ".h"
	if isSource && strings.HasPrefix(base, "boardsmith_") || (isSource || isInterface) &&
		slices.ContainsFunc(a.Models, func(m *Model) bool { return base == "tvm_"+m.Name+ext }) {
		return a.fault(name, "rename it", "boardsmith writes a file of this name beside the model's code")
	}
	return nil
}

// A codeScan holds facts read from the code of one model.
type codeScan struct {
	ffi       bool            // a function of TVM 0.21's ABI is defined
	defined   map[string]bool // functions that objects define
	registers []string        // functions, in the registry's order

	constantPools int // the description in the model's code
}

func (a *Archive) scanCode(m *Model) error {
	if len(m.Sources)+len(m.Objects) == 0 {
		return a.fault("", "", "model %s: it holds no code", m.Name)
	}
	scan := &codeScan{defined: map[string]bool{}}

	for _, f := range m.Sources {
		scan.readRegistry(f.Data)
		m.SystemLib = m.SystemLib || entryPoint.Match(f.Data)
	}

	for _, f := range m.Objects {
		o, err := f.Info()
		if err != nil {
			return a.fault(f.Name, "compile it again, to machine code for the board", "%w", err)
		}
		for _, name := range o.Defined {
			scan.defined[name] = true
			scan.ffi = scan.ffi || strings.HasPrefix(name, "__tvm_ffi_")
		}

		if slices.Contains(o.Defined, "TVMSystemLibEntryPoint") {
			m.SystemLib = true
			scan.registers = append(scan.registers, registryIn(f.Data, o.Undefined)...)
		}
	}

	m.Functions = scan.registers
	m.nameEntry()
	m.ABI = m.decideABI(scan)
	m.scan = scan
	return a.readDescription(m)
}

// nameEntry gives an operator's entry the name of the only function. MetaSchedule's builder names it otherwise than the
// module, whose name is in the metadata.
func (m *Model) nameEntry() {
	own := slices.DeleteFunc(slices.Clone(m.Functions), func(name string) bool { return name == "__tvm_main__" })
	// __tvm_main__ is registered beside the only function, which it calls.
	if m.Style == operator && len(own) == 1 && len(own) < len(m.Functions) && isIdentifier(own[0]) {
		m.Entry = own[0]
	}
}

// The patterns begin with literal text, which package regexp finds fast: sources hold megabytes of constants.
var (
	entryPoint = regexp.MustCompile(`TVMSystemLibEntryPoint\s*\(\s*void\s*\)\s*\{`)
	registry   = regexp.MustCompile(`TVMFuncRegistry\s+\w+\s*=\s*\{\s*"((?:[^"\\]|\\.)*)"`)
	ffiEntry   = regexp.MustCompile(`__tvm_ffi_\w+\s*\(\s*void`)
)

// readRegistry parses the registry's string literal: two bytes of count, then names that end in NUL.
func (s *codeScan) readRegistry(src []byte) {
	if m := registry.FindSubmatch(src); m != nil {
		s.registers = append(s.registers, registryNames(unescape(m[1]))...)
	}
	s.ffi = s.ffi || ffiEntry.Match(src)
}

// registryNames reads names in the registry's encoding (crt_abi.md §4).
func registryNames(b []byte) (names []string) {
	if len(b) < 2 {
		return nil
	}
	for _, name := range bytes.Split(b[2:], []byte{0}) {
		if len(name) > 0 {
			names = append(names, string(name))
		}
	}
	return names
}

var octal = regexp.MustCompile(`\\[0-7]{1,3}`)

// unescape decodes the octal escapes of a C literal; a registry has no others.
func unescape(literal []byte) []byte {
	return octal.ReplaceAllFunc(literal, func(e []byte) []byte {
		n, err := strconv.ParseUint(string(e[1:]), 8, 16)
		if err != nil || n > 0xff {
			return e
		}
		return []byte{byte(n)}
	})
}

// registryIn finds the registry in an object's data. LLVM's lib0 holds the encoded names as one constant that
// begins with one of the functions it refers to. It returns nil if no place matches its own count.
func registryIn(object []byte, functions []string) []string {
	for _, f := range functions {
		first := append([]byte(f), 0)
		for at := 0; ; at++ {
			// The name occurs elsewhere, too, such as among the symbols.
			i := bytes.Index(object[at:], first)
			if i < 0 {
				break
			}
			at += i
			if names := registryAt(object, at-2); names != nil {
				return names
			}
		}
	}
	return nil
}

// registryAt reads a registry's names at an offset, or returns nil.
func registryAt(object []byte, at int) []string {
	if at < 0 {
		return nil
	}

	end := bytes.Index(object[at+2:], []byte{0, 0})
	count := int(object[at]) | int(object[at+1])<<8
	if end < 0 || bytes.Count(object[at+2:at+2+end], []byte{0})+1 != count {
		return nil
	}
	return registryNames(object[at : at+2+end])
}

// HasRegistry reports whether a C source has the registry of the system library.
func (f File) HasRegistry() bool { return registry.Match(f.Data) }

// InCode returns the name of a file of Sources, Objects or Headers relative to the archive's folder of code, with its
// folder: src/net_lib0.c. Files that are written with these names include each other as in the archive, if the folder
// include is one in which #include searches.
func (f File) InCode() string { return strings.TrimPrefix(f.Name, codeFolder) }

// Code returns Sources, Objects and Headers by their names InCode.
func (m *Model) Code() (files []File) {
	for _, f := range slices.Concat(m.Sources, m.Objects, m.Headers) {
		files = append(files, File{Name: f.InCode(), Data: f.Data})
	}
	return files
}
