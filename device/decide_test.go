package device

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// decideImage has three sectors; the build id is in the last.
func decideImage() *flashImage {
	img := &flashImage{
		Image: &image.Image{BuildID: [16]byte{1}},
		parts: firmware.Parts{[]byte("resident"), []byte("model")},
	}
	for i, d := range []string{"a", "b", "c"} {
		sector := flasher.Sector{Index: i, Addr: uint64(i) * 64, Size: 64}
		img.sectors = append(img.sectors, imageSector{Sector: sector, digest: d, holdsID: d == "c"})
	}
	return img
}

func ledgerSays(build string, digests ...string) ledger.Entry {
	e := ledger.Entry{Image: "x", BuildID: build}
	for i, d := range digests {
		e.Sector(uint64(i)*64, 64).Digest = d
	}
	return e
}

// began returns the entry as it is while these sectors are erased and written.
func began(e ledger.Entry, sectors ...int) ledger.Entry {
	e.Dirty = true
	for _, n := range sectors {
		e.Sectors[n].Erases = 1
	}
	return e
}

func clean(e ledger.Entry) ledger.Entry {
	e.Dirty = false
	return e
}

func TestDecideFlash(t *testing.T) {
	t.Parallel()
	img := decideImage()
	id, other := img.ID(), strings.Repeat("0", 31)+"2"
	nonce := []byte("12345678")
	right := &firmwareAnswer{buildID: img.BuildID, nonce: nonce, crc: img.parts.CRC(nonce), chip: "c1"}
	replayed := &firmwareAnswer{buildID: img.BuildID, nonce: []byte("12345679"), crc: right.crc, chip: "c1"}
	older := &firmwareAnswer{buildID: img.BuildID, crc: img.parts.CRC(nil), chip: "c1"}
	changed := &firmwareAnswer{buildID: img.BuildID, nonce: nonce, crc: right.crc + 1}
	old := &firmwareAnswer{buildID: [16]byte{15: 2}, crc: 3, chip: "c1"}
	held := func(d ...string) map[uint64]string { return map[uint64]string{0: d[0], 64: d[1], 128: d[2]} }
	for _, c := range []struct {
		name   string
		facts  flashFacts
		action flashAction
		writes string // digests of the sectors
		why    string
	}{
		{"the right firmware runs", flashFacts{answer: right}, flashNothing, "", "firmware answered with build"},
		{
			"it runs, whatever the ledger believes",
			flashFacts{answer: right, entry: ledger.Entry{Dirty: true}},
			flashNothing, "", "firmware answered",
		},
		{
			"it runs, but a sector was in work",
			flashFacts{answer: right, entry: began(ledgerSays(other, "a", "", "c"), 1)},
			flashWrite, "b", "1 of 3 sectors were being written",
		},
		{
			"it runs, but a sector was in work before the last flash",
			flashFacts{answer: right, entry: clean(began(ledgerSays(id, "a", "", "c"), 1))},
			flashWrite, "b", "1 of 3 sectors",
		},
		{
			"it runs, a sector is unknown to the ledger",
			flashFacts{answer: right, entry: ledgerSays(other, "a", "", "c")},
			flashNothing, "", "firmware answered",
		},
		{
			"read back, the same, but a sector was in work",
			flashFacts{entry: began(ledgerSays(other, "a", "", ""), 1, 2), held: held("a", "b", "c")},
			flashWrite, "bc", "2 of 3 sectors",
		},
		{
			"read back, one differs, another was in work",
			flashFacts{entry: began(ledgerSays(other, "a", "", "c"), 1), held: held("x", "b", "c")},
			flashWrite, "ab", "1 of 3 sectors were being",
		},
		{
			"an older build answers, a sector was in work",
			flashFacts{answer: old, entry: began(ledgerSays(other, "a", "", "c"), 1)},
			flashRead, "", "the last flash failed",
		},
		{
			"it runs, but its flash has changed",
			flashFacts{answer: changed, entry: ledgerSays(id, "a", "b", "c")},
			flashRead, "", "has changed",
		},
		{
			"an answer to an earlier question",
			flashFacts{answer: replayed, entry: ledgerSays(id, "a", "b", "c")},
			flashRead, "", "has changed",
		},
		{
			"a firmware that takes no nonce",
			flashFacts{answer: older, entry: ledgerSays(id, "a", "b", "c")},
			flashRead, "", "older boardsmith",
		},
		{
			"a firmware that takes no nonce, read back",
			flashFacts{answer: older, held: held("a", "b", "c")},
			flashNothing, "", "older boardsmith",
		},
		{"asked for", flashFacts{answer: right, force: true}, flashWrite, "abc", "as asked"},
		{"a new board", flashFacts{}, flashRead, "", "no entry for this board"},
		{"one that only the ledger knows", flashFacts{entry: ledgerSays(id, "a", "b", "c")}, flashRead, "", "did not answer"},
		{
			"an older build answers, known",
			flashFacts{answer: old, entry: ledgerSays(other, "a", "x", "c")},
			flashWrite, "b", "1 of 3 sectors differ",
		},
		{
			"an older build answers, all else",
			flashFacts{answer: old, entry: ledgerSays(other, "x", "x", "x")},
			flashWrite, "abc", "all 3",
		},
		{
			"an older build answers, a sector unknown",
			flashFacts{answer: old, entry: ledgerSays(other, "a", "b", "")},
			flashWrite, "c", "1 of 3",
		},
		{
			"a build that we did not flash",
			flashFacts{answer: old, entry: ledgerSays(id, "a", "b", "c")},
			flashRead, "", "not the last flashed image",
		},
		{
			"the ledger says equal, the firmware not",
			flashFacts{answer: old, entry: ledgerSays(other, "a", "b", "c")},
			flashRead, "", "by the ledger it holds",
		},
		{
			"interrupted",
			flashFacts{answer: old, entry: began(ledgerSays(other, "a", "x", "c"))},
			flashRead, "", "the last flash failed",
		},
		{"a damaged ledger", flashFacts{answer: old, entry: ledger.Entry{Lost: "f"}}, flashRead, "", "damaged"},
		{"read back, the same", flashFacts{held: held("a", "b", "c")}, flashNothing, "", "holds the image"},
		{"read back, one differs", flashFacts{held: held("a", "b", "x")}, flashWrite, "c", "1 of 3"},
		{
			"read back, against the ledger",
			flashFacts{answer: old, entry: ledgerSays(other, "a", "b", "x"), held: held("a", "x", "c")},
			flashWrite, "b", "1 of 3",
		},
	} {
		c.facts.image, c.facts.inWork = img, sectorsInWork(c.facts.entry)
		d := decideFlash(c.facts)
		writes := ""
		for _, s := range d.sectors {
			writes += s.digest
		}
		if d.action != c.action || writes != c.writes || !strings.Contains(d.why, c.why) {
			t.Errorf("%s: action %d, sectors %q (%s); want %d, %q (%s)",
				c.name, d.action, writes, d.why, c.action, c.writes, c.why)
		}
	}
}
