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
	d.mustHold(i)
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
	_ = d.flash() // saves it
	dir := device.EmulatedDir(d.state, d.board)
	must(d.t, chipkeeper.Down(context.Background(), dir))
	name := filepath.Join(dir, "flash.bin")
	data := readFile(d.t, name)
	data[at] ^= 0xFF
	writeFile(d.t, name, string(data))
}

// TestRegionNamesProgrammer: only a programmer that the region names writes to it, and it does not read it back.
func TestRegionNamesProgrammer(t *testing.T) {
	t.Parallel()
	d := deskWith(t, otherFlashShelf(t, twoFlashes), "microbit", "openocd")
	i := d.imageOf(mlftest.Path(t, "sine.aot_packed"), boards.Options{})
	commands := func(shelf string) (string, error) {
		b, err := boards.Find("microbit", []string{shelf})
		must(t, err)
		list, err := d.env.desk().FlashCommands(t.Context(), b, "", i)
		return strings.Join(list.Flash, "\n"), err
	}
	text, err := commands(d.env.Path[0])
	must(t, err)
	if !strings.Contains(text, "flash write_image") || !strings.Contains(text, "0x30000 bin") ||
		strings.Contains(text[strings.Index(text, "verify_image"):], "0x30000") {
		t.Errorf("%s", text)
	}
	for _, c := range []struct{ name, region, want string }{
		{"none", ``, "names no programmer"},
		{"another", `, "verify": "firmware", "programmer": "pyocd"`, "is written by pyocd, not by openocd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const shipped = `, "verify": "firmware", "programmer": "openocd"`
			shelf := otherFlashShelf(t, strings.Replace(twoFlashes, shipped, c.region, 1))
			_, err := commands(shelf)
			wantError(t, err, failure.Config, c.want)
		})
	}
}
