// This file generates what the linker script, the port and its memory protection need if a board or project places
// parts of the firmware in memories of their own. Without such parts it generates nothing.

package generator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
)

// Input sections of the linker script.
const (
	operatorSections  = "*(.text .text.*)"
	parameterSections = "*(.rodata.tvm .rodata.tvm.*) *(.rodata .rodata.* .srodata .srodata.*)"
)

// poolData and poolSpace are the sections of a pool of constants, and of another one.
func poolData(name string) string  { return ".boardsmith.pool." + name }
func poolSpace(name string) string { return ".bss.boardsmith_pool." + name }

// loaded returns the input sections with contents that a region other than that of the code holds.
func loaded(p boards.Place, region string) string {
	var all []string
	if p.Operators == region {
		all = append(all, operatorSections)
	}
	if p.Parameters == region {
		all = append(all, parameterSections)
	}

	for _, name := range p.PoolNames() {
		if p.Pools[name] == region {
			all = append(all, "*("+poolData(name)+")")
		}
	}
	return strings.Join(all, " ")
}

// copied returns the regions of RAM that the start-up code fills from the image, in the board's order.
func copied(b *boards.Board) (all []boards.Region) {
	for _, r := range b.Memory {
		if !r.Nonvolatile && b.Place.Loads(r.Name) {
			all = append(all, r)
		}
	}
	return all
}

// placeForLinker returns lines of memory.h.
func placeForLinker(b *boards.Board) string {
	var w strings.Builder
	p := b.Place
	if p.OperatorsRegion() != p.Code {
		w.WriteString("#define BOARDSMITH_OPERATORS_MOVED 1\n")
	}
	if p.ParametersRegion() != p.Code {
		w.WriteString("#define BOARDSMITH_PARAMETERS_MOVED 1\n")
	}

	if regions := copied(b); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_COPIED_SECTIONS(X)")
		for _, r := range regions {
			fmt.Fprintf(&w, " X(%s, %s)", r.Name, loaded(p, r.Name))
		}
		w.WriteString("\n")
	}

	if r, ok := b.ExtraRegion(); ok {
		fmt.Fprintf(&w, "#define BOARDSMITH_IN_APART %s\n#define BOARDSMITH_APART_SECTIONS %s\n", r.Name, loaded(p, r.Name))
	}

	if names := p.PoolNames(); len(names) > 0 {
		w.WriteString("#define BOARDSMITH_POOLS(X)")
		for _, name := range names {
			if r, _ := b.Region(p.Pools[name]); !r.Nonvolatile {
				fmt.Fprintf(&w, " X(%s, %s)", name, r.Name)
			}
		}
		w.WriteString("\n")
	}

	if p.Packet != "" {
		fmt.Fprintf(&w, "#define BOARDSMITH_IN_PACKET %s\n", p.Packet)
	}

	if w.Len() == 0 {
		return ""
	}
	return "\n// Parts in memories of their own, with their input sections.\n" + w.String()
}

// placeForC returns lines of crt_config.h.
func placeForC(b *boards.Board, o boards.Options) string {
	var w strings.Builder
	if regions := copied(b); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_COPIED_REGIONS(X)")
		for _, r := range regions {
			fmt.Fprintf(&w, " X(%s)", r.Name)
		}
		w.WriteString("\n")
	}

	if names := initNames(b); len(names) > 0 {
		w.WriteString("#define BOARDSMITH_INITS(X) X(" + strings.Join(names, ") X(") + ")\n")
	}
	if _, ok := b.ExtraRegion(); ok {
		w.WriteString("#define BOARDSMITH_APART 1\n")
	}

	// Standalone firmware has no RPC server, and so no packets.
	if b.Place.Packet != "" && o.App != boards.Standalone {
		w.WriteString("#define BOARDSMITH_PACKET_SECTION \".bss.boardsmith_packet\"\n")
	}

	if regions := apart(b); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_OWN_RULES(X)")
		for _, a := range regions {
			fmt.Fprintf(&w, " \\\n  X(0x%08xU, 0x%08xU, %s)", uint64(a.region.Origin), uint64(a.region.Size), a.rule)
		}
		w.WriteString("\n")
	}

	if w.Len() == 0 {
		return ""
	}
	return "\n// Memories of the model besides that of the code; those with rules of access of their own.\n" +
		w.String()
}

// Kinds of memory, and rules of access, of the memory protection unit (port/cpu/cortexm/mpu.h).
const (
	regionCode  = "REGION_CODE"
	regionMixed = "REGION_MIXED"
	regionFlash = "REGION_FLASH"
	regionRAM   = "REGION_RAM"
	regionOwn   = "REGION_OWN" // it has one of these rules

	ruleCode     = "RULE_CODE"     // executable, read-only
	ruleMixed    = "RULE_MIXED"    // executable, writable
	ruleUncached = "RULE_UNCACHED" // writable, in no cache
	ruleRAM      = "RULE_RAM"      // writable, at addresses that are forbidden or of devices without a rule
	ruleFlash    = "RULE_FLASH"    // read-only, at such addresses

	ruleReserved         = "RULE_RESERVED" // read-only
	ruleReservedUncached = "RULE_RESERVED_UNCACHED"
)

