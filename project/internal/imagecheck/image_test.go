package imagecheck

import (
	"debug/elf"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// object has a section for each rule about an image's places.
const object = `
.syntax unified
.section .vectors, "a"
.global table
table: .word stack_end, reset
.space 56
.section .rodata.late, "a"
.space 4
.section .text.late, "ax"
.space 32
.section .init_array, "aw"
.word begin
.text
.global begin
begin: bx lr
.data
.word 1
.bss
.space 32
.section .boardsmith.noinit, "aw", %nobits
.space 16
.section .stack, "aw", %nobits
.space 64
.section .window, "aw", %nobits
.space 64
`

// script places the object as the contract requires.
const script = `MEMORY { flash (rx) : ORIGIN = 0x1000, LENGTH = 0x1000
	ram (rwx) : ORIGIN = 0x20000000, LENGTH = 0x1000 }
PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); }
SECTIONS {
	.vectors 0x1100 : { first = .; KEEP(*(.vectors)) } >flash :text
	.text : { *(.text*) *(.rodata*) . = ALIGN(4); init = .; KEEP(*(.init_array)) init_end = .; } >flash :text
	.note.gnu.build-id : { KEEP(*(.note.gnu.build-id)) } >flash :text
	.data : { KEEP(*(.data)) } >ram AT>flash :data
	.noinit (NOLOAD) : { KEEP(*(.boardsmith.noinit)) } >ram :NONE
	.stack (NOLOAD) : { KEEP(*(.stack)) } >ram :NONE
	.window (NOLOAD) : { window = .; KEEP(*(.window)) } >ram :NONE
	.bss (NOLOAD) : { zero = .; KEEP(*(.bss .boardsmith.noinit)) zero_end = .; } >ram :NONE
	stack_end = ADDR(.stack) + SIZEOF(.stack); reset = begin + 1;
	last = LOADADDR(.data) + SIZEOF(.data);
	/DISCARD/ : { *(.ARM.attributes) }
}
`

// linked links the object by a script, for a board with a boot loader before its flash.
func linked(t *testing.T, script string) Program {
	t.Helper()
	dir := testkit.Link(t, "arm-none-eabi-gcc", script, object, "-mcpu=cortex-m3", "-mthumb",
		"-Wl,--gc-sections,-ebegin,-utable")
	return Program{
		Path: filepath.Join(dir, "o.elf"), Map: filepath.Join(dir, "o.map"), Advice: "do better",
		Template: &templatefile.Description{
			ELF: "build/o.elf",
			Contract: templatefile.Contract{
				Page: "docs/chip.md", Vectors: "table", Window: "window",
				Cleared:      []firmware.Place{{Symbol: "zero", End: "zero_end"}, {Symbol: "none"}},
				Constructors: firmware.Place{Symbol: "init", End: "init_end"},
			},
			Landmarks: firmware.Landmarks{
				Parts: []firmware.Place{{Symbol: "first", End: "last"}}, Kept: firmware.Place{Section: ".noinit"},
			},
			Areas: fit.Areas{Stacks: []string{".stack"}},
		},
		Board: &boards.Board{
			Name: "b", ELF: boards.ELF{Machine: "arm", Class: 32, Arch: "v7-m"}, LinkerScript: boards.Source{Name: "o.ld"},
			Place: boards.Place{Code: "flash"},
			Memory: []boards.Region{
				{Name: "boot", Origin: 0x800, Size: 0x800, Reserved: true, Nonvolatile: true},
				{Name: "flash", Origin: 0x1000, Size: 0x1000, Nonvolatile: true},
				{Name: "ram", Origin: 0x20000000, Size: 0x1000},
			},
		},
	}
}

// TestInspect: an image that keeps the rules has an id and sizes, and each rule that it breaks is named.
func TestInspect(t *testing.T) {
	t.Parallel()
	const kept = ".noinit (NOLOAD) : { KEEP(*(.boardsmith.noinit)) } >ram"
	const bss = "zero = .; KEEP(*(.bss .boardsmith.noinit)) zero_end = .;"
	const stack = "stack_end = ADDR(.stack) + SIZEOF(.stack)"
	for _, c := range []struct {
		name, old, new string // of the script
		want           string // "": none
	}{
		{"as it is", "", "", ""},
		{"in the boot loader", ".vectors 0x1100", ".vectors 0xff0", "reaches into region boot, which board b reserves"},
		{
			"data in the boot loader", "} >ram AT>flash :data", "} >ram AT>boot :data",
			"loaded data at 0x00000800, 4 bytes, reaches into region boot",
		},
		{"no region", kept, ".noinit 0x4000 (NOLOAD) : { KEEP(*(.boardsmith.noinit)) }", "section .noinit at 0x00004000"},
		{
			"the end of a region", kept, ".noinit 0x20000ff8 (NOLOAD) : { KEEP(*(.boardsmith.noinit)) }",
			"is 8 bytes longer than the rest of region ram of board b",
		},
		{"the last bytes", kept, ".noinit 0x20000ff0 (NOLOAD) : { KEEP(*(.boardsmith.noinit)) }", ""},
		{"not kept", "KEEP(*(.boardsmith.noinit))", "", "section .noinit is missing"},
		{
			"not kept beside what is", "KEEP(*(.boardsmith.noinit))", ". += 16;",
			"the fault record is not kept over a reset: section .boardsmith.noinit of ",
		},
		{
			"kept with contents", kept, ".noinit : { KEEP(*(.boardsmith.noinit)) LONG(1) } >ram AT>flash",
			"section .noinit has contents",
		},
		{"kept, loaded", kept + " :NONE", kept + " :data", "section .noinit is in a segment"},
		{
			"kept, cleared", bss, "zero = ADDR(.noinit); KEEP(*(.bss .boardsmith.noinit)) zero_end = .;",
			"section .noinit is in memory that is cleared",
		},
		{
			"a stack, cleared", bss, "zero = ADDR(.stack) + 60; KEEP(*(.bss .boardsmith.noinit)) zero_end = .;",
			"section .stack is in memory that is cleared",
		},
		{"not cleared", bss, "zero = .; zero_end = .; KEEP(*(.bss .boardsmith.noinit))", "section .bss, 32 bytes at 0x"},
		{
			"not cleared from its start", bss, "KEEP(*(.bss .boardsmith.noinit)) zero = ADDR(.bss) + 4; zero_end = .;",
			"is not cleared at the start",
		},
		{
			"not cleared to its end", bss, "zero = .; KEEP(*(.bss .boardsmith.noinit)) zero_end = . - 4;",
			"is not cleared at the start",
		},
		{"no window", "window = .;", "", "section .window, 64 bytes at 0x"},
		{"constructors removed", "KEEP(*(.init_array))", "*(.init_array)", "section .init_array of "},
		{"constructors before", "init = .;", "KEEP(*(.init_array)) init = .;", "not among the constructors"},
		{"no constructors", "init = .;", "", ""},
		{
			"code before the table", "first = .;", "first = .; *(.text) . = ALIGN(256);",
			"the vector table table at 0x00001200 does not precede code and constants: section .text of ",
		},
		{
			"constants before the table", "first = .;", "first = .; KEEP(*(.rodata*)) . = ALIGN(256);",
			"does not precede code and constants: section .rodata.late of ",
		},
		{"a header before the table", "first = .;", "first = .; BYTE(1) . = ALIGN(256);", ""},
		{"the stack's end is RAM's", stack, "stack_end = 0x20001000", ""},
		{"a stack behind RAM", stack, "stack_end = 0x20001001", "0x20001001, which is in no RAM"},
		{"a stack before RAM", stack, "stack_end = 0x20000000", "0x20000000, which is in no RAM"},
		{"a stack in flash", stack, "stack_end = first", "0x00001100, which is in no RAM"},
		{"a reset of ARM code", "reset = begin + 1", "reset = begin", ", lacks the bit of Thumb code, 1"},
		{"a reset into variables", "reset = begin + 1", "reset = ADDR(.data) + 1", "table, 0x20000001, is no code"},
		{"a reset into nothing", "reset = begin + 1", "reset = 0", "table, 0x00000000, is no code"},
		{"outside of the parts", "+ SIZEOF(.data);", ";", "outside the ranges of the firmware's checksum"},
		{"longer than the image", "+ SIZEOF(.data);", "+ SIZEOF(.data) + 4;", "nothing at 0x"},
		{"no part", "first = .;", "", "lacks a part that its template names"},
		{"no id", "KEEP(*(.note.gnu.build-id))", "BYTE(0)", "has no build id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(script, c.old) {
				t.Fatalf("no %q", c.old)
			}
			text := strings.Replace(script, "MEMORY {", "MEMORY { boot : ORIGIN = 0x800, LENGTH = 0x800", 1)
			i := linked(t, strings.Replace(text, c.old, c.new, 1))
			id, size, err := i.Inspect()
			if c.want != "" {
				if err == nil || failure.Of(err) == failure.Internal || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil || id == [16]byte{} || size.BSS != 32+16+64+64 || size.Data != 4 {
				t.Errorf("%x, %+v, %v", id, size, err)
			}
		})
	}
}

