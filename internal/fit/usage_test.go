package fit

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// usageOf returns a usage in which each part of sizes takes its bytes in each region.
func usageOf(regions []RegionUse, sizes map[string][]int64, process map[string]image.Size) *Usage {
	u := &Usage{Regions: regions, Arena: ArenaUse{Need: 100, Have: 5000}}
	for _, name := range partNames {
		p := PartUse{Name: name, Size: process[name], In: make([]int64, len(regions))}
		copy(p.In, sizes[name])
		u.Parts = append(u.Parts, p)
	}
	return u
}

// TestShares: external flash is flash; of the arena only the need counts, in a process, too, and all of it if the need
// is unknown; stacks do not count, wherever they are.
func TestShares(t *testing.T) {
	t.Parallel()
	regions := []RegionUse{{Name: "flash", Flash: true}, {Name: "qspi", Flash: true}, {Name: "ram"}}
	chip := usageOf(regions, map[string][]int64{
		partRuntime: {70, 0, 8}, partParameters: {0, 900, 0}, partArena: {0, 0, 5000}, partStack: {0, 0, 400},
	}, nil)
	process := usageOf(nil, nil, map[string]image.Size{
		partRuntime: {Text: 60, Data: 10, BSS: 8}, partArena: {BSS: 5000}, partStack: {BSS: 400},
	})
	want := []Share{{partRuntime, 70, 8}, {partParameters, 900, 0}, {partArena, 0, 100}}
	testkit.Equal(t, "chip", chip.Shares(), want)
	testkit.Equal(t, "process", process.Shares(), []Share{{partRuntime, 70, 18}, {partArena, 0, 100}})
	process.Arena.Need = 0
	if flash, ram := process.FlashAndRAM(); flash != 70 || ram != 5018 {
		t.Errorf("with an unknown need: %d, %d", flash, ram)
	}
}

// TestLinkerRegions: of a linker's regions, flash is what it may not write.
func TestLinkerRegions(t *testing.T) {
	t.Parallel()
	m, err := readMap(strings.NewReader("Memory Configuration\n\nName Origin Length Attributes\n" +
		"FLASH 0x0 0x1000 xr\nRAM 0x2000 0x1000 xrw\nAUX 0x4000 0x1000\n*default* 0x0 0xffff\n" +
		"\nLinker script and memory map\n"))
	testkit.Must(t, err)
	l := &Layout{from: m}
	want := []RegionUse{
		{Name: "FLASH", Size: 0x1000, Flash: true},
		{Name: "RAM", Origin: 0x2000, Size: 0x1000},
		{Name: "AUX", Origin: 0x4000, Size: 0x1000},
	}
	testkit.Equal(t, "regions", l.regionsOf(nil), want)
}
