package templates_test

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
		name := filepath.Base(s.Name)
		if filepath.Ext(name) == ".c" && !regexp.MustCompile(`^(bare|cortexm|boot)`).MatchString(name) {
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
	fmt.Fprintf(&s, "#define BOARDSMITH_WATCHDOG_MS 0\n#define BOARDSMITH_EMULATED 0\n")
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

// A core executes those instructions of ARMv6-M that the second stage and the code beside it are made of.
type core struct {
	r          [16]uint32
	msp        uint32
	n, z, c, v bool
	bus        bus
	stopped    bool
}

// A bus is what the core sees; it reports what may not be by failing the test.
type bus interface {
	load(addr uint32, width int) uint32
	store(addr uint32, width int, v uint32)
	// enters is asked before each instruction; true: what is there has been done instead, and the core returns to LR.
	enters(pc uint32) bool
}

const stop = 0xFFFFFFFE // LR of the outermost call

func (c *core) run(t *testing.T, pc uint32) {
	t.Helper()
	c.r[15] = pc &^ 1
	for range 2_000_000 {
		if c.stopped || c.r[15] == stop&^1 {
			return
		}
		if c.bus.enters(c.r[15]) {
			c.r[15] = c.r[14] &^ 1
			continue
		}
		op := c.bus.load(c.r[15], 2)
		c.r[15] += 2
		if !c.execute(op) {
			t.Fatalf("instruction %#04x at %#x is not known here", op, c.r[15]-2)
		}
	}
	t.Fatal("does not end")
}

func (c *core) flags(v uint32) uint32 {
	c.n, c.z = v>>31 != 0, v == 0
	return v
}

// add is AddWithCarry of the architecture manual.
func (c *core) add(a, b, carry uint32) uint32 {
	sum := uint64(a) + uint64(b) + uint64(carry)
	v := uint32(sum)
	c.c, c.v = sum>>32 != 0, (a^v)&(b^v)>>31 != 0
	return c.flags(v)
}

func (c *core) holds(cond uint32) bool {
	is := [...]bool{c.z, c.c, c.n, c.v, c.c && !c.z, c.n == c.v, !c.z && c.n == c.v}[cond>>1]
	return is != (cond&1 != 0)
}

func (c *core) execute(op uint32) bool {
	d, n, m, imm5, imm8 := op&7, op>>3&7, op>>6&7, op>>6&31, op&0xFF
	wide, pc := op>>8&7, c.r[15]+2
	switch {
	case op>>11 == 0b00000: // LSLS
		if imm5 != 0 {
			c.c = c.r[n]>>(32-imm5)&1 != 0
		}
		c.r[d] = c.flags(c.r[n] << imm5)
	case op>>11 == 0b00001 && imm5 != 0: // LSRS
		c.c = c.r[n]>>(imm5-1)&1 != 0
		c.r[d] = c.flags(c.r[n] >> imm5)
	case op>>9 == 0b0001100:
		c.r[d] = c.add(c.r[n], c.r[m], 0)
	case op>>9 == 0b0001101:
		c.r[d] = c.add(c.r[n], ^c.r[m], 1)
	case op>>9 == 0b0001110:
		c.r[d] = c.add(c.r[n], m, 0)
	case op>>9 == 0b0001111:
		c.r[d] = c.add(c.r[n], ^m, 1)
	case op>>11 == 0b00100: // MOVS
		c.r[wide] = c.flags(imm8)
	case op>>11 == 0b00101: // CMP
		c.add(c.r[wide], ^imm8, 1)
	case op>>11 == 0b00110: // ADDS
		c.r[wide] = c.add(c.r[wide], imm8, 0)
	case op>>11 == 0b00111: // SUBS
		c.r[wide] = c.add(c.r[wide], ^imm8, 1)
	case op>>6 == 0b0100000000:
		c.r[d] = c.flags(c.r[d] & c.r[n])
	case op>>6 == 0b0100001000: // TST
		c.flags(c.r[d] & c.r[n])
	case op>>6 == 0b0100001010: // CMP
		c.add(c.r[d], ^c.r[n], 1)
	case op>>6 == 0b0100001100:
		c.r[d] = c.flags(c.r[d] | c.r[n])
	case op>>6 == 0b0100001110: // BICS
		c.r[d] = c.flags(c.r[d] &^ c.r[n])
	case op>>8 == 0b01000100: // ADD
		c.r[op>>4&8|d] += c.r[op>>3&15]
	case op>>8 == 0b01000110: // MOV
		c.r[op>>4&8|d] = c.r[op>>3&15]
	case op>>7 == 0b010001110: // BX
		c.r[15] = c.r[op>>3&15] &^ 1
	case op>>7 == 0b010001111: // BLX
		to := c.r[op>>3&15]
		c.r[14], c.r[15] = c.r[15]|1, to&^1
	case op>>11 == 0b01001: // LDR literal
		c.r[wide] = c.bus.load(pc&^3+imm8*4, 4)
	case op>>11 == 0b01100:
		c.bus.store(c.r[n]+imm5*4, 4, c.r[d])
	case op>>11 == 0b01101:
		c.r[d] = c.bus.load(c.r[n]+imm5*4, 4)
	case op>>11 == 0b01110:
		c.bus.store(c.r[n]+imm5, 1, c.r[d])
	case op>>11 == 0b01111:
		c.r[d] = c.bus.load(c.r[n]+imm5, 1)
	case op>>9 == 0b0101010:
		c.bus.store(c.r[n]+c.r[m], 1, c.r[d])
	case op>>9 == 0b0101110:
		c.r[d] = c.bus.load(c.r[n]+c.r[m], 1)
	case op>>11 == 0b10100: // ADR
		c.r[wide] = pc&^3 + imm8*4
	case op>>6 == 0b1011001011: // UXTB
		c.r[d] = c.r[n] & 0xFF
	case op>>9 == 0b1011010: // PUSH
		c.push(imm8 | op&0x100<<6)
	case op>>9 == 0b1011110: // POP
		c.pop(imm8 | op&0x100<<7)
	case op>>11 == 0b11001: // LDMIA
		addr := c.r[wide]
		for i := range uint32(8) {
			if imm8>>i&1 != 0 {
				c.r[i] = c.bus.load(addr, 4)
				addr += 4
			}
		}
		if imm8>>wide&1 == 0 {
			c.r[wide] = addr
		}
	case op>>12 == 0b1101 && op>>8&15 < 14:
		if c.holds(op >> 8 & 15) {
			c.r[15] = pc + uint32(int32(int8(imm8)))*2
		}
	case op>>11 == 0b11100: // B
		c.r[15] = pc + uint32(int32(op<<21)>>20)
	case op>>11 == 0b11110:
		return c.executeWide(op)
	default:
		return false
	}
	return true
}

// executeWide knows BL, and MSR of MSP.
func (c *core) executeWide(op uint32) bool {
	second := c.bus.load(c.r[15], 2)
	c.r[15] += 2
	switch {
	case second>>14 == 3 && second>>12&1 == 1:
		s, j1, j2 := op>>10&1, second>>13&1, second>>11&1
		i1, i2 := 1^j1^s, 1^j2^s
		offset := int32((s<<24|i1<<23|i2<<22|op&0x3FF<<12|second&0x7FF<<1)<<7) >> 7
		c.r[14] = c.r[15] | 1
		c.r[15] += uint32(offset)
	case op>>4 == 0xF38 && second == 0x8808:
		c.msp = c.r[op&15]
	default:
		return false
	}
	return true
}

func (c *core) push(list uint32) {
	for i := 15; i >= 0; i-- {
		if list>>i&1 != 0 {
			c.r[13] -= 4
			c.bus.store(c.r[13], 4, c.r[i])
		}
	}
}

func (c *core) pop(list uint32) {
	for i := range 16 {
		if list>>i&1 != 0 {
			c.r[i] = c.bus.load(c.r[13], 4)
			c.r[13] += 4
		}
	}
	c.r[15] &^= 1
}

// A bootBus is what the second stage sees: itself, the vector table behind it, and the flash interface.
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

// check holds what was written against the datasheets.
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
	if !slices.Equal(b.writes, want) {
		t.Errorf("writes\n%q, want\n%q", b.writes, want)
	}
	if b.busy != 0 {
		t.Error("goes on while the flash interface is busy")
	}
	for i := 4; i < 12; i++ {
		if b.core.r[i] != uint32(i)*0x01010101 {
			t.Errorf("r%d is not kept", i)
		}
	}
	if lr != 0 && (b.left != lr&^1 || b.core.msp != 0) {
		t.Errorf("called from %#x it goes to %#x", lr, b.left)
	}
	if lr == 0 && (b.left != 0x10000200 || b.core.msp != 0x20010000) {
		t.Errorf("goes to %#x with SP %#x, not as the vector table says", b.left, b.core.msp)
	}
}

