package faultimage

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

func unhexed(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	must(t, err)
	return b
}

// rv32Frames is .debug_frame of one function of RV32 from 0x1000 to 0x1016, after one that the linker left out: at
// 0x1002 it allocates 16 bytes of stack, from 0x1006 on ra is saved, at 0x1010 ra is restored, at 0x1014 the stack.
const rv32Frames = "0c000000 ffffffff 03 00 01 7c 01 0d02 00" +
	"0c000000 00000000 00000000 00800000" +
	"18000000 00000000 00100000 16000000 42 0e10 44 8101 4a c1 44 0e00 00"

// x64Frames is .eh_frame at 0x2000 of one function from 0x1100 on, which ends with a frame relative to rbp, and an
// end mark.
const x64Frames = "14000000 00000000 01 7a5200 01 78 10 01 1b 0c0708 9001 0000" +
	"1c000000 1c000000 e0f0ffff 20000000 00 41 0e10 8602 43 0d06 5a 0c0708 000000" + "00000000"

func framesOf(t testing.TB, word int, text string, eh bool, at uint64) *callFrames {
	t.Helper()
	c := &callFrames{order: binary.LittleEndian, word: word}
	must(t, c.add(unhexed(t, text), eh, at))
	return c
}

// stackOf is the memory of words.
func stackOf(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func TestCallerRegisters(t *testing.T) {
	stack := func(at uint64) (uint64, bool) { return at | 0x70000000, at >= 0x100 && at < 0x200 }
	const sp, ra = 2, 1
	rv := framesOf(t, 4, rv32Frames, false, 0)
	version4 := strings.Replace(rv32Frames, "0c000000 ffffffff 03 00", "0e000000 ffffffff 04 00 0400", 1)
	wantEqual(t, framesOf(t, 4, version4, false, 0), rv, "version 4")
	for _, c := range []struct{ pc, wantSP, wantRA uint64 }{
		{0x1000, 0x100, 0x42},
		{0x1004, 0x110, 0x42},
		{0x1008, 0x110, 0x7000010c},
		{0x1010, 0x110, 0x42},
		{0x1015, 0x100, 0x42},
	} {
		up, back, ok := rv.caller(c.pc, frameState{sp: 0x100, ra: 0x42, 8: 5}, sp, stack)
		if !ok || back != c.wantRA || up[sp] != c.wantSP || up[8] != 5 {
			t.Errorf("RV32 at %#x: %v, %#x, %v", c.pc, up, back, ok)
		}
	}
	for pc, s := range map[uint64]frameState{
		0x0ffe: {sp: 0x100, ra: 1}, 0x1016: {sp: 0x100, ra: 1},
		0x10: {sp: 0x100, ra: 1}, 0x1008: {ra: 1},
	} {
		if _, _, ok := rv.caller(pc, s, sp, stack); ok {
			t.Errorf("RV32 at %#x with %v has a caller", pc, s)
		}
	}
	if _, _, ok := rv.caller(0x1008, frameState{sp: 0x300}, sp, stack); ok {
		t.Error("a return address came from stack that was not recorded")
	}
}

// TestCallerRules: a register is restored by its rule, and one without a known value is missing.
func TestCallerRules(t *testing.T) {
	c := callFrames{order: binary.LittleEndian, word: 4, fdes: []frameFDE{{
		low: 0x1000, high: 0x1010, cie: &frameCIE{codeAlign: 1, dataAlign: -4, returns: 14},
		// the frame's address is r13+16; r4 is there less 8, r5 was r7, r6 is lost, r7 was r9, r14 is in memory less 4
		program: unhexed(t, "0c 0d 10 14 04 02 09 05 07 07 06 09 07 09 8e 01"),
	}}}
	var at uint64
	up, back, ok := c.caller(0x1000, frameState{13: 0xfffffff8, 4: 1, 5: 2, 6: 3, 7: 4, 8: 5}, 13,
		func(addr uint64) (uint64, bool) { at = addr; return 0x77, true })
	want := frameState{13: 8, 4: 0, 5: 4, 8: 5, 14: 0x77}
	if !ok || back != 0x77 || at != 4 || !reflect.DeepEqual(up, want) {
		t.Errorf("%v, %#x from %#x, %v; want %v", up, back, at, ok, want)
	}
}

// TestLongFrames: sections of DWARF's 64-bit format have the same functions; an entry that is longer than its section
// is an error.
func TestLongFrames(t *testing.T) {
	long := "ffffffff 1000000000000000 ffffffffffffffff 03 00 01 7c 01 0d02 00" +
		"ffffffff 1c00000000000000 0000000000000000 00100000 16000000 42 0e10 44 8101 4a c1 44 0e00 00"
	got := framesOf(t, 4, long, false, 0)
	want := framesOf(t, 4, rv32Frames, false, 0)
	wantEqual(t, got, want)
	c := &callFrames{order: binary.LittleEndian, word: 4}
	wantIs(t, c.add(unhexed(t, "0d000000 ffffffff 03 00 01 7c 01 0d02 00"), false, 0), errFrames, "a byte too long")
}

func TestDamagedCallFramesAreErrors(t *testing.T) {
	for _, eh := range []bool{false, true} {
		for _, text := range []string{rv32Frames, x64Frames} {
			whole := unhexed(t, text)
			for n := range whole {
				c := &callFrames{order: binary.LittleEndian, word: 4}
				if err := c.add(whole[:n], eh, 0); err != nil && !errors.Is(err, errFrames) {
					t.Errorf("cut to %d bytes: %v", n, err)
				}
			}
		}
	}
}

// FuzzFrames: any section is parsed and searched without a panic.
func FuzzFrames(f *testing.F) {
	for _, text := range []string{rv32Frames, x64Frames} {
		f.Add(unhexed(f, text), false, uint64(0x1008))
		f.Add(unhexed(f, text), true, uint64(0x1110))
	}
	f.Fuzz(func(t *testing.T, data []byte, eh bool, pc uint64) {
		for _, word := range []int{4, 8} {
			c := &callFrames{order: binary.LittleEndian, word: word}
			if err := c.add(data, eh, 0x2000); err != nil && !errors.Is(err, errFrames) {
				t.Errorf("got %v", err)
			}
			s := frameState{0: 1, 1: 2, 2: 0x100, 6: 0x100, 7: 0x100, 13: 0x100}
			for range 4 {
				up, back, ok := c.caller(pc, s, 2, func(at uint64) (uint64, bool) { return at + 1, at < 0x1000 })
				if !ok {
					break
				}
				s, pc = up, back
			}
		}
	})
}

// A faultImage is an image in memory with code only.
func faultImage(machine elf.Machine, class elf.Class, at uint64, code []byte) *DebugInfo {
	p := &DebugInfo{file: &elf.File{}, code: []codeRange{{at, code}}}
	p.file.Machine, p.file.Class, p.file.ByteOrder = machine, class, binary.LittleEndian
	p.calls = callFrames{order: binary.LittleEndian, word: 4}
	if class == elf.ELFCLASS64 {
		p.calls.word = 8
	}
	return p
}

func TestCallInstructionIsRecognised(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine elf.Machine
		class   elf.Class
		code    string
		want    bool
	}{
		{"BL", elf.EM_ARM, elf.ELFCLASS32, "00f0 10f8", true},
		{"BLX r3", elf.EM_ARM, elf.ELFCLASS32, "0000 9847", true},
		{"BX lr", elf.EM_ARM, elf.ELFCLASS32, "0000 7047", false},
		{"B.W", elf.EM_ARM, elf.ELFCLASS32, "00f0 10b8", false},
		{"jal", elf.EM_RISCV, elf.ELFCLASS32, "ef008000", true},
		{"j", elf.EM_RISCV, elf.ELFCLASS32, "6f008000", false},
		{"jalr", elf.EM_RISCV, elf.ELFCLASS64, "e7800700", true},
		{"c.jalr a5", elf.EM_RISCV, elf.ELFCLASS64, "0100 8297", true},
		{"c.jr a5", elf.EM_RISCV, elf.ELFCLASS64, "0100 8287", false},
		{"c.jal", elf.EM_RISCV, elf.ELFCLASS32, "0100 0120", true},
		{"c.addiw", elf.EM_RISCV, elf.ELFCLASS64, "0100 0120", false},
		{"call", elf.EM_X86_64, elf.ELFCLASS64, "e800000000", true},
		{"call *rax", elf.EM_X86_64, elf.ELFCLASS64, "9090ffd0", true},
		{"jmp *rax", elf.EM_X86_64, elf.ELFCLASS64, "9090ffe0", false},
		{"bl", elf.EM_AARCH64, elf.ELFCLASS64, "00000094", true},
		{"blr x3", elf.EM_AARCH64, elf.ELFCLASS64, "60003fd6", true},
		{"br x3", elf.EM_AARCH64, elf.ELFCLASS64, "60001fd6", false},
	} {
		code := unhexed(t, c.code)
		p := faultImage(c.machine, c.class, 0x1000, code)
		kind := machines[c.machine]
		wantEqual(t, kind.afterCall(p, 0x1000+uint64(len(code))), c.want, c.name)
		for at := uint64(0xff8); at < 0x1003; at++ {
			_ = kind.afterCall(p, at) // must not panic
		}
	}
}

