package templates_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/samples"
)

// ---- The ports on chips in software (testdata/chips) -------------------------------------------------------------

// A fakeBoard is a board whose chip and UART files are tried on a model.
type fakeBoard struct {
	board string
	model string   // in testdata/chips
	flags []string // of the model
	irq   int
	id    string
	uart  bool // the model has a UART's insides
}

var fakeBoards = []fakeBoard{
	{"nrf52840dk", "nordic.c", nil, 2, "0001020304050607", true},
	{"nrf5340dk", "nordic.c", []string{"-DNRF53"}, 8, "0001020304050607", true},
	{"rpi_pico", "rp2040.c", nil, 20, "", false},
	{"mimxrt1060_evk", "imxrt1060.c", nil, 20, "0011223344556677", true},
}

// Reset causes as boardsmith.platform numbers them.
const (
	causePower, causePin, causeSoftware, causeWatchdog, causeFault, causeOther = 1, 2, 4, 8, 16, 32
)

// build compiles the board's chip and UART files, unchanged, with the model.
func (f fakeBoard) build(t *testing.T, baud int) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("no C compiler for this computer: " + err.Error())
	}
	if runtime.GOOS != "linux" {
		t.Skip("the models' DMA needs a program whose variables lie below 4 GiB; this is tried on Linux")
	}
	noteFiles(t, "testdata/chips/*", "baremetal/port/*", "baremetal/src/*.h")
	b, err := boards.Find(f.board, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "crt_config.h"), []byte(fakeConfig(b, baud)), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "fake")
	args := slices.Concat([]string{
		"-std=c11", "-O1", "-g", "-no-pie", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-Werror",
		"-I" + dir, "-Itestdata/chips", "-Ibaremetal/port", "-Ibaremetal/src", "-I../crt/include", "-include", "fake.h",
	}, f.flags, []string{"-o", program, "testdata/chips/fake.c", "testdata/chips/" + f.model})
	for _, s := range b.Sources {
		if name := filepath.Base(s.Name); strings.HasPrefix(name, "chip_") || strings.HasPrefix(name, "uart_") {
			args = append(args, "baremetal/"+s.Name)
		}
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", cc, strings.Join(args, " "), err, out)
	}
	return program
}

// noteFiles opens what other programs read, so that go test does not take an old result for it.
func noteFiles(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fakeConfig is the board's crt_config.h as far as a port reads it.
func fakeConfig(b *boards.Board, baud int) string {
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.Defines)) {
		fmt.Fprintf(&s, "#define %s %s\n", name, b.Defines[name])
	}
	fmt.Fprintf(&s, "#define BOARDSMITH_CORE_HZ %d\n#define BOARDSMITH_BAUD %d\n", b.CoreHz, baud)
	fmt.Fprintf(&s, "#define BOARDSMITH_WATCHDOG_MS 0\n")
	return s.String()
}

// runFake starts the program with conditions, and returns what it says.
func runFake(t *testing.T, program string, conditions ...string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, conditions...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", conditions, err, out)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "breach" {
			t.Errorf("%v: %s", conditions, value)
			continue
		}
		said[name] = value
	}
	return said
}

func saidNumber(t *testing.T, said map[string]string, name string) int {
	t.Helper()
	n, err := strconv.Atoi(said[name])
	if err != nil {
		t.Fatalf("%s is %q", name, said[name])
	}
	return n
}

func expect(t *testing.T, said map[string]string, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if said[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, said[name], want[name])
		}
	}
}

// TestChipsInSoftware starts the ports of four chips on models of them: clocks, UART, reset cause, id, random numbers,
// watchdog, with a good chip and with parts of it broken.
func TestChipsInSoftware(t *testing.T) {
	for _, f := range fakeBoards {
		t.Run(f.board, func(t *testing.T) {
			b, err := boards.Find(f.board, nil)
			if err != nil {
				t.Fatal(err)
			}
			program := f.build(t, b.Link.BitRate())
			good := runFake(t, program, "after=power")
			f.checkGood(t, b, good)
			f.checkRandom(t, program, good)
			f.checkBroken(t, program)
			for condition, cause := range causes[f.board] {
				expect(t, runFake(t, program, strings.Fields(condition)...), map[string]string{"reset_cause": strconv.Itoa(cause)})
			}
		})
	}
}

