// This file makes firmware that stays on a device, and loads models and operators into the RAM beside it.

package project

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/generator"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/rpc"
)

// CodeOf returns the code of a model as operators without entries: sources, objects and headers with the folders of
// their names, so that sources find headers as they do in firmware.
func CodeOf(m *mlf.Model) Operators {
	o := Operators{Flags: []string{"-Iinclude"}}
	for _, f := range slices.Concat(m.Sources, m.Objects, m.Headers) {
		o.Files = append(o.Files, OperatorFile{f.InCode(), f.Data})
	}
	return o
}

// ModelOperators returns the code of the project's model, for the RAM of a device: its sources, objects and headers,
// those of the C interface with what makes them callable, and as Entries the functions of its system library.
func (p *Project) ModelOperators() (Operators, error) {
	_, m, err := p.Model()
	if err != nil {
		return Operators{}, err
	}
	o := CodeOf(m)
	c, err := generator.Adapter(nil, m)
	if err != nil {
		return Operators{}, err
	}
	o.Entries, o.Signatures = m.Functions, m.Signatures()
	if c != nil {
		o.Files = append(o.Files, OperatorFile{path.Base(adapterFile), c})
		o.Entries = nil
		for _, function := range []string{"run", "get_c_metadata"} {
			o.Entries = append(o.Entries, m.Prefix()+"_"+function+"="+m.Header.Adapter(function))
		}
	}
	return o, nil
}

// Resident generates, in a folder of its own, firmware for the project's board that has room in RAM for the project's
// model instead of holding it, and builds it. Its arena, stack and packet buffer are where the project places them.
// Board and Template of from say where these are, as for Generate; zero fields mean that they are found by their names.
// Other fields have no effect. The caller closes the returned project. If the board has not enough RAM,
// Resident returns a *FitError with the bytes that are missing. Further errors: those of CheckLoadedPlace, Generate,
// Build and OperatorLinker.
func (p *Project) Resident(ctx context.Context, dir string, from Spec) (*Project, error) {
	if err := CheckLoadedPlace(p.state.Options); err != nil {
		return nil, err
	}
	o, err := p.ModelOperators()
	if err != nil {
		return nil, err
	}
	blank, err := BlankArchive()
	if err != nil {
		return nil, err
	}
	b := p.Board()
	s := Spec{
		Board: cmp.Or(from.Board, p.state.Board.Name), Template: cmp.Or(from.Template, p.TemplateFrom()), Archive: blank,
		Options: p.state.Options, Libraries: p.libraryCopies(),
	}
	region, mapped := b.Region(b.Place.UploadRegion())
	need, err := p.sizeInRAM(ctx, dir, s, o, max(uint64(region.Origin), hypothetical))
	if err != nil {
		return nil, err
	}
	s.Options.UploadKiB = roundUp(need)
	if s.Options, err = lowerArena(b, s.Options); err != nil && mapped {
		have, all := int64(region.Size), int64(s.Options.UploadKiB)*1024
		if region.Origin == 0 {
			all *= 2 // as boards checks
		}
		if b.Place.StackRegion() == region.Name {
			all += int64(cmp.Or(s.Options.StackBytes, b.StackBytes))
		}
		if b.Place.ArenaRegion() == region.Name {
			all += int64(s.Options.ArenaKiB) * 1024
		}
		if all <= have {
			return nil, err
		}
		return nil, &fit.Error{
			Board: b.Name, What: fmt.Sprintf("RAM region %q, for a model of %d bytes,", region.Name, need),
			Over: all - have, Need: all, Have: have,
		}
	}
	return p.builder.generatedAndBuilt(ctx, dir, s)
}

// CheckLoadedPlace returns an error of class config if the option Place names parts of the model, which lie in the
// memory for uploaded code if they are loaded into RAM. Arena, stack and packet buffer are the firmware's.
func CheckLoadedPlace(o boards.Options) error {
	parts := o.PlacedOfModel()
	if len(parts) == 0 {
		return nil
	}
	return failure.New(failure.Config, "place only arena, packet and stack; place.upload of the board file names the "+
		"memory of what is loaded", "option place: code that is loaded into RAM lies in the memory for uploaded code, "+
		"with all its data: %s cannot be placed", strings.Join(parts, ", "))
}

