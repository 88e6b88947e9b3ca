package flashplan

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// threeSectors is an image whose build id is in the last sector.
func threeSectors() *Image {
	img := &Image{
		Image: &image.Image{BuildID: [16]byte{1}},
		Parts: firmware.Parts{[]byte("resident"), []byte("model")},
	}
	for i, d := range []string{"a", "b", "c"} {
		sector := boards.Sector{Index: i, Addr: uint64(i) * 64, Size: 64}
		img.Sectors = append(img.Sectors, Sector{Sector: sector, Digest: d, HoldsID: d == "c"})
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
	img := threeSectors()
	id, other := img.ID(), strings.Repeat("0", 31)+"2"
	nonce := []byte("12345678")
	right := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: img.Parts.CRC(nonce), Chip: "c1"}
	replayed := &Answer{BuildID: img.BuildID, Nonce: []byte("12345679"), CRC: right.CRC, Chip: "c1"}
	changed := &Answer{BuildID: img.BuildID, Nonce: nonce, CRC: right.CRC + 1}
	old := &Answer{BuildID: [16]byte{15: 2}, CRC: 3, Chip: "c1"}
	held := func(d ...string) map[uint64]string { return map[uint64]string{0: d[0], 64: d[1], 128: d[2]} }
	for _, c := range []struct {
		name   string
		facts  Facts
		action Action
		writes string // digests of the sectors
		why    string
	}{
		{"the right firmware runs", Facts{Answer: right}, Nothing, "", "firmware answered with build"},
		{
			"it runs, whatever the ledger believes",
			Facts{Answer: right, Entry: ledger.Entry{Dirty: true}},
			Nothing, "", "firmware answered",
		},
		{
			"it runs, but a sector was in work",
			Facts{Answer: right, Entry: began(ledgerSays(other, "a", "", "c"), 1)},
			Write, "b", "1 of 3 sectors were being written",
		},
		{
			"it runs, but a sector was in work before the last flash",
			Facts{Answer: right, Entry: clean(began(ledgerSays(id, "a", "", "c"), 1))},
			Write, "b", "1 of 3 sectors",
		},
		{
			"it runs, a sector is unknown to the ledger",
			Facts{Answer: right, Entry: ledgerSays(other, "a", "", "c")},
			Nothing, "", "firmware answered",
		},
		{
			"read back, the same, but a sector was in work",
			Facts{Entry: began(ledgerSays(other, "a", "", ""), 1, 2), Held: held("a", "b", "c")},
			Write, "bc", "2 of 3 sectors",
		},
		{
			"read back, one differs, another was in work",
			Facts{Entry: began(ledgerSays(other, "a", "", "c"), 1), Held: held("x", "b", "c")},
			Write, "ab", "1 of 3 sectors were being",
		},
		{
			"an older build answers, a sector was in work",
			Facts{Answer: old, Entry: began(ledgerSays(other, "a", "", "c"), 1)},
			Read, "", "the last flash failed",
		},
		{
			"it runs, but its flash has changed",
			Facts{Answer: changed, Entry: ledgerSays(id, "a", "b", "c")},
			Read, "", "has changed",
		},
		{
			"another image of its build id runs, as signed again",
			Facts{Answer: changed, Entry: ledgerSays(id, "a", "x", "c")},
			Read, "", "its contents are unverified",
		},
		{
			"an answer to an earlier question",
			Facts{Answer: replayed, Entry: ledgerSays(id, "a", "b", "c")},
			Read, "", "has changed",
		},
		{"asked for", Facts{Answer: right, Force: true}, Write, "abc", "as asked"},
		{"a new board", Facts{}, Read, "", "no entry for this board"},
		{"one that only the ledger knows", Facts{Entry: ledgerSays(id, "a", "b", "c")}, Read, "", "did not answer"},
		{
			"an older build answers, known",
			Facts{Answer: old, Entry: ledgerSays(other, "a", "x", "c")},
			Write, "b", "1 of 3 sectors differ",
		},
		{
			"an older build answers, all else",
			Facts{Answer: old, Entry: ledgerSays(other, "x", "x", "x")},
			Write, "abc", "all 3",
		},
		{
			"an older build answers, a sector unknown",
			Facts{Answer: old, Entry: ledgerSays(other, "a", "b", "")},
			Write, "c", "1 of 3",
		},
		{
			"a build that we did not flash",
			Facts{Answer: old, Entry: ledgerSays(id, "a", "b", "c")},
			Read, "", "not the last flashed image",
		},
		{
			"the ledger says equal, the firmware not",
			Facts{Answer: old, Entry: ledgerSays(other, "a", "b", "c")},
			Read, "", "by the ledger it holds",
		},
		{
			"interrupted",
			Facts{Answer: old, Entry: began(ledgerSays(other, "a", "x", "c"))},
			Read, "", "the last flash failed",
		},
		{"a damaged ledger", Facts{Answer: old, Entry: ledger.Entry{Lost: "f"}}, Read, "", "damaged"},
		{"read back, the same", Facts{Held: held("a", "b", "c")}, Nothing, "", "holds the image"},
		{"read back, one differs", Facts{Held: held("a", "b", "x")}, Write, "c", "1 of 3"},
		{
			"read back, against the ledger",
			Facts{Answer: old, Entry: ledgerSays(other, "a", "b", "x"), Held: held("a", "x", "c")},
			Write, "b", "1 of 3",
		},
	} {
		c.facts.Image, c.facts.InWork = img, InWork(c.facts.Entry)
		d := Decide(c.facts)
		writes := ""
		for _, s := range d.Sectors {
			writes += s.Digest
		}
		if d.Action != c.action || writes != c.writes || !strings.Contains(d.Why, c.why) {
			t.Errorf("%s: action %d, sectors %q (%s); want %d, %q (%s)",
				c.name, d.Action, writes, d.Why, c.action, c.writes, c.why)
		}
		whole := threeSectors()
		whole.SetUnread()
		c.facts.Image = whole
		if w := Decide(c.facts); (w.Action == Nothing) != (d.Action == Nothing) ||
			w.Action != Nothing && (w.Action != Write || len(w.Sectors) != 3) {
			t.Errorf("%s, by a programmer that only writes: action %d, %d sectors (%s)", c.name, w.Action, len(w.Sectors), w.Why)
		}
	}
}

// TestUnread decides about an image of which no programmer can read the second sector.
func TestUnread(t *testing.T) {
	t.Parallel()
	img := threeSectors()
	img.Sectors[1].Unread = true
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
		{"it is wrong", Facts{Answer: damaged}, Read, ""},
		{"it is wrong, the rest is right", Facts{Answer: damaged, Held: map[uint64]string{0: "a", 128: "c"}}, Write, "b"},
		{"no answer", Facts{Held: map[uint64]string{0: "a", 128: "x"}}, Write, "bc"},
	} {
		c.facts.Image = img
		d := Decide(c.facts)
		writes := ""
		for _, s := range d.Sectors {
			writes += s.Digest
		}
		if d.Action != c.action || writes != c.writes {
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
	held := img.DigestsOf([]flasher.Segment{{Addr: 0, Data: make([]byte, 64)}, {Addr: 128, Data: make([]byte, 64)}})
	if _, ok := held[64]; ok || len(held) != 2 || held[128] == "" || !img.HasUnread() {
		t.Errorf("%v", held)
	}
}
