//go:build !windows

package device_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// withBootLoader is an emulated chip of which a boot loader owns the first two sectors.
const withBootLoader = `{
  "doc": "behind an emulated probe, with a boot loader", "inherits": "chip/stm32f405",
  "memory": [
    {"name": "boot", "origin": "0x08000000", "size": "0x00008000", "nonvolatile": true, "reserved": true,
      "sectors": [{"count": 2, "size": "0x4000"}]},
    {"name": "flash", "origin": "0x08008000", "size": "0x00078000", "exec": true, "nonvolatile": true,
      "erase_cycles": 10000,
      "sectors": [{"count": 2, "size": "0x4000"}, {"count": 1, "size": "0x10000"}, {"count": 3, "size": "0x20000"}]},
    {"name": "ram", "origin": "0x20000000", "size": "0x00020000", "exec": true}
  ],
  "model_at": "0x08010000", "arena_kib": 64,
  "post_link": ["python3", "{board}/sign.py", "--header-size", "512", "{bin}", "{out.bin}"],
  "defines": {
    "BARE_HEADER_BYTES": "512", "BARE_TRAILER_BYTES": "256",
    "STM32_HSE_HZ": "25000000", "STM32_HSE_BYPASS": "0", "STM32_UART": "1",
    "STM32_UART_TX": "STM32_PIN('B', 6)", "STM32_UART_TX_AF": "7",
    "STM32_UART_RX": "STM32_PIN('B', 7)", "STM32_UART_RX_AF": "7"
  },
  "timer": {"kind": "systick", "hz": 168000000}, "host_clock": false,
  "identification": {"values": ["0x441"]},
  "link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "netduinoplus2"]},
  "flash": {"programmer": "openocd", "scripts": ["target/stm32f4x.cfg"], "chip": "stm32f412xe", "emulated": true}
}`

const bootBytes = 0x8000

// TestFlashBehindBootLoader: an image behind a boot loader is flashed with its header and trailer, and the boot
// loader's sectors stay unchanged, also by Erase.
func TestFlashBehindBootLoader(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("only in a full run; TestEraseSkipsBlankAndReserved has a reserved region in every run")
	}
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	example := filepath.Join("..", "examples", "custom-board", "boards")
	sign := readFile(t, filepath.Join(example, "sign.py"))
	shelf := boardstest.Shelf(t, map[string]string{"boot.json": withBootLoader, "sign.py": string(sign)})
	d := deskWith(t, shelf, "boot", "openocd")
	loader := bootLoader(t, filepath.Join(example, "boot.S"))
	state := device.EmulatedDir(d.state, "boot")
	must(t, os.MkdirAll(state, 0o755))
	writeFile(t, filepath.Join(state, "flash.bin"), string(loader))

	one := d.image(boards.Options{})
	two := d.image(boards.Options{ArenaKiB: 63})
	dev := d.attach()
	hold := func(i *image.Image) {
		t.Helper()
		want := loader
		if i != nil {
			bin := readFile(t, i.Bin)
			want = append(bytes.Clone(loader), bin...)
		}
		flash := d.flash()
		if !bytes.Equal(flash[:len(want)], want) || len(bytes.Trim(flash[len(want):], "\xff")) > 0 {
			t.Error("the flash has other contents than boot loader and image")
		}
	}
	for _, i := range []*image.Image{one, two} {
		r, err := dev.Flash(t.Context(), i)
		must(t, err)
		if !r.Verified || r.Erased == 0 {
			t.Errorf("%+v", r)
		}
		hold(i)
		s, err := dev.Open(t.Context(), i)
		must(t, err)
		must(t, s.Close(t.Context()))
	}
	if r, err := dev.Flash(t.Context(), two); err != nil || r.Erased != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	_, err := dev.Erase(t.Context())
	must(t, err)
	hold(nil)
	_, err = dev.Flash(t.Context(), one)
	must(t, err)
	hold(one)
}

// bootLoader returns the example's boot loader for a chip whose flash is at 0x08000000, and other contents of its
// sectors.
func bootLoader(t *testing.T, source string) []byte {
	t.Helper()
	elf := filepath.Join(t.TempDir(), "boot.elf")
	out, err := exec.Command("arm-none-eabi-gcc", "-nostdlib", "-DIMAGE=0x08008000", "-Wl,-Ttext=0x08000000,-e,start",
		"-o", elf, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	parts, err := objcopied(elf)
	must(t, err)
	flash := bytes.Repeat([]byte{0xA5}, bootBytes)
	copy(flash, parts[0].Data)
	return flash
}