// TestStackScanMarksGuesses: without call frame information the chain is guessed from the stack, and marked as guessed.
func TestStackScanMarksGuesses(t *testing.T) {
	code := bytes.Repeat(unhexed(t, "00f0 10f8 00bf 00bf"), 8) // BL, NOP, NOP: calls return to 0x1004, 0x100c and so on
	p := faultImage(elf.EM_ARM, elf.ELFCLASS32, 0x1000, code)
	rec := &fault.Record{
		WordBytes: 4, Arch: fault.ArchCortexM, PCValid: true, SPValid: true, PC: 0x1010, LR: 0x1005,
		SP: 0x20000000,
	}
	// A return address, one that is even, one in the middle of nothing, a number, a return address.
	rec.Stack = stackOf(0x100d, 0x1014, 0x1011, 7, 0x1015)
	var got []uint64
	for i, f := range p.frames(rec) {
		got = append(got, f.PC)
		wantEqual(t, f.Guessed, i > 1, i)
	}
	wantEqual(t, got, []uint64{0x1010, 0x1003, 0x100b, 0x1013})
	many := *rec
	many.Stack = bytes.Repeat(unhexed(t, "0d100000"), 2*maxGuessed)
	wantEqual(t, len(p.frames(&many)), 2+maxGuessed, maxGuessed)
	rec.WordBytes = 8
	wantEqual(t, len(p.frames(rec)), 0, "of a record with other words")
	rec.WordBytes, p.file.Machine = 4, elf.EM_386
	wantEqual(t, len(p.frames(rec)), 0, "of another machine")
	p.file.Machine = elf.EM_ARM
	rec.PCValid = false
	wantEqual(t, len(p.frames(rec)), 2, "without a PC")
	rec.SPValid, rec.SP, rec.Stack = false, 0, nil // as after a watchdog's reset
	wantEqual(t, len(p.frames(rec)), 0, "without PC and SP")
}