func (f fakeBoard) checkGood(t *testing.T, b *boards.Board, said map[string]string) {
	t.Helper()
	hz := strconv.Itoa(b.CoreHz)
	want := map[string]string{
		"core_hz": hz, "real_core_hz": hz, "uart_hz": said["real_uart_hz"], "reset_cause": strconv.Itoa(causePower),
		"id": f.id, "random_error": "0", "unexpected_irq": "1", "uart_irq": strconv.Itoa(f.irq), "watchdog_ms": "1500",
		"watchdog_fed": "1", "flags": "0",
	}
	if f.id != "" {
		want["id_in_3"] = "3"
	}
	if f.model != "imxrt1060.c" { // there the core's own registers say it
		want["flags"] = "1"
	}
	if ms := saidNumber(t, said, "watchdog_ms"); ms == 1499 {
		want["watchdog_ms"] = "1499" // in ticks of 32768 Hz
	}
	if f.uart {
		want["burst1"] = "received 256 lost 0 in_order 1"
		want["burst4"] = "received 256 lost 0 in_order 1"
		want["sent"], want["sent_polled"] = "256", "256"
		if said := said["burst20"]; !strings.HasSuffix(said, " lost 1 in_order 1") {
			t.Errorf("20 bytes before the interrupt is served: %q; what is lost must be told, the others come once", said)
		}
	}
	expect(t, said, want)
	checkBaud(t, said, b.Link.BitRate())
}

// checkBaud allows half of what both ends together may be off.
func checkBaud(t *testing.T, said map[string]string, want int) {
	t.Helper()
	if off := float64(saidNumber(t, said, "baud"))/float64(want) - 1; off > 0.01 || off < -0.01 {
		t.Errorf("the UART runs at %s baud, %.1f %% off %d", said["baud"], 100*off, want)
	}
}

