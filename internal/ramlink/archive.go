// This file makes archives of operators that lie in flash.

package ramlink

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/mlf"
)

// BlankArchive returns an archive with one operator, which does nothing: firmware of it is there for what is loaded
// into RAM.
func BlankArchive() (*mlf.Archive, error) { return residentArchive(nil, nil, nil) }

// Archive returns an archive of operators and constants that lie in flash with the firmware. An operator is the first
// of its Entries, under the name that is its key in functions; it is compiled as Link compiles it. A constant is
// reached by a function of its name, which takes no argument, lets the host read the constant, and returns its address.
// Errors:
// *MissingToolError, *ToolError; of class link for an operator without the entry.
func (l *Linker) Archive(ctx context.Context, functions map[string]Operators,
	constants map[string][]byte,
) (*mlf.Archive, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "compile operators")
	}
	var objects []mlf.File
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		err := inTemp(func(dir string) error {
			data, err := l.renamed(ctx, dir, functions[name], name)
			objects = append(objects, mlf.File{Name: "codegen/host/lib/" + name + ".o", Data: data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return residentArchive(slices.Sorted(maps.Keys(functions)), constants, objects)
}

// renamed returns one object that defines nothing but the operator's entry, under another name.
func (l *Linker) renamed(ctx context.Context, dir string, o Operators, name string) ([]byte, error) {
	if len(o.Entries) == 0 {
		return nil, failure.Errorf(failure.Config, "operators: no entry is named")
	}
	objects, err := l.objects(ctx, dir, o)
	if err == nil {
		err = writeAll(dir, objects)
	}
	if err != nil {
		return nil, err
	}
	objcopy, err := command.Find(l.setting.Board.Toolchain.Objcopy(), l.setting.Board.Toolchain.Install)
	if err != nil {
		return nil, err
	}
	const whole = "boardsmith_whole.o"
	words := append(l.emulation(), "-r", "-o", whole)
	for _, f := range objects {
		words = append(words, f.Name)
	}
	if err := l.run(ctx, dir, words); err != nil {
		return nil, err
	}
	_, entry := firmware.EntryNames(o.Entries[0])
	rename := []string{objcopy, "--redefine-sym", entry + "=" + name, "--keep-global-symbol", name, whole}
	if err := l.run(ctx, dir, rename); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, whole))
	if err != nil {
		return nil, err
	}
	info, err := mlf.File{Name: name + ".o", Data: data}.Info()
	if err == nil && !slices.Contains(info.Defined, name) {
		err = failure.Errorf(failure.Link, "the operators have no function %s", entry)
	}
	return data, err
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
	residentTop = `#include <boardsmith/boardsmith.h>
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

// residentArchive is an archive of objects that define the functions, and of constants.
func residentArchive(functions []string, constants map[string][]byte, objects []mlf.File) (*mlf.Archive, error) {
	names := slices.Concat([]string{doesNothing}, functions, slices.Sorted(maps.Keys(constants)))
	var c strings.Builder
	c.WriteString(residentTop)
	for _, name := range functions {
		fmt.Fprintf(&c, "extern PACKED(%s);\n", name)
	}
	for _, name := range slices.Sorted(maps.Keys(constants)) {
		writeConstant(&c, name, constants[name])
	}
	fmt.Fprintf(&c, "static const TVMBackendPackedCFunc functions[] = {\n")
	for _, name := range names {
		fmt.Fprintf(&c, "  (TVMBackendPackedCFunc)%s,\n", name)
	}
	fmt.Fprintf(&c, "};\nstatic const TVMFuncRegistry registry = {\"\\%03o\\%03o%s\\000\", functions};\n",
		len(names)&0xff, len(names)>>8, strings.Join(names, `\000`))
	c.WriteString("static const TVMModule library = {&registry};\n" +
		"const TVMModule* TVMSystemLibEntryPoint(void) { return &library; }\n")
	metadata := `{"version": 7, "model_name": "resident", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"` +
		doesNothing + `": [{"size_bytes": 4, "shape": [1], "dtype": "int32", "input_binding": null}]}, ` +
		`"target": ["c -keys=cpu"], "executors": [], "style": "operator"}`
	files := append([]mlf.File{
		{Name: "metadata.json", Data: []byte(metadata)}, {Name: "codegen/host/src/lib0.c", Data: []byte(c.String())},
	}, objects...)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: "./" + f.Name, Mode: 0o644, Size: int64(len(f.Data)), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return mlf.Parse("resident.tar", b.Bytes())
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
