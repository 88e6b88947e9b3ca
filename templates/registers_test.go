package templates_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// This file compares every register address and bit field in port/ with descriptions of the chips by others
// (testdata/registers.tsv, which targets/develop/registertable fills in).

// A registerRow is a line of the table: what a name in the C stands for.
type registerRow struct {
	file, name, is, chip, path, fact, note string
}

// undescribed are the files of port/ whose registers no description at hand has, and what checks them instead.
var undescribed = map[string]string{
	"cpu/cortexm/core.c":           "the architecture's own registers: every emulated Arm board runs them",
	"cpu/cortexm/faults.c":         "the architecture's own registers: every emulated Arm board runs them",
	"cpu/cortexm/caches.c":         "the architecture's own registers",
	"cpu/cortexm/time.c":           "the architecture's own registers: every emulated Arm board runs them",
	"cpu/cortexm/upload.c":         "no registers of its own",
	"cpu/cortexm/mpu.h":            "the architecture's own registers",
	"cpu/cortexm/mpu_v7.c":         "the architecture's own registers: emulated boards with an MPU run them",
	"cpu/cortexm/mpu_v8.c":         "the architecture's own registers: emulated boards with an MPU run them",
	"cpu/cortexm/cortexm.h":        "the architecture's own registers",
	"cpu/riscv/core.c":             "the architecture's own registers, PLIC: every emulated RISC-V board runs them",
	"cpu/riscv/time.c":             "the architecture's own registers, CLINT: every emulated RISC-V board runs them",
	"cpu/riscv/upload.c":           "no registers",
	"cpu/riscv/riscv.h":            "the architecture's own registers",
	"chip/lm3s.c":                  "QEMU's machine runs it; there is no description of the LM3S6965 with registers",
	"chip/mps2.c":                  "QEMU's machines run it",
	"uart/cmsdk.c":                 "QEMU's machines run it",
	"chip/virt.c":                  "QEMU's machine runs it",
	"uart/ns16550.c":               "QEMU's machine runs it",
	"chip/imxrt1060_boot.c":        "commands of a flash, no registers",
	"chip/rp2040_boot.S":           "TestRP2040Boot runs it on a model of the SSI",
	"chip/rp2350_boot.S":           "an image definition, no registers: TestRP2350Image reads it",
	"chip/stm32/stm32h7_early.S":   "TestSTM32H7Early runs it",
	"cpu/cortexm/entry.S":          "no registers",
	"cpu/cortexm/handlers.S":       "no registers",
	"cpu/riscv/entry.S":            "no registers",
	"cpu/riscv/trap.S":             "no registers",
	"bare.c":                       "no registers",
	"bare.h":                       "no registers",
	"bare_model.c":                 "no registers",
	"bare_model.h":                 "no registers",
	"chip/await.h":                 "no registers",
	"chip/uart_irq_only.c":         "no registers",
	"chip/nrf/nrf51.c":             "no registers of its own",
	"chip/stm32/f2_f4_f7_clocks.c": "no registers of its own: chip/stm32/f2_f4_f7_clocks.h has them",
	"process.c":                    "a process",
	"chip/nrf/nrf.h":               "no numbers of registers",
}

// notRegisters are names that count or time something.
var notRegisters = regexp.MustCompile(`(_HZ|_MS|_US|READS|_STEPS|_LOOPS|_BYTES|AT_ONCE|AT_MOST|_H_)$`)

func TestRegisters(t *testing.T) {
	const port = "baremetal/port"
	var files []string
	must(t, fs.WalkDir(os.DirFS(port), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	}))
	byFile := map[string][]registerRow{}
	lines := linesOf(t, "testdata/registers.tsv")
	for _, line := range lines {
		if !strings.HasPrefix(line, "#") {
			c := append(strings.Split(line, "\t"), make([]string, 7)...)
			byFile[c[0]] = append(byFile[c[0]], registerRow{c[0], c[1], c[2], c[3], c[4], c[5], c[6]})
		}
	}
	if len(lines) < 1000 {
		t.Fatalf("only %d lines", len(lines))
	}
	headers, n := map[string]string{}, &numbers{}
	for _, name := range files {
		if path.Ext(name) == ".h" {
			maps.Copy(headers, macrosOf(t, filepath.Join(port, name)))
		}
	}
	for _, name := range files {
		if (len(byFile[name]) > 0) == (undescribed[name] != "") {
			t.Errorf("%s has %d rows in the table, and is left out of it because %q: it is one or the other", name,
				len(byFile[name]), undescribed[name])
		}
		if len(byFile[name]) > 0 {
			macros := macrosOf(t, filepath.Join(port, name))
			n.add(t, name, byFile[name], macros, headers)
			for macro := range macros { // one that may be an address, a field or a bit
				if !notRegisters.MatchString(macro) &&
					!slices.ContainsFunc(byFile[name], func(r registerRow) bool { return r.name == macro }) {
					t.Errorf("%s: %s has no row in testdata/registers.tsv", name, macro)
				}
			}
		}
		delete(byFile, name)
	}
	for file, rows := range byFile {
		var chip struct{ Defines map[string]string }
		must(t, json.Unmarshal(testkit.ReadFile(t, filepath.Join("..", file)), &chip))
		n.add(t, file, rows, chip.Defines, nil)
	}
	n.compare(t)
}

var (
	objectMacro = regexp.MustCompile(`(?m)^#define[ \t]+(\w+)[ \t]+([^\n]+)$`)
	uartRow     = regexp.MustCompile(`(?m)^#define USART_(\d) \{(\w+), (\w+), (\w+), (\w+), \dU, (\w+), (\w+)\}$`)
	comment     = regexp.MustCompile(`//[^\n]*`)
)

