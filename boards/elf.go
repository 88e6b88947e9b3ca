// This file describes objects, and checks whether one can run on a board.

package boards

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// machines are the ELF machines of the systems Go runs on.
var machines = map[string]ELF{
	"386":     {Machine: "386", Class: 32, Endian: "little"},
	"amd64":   {Machine: "x86-64", Class: 64, Endian: "little"},
	"arm":     {Machine: "arm", Class: 32, Endian: "little"},
	"arm64":   {Machine: "aarch64", Class: 64, Endian: "little"},
	"loong64": {Machine: "loongarch", Class: 64, Endian: "little"},
	"ppc64le": {Machine: "ppc64", Class: 64, Endian: "little"},
	"riscv64": {Machine: "riscv", Class: 64, Endian: "little"},
	"s390x":   {Machine: "s390", Class: 64, Endian: "big"},
}

// resolve replaces "native" with this computer's machine.
func (e ELF) resolve() ELF {
	if e.Machine != "native" {
		return e
	}
	return machines[runtime.GOARCH] // an unlisted one accepts any object
}

func (e ELF) String() string {
	var parts []string
	if e.Machine != "" {
		parts = append(parts, e.Machine)
	}
	if e.Class != 0 {
		parts = append(parts, fmt.Sprintf("%d-bit", e.Class))
	}
	if e.Endian != "" {
		parts = append(parts, e.Endian+"-endian")
	}
	if e.FloatABI != "" {
		parts = append(parts, e.FloatABI+"-float")
	}
	if e.Arch != "" {
		parts = append(parts, "instruction set "+e.Arch)
	}
	return strings.Join(parts, " ")
}

// Accepts reports whether an object described by have can be linked for e's board. It ignores fields that are empty
// on either side.
func (e ELF) Accepts(have ELF) bool {
	return agree(e.Machine, have.Machine) && agree(e.Endian, have.Endian) && agree(e.FloatABI, have.FloatABI) &&
		(e.Class == 0 || have.Class == 0 || e.Class == have.Class) && runs(e.Arch, have.Arch)
}

func agree(a, b string) bool { return a == "" || b == "" || a == b }

// armRuns maps an instruction set to the others that its cores also run (Armv8-M Architecture Reference Manual, DDI
// 0553, B1; Armv7-M, DDI 0403, A1.3). v7e-m on v8-m.main requires the DSP extension, which all supported cores of
// that kind have.
var armRuns = map[string][]string{
	"v6-m":      nil,
	"v7-m":      {"v6-m"},
	"v7e-m":     {"v7-m", "v6-m"},
	"v8-m.base": {"v6-m"},
	"v8-m.main": {"v8-m.base", "v7e-m", "v7-m", "v6-m"},
	"v8.1-m":    {"v8-m.main", "v8-m.base", "v7e-m", "v7-m", "v6-m"},
}

// runs reports whether a core with one instruction set runs code for another. It returns true for unknown ones.
func runs(core, code string) bool {
	if core == "" || code == "" || core == code {
		return true
	}

	// Arm's instruction sets; code for one that is not in the table is unknown.
	if lesser, ok := armRuns[core]; ok {
		_, ok := armRuns[code]
		return !ok || slices.Contains(lesser, code)
	}

	have, want := riscvLetters(core), riscvLetters(code)
	if have == "" || want == "" {
		return true
	}

	for _, letter := range want {
		if !strings.ContainsRune(have, letter) {
			return false
		}
	}
	return true
}

var riscvRE = regexp.MustCompile(`^rv(?:32|64)([a-z]\S*)$`)

// riscvLetters returns the one-letter extensions of an ISA string, plain ("rv32imac_zicsr") or as in objects
// ("rv32i2p0_m2p0"), or "" for an invalid one. The linker checks extensions with longer names.
func riscvLetters(isa string) string {
	m := riscvRE.FindStringSubmatch(strings.ToLower(isa))
	if m == nil {
		return ""
	}

	// g is short for these.
	text := strings.ReplaceAll(m[1], "g", "imafd")
	var letters strings.Builder
	for word := range strings.SplitSeq(text, "_") {
		if word == "" || strings.ContainsAny(word[:1], "zsxb") { // b stands for zba, zbb and zbs
			continue
		}

		digit := false // the p in a version is not an extension
		for i, r := range word {
			isDigit := r >= '0' && r <= '9'
			if !isDigit && (r != 'p' || !digit || i+1 == len(word)) {
				letters.WriteRune(r)
			}
			digit = isDigit
		}
	}
	return letters.String()
}
