package templates_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// This file tests the parts specific to an RP2040: the second stage of its boot, which runs on an interpreted core
// (thumb_test.go), and the code that reads the flash's id.

// bootCRC is the boot ROM's check (RP2040 datasheet §2.8.1.3.1), bit by bit.
func bootCRC(b []byte) uint32 {
	crc := ^uint32(0)
	for _, v := range b {
		crc ^= uint32(v) << 24
		for range 8 {
			top := crc >> 31
			crc <<= 1
			if top != 0 {
				crc ^= 0x04C11DB7
			}
		}
	}
	return crc
}

// TestBootCRC compares the check with the published value of CRC-32/MPEG-2.
func TestBootCRC(t *testing.T) {
	testkit.Equal(t, "CRC-32/MPEG-2 of 123456789", bootCRC([]byte("123456789")), 0x0376E6E7)
}

func assemble(t *testing.T, source string) []byte {
	t.Helper()
	const cc = "arm-none-eabi-gcc"
	testkit.Need(t, cc)
	testkit.NoteFiles(t, source)
	object := filepath.Join(t.TempDir(), "boot.o")
	testkit.Output(t, exec.Command(cc, "-c", "-o", object, source))
	f, err := elf.Open(object)
	must(t, err)
	defer f.Close()
	code, err := f.Section(".boardsmith.boot").Data()
	must(t, err)
	return code
}

// TestRP2040Boot checks the second stage's length and CRC, and runs it: what it writes to the pads and to the flash
// interface, and where it goes.
func TestRP2040Boot(t *testing.T) {
	code := assemble(t, "baremetal/port/chip/rp2040_boot.S")
	if len(code) != 256 {
		t.Fatalf("%d bytes, want 256", len(code))
	}
	testkit.Equal(t, "the CRC in rp2040_boot.S", binary.LittleEndian.Uint32(code[252:]), bootCRC(code[:252]))
	for _, at := range []uint32{0x20041F00, 0x20000404} { // where the boot ROM puts it, and any other word
		for _, lr := range []uint32{0, 0x10001235} {
			b := &bootBus{t: t, code: code, base: at, busy: 3}
			c := &core{bus: b}
			b.core = c
			c.r[14] = lr
			for i := 4; i < 12; i++ {
				c.r[i] = uint32(i) * 0x01010101
			}
			c.run(t, at)
			b.check(t, lr)
		}
	}
}

// A bootBus is the memory of the second stage: its own code, the vector table behind it, and the flash interface.
type bootBus struct {
	t      *testing.T
	code   []byte
	base   uint32
	busy   int // reads of SSI_SR that still say so
	writes []string
	left   uint32 // where it went
	core   *core
}

func (b *bootBus) enters(pc uint32) bool {
	if pc < b.base || pc >= b.base+252 {
		b.left, b.core.stopped = pc, true
		return true
	}
	return false
}

func (b *bootBus) load(addr uint32, width int) uint32 {
	b.t.Helper()
	switch {
	case addr >= b.base && addr+uint32(width) <= b.base+256:
		if width == 2 {
			return uint32(binary.LittleEndian.Uint16(b.code[addr-b.base:]))
		}
		return binary.LittleEndian.Uint32(b.code[addr-b.base:])
	case addr == 0x10000100: // the vector table
		return 0x20010000
	case addr == 0x10000104:
		return 0x10000201
	case addr == 0x18000028: // SSI_SR
		if b.busy > 0 {
			b.busy--
			return 3 - uint32(b.busy)%2 // busy, with and without room
		}
		return 6
	}
	b.t.Fatalf("reads %#x", addr)
	return 0
}

func (b *bootBus) store(addr uint32, _ int, v uint32) {
	b.writes = append(b.writes, fmt.Sprintf("%08x=%x", addr, v))
}

// check compares the written values with the datasheets.
func (b *bootBus) check(t *testing.T, lr uint32) {
	t.Helper()
	const quad = 2<<21 | 31<<16 | 3<<8 // CTRLR0: SPI_FRF, DFS_32, TMOD (§4.10.13)
	const address = 8<<2 | 4<<11       // SPI_CTRLR0: ADDR_L 32 bits, WAIT_CYCLES 4
	want := []string{
		"40020004=21", "40020008=50", "4002000c=50", "40020010=50", "40020014=50", // §2.19.6.4
		"18000008=0", "18000010=1", "18000014=2", "180000f0=1",
		fmt.Sprintf("18000000=%x", quad), "18000004=0", fmt.Sprintf("180000f4=%x", address|2<<8|1), "18000008=1",
		"18000060=eb", "18000060=a0", // fast read quad I/O of address 0, continuous
		"18000008=0", fmt.Sprintf("180000f4=%x", uint32(0xA0<<24|address|2)), "18000008=1",
		"e000ed08=10000100",
	}
	testkit.Equal(t, "writes", b.writes, want)
	testkit.Equal(t, "busy after it goes on", b.busy, 0)
	for i := 4; i < 12; i++ {
		testkit.Equal(t, "a register that is kept", b.core.r[i], uint32(i)*0x01010101)
	}
	if lr != 0 && (b.left != lr&^1 || b.core.msp != 0) {
		t.Errorf("called from %#x it goes to %#x", lr, b.left)
	}
	if lr == 0 && (b.left != 0x10000200 || b.core.msp != 0x20010000) {
		t.Errorf("jumps to %#x with SP %#x, unlike the vector table", b.left, b.core.msp)
	}
}

