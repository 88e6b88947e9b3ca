package project

import (
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/toolwords"
)

// This file is about memory maps that a memory protection unit cannot have, and about rules that overlap.

// withUnit returns a copy of a board whose unit has n regions.
func withUnit(b *boards.Board, n int) *boards.Board {
	with := *b
	with.Defines = maps.Clone(b.Defines)
	with.Defines["CPU_MPU_REGIONS"] = strconv.Itoa(n)
	return &with
}

// TestProtectionCount: the port compiles if the unit has as many regions as the port then uses, and with no fewer.
func TestProtectionCount(t *testing.T) {
	t.Parallel()
	shelf := maps.Clone(reservedBoards)
	for name, text := range rulesBoards {
		shelf["rules_"+name+".json"] = text
	}
	path := boardstest.Shelf(t, shelf)
	for _, c := range []struct {
		board  string
		upload int
		needed int
	}{
		{"nucleo_h743zi", 8, 8},
		{"mps2_an386", 0, 5},
		{"mps2_an521", 8, 7},
		{"rules_seven", 0, 11},
		{"rules_eight", 0, 9},
		{"eight", 0, 8},
	} {
		b, err := boards.Find(c.board, []string{path})
		must(t, err)
		o := boards.Options{UploadKiB: c.upload}
		r, _ := b.Region(b.Place.UploadRegion())
		window := uint64(r.Origin) + 0x10000
		_, messages := buildMPU(t, withUnit(b, c.needed-1), o, window)
		const want = "memory: the map needs more regions than the memory protection unit has"
		if got := toolwords.Assertion(messages); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", c.board, got, want)
		}
		used := 0
		for _, region := range mpuOf(t, withUnit(b, c.needed), o, window).regions {
			used += int(region.attributes & 1)
		}
		if used != c.needed {
			t.Errorf("%s: the port uses %d regions, not %d", c.board, used, c.needed)
		}
	}
}

// beside has an uncached memory before one with operators, which no region covers exactly.
const beside = `{"inherits": "chip/stm32h743", "arena_kib": 64,
"memory": [
  {"name": "flash", "origin": "0x08000000", "size": "0x00200000", "exec": true, "nonvolatile": true,
    "sectors": [{"count": 16, "size": "0x20000"}]},
  {"name": "axi", "origin": "0x24000000", "size": "0x00080000"},
  {"name": "shared", "origin": "0x30000000", "size": "0x00002000", "dma": true},
  {"name": "fast", "origin": "0x30002000", "size": "0x00046000", "exec": true},
  {"name": "sdram", "origin": "0xC0000000", "size": "0x00800000"}],
"place": {"code": "flash", "data": "axi", "stack": "axi", "arena": "sdram", "noinit": "axi", "upload": "axi",
  "operators": "fast"},
"link": {"kind": "serial"}, "flash": {"programmer": "openocd", "scripts": ["x.cfg"]}}`

// TestRulesBeside: a rule that covers its neighbour does not let a cache hold it, and RAM outside of the chip can be
// written to without a function of the board.
func TestRulesBeside(t *testing.T) {
	t.Parallel()
	b, err := boards.Find("beside", []string{boardstest.Shelf(t, map[string]string{"beside.json": beside})})
	must(t, err)
	m := mpuOf(t, b, boards.Options{}, 0)
	for _, c := range []mpuAnswer{
		{"", 0x30000000, true, true, false, false},
		{"", 0x30001FFC, true, true, false, false},
		{"", 0x30002000, true, true, true, true},
		{"", 0xC0000000, true, true, false, true},
	} {
		m.want(t, c.at, c.read, c.write, c.execute)
		if got := m.cached(c.at); got != c.cached {
			t.Errorf("%#x is cached: %v", c.at, got)
		}
	}
}

// TestProtectionErrors generates projects for boards with rules that exclude each other.
func TestProtectionErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base    string
		changes []string // old and new ones
		want    string
	}{
		{
			reservedBoards["seven.json"],
			[]string{
				`"boot", "origin": "0x00200000", "size": "0x00200000", "nonvolatile": true, "reserved": true`,
				`"low", "origin": "0x00200000", "size": "0x01E10000"`,
			},
			`bad.json:1: memory: region "low": a region of the memory protection unit, a power of two without some of its ` +
				`eighths, would cover parts of region "code", which holds code`,
		},
		{
			beside,
			[]string{`"dma": true`, `"exec": true`, `"exec": true}`, `"exec": true, "nonvolatile": true}`},
			"",
		},
		{
			beside,
			[]string{
				`, "dma": true`, ``, `"exec": true}`, `"exec": true, "nonvolatile": true}`,
				`"operators": "fast"`, `"operators": "fast", "packet": "shared"`,
			},
			`cover parts of region "shared", which holds variables`,
		},
	} {
		e := testEnv()
		e.Path = []string{boardstest.Shelf(t, map[string]string{
			"bad.json": strings.NewReplacer(c.changes...).Replace(c.base), "poke.c": pokeSource,
		})}
		p, err := generate(t.Context(), filepath.Join(t.TempDir(), "p"), Spec{Board: "bad", Model: mlftest.Tiny(t, nil)}, e)
		if err == nil {
			must(t, p.Close())
		}
		if (err == nil) != (c.want == "") || err != nil && (failure.Of(err) != failure.Config ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.changes, err, c.want)
		}
	}
}
