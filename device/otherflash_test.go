//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// otherFlash begins at this address of the emulated chip's flash, which a board file takes for two memories.
const otherFlash = 0x30000

const twoFlashes = `"replaces": true, "inherits": "chip/nrf51822", "memory": [
  {"name": "flash", "origin": 0, "size": "0x30000", "exec": true, "nonvolatile": true, "erase_cycles": 20000,
    "sectors": [{"count": 192, "size": 1024}]},
  {"name": "outer", "origin": "0x30000", "size": "0x10000", "nonvolatile": true, "erase_cycles": 20000,
    "sectors": [{"count": 64, "size": 1024}], "verify": "firmware", "programmer": "openocd"},
  {"name": "ram", "origin": "0x20000000", "size": "0x00004000", "exec": true}],
"place": {"code": "flash", "data": "ram", "parameters": "outer"},`

// otherFlashShelf is a search path with a microbit of two flashes.
func otherFlashShelf(t *testing.T, memory string) string {
	t.Helper()
	text := readFile(t, filepath.Join("..", "boards", "microbit.json"))
	board := strings.Replace(string(text), `"inherits": "chip/nrf51822",`, memory, 1)
	return boardstest.Shelf(t, map[string]string{"microbit.json": board})
}

// TestChecksumDecidesUnreadableFlash: if no programmer can read back the flash of an image's parameters, the firmware's
// checksum decides what is written there.
func TestChecksumDecidesUnreadableFlash(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("only in a full run: it flashes an emulated chip four times; package flashplan tests the decisions")
	}
	t.Parallel()
	d := deskWith(t, otherFlashShelf(t, twoFlashes), "microbit", "openocd")
	i := d.imageOf(mlftest.Path(t, "sine.aot_packed"), boards.Options{})
	dev := d.attach()
	r, err := dev.Flash(t.Context(), i)
	must(t, err)
	if flash := d.flash(); len(bytes.Trim(flash[otherFlash:], "\xff")) == 0 || r.Sectors < 3 || !r.Verified {
		t.Errorf("nothing is in the other flash: %+v", r)
	}
	if r, err = dev.Flash(t.Context(), i); err != nil || r.Erased != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	dev.Close()
	d.damage(otherFlash + 8)
	dev = d.attach()
	r, err = dev.Flash(t.Context(), i)
	must(t, err)
	if !strings.Contains(r.Reason, "flash has changed since it was built") || r.Erased == 0 || !r.Verified {
		t.Errorf("after damage: %+v", r)
	}
	d.mustHold(i)
	before := d.flash()[otherFlash:]
	_, err = dev.Erase(t.Context())
	must(t, err)
	if after := d.flash(); len(bytes.Trim(after[:otherFlash], "\xff")) > 0 || !bytes.Equal(after[otherFlash:], before) {
		t.Error("erasing left the first flash, or erased the one whose contents it cannot check")
	}
}

// damage stops the emulated chip and inverts a byte of its flash.
func (d *desk) damage(at int) {
	d.t.Helper()
	data, dir := d.flash(), device.EmulatedDir(d.state, d.board)
	must(d.t, chipkeeper.Down(context.Background(), dir))
	name := filepath.Join(dir, "flash.bin")
	data[at] ^= 0xFF
	writeFile(d.t, name, string(data))
}

// TestRegionNamesProgrammer: a region is written only by a programmer that it names, which a dry run, too, checks.
func TestRegionNamesProgrammer(t *testing.T) {
	t.Parallel()
	const named = `, "verify": "firmware", "programmer": "openocd"`
	d := deskWith(t, otherFlashShelf(t, strings.Replace(twoFlashes, named, "", 1)), "microbit", "openocd")
	i, dev := d.imageOf(mlftest.Path(t, "sine.aot_packed"), boards.Options{}), d.attach()
	for _, err := range []error{
		last(dev.Flash(t.Context(), i)), last(d.env.desk().FlashCommands(t.Context(), dev.Board(), "", i)),
	} {
		wantError(t, err, failure.Config, "names no programmer")
	}
}
