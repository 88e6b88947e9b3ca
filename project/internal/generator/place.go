// This file generates what the linker script, the port and its memory protection need if a board or project places
// parts of the firmware in memories of their own. Without such parts it generates nothing.

package generator

import (
	"cmp"
	"fmt"
	"maps"
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

// A memory is a region of the board, and what the firmware does there.
type memory struct {
	boards.Region
	isCode       bool            // it holds the code
	isLoaded     bool            // it holds a part of the model that has contents, and not the code
	hasVariables bool            // the firmware writes to it after its start
	covered      []boards.Region // the others that a region of the memory protection unit would cover with it
	rule         string          // of access; "" if its kind defines it
}

// memoriesOf returns the board's memories, in its order.
func memoriesOf(b *boards.Board) []memory {
	p := b.Place
	variables, pools := p.Variables(), slices.Collect(maps.Values(p.Pools))

	all := make([]memory, len(b.Memory))
	for i, r := range b.Memory {
		m := memory{Region: r, isCode: r.Name == p.Code, isLoaded: p.Loads(r.Name), covered: b.CoveredWith(r)}
		m.hasVariables = slices.Contains(variables, r.Name) || slices.Contains(pools, r.Name)

		isUsed := r.Init != "" || m.isLoaded || slices.Contains(variables, r.Name) || r.Name == p.UploadRegion()
		m.rule = m.ruleOn(b, isUsed)
		all[i] = m
	}
	return all
}

// copied returns the memories in RAM that the start-up code fills from the image.
func copied(all []memory) []memory {
	return slices.DeleteFunc(slices.Clone(all), func(m memory) bool { return m.Nonvolatile || !m.isLoaded })
}

// extra returns the names of memories, at most one, that hold a part of the image besides that of the code.
func extra(all []memory) (names []string) {
	for _, m := range all {
		if m.Nonvolatile && m.isLoaded {
			names = append(names, m.Name)
		}
	}
	return names
}

// placeForLinker returns lines of memory.h.
func placeForLinker(p boards.Place, memories []memory) string {
	var w strings.Builder
	if p.OperatorsRegion() != p.Code {
		w.WriteString("#define BOARDSMITH_OPERATORS_MOVED 1\n")
	}
	if p.ParametersRegion() != p.Code {
		w.WriteString("#define BOARDSMITH_PARAMETERS_MOVED 1\n")
	}

	if regions := copied(memories); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_COPIED_SECTIONS(X)")
		for _, m := range regions {
			fmt.Fprintf(&w, " X(%s, %s)", m.Name, loaded(p, m.Name))
		}
		w.WriteString("\n")
	}

	for _, name := range extra(memories) {
		fmt.Fprintf(&w, "#define BOARDSMITH_IN_APART %s\n#define BOARDSMITH_APART_SECTIONS %s\n", name, loaded(p, name))
	}

	if names := p.PoolNames(); len(names) > 0 {
		w.WriteString("#define BOARDSMITH_POOLS(X)")
		for _, name := range names {
			for _, m := range memories {
				if m.Name == p.Pools[name] && !m.Nonvolatile {
					fmt.Fprintf(&w, " X(%s, %s)", name, m.Name)
				}
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
func placeForC(b *boards.Board, o boards.Options, memories []memory) string {
	var w strings.Builder
	if regions := copied(memories); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_COPIED_REGIONS(X)")
		for _, r := range regions {
			fmt.Fprintf(&w, " X(%s)", r.Name)
		}
		w.WriteString("\n")
	}

	if names := initNames(memories); len(names) > 0 {
		w.WriteString("#define BOARDSMITH_INITS(X) X(" + strings.Join(names, ") X(") + ")\n")
	}
	if len(extra(memories)) > 0 {
		w.WriteString("#define BOARDSMITH_APART 1\n")
	}

	// Standalone firmware has no RPC server, and so no packets.
	if b.Place.Packet != "" && o.App != boards.Standalone {
		w.WriteString("#define BOARDSMITH_PACKET_SECTION \".bss.boardsmith_packet\"\n")
	}

	if regions := apart(memories, strings.HasPrefix(b.ELF.Arch, "v8")); len(regions) > 0 {
		w.WriteString("#define BOARDSMITH_OWN_RULES(X)")
		for _, m := range regions {
			fmt.Fprintf(&w, " \\\n  X(0x%08xU, 0x%08xU, %s)", uint64(m.Origin), uint64(m.Size), m.rule)
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

// apart returns the memories whose rule differs from that of the addresses around them: by address, and for the units
// of ARMv6-M and ARMv7-M by precedence first.
func apart(all []memory, byAddress bool) []memory {
	all = slices.DeleteFunc(slices.Clone(all), func(m memory) bool { return m.rule == "" })
	slices.SortFunc(all, func(p, q memory) int {
		if d := precedence(p.rule) - precedence(q.rule); d != 0 && !byAddress {
			return d
		}
		return cmp.Compare(p.Origin, q.Origin)
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

// ruleOn returns the rule of a memory of the board; "" if its kind defines it.
func (m memory) ruleOn(b *boards.Board, isUsed bool) string {
	switch {
	case m.Reserved && b.ELF.Machine != "arm":
		return ""
	case m.Reserved && !m.Cached():
		return ruleReservedUncached
	case m.Reserved:
		return ruleReserved
	case !m.isCode && m.Name == b.Place.Operators:
		if m.Nonvolatile || !m.hasVariables && len(m.covered) == 0 {
			return ruleCode
		}
		return ruleMixed
	case !m.Cached():
		return ruleUncached
	case m.isCode || !isUsed || !isExternal(b, uint64(m.Origin)):
		return ""
	case m.Nonvolatile:
		return ruleFlash
	}
	return ruleRAM
}

// kind returns a memory's kind for the memory protection unit (port/cpu/cortexm/mpu.h).
func (m memory) kind() string {
	switch {
	case m.rule != "":
		return regionOwn
	case m.isCode && m.hasVariables:
		return regionMixed
	case m.isCode:
		return regionCode
	case m.Nonvolatile, m.Reserved:
		return regionFlash
	}
	return regionRAM
}

// UnitV7 is the source of the port that sets up the memory protection unit of ARMv6-M and ARMv7-M, whose regions may
// cover parts of neighbouring memories. The port's C asserts that the unit has enough regions.
const UnitV7 = "port/cpu/cortexm/mpu_v7.c"

// CheckOverlaps returns an error of class config for a memory whose rule would also apply to parts of code that could
// not run then, or of variables that could not be written to. Only for boards with UnitV7.
func CheckOverlaps(b *boards.Board) error {
	const lowEnd = 0x20000000 // below lies an area for code

	memories := memoriesOf(b)
	for _, r := range memories {
		isLowRAM := r.kind() == regionRAM && r.Origin < lowEnd
		forbidsCode := isLowRAM || r.rule == ruleRAM || r.rule == ruleFlash
		forbidsWrites := r.rule == ruleCode || r.rule == ruleFlash

		for _, q := range memories {
			content := ""
			switch {
			case !slices.ContainsFunc(r.covered, func(o boards.Region) bool { return o.Name == q.Name }):
				continue
			case forbidsCode && q.isCode:
				content = "code"
			case forbidsWrites && q.hasVariables && precedence(q.rule) <= precedence(r.rule):
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

// isExternal reports whether an address lies where a Cortex-M has devices unless a rule says otherwise (0xA0000000 to
// 0xDFFFFFFF: ARMv7-M Architecture Reference Manual, DDI 0403E, B3.1), or where the board forbids accesses.
func isExternal(b *boards.Board, at uint64) bool {
	switch {
	case b.ELF.Machine != "arm":
		return false
	case at >= 0x60000000 && at < 0xA0000000:
		return b.Defines["CPU_NO_EXTERNAL_MEMORY"] == "1"
	default:
		return at >= 0xA0000000 && at < 0xE0000000
	}
}

// initNames returns the functions that make memories usable, each once, in the board's order.
func initNames(all []memory) (names []string) {
	for _, m := range all {
		if m.Init != "" && !slices.Contains(names, m.Init) {
			names = append(names, m.Init)
		}
	}
	return names
}
