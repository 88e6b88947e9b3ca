package generator_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/generator"
)

// This file links an object with nothing but sections, by the linker script of the example of a custom board, to try
// the assertions of contract.ld.

// contractObject has what a linker script and start-up code must have of start-up code.
const contractObject = `
.section .boardsmith.vectors, "a"
.balign 256
.global bare_vectors
bare_vectors:
.space 192
.section .boardsmith.model, "a"
.word 0
.section .boardsmith.noinit, "aw", %nobits
.space 16
.bss
.space 16
.text
.global bare_entry, Reset_Handler
bare_entry:
Reset_Handler:
.word 0
`

// A contractLink is the files of a link.
type contractLink struct{ script, object, config, memory string }

func newContractLink(t *testing.T) contractLink {
	t.Helper()
	testkit.Need(t, "make", "arm-none-eabi-gcc")
	testkit.NoteFiles(t, templates+"baremetal/*")
	b, err := boards.Find("kiln", []string{templates + "../examples/custom-board"})
	must(t, err)
	o, err := b.Settle(boards.Options{})
	must(t, err)
	script := readFile(t, templates+"../examples/custom-board/boards/chip/acme/acme_m4.ld")
	memory := generator.ForBoard("crt_config/memory.h", nil, b, o)
	return contractLink{string(script), contractObject, string(generator.ConfigHeader(b, o)), string(memory)}
}

// change replaces texts: the name of a file, then an old and a new text.
func (l *contractLink) change(t *testing.T, changes ...string) {
	t.Helper()
	files := map[string]*string{"script": &l.script, "object": &l.object, "config": &l.config, "memory": &l.memory}
	for i := 0; i < len(changes); i += 3 {
		file := files[changes[i]]
		if !strings.Contains(*file, changes[i+1]) {
			t.Fatalf("%s has no %q", changes[i], changes[i+1])
		}
		*file = strings.ReplaceAll(*file, changes[i+1], changes[i+2])
	}
}

// link makes the linker script as the Makefile does, and links. It returns the assertion in the error that a build
// would report.
func (l contractLink) link(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	putFiles(t, dir, map[string]string{
		"board.ld": l.script, "o.S": l.object, "crt_config.h": l.config, "memory.h": l.memory,
		"board.mk": "CC := arm-none-eabi-gcc\nBOARD_LDSCRIPT := " + filepath.Join(dir, "board.ld") + "\n", "operators.mk": "",
	})
	script := filepath.Join(dir, "link.ld")
	testkit.Output(t, exec.Command("make", "-C", templates+"baremetal", "CONFIG="+dir, "BUILD="+dir, script))
	out, err := exec.Command("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-nostdlib", "-Wl,--gc-sections", "-T"+script, "-o",
		filepath.Join(dir, "o.elf"), filepath.Join(dir, "o.S")).CombinedOutput()
	if err == nil {
		return ""
	}
	_, message, _ := diagnostics.Explain(string(out), string(out))
	if assertion := diagnostics.Assertion(message); assertion != "" {
		return assertion
	}
	t.Fatalf("%v\n%s", err, out)
	return ""
}

