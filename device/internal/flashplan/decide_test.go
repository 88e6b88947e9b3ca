package flashplan

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	wantError = testkit.WantError
)

// threeSectors is an image whose build id is in the last sector.
func threeSectors() *Content {
	img := &Content{
		Image: &image.Image{BuildID: [16]byte{1}},
		Parts: firmware.Parts{[]byte("resident"), []byte("model")},
	}
	for i, d := range []string{"a", "b", "c"} {
		sector := boards.Sector{Index: i, Addr: uint64(i) * 64, Size: 64}
		img.Sectors = append(img.Sectors, Sector{Sector: sector, Digest: d, HasBuildID: d == "c"})
	}
	return img
}

// entryOf is the ledger's entry of a build, with the digests of its sectors.
func entryOf(build string, digests ...string) ledger.Entry {
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

// TestDecide: the step and its sectors for each combination of answer, ledger and read-back, and for a programmer that
// only writes complete images.
func TestDecide(t *testing.T) {
	img := threeSectors()
	id, other := img.ID(), strings.Repeat("0", 31)+"2"
	nonce := []byte("12345678")
	right := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: img.Parts.CRC(nonce), Chip: "c1"}
	replayed := &Answer{BuildID: img.BuildID, Nonce: []byte("12345679"), CRC: right.CRC, Chip: "c1"}
	changed := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: right.CRC + 1}
	old := &Answer{BuildID: [16]byte{15: 2}, CRC: 3, Chip: "c1"}
	readBack := func(d ...string) map[uint64]string { return map[uint64]string{0: d[0], 64: d[1], 128: d[2]} }
	for _, c := range []struct {
		name   string
		facts  Facts
		action Action
		writes string // digests of the sectors
		reason string
	}{
		{"the right firmware runs", Facts{Answer: right}, Nothing, "", "firmware answered with build"},
		{
			"the right firmware runs, a write was interrupted",
			Facts{Answer: right, Entry: began(entryOf(other, "a", "", "c"), 1)},
			Write, "b", "1 of 3 sectors were being written",
		},
		{
			"the right firmware runs, a write before the last flash was interrupted",
			Facts{Answer: right, Entry: clean(began(entryOf(id, "a", "", "c"), 1))},
			Write, "b", "1 of 3 sectors",
		},
		{
			"the right firmware runs, the ledger lacks a sector",
			Facts{Answer: right, Entry: entryOf(other, "a", "", "c")},
			Nothing, "", "firmware answered",
		},
		{
			"read back equal, a write was interrupted",
			Facts{Entry: began(entryOf(other, "a", "", ""), 1, 2), ReadBack: readBack("a", "b", "c")},
			Write, "bc", "2 of 3 sectors",
		},
		{
			"read back, one differs, the write of another was interrupted",
			Facts{Entry: began(entryOf(other, "a", "", "c"), 1), ReadBack: readBack("x", "b", "c")},
			Write, "ab", "1 of 3 sectors were being",
		},
		{
			"an older build answers, a write was interrupted",
			Facts{Answer: old, Entry: began(entryOf(other, "a", "", "c"), 1)},
			Read, "", "the last flash failed",
		},
		{
			"another image of the build id runs",
			Facts{Answer: changed, Entry: entryOf(id, "a", "x", "c")},
			Read, "", "has changed since it was built; its contents are unverified",
		},
		{
			"an answer to an earlier nonce",
			Facts{Answer: replayed, Entry: entryOf(id, "a", "b", "c")},
			Read, "", "has changed",
		},
		{"forced", Facts{Answer: right, Force: true}, Write, "abc", "as asked"},
		{"a new board", Facts{}, Read, "", "no entry for this board"},
		{"no answer, an entry in the ledger", Facts{Entry: entryOf(id, "a", "b", "c")}, Read, "", "did not answer"},
		{
			"an older build answers, one sector differs",
			Facts{Answer: old, Entry: entryOf(other, "a", "x", "c")},
			Write, "b", "1 of 3 sectors differ",
		},
		{
			"an older build answers, the ledger lacks a sector",
			Facts{Answer: old, Entry: entryOf(other, "a", "b", "")},
			Write, "c", "1 of 3",
		},
		{
			"a build answers that is not in the ledger",
			Facts{Answer: old, Entry: entryOf(id, "a", "b", "c")},
			Read, "", "not the last flashed image",
		},
		{
			"equal by the ledger, not by the firmware",
			Facts{Answer: old, Entry: entryOf(other, "a", "b", "c")},
			Read, "", "by the ledger it holds",
		},
		{"a damaged ledger", Facts{Answer: old, Entry: ledger.Entry{Lost: "f"}}, Read, "", "damaged"},
		{"read back equal", Facts{ReadBack: readBack("a", "b", "c")}, Nothing, "", "holds the image"},
		{
			"read back differs from the ledger",
			Facts{Answer: old, Entry: entryOf(other, "a", "b", "x"), ReadBack: readBack("a", "x", "c")},
			Write, "b", "1 of 3",
		},
	} {
		c.facts.Image, c.facts.Interrupted = img, Interrupted(c.facts.Entry)
		d := Decide(c.facts)
		if writes := digestsOf(d); d.Action != c.action || writes != c.writes || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s: action %d, sectors %q (%s)", c.name, d.Action, writes, d.Reason)
		}
		c.facts.Image = threeSectors()
		c.facts.Image.SetUnreadable()
		if w := Decide(c.facts); (w.Action == Nothing) != (d.Action == Nothing) ||
			w.Action != Nothing && (w.Action != Write || len(w.Sectors) != 3) {
			t.Errorf("%s, by a programmer that only writes: %+v", c.name, w)
		}
	}
}

// digestsOf are the digests of the sectors to write.
func digestsOf(d Decision) (digests string) {
	for _, s := range d.Sectors {
		digests += s.Digest
	}
	return digests
}

// TestUnreadableSectors: a sector that no programmer can read back is verified by the firmware's checksum alone, and
// neither read nor compared.
func TestUnreadableSectors(t *testing.T) {
	img := threeSectors()
	img.Sectors[1].Unreadable = true
	nonce := []byte("12345678")
	right := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: img.Parts.CRC(nonce)}
	damaged := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: right.CRC + 1}
	for _, c := range []struct {
		name   string
		facts  Facts
		action Action
		writes string
	}{
		{"the firmware's checksum is right", Facts{Answer: right}, Nothing, ""},
		{"the firmware's checksum is wrong", Facts{Answer: damaged}, Read, ""},
		{
			"the firmware's checksum is wrong, the rest is right",
			Facts{Answer: damaged, ReadBack: map[uint64]string{0: "a", 128: "c"}},
			Write, "b",
		},
		{"no answer", Facts{ReadBack: map[uint64]string{0: "a", 128: "x"}}, Write, "bc"},
	} {
		c.facts.Image = img
		if d := Decide(c.facts); d.Action != c.action || digestsOf(d) != c.writes {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	job := img.Job(img.Sectors)
	if len(job.Erase) != 3 || len(job.Write) != 3 || len(job.Verify) != 2 || job.Verify[1].Addr != 128 {
		t.Errorf("%+v", job)
	}
	if got := img.Ranges(); len(got) != 2 || got[1].Addr != 128 {
		t.Errorf("reads %+v", got)
	}
	digests := img.DigestsOf([]flasher.Segment{{Addr: 0, Data: make([]byte, 64)}, {Addr: 128, Data: make([]byte, 64)}})
	if _, ok := digests[64]; ok || len(digests) != 2 || digests[128] == "" || !img.HasUnreadable() {
		t.Errorf("%v", digests)
	}
}
