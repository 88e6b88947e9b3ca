package templates_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestFaultRecordSpec compares boardsmith.md, "The fault record", with the C that writes the record.
func TestFaultRecordSpec(t *testing.T) {
	spec := readText(t, "../docs/formats/boardsmith.md")
	c := readText(t, "firmware/fault.h") + readText(t, "firmware/fault.c")
	// For each field, the names in C of the values that its row lists, in the row's order.
	for field, names := range map[string][]string{
		"magic":   {"MAGIC"},
		"version": {"VERSION"},
		"reason": {
			"FAULT_HARDWARE", "FAULT_CHECK", "FAULT_STACK", "FAULT_TIMEOUT", "FAULT_WATCHDOG", "FAULT_INTERRUPT",
		},
		"architecture": {"FAULT_ARCH_CORTEX_M", "FAULT_ARCH_RISCV", "FAULT_ARCH_PROCESS"},
		"flags":        {"FAULT_PC_VALID", "FAULT_SP_VALID"},
	} {
		row := regexp.MustCompile(`(?m)^\| \w+ \| ` + field + ` \| (.*) \|$`).FindStringSubmatch(spec)
		if row == nil {
			t.Errorf("boardsmith.md has no row for %s", field)
			continue
		}
		listed := regexp.MustCompile(`\b(0x[0-9a-f]+|\d+)\b`).FindAllString(row[1], -1)
		var defined []string
		for _, name := range names {
			value := regexp.MustCompile(`\b` + name + `(?: =)? (0x[0-9A-F]+|\d+)U?\b`).FindStringSubmatch(c)
			if value == nil {
				t.Errorf("the C does not define %s", name)
				continue
			}
			defined = append(defined, strings.ToLower(value[1]))
		}
		testkit.Equal(t, field+" in boardsmith.md", listed, defined)
	}
}

// TestDateMacros compares what defines the date and the time as an error: a template stands alone, so each has a copy.
func TestDateMacros(t *testing.T) {
	plain := strings.NewReplacer(`\`, "", "'", "",
		"__$(macro)__", "MACRO", "${macro}", "MACRO", "%[1]s", "MACRO", "%s", "MACRO")
	for _, name := range []string{
		"../internal/command/compile.go", "baremetal/Makefile", "parents/minimal/rules/boardsmith.mk",
		"parents/minimal/rules/boardsmith.cmake", "zephyr/boardsmith/CMakeLists.txt",
	} {
		text := plain.Replace(readText(t, name))
		for _, want := range []string{
			regexp.QuoteMeta(`-DMACRO=_Pragma("GCC error "MACRO differs in each build"")`), "-Wno-builtin-macro-redefined",
			"SOURCE_DATE_EPOCH", `\b_*DATE_*\b`, `\b_*TIME_*\b`, `\b_*TIMESTAMP_*\b`,
		} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s has no %s", name, want)
			}
		}
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	return string(testkit.ReadFile(t, name))
}
