package project

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// The history has the last flashes, also after another load; doing nothing again is no news.
func TestFlashHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Model: mlftest.Tiny(t, nil)}, testEnv())
	i := &image.Image{Digest: "d1", BuildID: [16]byte{1}}
	record := func(r device.FlashReport, err error) {
		t.Helper()
		must(t, p.RecordFlash(i, r, err))
	}
	record(device.FlashReport{Why: "no probe"}, nil) // nothing to remember
	for n := range 25 {
		record(device.FlashReport{Device: "chip:1", Programmer: "openocd", Erased: n + 1, Wrote: 100, Why: "differs"}, nil)
	}
	for range 3 {
		record(device.FlashReport{Device: "chip:1", Programmer: "openocd", Why: "it answered"}, nil)
	}
	record(device.FlashReport{Device: "chip:2", Erased: 7}, failure.Errorf(failure.Verify, "worn"))
	must(t, p.Close())
	p, err := load(dir, testEnv())
	must(t, err)
	defer p.Close()
	got := p.Flashes()
	if len(got) != maxFlashes || got[0].Sectors != 8 || got[17].Sectors != 25 || got[18].Why != "it answered" ||
		got[19].Class != failure.Verify {
		t.Errorf("%+v", got)
	}
	if got[19].Device != "chip:2" || time.Since(got[19].Time) > time.Hour || got[19].BuildID != i.ID() {
		t.Errorf("%+v", got[19])
	}
	must(t, p.Generate(t.Context(),
		Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{ArenaKiB: 512}}))
	if len(p.Flashes()) != maxFlashes {
		t.Error("generating again loses the list of flashes")
	}
}