// macrosOf returns the numbers that a file defines: macros, and of each row in a table of USARTs (stm32.h) the members,
// without the clock selector where there is none. Of macros the first definition of a name counts, of rows the last;
// others are of other boards.
func macrosOf(t *testing.T, file string) map[string]string {
	t.Helper()
	text := strings.ReplaceAll(comment.ReplaceAllString(readText(t, file), ""), "\\\n", " ")
	all := map[string]string{}
	for _, m := range objectMacro.FindAllStringSubmatch(text, -1) {
		if all[m[1]] == "" {
			all[m[1]] = strings.TrimSpace(m[2])
		}
	}
	for _, m := range uartRow.FindAllStringSubmatch(text, -1) {
		delete(all, "USART_"+m[1])
		for i, member := range []string{"base", "irq", "enable_register", "enable_bit", "select_register", "select_pos"} {
			if m[6] != "0U" || i < 4 {
				all["stm32_uart["+m[1]+"]."+member] = m[2+i]
			}
		}
	}
	return all
}

// numbers are rows, and the C of their numbers.
type numbers struct {
	rows        []registerRow
	expressions []string
}

func (n *numbers) add(t *testing.T, file string, rows []registerRow, macros, headers map[string]string) {
	t.Helper()
	for _, r := range rows {
		what := fmt.Sprintf("%s: %s (%s of %s %s)", file, r.name, r.is, r.chip, r.path)
		if macros[r.name] == "" {
			t.Errorf("%s: the C has no such name", what)
			continue
		}
		if r.is == "own" {
			if r.note == "" {
				t.Errorf("%s: no reason why no description has it", what)
			}
			continue
		}
		n.rows, n.expressions = append(n.rows, r), append(n.expressions, expanded(macros[r.name], macros, headers))
	}
}

// compare has the computer's compiler compute the expressions, and compares their values with the facts.
func (n *numbers) compare(t *testing.T) {
	t.Helper()
	program := "#include <stdint.h>\n#include <stdio.h>\nint main(void) {\n"
	for _, e := range n.expressions {
		program += fmt.Sprintf("printf(\"%%llx\\n\", (unsigned long long)(%s));\n", e)
	}
	exe := filepath.Join(t.TempDir(), "numbers")
	cc := exec.Command("cc", "-w", "-xc", "-o", exe, "-")
	cc.Stdin = strings.NewReader(program + "}\n")
	testkit.Output(t, cc)
	values := strings.Fields(testkit.Output(t, exec.Command(exe)))
	if len(values) != len(n.rows) {
		t.Fatalf("%d values of %d", len(values), len(n.rows))
	}
	for i, text := range values {
		value, err := strconv.ParseUint(text, 16, 64)
		if err == nil {
			err = n.rows[i].agrees(value)
		}
		if err != nil {
			t.Errorf("%+v is 0x%x: %v", n.rows[i], value, err)
		}
	}
}

// agrees compares the C's value with the fact.
func (r registerRow) agrees(value uint64) error {
	at, offset, mask, lsb, err := readFact(r.fact)
	if err != nil {
		return err
	}
	want := map[string]uint64{"address": at, "number": at, "offset": offset, "mask": mask, "pos": lsb}
	switch w, ok := want[r.is]; {
	case r.is == "value":
		if value&^mask != 0 && (value<<lsb)&^mask != 0 {
			return fmt.Errorf("outside of the bits 0x%x", mask)
		}
	case !ok:
		return fmt.Errorf("%q is not a supported way to state it", r.is)
	case value != w:
		return fmt.Errorf("want 0x%x", w)
	}
	return nil
}

// readFact reads "0x40023800", "0x40023800 @0x0", "37", or "bits 31:29" with more bits behind a plus sign.
func readFact(fact string) (at, offset, mask, lsb uint64, err error) {
	if !strings.HasPrefix(fact, "bits ") {
		place, off, _ := strings.Cut(fact, " @")
		if at, err = strconv.ParseUint(place, 0, 64); err == nil && off != "" {
			offset, err = strconv.ParseUint(off, 0, 64)
		}
		return at, offset, 0, 0, err
	}
	lsb = 64
	for part := range strings.SplitSeq(fact, "+") {
		var high, low uint64
		if _, err := fmt.Sscanf(part, "bits %d:%d", &high, &low); err != nil {
			return 0, 0, 0, 0, fmt.Errorf("fact %q: %w", fact, err)
		}
		mask |= (1<<(high+1) - 1) &^ (1<<low - 1)
		lsb = min(lsb, low)
	}
	return 0, 0, mask, lsb, nil
}

// aName matches a name, a member such as uart.base, or the beginning of a call.
var aName = regexp.MustCompile(`\b[A-Za-z_]\w*(?:(?:\.|->)\w+)*\(?`)

// expanded returns a macro's expression without names. What it depends on and no header has is a board's: 0, so that an
// address below a board's base is an offset.
func expanded(expression string, macros, headers map[string]string) string {
	return aName.ReplaceAllStringFunc(expression, func(name string) string {
		if strings.HasSuffix(name, "(") { // REG32(address)
			return "("
		}
		if text := cmp.Or(macros[name], headers[name]); text != "" {
			return "(" + expanded(text, macros, headers) + ")"
		}
		if strings.HasSuffix(name, "_BASE") || strings.ContainsAny(name, ".>") { // stm32_uart.base
			return "0"
		}
		return name
	})
}