// ---- What the boot ROMs find in a built image ----------------------------------------------------------------------

// built is the sample's image for the board, as programmed from the start of its flash, and the ELF file of it.
func built(t *testing.T, board string) (image []byte, program string, b *boards.Board) {
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
	image, err = os.ReadFile(filepath.Join(dir, "build", "firmware.bin"))
	if err != nil {
		t.Fatal(err)
	}
	return image, filepath.Join(dir, "build", "firmware.elf"), b
}

// checkVectors looks at the vector table at offset: a stack in RAM, and an entry in the image.
func checkVectors(t *testing.T, image []byte, b *boards.Board, offset int) {
	t.Helper()
	flash, _ := b.Region(b.Place.Code)
	sp := uint64(binary.LittleEndian.Uint32(image[offset:]))
	entry := uint64(binary.LittleEndian.Uint32(image[offset+4:]))
	stack, _ := b.Region(cmp.Or(b.Place.Stack, b.Place.Data))
	if sp <= uint64(stack.Origin) || sp > uint64(stack.Origin+stack.Size) || sp%8 != 0 {
		t.Errorf("the vectors' SP is %#x", sp)
	}
	if entry%2 != 1 || entry < uint64(flash.Origin)+uint64(offset) || entry >= uint64(flash.Origin)+uint64(len(image)) {
		t.Errorf("the vectors' entry is %#x", entry)
	}
}

