// This file checks that the memory protection unit of a Cortex-M can have the rules of a board's memory map, as the
// port sets them (port/cpu/cortexm/mpu_v7.c and mpu_v8.c).

package generator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// Sources of the port that set up a unit: that of ARMv6-M and ARMv7-M, and that of ARMv8-M.
const (
	UnitV7 = "port/cpu/cortexm/mpu_v7.c"
	UnitV8 = "port/cpu/cortexm/mpu_v8.c"
)

const (
	lowEnd       = 0x20000000 // below lies an area for code
	leastRegions = 8          // of a unit, unless the board defines CPU_MPU_REGIONS
)

// CheckProtection returns an error of class config if a unit has fewer regions than the memory map needs, or if a rule
// would apply to parts of a memory that it makes useless. The options are settled; unit is UnitV7 or UnitV8.
func CheckProtection(b *boards.Board, o boards.Options, unit string) error {
	have, err := unitRegions(b)
	if err != nil {
		return err
	}
	needs := needsOfV8(b, o)
	if unit == UnitV7 {
		needs = needsOfV7(b, o)
		if err := checkOverlaps(b); err != nil {
			return err
		}
	}
	sum, words := 0, []string{}
	for _, n := range needs {
		if n.regions > 0 {
			sum += n.regions
			words = append(words, fmt.Sprintf("%s %d", n.what, n.regions))
		}
	}
	if sum <= have {
		return nil
	}
	return failure.New(failure.Config, "leave out upload_kib or places of parts, join neighbouring memories in the board "+
		"file, or define CPU_MPU_REGIONS there if the unit has more regions",
		"board %s: the memory map needs %d regions of the memory protection unit, which has %d: %s", b.Name, sum, have,
		strings.Join(words, ", "))
}

// unitRegions returns how many regions the board's unit has.
func unitRegions(b *boards.Board) (int, error) {
	const name = "CPU_MPU_REGIONS"
	text, given := b.Defines[name]
	if !given {
		return leastRegions, nil
	}
	n, err := strconv.ParseUint(strings.TrimRight(text, "uUlL"), 0, 8)
	if err != nil || n == 0 {
		return 0, failure.New(failure.Config, "give the number of regions of the chip's memory protection unit",
			"board %s: defines.%s: %q is not a number from 1 to 255", b.Name, name, text)
	}
	return int(n), nil
}

// A regionNeed is a number of regions, and what takes them.
type regionNeed struct {
	what    string
	regions int
}

// needsOfV7 counts as mpu_v7.c does. Reserved memory takes what is left.
func needsOfV7(b *boards.Board, o boards.Options) []regionNeed {
	all := []regionNeed{{"areas of addresses", 3}, {"null pointer", min(nullRegions(b), 1)}}
	if guard := strings.TrimRight(b.Defines["BARE_GUARD_BYTES"], "uUlL"); guard != "" && guard != "0" {
		all = append(all, regionNeed{"guards of stacks", 2})
	}
	all = append(all, regionNeed{"upload_kib", zeroOrOne(o.UploadKiB > 0)})
	for _, r := range b.Memory {
		takes := false
		switch kind, isLow := regionKind(b, r), r.Origin < lowEnd; kind {
		case regionOwn:
			takes = !r.Reserved
		case regionRAM:
			takes = isLow
		case regionCode:
			takes = !isLow
		case regionMixed:
			takes = true
		}
		all = append(all, regionNeed{r.Name, zeroOrOne(takes)})
	}
	return all
}

// needsOfV8 counts as mpu_v8.c does: a memory above lowEnd with a rule also splits the area around it.
func needsOfV8(b *boards.Board, o boards.Options) []regionNeed {
	all := []regionNeed{
		{"areas of addresses", 2}, {"null pointer", nullRegions(b)}, {"upload_kib", 2 * zeroOrOne(o.UploadKiB > 0)},
	}
	for _, r := range b.Memory {
		n, isLow := 0, r.Origin < lowEnd
		switch regionKind(b, r) {
		case regionOwn:
			n = 1 + zeroOrOne(!isLow)
		case regionRAM:
			n = zeroOrOne(isLow)
		case regionCode:
			n = 1 + zeroOrOne(!isLow)
		case regionMixed:
			n = zeroOrOne(!isLow)
		}
		all = append(all, regionNeed{r.Name, n})
	}
	return all
}

// nullRegions returns how many regions ARMv8-M takes so that nothing is written to at address 0.
func nullRegions(b *boards.Board) int {
	at0 := slices.IndexFunc(b.Memory, func(r boards.Region) bool { return r.Origin < boards.NullBytes })
	switch {
	case at0 < 0:
		return 2
	case regionKind(b, b.Memory[at0]) == regionCode:
		return 0
	}
	return 1
}

// checkOverlaps returns an error for a memory whose rule would also apply to parts of code that could not run then, or
// of variables that could not be written to.
func checkOverlaps(b *boards.Board) error {
	for _, r := range b.Memory {
		rule := ownRule(b, r)
		isLowRAM := regionKind(b, r) == regionRAM && r.Origin < lowEnd
		forbidsCode := isLowRAM || rule == ruleRAM || rule == ruleFlash
		forbidsWrites := rule == ruleCode || rule == ruleFlash
		if !forbidsCode && !forbidsWrites {
			continue
		}
		for _, q := range b.CoveredWith(r) {
			what := ""
			switch {
			case forbidsCode && q.Name == b.Place.Code:
				what = "code"
			case forbidsWrites && holdsVariables(b.Place, q) && precedence(ownRule(b, q)) <= precedence(rule):
				what = "variables"
			default:
				continue
			}
			return failure.New(failure.Config, "choose sizes of these regions that are powers of two, or eighths of one",
				"board %s: region %q: a region of the memory protection unit, a power of two without some of its eighths, would "+
					"cover parts of region %q, which holds %s", b.Name, r.Name, q.Name, what)
		}
	}
	return nil
}