// generatedAndBuilt returns a project with an image. The caller closes it.
func (b *Builder) generatedAndBuilt(ctx context.Context, dir string, s Spec) (*Project, error) {
	r, err := b.Generate(ctx, dir, s)
	if err != nil {
		return nil, err
	}
	if _, err := r.Build(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// sizeInRAM returns how large a window the operators need: they are linked for one without end. Libraries are compiled
// before, in a project in dir.
func (p *Project) sizeInRAM(ctx context.Context, dir string, s Spec, o Operators, at uint64) (_ uint64, err error) {
	with := p
	if len(p.state.Libraries) > 0 {
		s.Options.UploadKiB = 0
		if with, err = p.builder.generatedAndBuilt(ctx, dir, s); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, with.Close()) }()
	}
	l, err := with.OperatorLinker(ctx)
	if err != nil {
		return 0, err
	}
	program, err := l.Link(ctx, o, rpc.Window{Base: at, Bytes: 1 << 40})
	return uint64(len(program.Bytes)) + program.Zero, err
}

// hypothetical is where code is linked whose size is asked for.
const hypothetical = 0x40000000

// LoadRAM compiles operators, loads them into RAM beside the project's firmware, which runs at the other end of the
// session, and links them. The module is to be freed by Unlink. A *FitError says how many bytes of the window are
// missing.
func (p *Project) LoadRAM(ctx context.Context, s *rpc.Session, o Operators) (rpc.Module, error) {
	l, err := p.OperatorLinker(ctx)
	if err != nil {
		return rpc.Module{}, err
	}
	windows, err := s.Windows(ctx)
	if err != nil {
		return rpc.Module{}, err
	}
	if len(windows) == 0 {
		return rpc.Module{}, failure.New(failure.DoesNotFit, "unlink a module", "no RAM for code is free")
	}
	largest := slices.MaxFunc(windows, func(a, b rpc.Window) int { return int(int64(a.Bytes) - int64(b.Bytes)) })
	program, err := l.Link(ctx, o, largest)
	if err != nil {
		return rpc.Module{}, err
	}
	return s.Upload(ctx, program)
}

// leastArenaKiB is enough for a session and small arguments.
const leastArenaKiB = 2

// lowerArena lowers the arena of options for a board as far as their window for code needs; an arena that was asked for
// stays. Its error is of class does-not-fit if there is no room for the window.
func lowerArena(b *boards.Board, o boards.Options) (boards.Options, error) {
	region, mapped := b.Region(b.Place.UploadRegion())
	if o.ArenaKiB == 0 && mapped && b.Place.ArenaRegion() == region.Name {
		// The window and its alignment come out of what the arena had.
		if room := int(region.Size)/1024 - 2*o.UploadKiB - b.StackBytes/1024 - 8; b.ArenaKiB > room {
			o.ArenaKiB = max(room, leastArenaKiB)
		}
	}
	_, err := b.Settle(o)
	return o, err
}

// BlankArchive returns an archive with one operator, which does nothing: firmware of it is there for what is loaded
// into RAM.
func BlankArchive() (*mlf.Archive, error) { return residentArchive(nil, nil, nil) }

// Archive returns an archive of operators and constants that lie in flash with the firmware. An operator is the first
// of its Entries, under the name that is its key in functions; it is compiled as Link compiles it. A constant is
// reached by a function of its name, which takes no argument, lets the host read the constant, and returns its address.
// Errors:
// *MissingToolError, *ToolError; of class link for an operator without the entry.
func (l *OperatorLinker) Archive(ctx context.Context, functions map[string]Operators,
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
func (l *OperatorLinker) renamed(ctx context.Context, dir string, o Operators, name string) ([]byte, error) {
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
	objcopy, err := command.Find(l.board.Toolchain.Objcopy(), l.board.Toolchain.Install)
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
func (l *OperatorLinker) emulation() []string {
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
