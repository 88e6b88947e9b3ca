// Package generator makes the files of a project that are computed: from the board and its options crt_config.h for C,
// board.mk and operators.mk for make, and memory.h for the linker script; from the model the C by which it is called;
// for editors compile_commands.json. It reads and writes no files.
package generator

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// ForBoard returns the content of one of templatefile.GeneratedFiles; nil if the board's projects have no such file. It
// depends only on the template, the board and its settled options, so that one compiled runtime serves all models of a
// board.
func ForBoard(file string, t *templatefile.Description, b *boards.Board, o boards.Options) []byte {
	switch file {
	case templatefile.ConfigFile:
		return ConfigHeader(b, o)
	case templatefile.MakeFile:
		return boardMakefile(t, b, o)
	case templatefile.OperatorsFile:
		return operatorsMakefile(o)
	case templatefile.MemoryFile:
		return memoryHeader(b, o)
	}
	return nil
}

func operatorsMakefile(o boards.Options) []byte {
	var w strings.Builder
	fmt.Fprintf(&w, `# SPDX-License-Identifier: 0BSD
# The compiler's flags for the model's operators, for the Makefile.
OPERATOR_OPT := %s
OPERATOR_FLAGS :=%s
`, o.OperatorOpt, makeWords(o.OperatorFlagsOf("")...))

	for _, file := range o.OperatorFiles() {
		fmt.Fprintf(&w, "OPERATOR_FLAGS_%s :=%s\n", strings.TrimSuffix(file, ".c"), makeWords(o.OperatorFlagsOf(file)...))
	}
	return []byte(w.String())
}

// graphFunction links the runtime's graph executor, which nothing else refers to.
var graphFunction = boards.Function{Name: "tvm.graph_executor.create", Symbol: "TVMGraphExecutorModule_Create"}

// ConfigHeader sets no limits on rank, arguments or names: the runtime has none.
func ConfigHeader(b *boards.Board, o boards.Options) []byte {
	var w strings.Builder
	fmt.Fprintf(&w, `// SPDX-License-Identifier: 0BSD
// Board %s, for the runtime and the firmware.
#ifndef CRT_CONFIG_H_
#define CRT_CONFIG_H_

#define BOARDSMITH_ARENA_BYTES %d
#define TVM_CRT_MAX_PACKET_SIZE_BYTES %d
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES %d
#define TVM_CRT_LOG_LEVEL TVM_CRT_LOG_LEVEL_%s
`, b.Name, o.ArenaKiB*1024, o.PacketBytes, o.RegistryBytes, strings.ToUpper(o.LogLevel))
	fmt.Fprintf(&w, `#define BOARDSMITH_STACK_BYTES %d
#define BOARDSMITH_CORE_HZ %d
#define BOARDSMITH_TIMER_HZ %d
#define BOARDSMITH_WATCHDOG_MS %d
#define BOARDSMITH_BUDGET_MS %d
#define BOARDSMITH_BAUD %d
#define BOARDSMITH_EMULATED %d
#define BOARDSMITH_UPLOAD_BYTES %d
`, o.StackBytes, b.CoreHz, cmp.Or(b.Timer.Hz, b.CoreHz), b.WatchdogMS, b.BudgetMS, b.Link.BitRate(),
		zeroOrOne(!b.KeepsHostTime()), o.UploadKiB*1024)

	pins, debugPins := b.PinNumbers(), b.DebugPinNumbers()
	measurePin, isMeasured := b.MeasurePinNumber()
	if len(pins) > 0 {
		writePins(&w, "BOARDSMITH_IS_PIN", pins)
		writePins(&w, "BOARDSMITH_IS_DEBUG_PIN", debugPins)
	}
	if isMeasured {
		fmt.Fprintf(&w, "#define BOARDSMITH_MEASURE_PIN %d  // %s\n", measurePin, b.MeasurePin)
	}

	if o.App != boards.Standalone {
		w.WriteString("#define BOARDSMITH_SIGNATURES\n" +
			"#define BOARDSMITH_AOT_EXECUTOR  // also without a model's metadata: another model must not change the runtime\n")
	}
	if o.UploadKiB > 0 {
		// The library, an executor, and what is uploaded.
		w.WriteString("#define TVM_CRT_MAX_REGISTERED_MODULES 6\n#define BOARDSMITH_SAMPLE_HOOK\n")
	}

	memories := memoriesOf(b)
	w.WriteString(regions(memories) + placeForC(b, o, memories))
	if len(b.Defines) > 0 {
		w.WriteString("\n// Defines of the board file, for its drivers.\n")
	}
	for _, name := range slices.Sorted(maps.Keys(b.Defines)) {
		fmt.Fprintf(&w, "#define %s %s\n", name, b.Defines[name]) // one line without comments: boards has checked
	}

	// The board's own list must not change.
	functions := slices.Clip(b.Functions)
	if o.GraphOnDevice() {
		functions = append(functions, graphFunction)
	} else {
		w.WriteString("\n#define BOARDSMITH_NO_GRAPH_EXECUTOR  // a chip's image has all of the runtime that is compiled\n")
	}

	writeFunctions(&w, functions)
	w.WriteString("\n#endif  // CRT_CONFIG_H_\n")
	return []byte(w.String())
}