// An apartRegion is a memory with a rule of its own.
type apartRegion struct {
	region boards.Region
	rule   string
}

// apart returns the memories whose rule differs from that of the addresses around them: by address, and for the units
// of ARMv6-M and ARMv7-M by precedence first.
func apart(b *boards.Board) (all []apartRegion) {
	for _, r := range b.Memory {
		if rule := ownRule(b, r); rule != "" {
			all = append(all, apartRegion{r, rule})
		}
	}

	byAddress := strings.HasPrefix(b.ELF.Arch, "v8")
	slices.SortFunc(all, func(p, q apartRegion) int {
		if d := precedence(p.rule) - precedence(q.rule); d != 0 && !byAddress {
			return d
		}
		return cmp.Compare(p.region.Origin, q.region.Origin)
	})

	return all
}

// precedence orders rules: where regions of a unit overlap, because one covers parts of neighbours, the last applies. A
// region without a cache covers no part of others (package boards checks it). CheckOverlaps returns an error for what
// no order makes right. "" has the lowest precedence.
func precedence(rule string) int {
	if rule == ruleReservedUncached {
		rule = ruleReserved
	}
	return slices.Index([]string{ruleFlash, ruleRAM, ruleCode, ruleMixed, ruleUncached, ruleReserved}, rule)
}

// ownRule returns the rule of a memory; "" if its kind defines it.
func ownRule(b *boards.Board, r boards.Region) string {
	isCode := r.Name == b.Place.Code

	switch {
	case r.Reserved && b.ELF.Machine != "arm":
		return ""
	case r.Reserved && !r.Cached():
		return ruleReservedUncached
	case r.Reserved:
		return ruleReserved
	case !isCode && r.Name == b.Place.Operators:
		if r.Nonvolatile || !holdsVariables(b.Place, r) && b.Separable(r) {
			return ruleCode
		}
		return ruleMixed
	case !r.Cached():
		return ruleUncached
	case isCode || !isExternal(b, r) || !isUsed(b, r):
		return ""
	case r.Nonvolatile:
		return ruleFlash
	}
	return ruleRAM
}

// UnitV7 is the source of the port that sets up the memory protection unit of ARMv6-M and ARMv7-M, whose regions may
// cover parts of neighbouring memories. The port's C asserts that the unit has enough regions.
const UnitV7 = "port/cpu/cortexm/mpu_v7.c"

// CheckOverlaps returns an error of class config for a memory whose rule would also apply to parts of code that could
// not run then, or of variables that could not be written to. Only for boards with UnitV7.
func CheckOverlaps(b *boards.Board) error {
	const lowEnd = 0x20000000 // below lies an area for code

	for _, r := range b.Memory {
		rule := ownRule(b, r)
		isLowRAM := regionKind(b, r) == regionRAM && r.Origin < lowEnd
		forbidsCode := isLowRAM || rule == ruleRAM || rule == ruleFlash
		forbidsWrites := rule == ruleCode || rule == ruleFlash

		if !forbidsCode && !forbidsWrites {
			continue
		}

		for _, q := range b.CoveredWith(r) {
			content := ""
			switch {
			case forbidsCode && q.Name == b.Place.Code:
				content = "code"
			case forbidsWrites && holdsVariables(b.Place, q) && precedence(ownRule(b, q)) <= precedence(rule):
				content = "variables"
			default:
				continue
			}

			return b.Contradiction("memory", fmt.Sprintf("region %q: a region of the memory protection unit, a power of two "+
				"without some of its eighths, would cover parts of region %q, which holds %s: choose sizes that are powers of "+
				"two, or eighths of one", r.Name, q.Name, content))
		}
	}
	return nil
}

// isExternal reports whether a memory lies where a Cortex-M has devices unless a rule says otherwise (0xA0000000 to
// 0xDFFFFFFF: ARMv7-M Architecture Reference Manual, DDI 0403E, B3.1), or where the board forbids accesses.
func isExternal(b *boards.Board, r boards.Region) bool {
	switch at := uint64(r.Origin); {
	case b.ELF.Machine != "arm":
		return false
	case at >= 0x60000000 && at < 0xA0000000:
		return b.Defines["CPU_NO_EXTERNAL_MEMORY"] == "1"
	default:
		return at >= 0xA0000000 && at < 0xE0000000
	}
}

// isUsed reports whether a memory has a function that is called before its use, or holds a part of the firmware.
func isUsed(b *boards.Board, r boards.Region) bool {
	return r.Init != "" || b.Place.Loads(r.Name) || slices.Contains(b.Place.Variables(), r.Name) ||
		r.Name == b.Place.UploadRegion()
}

// initNames returns the functions that make memories usable, each once, in the board's order.
func initNames(b *boards.Board) (names []string) {
	for _, r := range b.Memory {
		if r.Init != "" && !slices.Contains(names, r.Init) {
			names = append(names, r.Init)
		}
	}
	return names
}

// holdsVariables reports whether the firmware writes to a memory after its start.
func holdsVariables(p boards.Place, r boards.Region) bool {
	if slices.Contains(p.Variables(), r.Name) {
		return true
	}
	for _, name := range p.PoolNames() {
		if p.Pools[name] == r.Name {
			return true
		}
	}
	return false
}