// TestMachines unwinds by the registers of a record, on the machines of processes.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		name      string
		machine   elf.Machine
		call      string // the code, from 0x1100 on
		registers map[int]uint64
		rec       fault.Record
		stack     []uint64
		want      []uint64
		certain   int // of them; the others are guessed
	}{
		{
			"x86-64 by rbp", elf.EM_X86_64, "e800000000",
			map[int]uint64{6: 0x7010},
			fault.Record{PC: 0x1110, SP: 0x7000},
			[]uint64{0, 0, 0x7018, 0x110f, 0x1114},
			[]uint64{0x1110, 0x110e, 0x1113},
			3,
		},
		{
			"x86-64 by rsp", elf.EM_X86_64, "e800000000", nil,
			fault.Record{PC: 0x1101, SP: 0x7000},
			[]uint64{0x7010, 0x110f, 0, 0x1114},
			[]uint64{0x1101, 0x110e, 0x1113},
			3,
		},
		{
			"AArch64, a leaf", elf.EM_AARCH64, "00000094", nil,
			fault.Record{PC: 0x1180, SP: 0x7000, LR: 0x1108},
			[]uint64{0, 0x1110, 0},
			[]uint64{0x1180, 0x1107, 0x110f},
			2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := faultImage(c.machine, elf.ELFCLASS64, 0x1100, bytes.Repeat(unhexed(t, c.call), 40))
			if c.machine == elf.EM_X86_64 {
				p.calls = *framesOf(t, 8, x64Frames, true, 0x2000)
			}
			rec := c.rec
			rec.WordBytes, rec.PCValid, rec.SPValid, rec.Registers = 8, true, true, make([]uint64, 16)
			for n, v := range c.registers {
				rec.Registers[n] = v
			}
			for _, w := range c.stack {
				rec.Stack = binary.LittleEndian.AppendUint64(rec.Stack, w)
			}
			var got []uint64
			for n, f := range p.frames(&rec) {
				got = append(got, f.PC)
				wantEqual(t, f.Guessed, n >= c.certain, n)
			}
			wantEqual(t, got, c.want)
		})
	}
}