// writeFunctions defines the list of functions that the host can look up besides the firmware's.
func writeFunctions(w io.Writer, functions []boards.Function) {
	if len(functions) == 0 {
		return
	}

	fmt.Fprint(w, "\n// Functions besides the firmware's: the name for the host, and the C function.\n"+
		"#define BOARDSMITH_BOARD_FUNCTIONS(X)")
	for _, f := range functions {
		fmt.Fprintf(w, " \\\n  X(\"%s\", %s)", f.Name, f.Symbol) // both are plain words: boards has checked
	}
	fmt.Fprintln(w)
}

// writePins defines a macro that reports whether a number is that of a pin in some ranges.
func writePins(w io.Writer, macro string, ranges [][2]int) {
	fmt.Fprintf(w, "#define %s(number) (0", macro)
	for _, r := range ranges {
		fmt.Fprintf(w, " || (((number) >= %d) && ((number) <= %d))", r[0], r[1])
	}
	fmt.Fprintln(w, ")")
}

// regions returns the memory map for C, or "" for a process.
func regions(memories []memory) string {
	if len(memories) == 0 {
		return ""
	}

	var w strings.Builder
	w.WriteString("\n// The memory map: origin, bytes, kind.\n#define BOARDSMITH_REGIONS(X)")
	for _, m := range memories {
		fmt.Fprintf(&w, " \\\n  X(0x%08xU, 0x%08xU, %s)", uint64(m.Origin), uint64(m.Size), m.kind())
	}
	return w.String() + "\n"
}

func zeroOrOne(b bool) int {
	if b {
		return 1
	}
	return 0
}

// memoryHeader returns the memory map and the placement of parts for the linker script; nil for a process.
func memoryHeader(b *boards.Board, o boards.Options) []byte {
	if len(b.Memory) == 0 {
		return nil
	}

	var w strings.Builder
	code, _ := b.Region(b.Place.Code) // boards has checked
	memories := memoriesOf(b)
	fmt.Fprintf(&w, `// SPDX-License-Identifier: 0BSD
// Board %s, for the linker script, which the preprocessor reads first.
#ifndef BOARDSMITH_MEMORY_H_
#define BOARDSMITH_MEMORY_H_

#define BOARDSMITH_MEMORY`, b.Name)

	for _, r := range b.Memory {
		fmt.Fprintf(&w, " %s (%s) : ORIGIN = 0x%08x, LENGTH = 0x%08x", r.Name, access(r), uint64(r.Origin), uint64(r.Size))
	}

	fmt.Fprintf(&w, `
#define BOARDSMITH_IN_CODE %s
#define BOARDSMITH_IS_CODE(address) ((address) >= 0x%x && (address) < 0x%x)
#define BOARDSMITH_IN_DATA %s
#define BOARDSMITH_IN_STACK %s
#define BOARDSMITH_IN_ARENA %s
#define BOARDSMITH_IN_NOINIT %s
#define BOARDSMITH_IN_UPLOAD %s
#define BOARDSMITH_STACK_BYTES %d
#define BOARDSMITH_ARENA_BYTES %d
#define BOARDSMITH_UPLOAD_BYTES %d
#define BOARDSMITH_UPLOAD_ALIGN %d

// Where the model part starts, if the part before it ends at (end), and what divides all such places.
#define BOARDSMITH_MODEL_AT(end) %s
#define BOARDSMITH_MODEL_ALIGN %d
%s
#endif  // BOARDSMITH_MEMORY_H_
`, b.Place.Code, uint64(code.Origin), uint64(code.Origin+code.Size), b.Place.Data, b.Place.StackRegion(),
		b.Place.ArenaRegion(), b.Place.NoinitRegion(), b.Place.UploadRegion(), o.StackBytes, o.ArenaKiB*1024,
		o.UploadKiB*1024, max(o.UploadKiB*1024, 16), modelAt(b, o, code), modelAlign(b, o, code),
		standaloneMacro(o)+placeForLinker(b.Place, memories))

	return []byte(w.String())
}

// modelBlock divides the model part's address if the code's region has no sectors.
const modelBlock = 4096

