// This file links operators at an address of a device and makes a program of the result.

package ramlink

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/rpc"
)

const (
	operatorScript = "operators.ld"
	linkedFile     = "operators.elf"
	initFunction   = "boardsmith_program_init"
	tablePointer   = "_tvm_backend_functions"
	importNames    = "boardsmith_import_names"
	importPointers = "boardsmith_imports"
	checkFunction  = "boardsmith_check"
	checkedSymbol  = "boardsmith_checked" // that checkFunction calls
)

// script places operators at an address: what is uploaded, with room for the registry at its end, then what begins as
// zero.
const script = `SECTIONS {
  . = 0x%x;
  .text : { *(.text .text.*) *(.glue_7 .glue_7t .v4_bx) }
  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) *(.got .got.plt) }
  .init_array : ALIGN(8) {
    boardsmith_constructors = .;
    KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*)))
    KEEP(*(.init_array))
    boardsmith_constructors_end = .;
  }
  .data : { *(.data .data.* .sdata .sdata.*) }
  .tdata : { *(.tdata .tdata.*) }
  .tbss : { *(.tbss .tbss.*) }
  boardsmith_registry = ALIGN(16);
  . = boardsmith_registry + %d;
  boardsmith_zero = .;
  .bss (NOLOAD) : { *(.bss .bss.* .sbss .sbss.* COMMON) }
  boardsmith_end = .;
  /DISCARD/ : {
    *(.comment .note .note.* .eh_frame .ARM.exidx .ARM.exidx.* .ARM.extab .ARM.extab.* .ARM.attributes .riscv.attributes)
    *(.fini_array .fini_array.*)
  }
}
`

// Link makes a program of operators for a window. Errors: a *ToolError where the compiler or the linker fails, a
// *FitError where the window is too small; of class config for names of files; of class link for an entry that is not
// there and for variables of threads.
func (l *Linker) Link(ctx context.Context, o Operators, w rpc.Window) (program rpc.Program, err error) {
	if ctx.Err() != nil {
		return program, failure.Stopped(ctx, "link operators")
	}
	if len(o.Entries) == 0 {
		return program, failure.Errorf(failure.Config, "operators: no entry is named")
	}

	o, own, err := l.packed(ctx, o)
	if err != nil {
		return program, err
	}
	if err := checkNames(o.Files); err != nil {
		return program, err
	}

	err = inTemp(func(dir string) error {
		program, err = l.linkIn(ctx, dir, o, slices.Concat(l.own, own), w)
		return err
	})
	return program, err
}

func (l *Linker) linkIn(ctx context.Context, dir string, o Operators, own []mlf.File, w rpc.Window) (
	rpc.Program, error,
) {
	operatorsDir, linkDir := filepath.Join(dir, operatorsPart), filepath.Join(dir, linkPart)
	objects, err := l.objects(ctx, operatorsDir, o)
	if err != nil {
		return rpc.Program{}, err
	}
	if objects, err = l.withLibraries(ctx, operatorsDir, objects, o.Entries); err != nil {
		return rpc.Program{}, err
	}

	stubs, err := l.stubs(ctx, linkDir, slices.Concat(own, objects))
	if err != nil {
		return rpc.Program{}, err
	}
	own = slices.Concat(own, stubs)
	if err := errors.Join(writeAll(linkDir, own), writeAll(operatorsDir, objects)); err != nil {
		return rpc.Program{}, err
	}

	// The function that calls constructors is sent only with code that has some, which a link tells.
	if len(stubs) == 0 {
		p, err := l.linkEntries(ctx, dir, o, own, objects, w)
		if err != nil || p.Init == "" {
			return p, err
		}
	}

	o.Entries = append([]string{initFunction}, o.Entries...)
	return l.linkEntries(ctx, dir, o, own, objects, w)
}

