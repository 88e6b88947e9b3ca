// This file makes archives of operators that lie in flash.

package ramlink

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/mlf"
)

// Archive returns an archive of operators and constants that lie in flash with the firmware. An operator is the first
// of its Entries, under the name that is its key in functions; it is compiled as Link compiles it. A constant is
// reached by a function of its name, which takes no argument, lets the host read the constant, and returns its address.
// Errors:
// *failure.MissingToolError, *ToolError; of class link for an operator without the entry.
func (l *Linker) Archive(ctx context.Context, functions map[string]Operators,
	constants map[string][]byte,
) (*mlf.Archive, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "compile operators")
	}

	var objects []mlf.File
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		err := inTemp(func(dir string) error {
			o := functions[name]
			if len(o.Entries) == 0 {
				return errNoEntry()
			}
			o.Entries = o.Entries[:1]
			object, _, err := l.renamed(ctx, dir, o, name)
			objects = append(objects, object)
			return err
		})
		if err != nil {
			return nil, err
		}
	}

	return residentArchive(slices.Sorted(maps.Keys(functions)), constants, objects)
}

// ModuleArchive returns an archive with operators that lie in flash with the firmware, under the names of all their
// Entries. Errors: those of Archive.
func (l *Linker) ModuleArchive(ctx context.Context, o Operators) (a *mlf.Archive, err error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "compile operators")
	}
	if len(o.Entries) == 0 {
		return nil, errNoEntry()
	}

	err = inTemp(func(dir string) error {
		object, entries, err := l.renamed(ctx, dir, o, "boardsmith_module")
		if err == nil {
			a, err = residentArchive(entries, nil, []mlf.File{object})
		}
		return err
	})
	return a, err
}

func errNoEntry() error { return failure.Errorf(failure.Config, "operators: no entry is named") }

// renamed returns one object NAME.o of an archive that defines nothing but the operators' entries. The symbol of the
// first one becomes name, that of the i-th other one NAME_i. The returned entries have these symbols.
func (l *Linker) renamed(ctx context.Context, dir string, o Operators, name string) (mlf.File, []string, error) {
	o, own, err := l.packed(ctx, o)
	if err == nil {
		err = checkNames(o.Files)
	}

	var objects []mlf.File
	if err == nil {
		objects, err = l.objects(ctx, dir, o)
	}
	if err == nil {
		objects = append(objects, own...)
		err = writeAll(dir, objects)
	}
	if err != nil {
		return mlf.File{}, nil, err
	}

	objcopy, err := command.Find(l.setting.Board.Toolchain.Objcopy(), l.setting.Board.Toolchain.Install)
	if err != nil {
		return mlf.File{}, nil, err
	}
	const whole = "boardsmith_whole.o"

	// In one object, all symbols but those of the entries can become local.
	words := append(l.emulation(), "-r", "-o", whole)
	for _, f := range objects {
		words = append(words, "./"+f.Name)
	}
	if err := l.run(ctx, dir, words); err != nil {
		return mlf.File{}, nil, err
	}

	symbols, entries := renameEntries(o.Entries, name)
	rename := []string{objcopy}
	for _, old := range slices.Sorted(maps.Keys(symbols)) {
		rename = append(rename, "--redefine-sym", old+"="+symbols[old], "--keep-global-symbol", symbols[old])
	}
	if err := l.run(ctx, dir, append(rename, whole)); err != nil {
		return mlf.File{}, nil, err
	}

	data, err := os.ReadFile(filepath.Join(dir, whole))
	if err != nil {
		return mlf.File{}, nil, err
	}
	object := mlf.File{Name: "codegen/host/lib/" + name + ".o", Data: data}

	// objcopy succeeds without a symbol that it is to rename.
	info, err := object.Info()
	for old, symbol := range symbols {
		if err == nil && !slices.Contains(info.Defined, symbol) {
			err = failure.Errorf(failure.Link, "the operators have no function %s", old)
		}
	}

	return object, entries, err
}