// TestInspectOther: what is no image of the board, and rules of a board's own script alone.
func TestInspectOther(t *testing.T) {
	t.Parallel()
	unkept := strings.Replace(script, "KEEP(*(.boardsmith.noinit))", "", 1)
	for _, c := range []struct {
		name, script, want string
		change             func(i *Program)
	}{
		{"no file", script, "the build command succeeded but made no build/o.elf", func(i *Program) { i.Path += "x" }},
		{"a folder", script, "is a directory", func(i *Program) { i.Path = filepath.Dir(i.Path) }},
		{"no ELF file", script, "build/o.elf: ", func(i *Program) { i.Path = filepath.Join(filepath.Dir(i.Path), "o.S") }},
		{"another processor", script, "build/o.elf", func(i *Program) { i.Board.ELF.Class = 64 }},
		{"no vector table", script, "the vector table none is not in the image: its section needs KEEP", func(i *Program) {
			i.Template.Contract.Vectors = "none"
		}},
		{"not of a Cortex-M", strings.Replace(script, "begin + 1", "begin", 1), "", func(i *Program) {
			i.Board.ELF.Arch = ""
		}},
		{"no map", script, "o.mapx", func(i *Program) { i.Map += "x" }},
		{"the template's script", unkept, "", func(i *Program) { i.Board.LinkerScript.Name = "" }},
		{"own start-up code", unkept, "build/o.elf with o.ld and s.S: section .noinit is missing", func(i *Program) {
			i.Board.Startup.Name = "s.S"
		}},
		{"nothing is kept", unkept, "", func(i *Program) { i.Template.Landmarks.Kept.Section = "" }},
		{"a process", unkept, "", func(i *Program) { i.Board.Memory = nil }},
		{"no part", script, "build/o.elf has no part of the firmware in flash", func(i *Program) {
			i.Template.Landmarks.Parts = []firmware.Place{{Symbol: "none", Optional: true}}
		}},
		{"no part in RAM", script, "", func(i *Program) {
			i.Template.Landmarks.Parts, i.Board.Place.Code = []firmware.Place{{Symbol: "none", Optional: true}}, "ram"
		}},
		{"the template has no parts", script, "", func(i *Program) { i.Template.Landmarks.Parts = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := linked(t, c.script)
			c.change(&i)
			_, _, err := i.Inspect()
			testkit.WantErrorIf(t, c.want != "", err, "", c.want)
		})
	}
}

// TestOrderOfOtherCores: only an Arm core expects the vector table at the beginning.
func TestOrderOfOtherCores(t *testing.T) {
	t.Parallel()
	i := linked(t, strings.Replace(script, "first = .;", "first = .; *(.text) . = ALIGN(256);", 1))
	f, err := elf.Open(i.Path)
	testkit.Must(t, err)
	defer f.Close()
	if err := i.checkOrder(f); err == nil {
		t.Error("no error for an Arm core")
	}
	f.Machine = elf.EM_RISCV
	testkit.Must(t, i.checkOrder(f))
}