func TestRP2040Image(t *testing.T) {
	image, program, b := built(t, "rpi_pico")
	if got, want := binary.LittleEndian.Uint32(image[252:]), bootCRC(image[:252]); got != want {
		t.Errorf("the image's first 256 bytes end in %#x, want their CRC %#x", got, want)
	}
	if !bytes.Equal(image[:256], assemble(t, "baremetal/port/boot_rp2040.S")) {
		t.Error("the image does not begin with the second stage")
	}
	checkVectors(t, image, b, 0x100)
	checkFlashID(t, program)
}

// A flashBus is what ask_flash of chip_rp2040.c sees: RAM, the boot ROM's functions, and the flash behind its interface,
// which from exit_xip to the second stage cannot be read in place.
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]uint32{}
	for _, s := range symbols {
		at[s.Name] = uint32(s.Value)
	}
	if at["ask_flash"]&^1 < 0x20000000 || at["flash"] < 0x20000000 {
		t.Fatalf("ask_flash is at %#x, flash at %#x", at["ask_flash"], at["flash"])
	}
	for _, dead := range []bool{false, true} {
		b := &flashBus{t: t, ram: map[uint32]byte{}, boot: at["flash"] + 12, dead: dead, xip: true}
		for _, s := range f.Sections {
			if s.Addr < 0x20000000 || s.Type != elf.SHT_PROGBITS {
				continue
			}
			data, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
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
		c.run(t, at["ask_flash"])
		if want := []string{"IF", "EX", "low", "high", "FC", "boot2"}; !slices.Equal(b.calls, want) {
			t.Errorf("calls %q, want %q", b.calls, want)
		}
		if c.r[13] != 0x20040000 {
			t.Errorf("the stack pointer comes back as %#x", c.r[13])
		}
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

// TestIMXRT1060Image reads the configuration block and the image vector table as the boot ROM does (IMXRT1060RM,
// chapter System Boot).
func TestIMXRT1060Image(t *testing.T) {
	image, _, b := built(t, "mimxrt1060_evk")
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	for _, c := range []struct {
		at   int
		want uint32
		what string
	}{
		{0x000, 0x42464346, "tag FCFB"},
		{0x004, 0x56010400, "version"},
		{0x00C, 0x00030301, "sample clock, CS hold and setup time"},
		{0x010, 0, "no device mode command"},
		{0x01C, 0, "no configuration command"},
		{0x044, 0x00060401, "serial NOR, four pads, 100 MHz"},
		{0x050, 8 << 20, "bytes on A1"},
		{0x080, 0x0A1804EB, "EBh, 24 address bits on four pads"},
		{0x084, 0x32041E00, "mode 00h, four dummy clocks"},
		{0x088, 0x00002604, "read on four pads"},
		{0x1C0, 256, "page"},
		{0x1C4, 4096, "sector"},
		{0x1D0, 65536, "block"},
		{0x1000, 0x412000D1, "image vector table"},
		{0x1004, 0x60002000, "entry: the vectors"},
		{0x100C, 0, "no DCD"},
		{0x1010, 0x60001020, "boot data"},
		{0x1014, 0x60001000, "self"},
		{0x1018, 0, "no signature"},
		{0x1020, 0x60000000, "start"},
		{0x1024, 8 << 20, "length"},
		{0x1028, 0, "no plugin"},
	} {
		if got := word(c.at); got != c.want {
			t.Errorf("%#x is %#x, want %#x (%s)", c.at, got, c.want, c.what)
		}
	}
	checkVectors(t, image, b, 0x2000)
}