// renameEntries returns the new names of the symbols of entries, and the entries with them.
func renameEntries(entries []string, name string) (symbols map[string]string, renamed []string) {
	symbols = map[string]string{}
	for _, e := range entries {
		called, symbol := firmware.EntryNames(e)
		if symbols[symbol] == "" {
			symbols[symbol] = name
			if n := len(symbols); n > 1 {
				symbols[symbol] = fmt.Sprintf("%s_%d", name, n-1)
			}
		}
		renamed = append(renamed, called+"="+symbols[symbol])
	}
	return symbols, renamed
}

// emulation is the linker with the words that name its output's form, without those of a whole program.
func (l *Linker) emulation() []string {
	words := []string{l.link[0]}
	for i, w := range l.link {
		switch {
		case w == "-m" && i+1 < len(l.link):
			words = append(words, w, l.link[i+1])
		case len(w) > 2 && strings.HasPrefix(w, "-m"), w == "-EL", w == "-EB":
			words = append(words, w)
		}
	}
	return words
}

const (
	doesNothing = "boardsmith_nothing"
	metadata    = `{"version": 7, "model_name": "resident", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"` +
		doesNothing + `": [{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}]}, ` +
		`"target": ["c -keys=cpu"], "executors": [], "style": "operator"}`
	registryTop = `#include <boardsmith/boardsmith.h>
#include <stdint.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/module.h>
#define PACKED(name) \
  int32_t name(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle)
PACKED(` + doesNothing + `) {
  return 0;
}
`
)

// residentArchive is Operators.Archive with constants, too.
func residentArchive(functions []string, constants map[string][]byte, objects []mlf.File) (*mlf.Archive, error) {
	names := slices.Sorted(maps.Keys(constants))
	var c strings.Builder
	for _, name := range names {
		writeConstant(&c, name, constants[name])
	}
	return functionArchive(c.String(), slices.Concat(functions, names), objects)
}

// Archive returns an archive of Entries and Files alone, which are packed functions and files in an archive's folders
// for code. Its one operator does nothing. Firmware of no function is there for what is loaded into RAM.
func (o Operators) Archive() (*mlf.Archive, error) { return functionArchive("", o.Entries, o.Files) }

// functionArchive is Operators.Archive with definitions in C, beside the registry.
func functionArchive(definitions string, functions []string, files []mlf.File) (*mlf.Archive, error) {
	functions = append([]string{doesNothing}, functions...)
	var declared, table, names strings.Builder
	for _, f := range functions {
		name, symbol := firmware.EntryNames(f)
		fmt.Fprintf(&declared, "PACKED(%s);\n", symbol)
		fmt.Fprintf(&table, "  (TVMBackendPackedCFunc)%s,\n", symbol)
		fmt.Fprintf(&names, `%s\000`, name)
	}

	registry := registryTop + definitions + fmt.Sprintf(`%sstatic const TVMBackendPackedCFunc functions[] = {
%s};
static const TVMFuncRegistry registry = {"\%03o\%03o%s", functions};
static const TVMModule library = {&registry};
const TVMModule* TVMSystemLibEntryPoint(void) { return &library; }
`, declared.String(), table.String(), len(functions)&0xff, len(functions)>>8, names.String())

	data, err := tarfile.Of(append([]mlf.File{
		{Name: "./metadata.json", Data: []byte(metadata)}, {Name: "./codegen/host/src/lib0.c", Data: []byte(registry)},
	}, files...))
	if err != nil {
		return nil, err
	}
	return mlf.Parse("functions.tar", data)
}

// writeConstant writes a constant, and the function that returns its address.
func writeConstant(c *strings.Builder, name string, data []byte) {
	fmt.Fprintf(c, "static const uint8_t %s_data[%d] __attribute__((section(\".rodata.tvm\"), aligned(64))) = {", name,
		len(data))
	for i, b := range data {
		if i%32 == 0 {
			c.WriteString("\n")
		}
		fmt.Fprintf(c, "%d,", b)
	}

	fmt.Fprintf(c, "};\nPACKED(%s) {\n  static boardsmith_window_t window;\n"+
		"  boardsmith_window_add(&window, (void*)%[1]s_data, sizeof %[1]s_data, 0);\n"+
		"  out_value->v_int64 = (int64_t)(uintptr_t)%[1]s_data;\n  *out_type_code = kTVMArgInt;\n  return 0;\n}\n", name)
}
