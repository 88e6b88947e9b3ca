// This file describes objects, and checks whether one can run on a board.

package boards

import (
	"cmp"
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

// withoutFPU lists the instruction sets of Arm's cores that have no floating-point instructions.
var withoutFPU = []string{"v6-m", "v7-m", "v8-m.base"}

// fpuOfOtherCore reports a platform that differs from the core in having an FPU, as far as elf determines that.
func fpuOfOtherCore(b *Board) string {
	if b.Platform.FPU == nil {
		return ""
	}
	letters := riscvLetters(b.ELF.Arch)
	none := slices.Contains(withoutFPU, b.ELF.Arch) || letters != "" && !strings.Contains(letters, "f")
	switch {
	case *b.Platform.FPU && none:
		return fmt.Sprintf("no core with the instruction set %s has an FPU", b.ELF.Arch)
	case !*b.Platform.FPU && slices.Contains([]string{"hard", "single", "double"}, b.ELF.FloatABI):
		return fmt.Sprintf("false, and elf.float_abi is %s: calls pass values in registers of an FPU", b.ELF.FloatABI)
	}
	return ""
}

type armCore struct {
	part       Number
	name, arch string
}

// armCores are Arm's cores with their part numbers in CPUID and their instruction sets (technical reference manuals,
// CPUID). Of those with one set, a later one also runs the code for an earlier one.
var armCores = []armCore{
	{0xC20, "Cortex-M0", "v6-m"},
	{0xC60, "Cortex-M0+", "v6-m"},
	{0xC23, "Cortex-M3", "v7-m"},
	{0xC24, "Cortex-M4", "v7e-m"},
	{0xC27, "Cortex-M7", "v7e-m"},
	{0xD20, "Cortex-M23", "v8-m.base"},
	{0xD21, "Cortex-M33", "v8-m.main"},
	{0xD22, "Cortex-M55", "v8.1-m"},
}

// coreRuns reports whether a core runs code for another one. It returns true for unknown ones.
func coreRuns(core, code string) bool {
	at, of := -1, -1
	for i, c := range armCores {
		if strings.EqualFold(c.name, core) {
			at = i
		}
		if strings.EqualFold(c.name, code) {
			of = i
		}
	}
	return at < 0 || of < 0 || of <= at && runs(armCores[at].arch, armCores[of].arch)
}

// cpuidOfOtherCore reports the identification of a core that cannot run the board's objects.
func cpuidOfOtherCore(b *Board) string {
	if b.Platform.CPUID == nil || b.ELF.Machine != "arm" {
		return ""
	}
	i := slices.IndexFunc(armCores, func(c armCore) bool { return c.part == *b.Platform.CPUID>>4&0xFFF })
	if i < 0 {
		return ""
	}
	if core := armCores[i]; !runs(core.arch, b.ELF.Arch) {
		return fmt.Sprintf("0x%x is a %s, which does not run the instruction set %s", uint64(*b.Platform.CPUID), core.name,
			b.ELF.Arch)
	}
	for _, code := range b.cores() {
		if !coreRuns(armCores[i].name, code) {
			return fmt.Sprintf("0x%x is a %s, and -mcpu in cflags is %s", uint64(*b.Platform.CPUID), armCores[i].name, code)
		}
	}
	return ""
}

// coreOfOtherFile reports flags for another core, or for another floating-point unit, than those of the first file that
// names one, which is that of the CPU. A later file may leave instructions of the core out.
func coreOfOtherFile(b *Board) string {
	for _, core := range b.cores() {
		if first := b.cores()[0]; !coreRuns(first, core) {
			return fmt.Sprintf("-mcpu is %s, and the core of the files above is a %s", core, first)
		}
	}
	var first string
	for _, flag := range b.CFlags {
		unit, ok := strings.CutPrefix(flag, "-mfpu=")
		if ok && first != "" && !isPartOfFPU(unit, first) {
			return fmt.Sprintf("-mfpu is %s, and the floating-point unit of the files above is %s", unit, first)
		}
		if ok {
			first = cmp.Or(first, unit)
		}
	}
	return ""
}

// isPartOfFPU reports whether a core with one floating-point unit runs code for another. It returns true for unknown
// ones.
func isPartOfFPU(unit, of string) bool {
	var version, ofVersion int
	_, err := fmt.Sscanf(unit, "fpv%d-", &version)
	_, err2 := fmt.Sscanf(of, "fpv%d-", &ofVersion)
	if err != nil || err2 != nil {
		return true
	}
	return version <= ofVersion && (strings.Contains(unit, "-sp-") || !strings.Contains(of, "-sp-"))
}

// cores returns the cores that -mcpu names in the flags of all levels, in small letters, as in "cortex-m0+".
func (b *Board) cores() (names []string) {
	for _, flag := range b.CFlags {
		if cpu, ok := strings.CutPrefix(flag, "-mcpu="); ok {
			core, _, _ := strings.Cut(cpu, "+")
			names = append(names, strings.Replace(core, "m0plus", "m0+", 1))
		}
	}
	return names
}