// TestContractSymbols: a symbol that a linker script or start-up code does not define is named.
func TestContractSymbols(t *testing.T) {
	t.Parallel()
	fragment := readFile(t, templates+"baremetal/contract.ld")
	all := regexp.MustCompile(`(?m)^DEFINED_BY\((\w+), (\w+)\)`).FindAllStringSubmatch(string(fragment), -1)
	if len(all) != 25 {
		t.Errorf("%d symbols: %q", len(all), all)
	}
	for _, m := range all {
		t.Run(m[2], func(t *testing.T) {
			t.Parallel()
			l := newContractLink(t)
			switch m[2] {
			case "bare_upload_start": // of an option
				l.change(t, "memory", "BOARDSMITH_UPLOAD_BYTES 0", "BOARDSMITH_UPLOAD_BYTES 4096",
					"config", "BOARDSMITH_UPLOAD_BYTES 0", "BOARDSMITH_UPLOAD_BYTES 4096")
			case "bare_tls_start": // of RISC-V
				l.change(t, "config", "#define CHIP_IRQS", "#define NO_CHIP_IRQS")
			}
			l.script = regexp.MustCompile(`\b`+m[2]+` = [^;]*;`).ReplaceAllString(l.script, "")
			l.object = regexp.MustCompile(`\b`+m[2]+`\b`).ReplaceAllString(l.object, "other")
			if got, want := l.link(t), m[1]+": "+m[2]+" is not defined: define it as in docs/chip.md"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestContract: values of symbols that the firmware cannot work with are errors.
func TestContract(t *testing.T) {
	t.Parallel()
	const (
		bss, align     = " is not a range of whole 8 bytes", "_ebss = .;"
		vectors        = "linker_script: bare_vectors is not "
		header, ir, at = "_header_size = 0x200", "CHIP_IRQS 32", ".balign 256"
	)
	window := func(bytes, address string) []string {
		return []string{
			"memory", "BOARDSMITH_UPLOAD_BYTES 0", "BOARDSMITH_UPLOAD_BYTES " + bytes,
			"config", "BOARDSMITH_UPLOAD_BYTES 0", "BOARDSMITH_UPLOAD_BYTES " + bytes,
			"script", "bare_upload_start = .;", "", "script", "bare_code_limit =",
			"bare_upload_start = " + address + "; bare_code_limit =",
		}
	}
	table := func(irqs, headerBytes string) []string {
		return []string{
			"config", ir, "CHIP_IRQS " + irqs, "script", header, "_header_size = " + headerBytes, "object", at, ".balign 4",
		}
	}
	uploaded := func(sections string) []string {
		return append(window("4096", "0x20001000"), "object", ".bss\n", `.section .tdata.own, "awT"
.space 16
.section .tdata.boardsmith_uploaded, "awT"
.global cpu_uploaded_errno
cpu_uploaded_errno:
.space 16
.bss
`, "script", ".tdata .tdata.*)", ")\n  } >ram AT>flash :data\n  .tdata : ALIGN_WITH_INPUT {\n"+
			"    bare_tls_start = .;\n    "+sections)
	}
	for _, c := range []struct {
		name    string
		changes []string
		want    string // "": it links
	}{
		{"the example", nil, ""},
		{"errno of uploaded code", uploaded("KEEP(*(.tdata.boardsmith_uploaded)) *(.tdata .tdata.*)"), ""},
		{
			"errno of uploaded code behind variables", uploaded("*(.tdata .tdata.*)"),
			"linker_script: .tdata.boardsmith_uploaded is not at bare_tls_start",
		},
		{"cleared in part", []string{"script", align, ". += 4; _ebss = .;"}, "bare_bss_start to bare_bss_end" + bss},
		{"cleared too late", []string{"script", "bare_bss_start = _sbss", "bare_bss_start = _sbss + 4"}, bss},
		{"cleared backwards", []string{"script", "bare_bss_end = _ebss", "bare_bss_end = _sbss - 8"}, bss},
		{
			"cleared in part, model",
			[]string{"script", "bare_model_bss_end = _ebss", "bare_model_bss_end = _ebss + 4"},
			"linker_script: bare_model_bss_start to bare_model_bss_end" + bss,
		},
		{
			"small stack",
			[]string{"script", "+= BOARDSMITH_STACK_BYTES", "+= BOARDSMITH_STACK_BYTES - 16"},
			"stack_bytes: the stack from bare_stack_start to bare_stack_end is smaller: reserve BOARDSMITH_STACK_BYTES",
		},
		{
			"no handlers' stack",
			[]string{"script", ". += BARE_HANDLER_STACK_BYTES;", ""},
			"linker_script: the stack from bare_handler_stack_start to bare_handler_stack_end is empty",
		},
		{
			"guard",
			[]string{"script", "bare_guard_start = .;", "bare_guard_start = . + 16;"},
			"linker_script: bare_guard_start or bare_handler_guard_start is not aligned to BARE_GUARD_BYTES",
		},
		{"window", window("4096", "0x20001000"), ""},
		{"window at 0", window("4096", "0"), "linker_script: bare_upload_start is 0 or not aligned"},
		{
			"vectors in RAM",
			[]string{"object", "bare_vectors:", "", "object", ".text", ".set bare_vectors, 0x20000000\n.text"},
			vectors + "in the region of the code",
		},
		{"vectors in the boot loader", []string{
			"object", "bare_vectors:", "", "object", ".text", ".set bare_vectors, 0x00004000\n.text",
		}, vectors + "in the region of the code"},
		{"vectors", table("32", "0x300"), ""},
		{"vectors without KEEP", []string{"script", "KEEP(*(.boardsmith.vectors))", "*(.boardsmith.vectors)"}, ""},
		{"vectors at half", table("32", "0x280"), vectors + "aligned to the next power of two"},
		{"32 vectors", table("16", "0x280"), ""},
		{"few vectors", table("4", "0x240"), vectors + "aligned"},
		{"496 vectors", table("480", "0x400"), vectors + "aligned"},
		{"496 vectors, aligned", table("480", "0x800"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newContractLink(t)
			l.change(t, c.changes...)
			if got := l.link(t); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