// linkEntries links objects, which lie in folders below dir, and makes a program of the result.
func (l *Linker) linkEntries(ctx context.Context, dir string, o Operators, own, objects []mlf.File, w rpc.Window) (
	rpc.Program, error,
) {
	operatorsDir, linkDir := filepath.Join(dir, operatorsPart), filepath.Join(dir, linkPart)
	entries := slices.Clone(o.Entries)
	var checked []string
	if o.Check != "" {
		entries = append(entries, o.CheckName(o.Check)+"="+checkFunction)
		checked = []string{"--defsym", checkedSymbol + "=" + o.symbol(o.Check)}
	}

	layout := firmware.Registry{
		Entries: entries, Signatures: o.signatures(),
		WordBytes: cmp.Or(l.setting.Board.ELF.Class, 64) / 8,
	}

	linkerScript := mlf.File{Name: operatorScript, Data: fmt.Appendf(nil, script, w.Base, layout.Bytes())}
	if err := writeAll(linkDir, []mlf.File{linkerScript}); err != nil {
		return rpc.Program{}, err
	}

	words := slices.Concat(l.link, []string{
		"-T", toLinkPart + operatorScript, "-o", toLinkPart + linkedFile, "--gc-sections", "-e", "0",
		"-u", tablePointer,
	}, checked)
	for _, e := range layout.Entries {
		_, symbol := firmware.EntryNames(e)
		words = append(words, "-u", symbol)
	}
	for _, f := range own {
		words = append(words, toLinkPart+f.Name)
	}
	for _, f := range objects {
		words = append(words, "./"+f.Name)
	}
	words = append(words, l.libs...)

	if err := l.run(ctx, operatorsDir, words); err != nil {
		return rpc.Program{}, l.missing(ctx, dir, words, o, vanished(vanished(err, operatorsDir, objects), linkDir, own))
	}

	linked, err := os.ReadFile(filepath.Join(linkDir, linkedFile))
	if err != nil {
		return rpc.Program{}, err
	}
	f, err := elf.NewFile(bytes.NewReader(linked))
	if err != nil {
		return rpc.Program{}, err
	}

	p, err := l.program(f, layout, w)
	p.ELF = linked
	return p, err
}

// missing is buildenv.ExplainSymbol for the error of a link in dir, which it runs again for its map.
func (l *Linker) missing(ctx context.Context, dir string, words []string, o Operators, err error) error {
	var tool *buildenv.ToolError
	if !errors.As(err, &tool) {
		return err
	}

	if _, function := diagnostics.MissingSymbol(string(tool.Tail)); function != "" {
		_ = l.run(ctx, filepath.Join(dir, operatorsPart), append(slices.Clip(words), "-Map", toLinkPart+"operators.map"))
	}

	return buildenv.ExplainSymbol(err, os.DirFS(filepath.Join(dir, linkPart)), func(object string) string {
		for _, f := range o.Files {
			if path.Ext(f.Name) == ".c" && objectName(f.Name) == path.Base(object) {
				return f.Name
			}
		}
		return "code for RAM"
	})
}

// symbol returns the C function of an entry.
func (o Operators) symbol(entry string) string {
	for _, e := range o.Entries {
		if name, symbol := firmware.EntryNames(e); name == entry {
			return symbol
		}
	}
	return entry
}

// signatures returns the signatures of entries, with the names in C.
func (o Operators) signatures() (all []firmware.Signature) {
	for _, e := range o.Entries {
		name, symbol := firmware.EntryNames(e)
		i := slices.IndexFunc(o.Signatures, func(s mlf.Signature) bool { return s.Function == name })
		if i >= 0 {
			s := o.Signatures[i]
			all = append(all, firmware.Signature{
				Symbol: symbol, Leading: uint8(s.Leading), MinTensors: uint8(s.MinTensors), MaxTensors: uint8(s.MaxTensors),
			})
		}
	}
	return all
}

// program takes the linked bytes, checks that they fit, and adds the registry.
func (l *Linker) program(f *elf.File, r firmware.Registry, w rpc.Window) (rpc.Program, error) {
	at, err := firmware.Symbols(f, "the operators")
	if err != nil {
		return rpc.Program{}, err
	}

	p := rpc.Program{
		Base: w.Base, Zero: at["boardsmith_end"] - at["boardsmith_zero"], Table: at[tablePointer],
		Registry: at["boardsmith_registry"], Signatures: r.SignaturesAt(at["boardsmith_registry"]),
	}

	// Without constructors and stubs, nothing has to be initialised: then it is not among the entries.
	if at["boardsmith_constructors"] != at["boardsmith_constructors_end"] || at[importPointers] != 0 {
		p.Init = initFunction
	}

	if need := at["boardsmith_end"] - w.Base; need > w.Bytes {
		return rpc.Program{}, &fit.Error{
			Board: l.setting.Board.Name, Part: "upload window", Over: int64(need - w.Bytes),
			Need: int64(need), Have: int64(w.Bytes), Option: fmt.Sprintf("upload_kib=%d", RoundUp(need)),
		}
	}

	p.Bytes, err = r.Append(f, at, w.Base, at["boardsmith_registry"], at["boardsmith_zero"])
	return p, err
}

// RoundUp is the least power of two of KiB that holds so many bytes.
func RoundUp(bytes uint64) (kib int) {
	for kib = 1; uint64(kib)*1024 < bytes; kib *= 2 {
	}
	return kib
}