func (f fakeBoard) checkRandom(t *testing.T, program string, good map[string]string) {
	t.Helper()
	seen := map[byte]bool{}
	for i := 0; i+2 <= len(good["random"]); i += 2 {
		v, err := strconv.ParseUint(good["random"][i:i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		seen[byte(v)] = true
	}
	if len(seen) < 16 {
		t.Errorf("random: %s", good["random"])
	}
	bad := map[string]string{"rpi_pico": "no-rosc"}[f.board]
	if bad == "" {
		bad = "no-rng"
	}
	expect(t, runFake(t, program, "after=power", bad), map[string]string{"random_error": "1"})
}

// checkBroken tries chips where a clock or voltage never comes: the port goes on and says what it runs at.
func (f fakeBoard) checkBroken(t *testing.T, program string) {
	t.Helper()
	for condition, hz := range broken[f.board] {
		said := runFake(t, program, "after=power", condition)
		expect(t, said, map[string]string{"core_hz": hz, "real_core_hz": hz, "uart_hz": said["real_uart_hz"]})
		if saidNumber(t, said, "uart_hz") > 10_000_000 {
			checkBaud(t, said, 115200)
		}
	}
}

var broken = map[string]map[string]string{
	"nrf52840dk":     {"no-crystal": "64000000", "revision=3": "64000000"},
	"nrf5340dk":      {"no-crystal": "128000000", "revision=3": "128000000", "receiver-left-on": "128000000"},
	"rpi_pico":       {"no-crystal": "6500000", "no-pll": "12000000", "usb-clock": "125000000"},
	"mimxrt1060_evk": {"no-pll": "24000000", "no-voltage": "24000000"},
}

var causes = map[string]map[string]int{
	"nrf52840dk": {
		"reset=0": causePower, "reset=1": causePin, "reset=5": causePin, "reset=2": causeWatchdog, "reset=4": causeSoftware,
		"reset=8": causeFault, "reset=10000": causeOther, "reset=100000": causeOther, "reset=6": causeWatchdog | causeSoftware,
	},
	"nrf5340dk": {
		"reset=0": causePower, "reset=1": causePin, "reset=2": causeWatchdog, "reset=2000000": causeWatchdog, "reset=8": causeSoftware,
		"reset=10": causeFault, "reset=4": causeOther, "reset=1000000": causeOther, "reset=80": causeOther,
	},
	"rpi_pico": {
		"after=power": causePower, "after=run": causePin, "after=watchdog": causeWatchdog, "after=software": causeSoftware,
	},
	"mimxrt1060_evk": {
		"reset=1": causePower, "reset=2": causeSoftware, "reset=8": causePin, "reset=10": causeWatchdog, "reset=80": causeWatchdog,
		"reset=20": causeOther, "reset=100": causeOther,
	},
}

// TestBaudRates tries rates that a board file or a project may ask for.
func TestBaudRates(t *testing.T) {
	for _, f := range fakeBoards {
		rates := []int{9600, 1000000}
		if f.board == "mimxrt1060_evk" {
			rates = append(rates, 4000000) // fewer than eight samples a bit
		}
		for _, baud := range rates {
			t.Run(fmt.Sprintf("%s/%d", f.board, baud), func(t *testing.T) {
				checkBaud(t, runFake(t, f.build(t, baud), "after=power"), baud)
			})
		}
	}
}

// TestWatchdogLimits asks for times beyond what the hardware counts.
func TestWatchdogLimits(t *testing.T) {
	for board, limits := range map[string]map[string]string{
		"rpi_pico":       {"64": "100", "186a0": "8388"},                // 0.1 s; 100 s: 24 bits of half microseconds
		"mimxrt1060_evk": {"1": "500", "64": "500", "100000": "128000"}, // half seconds
		"nrf52840dk":     {"100000": "1048575"},
	} {
		i := slices.IndexFunc(fakeBoards, func(f fakeBoard) bool { return f.board == board })
		program := fakeBoards[i].build(t, 115200)
		for ms, want := range limits {
			said := runFake(t, program, "after=power", "watchdog="+ms)
			if got := saidNumber(t, said, "watchdog_ms"); strconv.Itoa(got) != want {
				t.Errorf("%s: a watchdog of 0x%s ms bites after %d ms, want %s", board, ms, got, want)
			}
		}
	}
}

// ---- The RP2040's second stage -------------------------------------------------------------------------------------

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

// TestBootCRC holds the check against the published value of CRC-32/MPEG-2.
func TestBootCRC(t *testing.T) {
	if got := bootCRC([]byte("123456789")); got != 0x0376E6E7 {
		t.Errorf("CRC-32/MPEG-2 of 123456789: %#x", got)
	}
}

func assemble(t *testing.T, source string) []byte {
	t.Helper()
	const cc = "arm-none-eabi-gcc"
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip(cc + " is not here: apt-get install gcc-arm-none-eabi")
	}
	noteFiles(t, source)
	object := filepath.Join(t.TempDir(), "boot.o")
	if out, err := exec.Command(cc, "-c", "-o", object, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".boardsmith.boot").Data()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// TestRP2040Boot checks the second stage's length and CRC, and runs it: what it writes to the pads and to the flash
// interface, and where it goes.
func TestRP2040Boot(t *testing.T) {
	code := assemble(t, "baremetal/port/boot_rp2040.S")
	if len(code) != 256 {
		t.Fatalf("%d bytes, want 256", len(code))
	}
	if got, want := binary.LittleEndian.Uint32(code[252:]), bootCRC(code[:252]); got != want {
		t.Errorf("boot_rp2040.S ends in 0x%08X, the CRC of what is before it is 0x%08X", got, want)
	}
	for _, at := range []uint32{0x20041F00, 0x20000404} { // where the boot ROM puts it, and any other word
		for _, lr := range []uint32{0, 0x10001235} {
			c := &bootCore{code: code, base: at, busy: 3}
			c.r[14], c.r[15] = lr, at
			for i := 4; i < 12; i++ {
				c.r[i] = uint32(i) * 0x01010101
			}
			c.run(t)
			c.check(t, lr)
		}
	}
}

// A bootCore executes those instructions of ARMv6-M that the second stage is made of.
type bootCore struct {
	code   []byte
	base   uint32
	r      [16]uint32
	msp    uint32
	n      bool
	z, c   bool
	busy   int // reads of SSI_SR that still say so
	polled bool
	writes []string
	left   uint32 // where it went
}

func (c *bootCore) load(t *testing.T, addr uint32) uint32 {
	t.Helper()
	switch {
	case addr >= c.base && addr+4 <= c.base+256:
		return binary.LittleEndian.Uint32(c.code[addr-c.base:])
	case addr == 0x10000100: // the vector table
		return 0x20010000
	case addr == 0x10000104:
		return 0x10000201
	case addr == 0x18000028: // SSI_SR
		c.polled = true
		if c.busy > 0 {
			c.busy--
			return 3 - uint32(c.busy)%2 // busy, with and without room
		}
		return 6
	}
	t.Fatalf("reads %#x", addr)
	return 0
}

func (c *bootCore) store(addr, v uint32) {
	c.polled = false
	c.writes = append(c.writes, fmt.Sprintf("%08x=%x", addr, v))
}

func (c *bootCore) flags(v uint32) uint32 {
	c.n, c.z = v>>31 != 0, v == 0
	return v
}

func (c *bootCore) run(t *testing.T) {
	t.Helper()
	for range 10000 {
		pc := c.r[15]
		if pc < c.base || pc+2 > c.base+252 {
			t.Fatalf("runs away to %#x", pc)
		}
		op := uint32(binary.LittleEndian.Uint16(c.code[pc-c.base:]))
		c.r[15] += 2
		if c.execute(t, pc, op) {
			return
		}
	}
	t.Fatal("does not end")
}

// execute returns true where the second stage ends.
func (c *bootCore) execute(t *testing.T, pc, op uint32) bool {
	t.Helper()
	d, n, imm8 := op&7, op>>3&7, op&0xFF
	switch {
	case op>>11 == 0b10100: // ADR
		c.r[op>>8&7] = (pc+4)&^3 + imm8*4
	case op>>11 == 0b11001: // LDMIA
		base := op >> 8 & 7
		addr := c.r[base]
		for i := range uint32(8) {
			if imm8>>i&1 != 0 {
				c.r[i] = c.load(t, addr)
				addr += 4
			}
		}
		if imm8>>base&1 == 0 {
			c.r[base] = addr
		}
	case op>>11 == 0b00101: // CMP immediate
		v := c.r[op>>8&7]
		c.flags(v - imm8)
		c.c = v >= imm8
	case op>>11 == 0b00111: // SUBS immediate
		v := c.r[op>>8&7]
		c.r[op>>8&7] = c.flags(v - imm8)
		c.c = v >= imm8
	case op>>6 == 0b0100001010: // CMP
		c.flags(c.r[d] - c.r[n])
		c.c = c.r[d] >= c.r[n]
	case op>>11 == 0b00001: // LSRS
		by := op >> 6 & 31
		c.c = c.r[n]>>(by-1)&1 != 0
		c.r[d] = c.flags(c.r[n] >> by)
	case op>>11 == 0b00000 && op>>6&31 != 0: // LSLS
		by := op >> 6 & 31
		c.c = c.r[n]>>(32-by)&1 != 0
		c.r[d] = c.flags(c.r[n] << by)
	case op>>11 == 0b01100: // STR
		c.store(c.r[n]+op>>6&31*4, c.r[d])
	case op>>11 == 0b01101: // LDR
		c.r[d] = c.load(t, c.r[n]+op>>6&31*4)
	case op>>8 == 0b01000110: // MOV
		c.r[op>>4&8|d] = c.r[op>>3&15]
	case op>>11 == 0b11100: // B
		c.r[15] = pc + 4 + uint32(int32(op<<21)>>20)
	case op>>12 == 0b1101:
		taken := map[uint32]bool{0: c.z, 1: !c.z, 2: c.c, 3: !c.c}
		if op>>8&15 > 3 {
			t.Fatalf("condition of %#x", op)
		}
		if taken[op>>8&15] {
			c.r[15] = pc + 4 + uint32(int32(int8(imm8)))*2
		}
	case op>>4 == 0xF38: // MSR
		if second := binary.LittleEndian.Uint16(c.code[pc+2-c.base:]); second != 0x8808 {
			t.Fatalf("MSR %#x", second)
		}
		c.msp = c.r[op&15]
		c.r[15] += 2
	case op&0xFF87 == 0x4700: // BX
		c.left = c.r[op>>3&15]
		return true
	default:
		t.Fatalf("instruction %#04x", op)
	}
	return false
}

// check holds what was written against the datasheets.
func (c *bootCore) check(t *testing.T, lr uint32) {
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
	if !slices.Equal(c.writes, want) {
		t.Errorf("writes\n%q, want\n%q", c.writes, want)
	}
	if c.busy != 0 {
		t.Error("goes on while the flash interface is busy")
	}
	for i := 4; i < 12; i++ {
		if c.r[i] != uint32(i)*0x01010101 {
			t.Errorf("r%d is not kept", i)
		}
	}
	if lr != 0 && (c.left != lr || c.msp != 0) {
		t.Errorf("called from %#x it goes to %#x", lr, c.left)
	}
	if lr == 0 && (c.left != 0x10000201 || c.msp != 0x20010000) {
		t.Errorf("goes to %#x with SP %#x, not as the vector table says", c.left, c.msp)
	}
}

// ---- What the boot ROMs find in a built image ----------------------------------------------------------------------

// built is the sample's image for the board, as programmed from the start of its flash.
func built(t *testing.T, board string) ([]byte, *boards.Board) {
	t.Helper()
	b, err := boards.Find(board, nil)
	if err != nil {
		t.Fatal(err)
	}
	if compiler, _ := project.MissingTools(b); len(compiler) > 0 {
		t.Skip(compiler[0].Error() + ": " + compiler[0].NextStep())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	model := filepath.Join(t.TempDir(), samples.Name)
	if err := os.WriteFile(model, samples.Archive(), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "p")
	p, err := project.Generate(ctx, dir, project.Spec{Board: board, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Build(ctx); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(dir, "build", "firmware.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return image, b
}

// checkVectors looks at the vector table at offset: a stack in RAM, and an entry in the image.
func checkVectors(t *testing.T, image []byte, b *boards.Board, offset int) {
	t.Helper()
	flash, _ := b.Region(b.Place.Code)
	sp := uint64(binary.LittleEndian.Uint32(image[offset:]))
	entry := uint64(binary.LittleEndian.Uint32(image[offset+4:]))
	stack, _ := b.Region(b.Place.Data)
	if sp <= uint64(stack.Origin) || sp > uint64(stack.Origin+stack.Size) || sp%8 != 0 {
		t.Errorf("the vectors' SP is %#x", sp)
	}
	if entry%2 != 1 || entry < uint64(flash.Origin)+uint64(offset) || entry >= uint64(flash.Origin)+uint64(len(image)) {
		t.Errorf("the vectors' entry is %#x", entry)
	}
}

func TestRP2040Image(t *testing.T) {
	image, b := built(t, "rpi_pico")
	if got, want := binary.LittleEndian.Uint32(image[252:]), bootCRC(image[:252]); got != want {
		t.Errorf("the image's first 256 bytes end in %#x, want their CRC %#x", got, want)
	}
	if !bytes.Equal(image[:256], assemble(t, "baremetal/port/boot_rp2040.S")) {
		t.Error("the image does not begin with the second stage")
	}
	checkVectors(t, image, b, 0x100)
}

// TestIMXRT1060Image reads the configuration block and the image vector table as the boot ROM does (IMXRT1060RM,
// chapter System Boot).
func TestIMXRT1060Image(t *testing.T) {
	image, b := built(t, "mimxrt1060_evk")
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	for _, c := range []struct {
		at   int
		want uint32
		what string
	}{
		{0x000, 0x42464346, "tag FCFB"}, {0x004, 0x56010400, "version"},
		{0x00C, 0x00030301, "sample clock, CS hold and setup time"},
		{0x010, 0, "no device mode command"}, {0x01C, 0, "no configuration command"},
		{0x044, 0x00060401, "serial NOR, four pads, 100 MHz"}, {0x050, 8 << 20, "bytes on A1"},
		{0x080, 0x0A1804EB, "EBh, 24 address bits on four pads"}, {0x084, 0x32041E00, "mode 00h, four dummy clocks"},
		{0x088, 0x00002604, "read on four pads"},
		{0x1C0, 256, "page"}, {0x1C4, 4096, "sector"}, {0x1D0, 65536, "block"},
		{0x1000, 0x412000D1, "image vector table"}, {0x1004, 0x60002000, "entry: the vectors"}, {0x100C, 0, "no DCD"},
		{0x1010, 0x60001020, "boot data"}, {0x1014, 0x60001000, "self"}, {0x1018, 0, "no signature"},
		{0x1020, 0x60000000, "start"}, {0x1024, 8 << 20, "length"}, {0x1028, 0, "no plugin"},
	} {
		if got := word(c.at); got != c.want {
			t.Errorf("%#x is %#x, want %#x (%s)", c.at, got, c.want, c.what)
		}
	}
	checkVectors(t, image, b, 0x2000)
}