// sectorsOf returns the sectors of the code's region.
func sectorsOf(code boards.Region) []boards.Sectors {
	if len(code.Sectors) > 0 {
		return code.Sectors
	}
	return []boards.Sectors{{Count: 1, Size: modelBlock}} // the last size continues
}

// modelAt returns an expression of the linker script for the model part's address: the board's choice or, if
// options make the part before it longer, the start of the next sector.
func modelAt(b *boards.Board, o boards.Options, code boards.Region) string {
	if o.App == boards.Standalone {
		return "(end)"
	}

	var w strings.Builder
	sectors := sectorsOf(code)
	w.WriteString("(")
	if b.ModelAt != 0 {
		fmt.Fprintf(&w, "(end) <= 0x%x ? 0x%x : ", uint64(b.ModelAt), uint64(b.ModelAt))
	}

	// Sectors have several sizes: each group of equal ones has its own alignment.
	at := uint64(code.Origin)
	for i, s := range sectors {
		next := at + uint64(s.Count)*uint64(s.Size)
		aligned := fmt.Sprintf("0x%x + ALIGN((end) - 0x%x, 0x%x)", at, at, uint64(s.Size))
		if i == len(sectors)-1 {
			w.WriteString(aligned)
		} else if next > uint64(b.ModelAt) {
			fmt.Fprintf(&w, "(end) <= 0x%x ? %s : ", next, aligned)
		}
		at = next
	}

	w.WriteString(")")
	return w.String()
}

// modelAlign returns a divisor of every address that modelAt can have.
func modelAlign(b *boards.Board, o boards.Options, code boards.Region) uint64 {
	if o.App == boards.Standalone {
		return standaloneAlign
	}

	all := uint64(code.Origin | b.ModelAt)
	for _, s := range sectorsOf(code) {
		all |= uint64(s.Size)
	}

	// The lowest bit that one of them has divides them all.
	return all & -all
}

// Standalone firmware has no space for another runtime or model.
const standaloneAlign = 8

// standaloneMacro returns the line of memory.h for standalone firmware, else "".
func standaloneMacro(o boards.Options) string {
	if o.App != boards.Standalone {
		return ""
	}
	return "\n// Without what nothing refers to, and without a gap between the parts.\n#define BOARDSMITH_STANDALONE 1\n"
}

// access returns a region's attributes for the linker.
func access(r boards.Region) string {
	s := "r"
	if !r.Nonvolatile {
		s += "w"
	}
	if r.Exec {
		s += "x"
	}
	return s
}

func boardMakefile(t *templatefile.Description, b *boards.Board, o boards.Options) []byte {
	return fmt.Appendf(nil, `# SPDX-License-Identifier: 0BSD
# Board %s, for the Makefile.
CC := %s
AR := %s
BOARD_CFLAGS :=%s
BOARD_LDFLAGS :=%s
RUNTIME_OPT := %s
# The linker script; empty where the system's own is meant. With one, a .bin and a .hex can be made beside the .elf.
BOARD_LDSCRIPT :=%s
OBJCOPY := %s
# Files of the runtime that this firmware has no use for.
CRT_LEFT_OUT :=%s
`, b.Name, makeWords(b.Toolchain.CC)[1:], makeWords(b.Toolchain.AR)[1:], makeWords(b.CFlags...), makeWords(b.LDFlags...),
		o.RuntimeOpt, linkerScript(t, b), makeWords(b.Toolchain.Objcopy())[1:], makeWords(leftOut(o)...))
}

// leftOut are the runtime's files, in crt/src, that firmware with these options does without.
func leftOut(o boards.Options) []string {
	if o.UploadKiB > 0 {
		return nil
	}
	return []string{"runtime/upload.c", "runtime/fill.c"}
}

// Board is the project's folder of files that the board brings, besides those of the port.
const Board = "board"

// linkerScript returns the board's own linker script or else the template's, for a board with a memory map.
func linkerScript(t *templatefile.Description, b *boards.Board) string {
	if len(b.Memory) == 0 || t.LinkerScript == "" {
		return ""
	}
	if b.LinkerScript.Name != "" {
		return makeWords(path.Join(Board, b.LinkerScript.Name))
	}
	return makeWords(t.LinkerScript)
}

// beforeHash matches what make reads as a comment. A backslash before it is one only if it is given twice.
var beforeHash = regexp.MustCompile(`\\*#`)

// makeWords quotes words for a recipe of make, each preceded by a space.
func makeWords(words ...string) string {
	var w strings.Builder
	for _, word := range words {
		word = beforeHash.ReplaceAllStringFunc(command.Quote(word), func(s string) string {
			return strings.Repeat(`\`, 2*len(s)-1) + "#"
		})
		w.WriteString(" " + strings.ReplaceAll(word, "$", "$$"))
	}
	return w.String()
}