// TestDeepChain: a chain has a limited number of frames.
func TestDeepChain(t *testing.T) {
	p := faultImage(elf.EM_RISCV, elf.ELFCLASS32, 0x1000, bytes.Repeat(unhexed(t, "ef008000"), 16))
	p.calls = *framesOf(t, 4, rv32Frames, false, 0)
	rec := &fault.Record{WordBytes: 4, PCValid: true, SPValid: true, PC: 0x1008, SP: 0x20000000}
	rec.Registers = make([]uint64, 32)
	rec.Stack = bytes.Repeat(unhexed(t, "00000000 00000000 00000000 0c100000"), 2*maxFrames)
	if frames := p.frames(rec); len(frames) != maxFrames || frames[maxFrames-1].Guessed {
		t.Errorf("%d frames", len(frames))
	}
	copy(rec.Stack[16*(maxFrames-3):], unhexed(t, "0c100000 0c100000 0c100000 00500000")) // leads to nothing
	if frames := p.frames(rec); len(frames) != maxFrames || !frames[maxFrames-1].Guessed {
		t.Errorf("%d frames, of which the last are guessed", len(frames))
	}
}

// TestRegistersOfRecord: a record's registers are RISC-V's from x1 on.
func TestRegistersOfRecord(t *testing.T) {
	p := faultImage(elf.EM_RISCV, elf.ELFCLASS32, 0x1000, bytes.Repeat(unhexed(t, "ef008000"), 16))
	p.calls.fdes = []frameFDE{{ // the frame's address is x8+16, ra is there less 4
		low: 0x1000, high: 0x1040, cie: &frameCIE{codeAlign: 1, dataAlign: -4, returns: 1},
		program: unhexed(t, "0c 08 10 81 01"),
	}}
	rec := &fault.Record{WordBytes: 4, PCValid: true, SPValid: true, PC: 0x1008, SP: 0x7000}
	rec.Registers, rec.Stack = make([]uint64, 31), make([]byte, 32)
	rec.Registers[7] = 0x7000
	binary.LittleEndian.PutUint32(rec.Stack[12:], 0x100c)
	if frames := p.frames(rec); len(frames) < 2 || frames[1].PC != 0x100b || frames[1].Guessed {
		t.Errorf("%+v", frames)
	}
}