func TestRP2040Image(t *testing.T) {
	image, program, b := built(t, "rpi_pico")
	if !bytes.Equal(image[:256], assemble(t, "baremetal/port/chip/rp2040_boot.S")) {
		t.Error("the image does not begin with the second stage")
	}
	checkVectors(t, image, b, 0x100)
	checkFlashID(t, program)
}

// A flashBus is the memory of query_flash in rp2040.c: RAM, the boot ROM's functions, and the flash behind its
// interface. From exit_xip to the second stage, the flash cannot be read directly.
type flashBus struct {
	t        *testing.T
	ram      map[uint32]byte
	boot     uint32 // the copy of the second stage
	dead     bool   // the interface never says anything
	calls    []string
	xip      bool
	selected bool
	sent     []byte
	waiting  []byte
	reads    int
}

var flashAnswer = []byte{0xE6, 0x61, 0x64, 0x08, 0x43, 0x1B, 0x5A, 0x2C}

// functions of the boot ROM, at addresses of this test's choice
var romFunctions = map[uint32]string{0x1000: "IF", 0x2000: "EX", 0x3000: "FC"}

func (b *flashBus) enters(pc uint32) bool {
	name, ok := romFunctions[pc]
	if pc == b.boot {
		name, ok = "boot2", true
	}
	if !ok {
		return false
	}
	b.calls = append(b.calls, name)
	if name == "EX" {
		b.xip = false
	}
	if name == "boot2" {
		b.xip = true
	}
	return true
}

func (b *flashBus) load(addr uint32, width int) uint32 {
	b.t.Helper()
	switch {
	case addr >= 0x20000000 && addr < 0x20042000:
		var v uint32
		for i := range uint32(width) {
			v |= uint32(b.ram[addr+i]) << (8 * i)
		}
		return v
	case addr == 0x18000028: // SSI_SR: TFNF, RFNE
		b.reads++
		if b.dead {
			return 0
		}
		v := uint32(2)
		if len(b.waiting) > 0 && b.reads%3 == 0 {
			v |= 8
		}
		return v
	case addr == 0x18000060: // SSI_DR0
		if len(b.waiting) == 0 {
			b.t.Error("the receiver's FIFO is read while it is empty")
			return 0
		}
		v := b.waiting[0]
		b.waiting = b.waiting[1:]
		return uint32(v)
	case addr == 0x4001800C: // GPIO_QSPI_SS_CTRL
		return 0
	}
	b.t.Fatalf("reads %#x while the flash (in place: %v) is asked", addr, b.xip)
	return 0
}

func (b *flashBus) store(addr uint32, width int, v uint32) {
	b.t.Helper()
	switch {
	case addr >= 0x20000000 && addr < 0x20042000:
		for i := range uint32(width) {
			b.ram[addr+i] = byte(v >> (8 * i))
		}
	case addr == 0x4001800C:
		b.selected = v>>8&3 == 2
		b.calls = append(b.calls, map[uint32]string{2: "low", 3: "high"}[v>>8&3])
	case addr == 0x18000060:
		answer := byte(0xFF)
		if i := len(b.sent) - 5; i >= 0 && i < len(flashAnswer) && b.sent[0] == 0x4B {
			answer = flashAnswer[i]
		}
		if !b.selected || len(b.waiting) >= 16 {
			b.t.Errorf("sent with the flash selected: %v, %d words in the receiver's FIFO", b.selected, len(b.waiting))
		}
		b.sent = append(b.sent, byte(v))
		b.waiting = append(b.waiting, answer)
	default:
		b.t.Fatalf("writes %#x", addr)
	}
}

// checkFlashID runs the image's own code that reads the flash's id: from RAM alone, in the right order, with an end.
func checkFlashID(t *testing.T, program string) {
	t.Helper()
	f, err := elf.Open(program)
	must(t, err)
	defer f.Close()
	symbols, err := f.Symbols()
	must(t, err)
	at := map[string]uint32{}
	for _, s := range symbols {
		at[s.Name] = uint32(s.Value)
	}
	if at["query_flash"]&^1 < 0x20000000 || at["flash"] < 0x20000000 {
		t.Fatalf("query_flash is at %#x, flash at %#x", at["query_flash"], at["flash"])
	}
	for _, dead := range []bool{false, true} {
		b := &flashBus{t: t, ram: map[uint32]byte{}, boot: at["flash"] + 12, dead: dead, xip: true}
		for _, s := range f.Sections {
			if s.Addr < 0x20000000 || s.Type != elf.SHT_PROGBITS {
				continue
			}
			data, err := s.Data()
			must(t, err)
			for i, v := range data {
				b.ram[uint32(s.Addr)+uint32(i)] = v
			}
		}
		c := &core{bus: b}
		c.r[13], c.r[14] = 0x20040000, stop|1
		for i, pc := range []uint32{0x1001, 0x2001, 0x3001} {
			b.store(at["flash"]+uint32(4*i), 4, pc)
		}
		b.store(at["flash"]+12+256, 1, 0x4B)
		c.run(t, at["query_flash"])
		testkit.Equal(t, "calls", b.calls, []string{"IF", "EX", "low", "high", "FC", "boot2"})
		testkit.Equal(t, "the stack pointer", c.r[13], 0x20040000)
		if dead && c.r[0] == 13 || !dead && c.r[0] != 13 {
			t.Errorf("dead %v: %d bytes", dead, c.r[0])
		}
		for i, want := range flashAnswer {
			if got := byte(b.load(at["flash"]+12+256+5+uint32(i), 1)); !dead && got != want {
				t.Errorf("byte %d of the id is %#x, want %#x", i, got, want)
			}
		}
	}
}