// TestChainEndsAtEntry: a chain that leads to nothing ends at the program's start, which no code calls; what leads
// elsewhere is an error, and the rest is guessed.
func TestChainEndsAtEntry(t *testing.T) {
	for _, c := range []struct {
		machine elf.Machine
		call    string // an instruction, repeated
		back    uint32
		guessed bool
	}{
		{elf.EM_RISCV, "ef008000", 0, false},
		{elf.EM_RISCV, "ef008000", 0x5000, true},
		{elf.EM_RISCV, "ef008000", 0xfffffffd, true},
		{elf.EM_RISCV, "ef008000", 0x1002, true},    // code, but after no call
		{elf.EM_ARM, "00f010f8", 0xfffffffd, false}, // EXC_RETURN
		{elf.EM_ARM, "00f010f8", 0xffffff00, false},
		{elf.EM_ARM, "00f010f8", 0xfffffeff, true},
	} {
		p := faultImage(c.machine, elf.ELFCLASS32, 0x1000, bytes.Repeat(unhexed(t, c.call), 16))
		p.calls = *framesOf(t, 4, rv32Frames, false, 0)
		rec := &fault.Record{WordBytes: 4, PCValid: true, SPValid: true, PC: 0x1008, SP: 0x20000000}
		rec.Registers = []uint64{7, 8, 0x20000000} // r2 of Arm is what these frames are relative to, as x2 is of RISC-V
		rec.Stack = stackOf(0, 0, 0, c.back, 0x1005)
		if c.machine == elf.EM_RISCV {
			binary.LittleEndian.PutUint32(rec.Stack[16:], 0x1004)
		}
		frames := p.frames(rec)
		last, count := frames[len(frames)-1], 1
		if c.guessed {
			count = 2
		}
		if len(frames) != count || last.Guessed != c.guessed || last.Guessed && last.PC != 0x1003 {
			t.Errorf("%v to %#x: %+v", c.machine, c.back, frames)
		}
	}
}

// TestLoadBias checks the distance by which a process was moved: from its file's first loaded segment to the address in
// the record.
func TestLoadBias(t *testing.T) {
	p := &DebugInfo{file: &elf.File{Progs: []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Off: 0x1000, Vaddr: 0x402000}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_NOTE, Vaddr: 0x403000}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Vaddr: 0x400000}},
	}}}
	for _, c := range []struct {
		arch   uint8
		status uint64
		want   uint64
	}{{fault.ArchProcess, 0x7f0000400000, 0x7f0000000000}, {fault.ArchProcess, 0, 0}, {fault.ArchCortexM, 0x500000, 0}} {
		wantEqual(t, p.loadBias(&fault.Record{Arch: c.arch, Status: c.status}), c.want, c.arch, c.status)
	}
}

// TestSizelessSymbolReachesNext: a symbol without a size, as assembler has, reaches to the next one or to the end of
// its code.
func TestSizelessSymbolReachesNext(t *testing.T) {
	p := faultImage(elf.EM_ARM, elf.ELFCLASS32, 0x1000, make([]byte, 0x40))
	p.functions = []elf.Symbol{
		{Name: "sized", Value: 0x1000, Size: 8},
		{Name: "start", Value: 0x1010},
		{Name: "next", Value: 0x1020},
		{Name: "last", Value: 0x1030, Size: 8},
	}
	for pc, want := range map[uint64]string{
		0xffe: "", 0x1000: "sized", 0x1006: "sized", 0x1008: "", 0x1010: "start", 0x101e: "start", 0x1020: "next",
		0x1036: "last", 0x1038: "", 0x1040: "",
	} {
		wantEqual(t, p.functionName(pc), want, pc)
	}
	p.functions = p.functions[:3]
	for pc, want := range map[uint64]string{0x103e: "next", 0x1040: ""} {
		wantEqual(t, p.functionName(pc), want, pc)
	}
}

// TestRecordedStackAddress: a record's stack begins at sp or at the stack's lowest address.
func TestRecordedStackAddress(t *testing.T) {
	p := &DebugInfo{stacks: []uint64{0x20000100, 0x20010000}}
	for sp, want := range map[uint64]uint64{
		0x20000200: 0x20000200, 0x1fff0100: 0x20000100, 0x200000f0: 0x20000100,
		0x20010010: 0x20010010, 0x30000000: 0x30000000,
	} {
		wantEqual(t, p.stackAt(&fault.Record{SP: sp, Reason: fault.ReasonStack}), want, sp)
	}
	process := &fault.Record{Arch: fault.ArchProcess, SP: 0x7ffc1230}
	wantEqual(t, p.stackAt(process), 0x7ffc1230, "of a process without more data")
	process.More = []uint64{0x7ffc5000}
	wantEqual(t, p.stackAt(process), 0x7ffc5000)
}

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	wantIs    = testkit.WantIs
)
