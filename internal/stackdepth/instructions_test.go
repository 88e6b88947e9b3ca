package stackdepth

// This file decodes single instructions. Each has a register or a number with its lowest bit set, so that a mask or
// value that is wrong by one decodes a different instruction.

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

const (
	decodePC = 0x1002
	// The registers that are special before the instruction; the others are known: r0 is 7, r1 is 107 and so on.
	unknownRegister = 11 // and SP
	belowRegister   = 9
	alignedRegister = 10
	poppedRegister  = 7
)

func registersBefore(n, sp int) (r registers) {
	for i := range n {
		r.value[i], r.valid[i] = int64(100*i+7), i != unknownRegister && i != sp
	}
	return r
}

// shorter has short names for registers that are forgotten together.
var shorter = strings.NewReplacer(
	"r0?, r1?, r2?, r3?, r4?, r5?, r6?, r7?, r8?, r9?, r10?, r12?, r14?, r15?", "all?",
	"r0?, r1?, r2?, r3?, r12?, r14?", "scratch?",
	"r1?, r3?, r4?, r5?, r6?, r7?, r10?, r12?, r13?, r14?, r15?, r16?, r17?, r28?, r29?, r30?, r31?", "scratch?",
)

// effect describes what an instruction did to a function and to the registers: "r3?" means that r3 is no longer known,
// "below r3" that r3 is SP minus an unknown number, and so on, with the names of the states.
func effect(f *function, before, after registers) string {
	var all []string
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(f.frame != 0, "frame %d", f.frame)
	for to := range f.flow.states {
		say(true, "to %#x", to)
	}
	for _, list := range []struct {
		name  string
		addrs []uint64
	}{{"call", f.calls}, {"tail", f.tails}, {"ref", f.refs}} {
		for _, a := range list.addrs {
			say(true, "%s %#x", list.name, a)
		}
	}
	say(f.dynamic, "dynamic")
	say(f.pointers, "pointer")
	say(f.indirect, "indirect")
	say(f.flow.table, "table")
	say(f.jumps != 0, "jumps %d", f.jumps)
	say(f.floats, "floats")
	for r := range after.valid {
		switch {
		case before.valid[r] && !after.valid[r]:
			say(true, "r%d?", r)
		case after.valid[r] && (!before.valid[r] || before.value[r] != after.value[r]):
			say(true, "r%d=%d", r, after.value[r])
		}
	}
	return strings.Join(all, ", ")
}

func thumbEffect(code uint32) string {
	f := &function{addr: 0x1000, size: 0x200, narrow: true, flow: flow{states: map[uint64]registers{}}}
	before := thumbState{registers: registersBefore(16, armSP)}
	before.below[belowRegister], before.alignment[alignedRegister], before.popped[poppedRegister] = true, 7, true
	s := before
	if code <= 0xffff {
		f.thumb16(&s, code, decodePC, blindView{})
	} else {
		f.thumb32(&s, code>>16, code&0xffff, decodePC, blindView{})
	}
	all := effect(f, before.registers, s.registers)
	for r := range 16 {
		if s.below[r] != before.below[r] {
			all += fmt.Sprintf(", below r%d %v", r, s.below[r])
		}
		if s.alignment[r] != before.alignment[r] {
			all += fmt.Sprintf(", alignment r%d %d", r, s.alignment[r])
		}
		if s.popped[r] && !before.popped[r] {
			all += fmt.Sprintf(", popped r%d", r)
		}
	}
	if s.itBlock != 0 {
		all += fmt.Sprintf(", it %d", s.itBlock)
	}
	if s.ended {
		all += ", ended"
	}
	return strings.TrimPrefix(shorter.Replace(all), ", ")
}

func riscvEffect(narrow bool, code uint32) string {
	f := &function{addr: 0x1000, size: 0x2000, narrow: narrow, flow: flow{states: map[uint64]registers{}}}
	before := riscvState{registers: registersBefore(32, riscvSP)}
	before.valid[0], before.below[belowRegister], before.auipc = false, true, 5
	before.value[12] = -0x7ffff000 // what LUI sets on 64 bits for an address above 2 GiB
	s := before
	if code&3 == 3 {
		f.riscv32(&s, code, decodePC, blindView{})
	} else {
		f.riscv16(&s, code, decodePC, blindView{})
	}
	all := effect(f, before.registers, s.registers)
	for r := range 32 {
		if s.below[r] != before.below[r] {
			all += fmt.Sprintf(", below r%d %v", r, s.below[r])
		}
	}
	if s.auipc != 0 {
		all += fmt.Sprintf(", auipc r%d", s.auipc)
	}
	if s.ended {
		all += ", ended"
	}
	return strings.TrimPrefix(shorter.Replace(all), ", ")
}

// TestThumbInstructions decodes instructions of each kind.
func TestThumbInstructions(t *testing.T) {
	for _, c := range []struct {
		text string
		code uint32 // of one or two words
		want string
	}{
		{"push {r0, r1, r2, r3, r4, r5, r6, r7, lr}", 0xb5ff, "frame 36"},
		{"sub sp, #508", 0xb0ff, "frame 508"},
		{"add sp, #4", 0xb001, ""},
		{"add sp, fp", 0x44dd, "dynamic"},
		{"add sp, r7", 0x44bd, ""},
		{"mov sp, r9", 0x46cd, "dynamic"},
		{"mov sp, sl", 0x46d5, "frame 7"},
		{"mov sp, r7", 0x46bd, ""},
		{"mov r3, sp", 0x466b, "r3?"},
		{"mov r9, sp", 0x46e9, "r9?, below r9 false"},
		{"add r3, sp, #4", 0xab01, "r3?"},
		{"mov r3, r9", 0x464b, "r3=907"},
		{"mov r9, fp", 0x46d9, "r9?"},
		{"mov fp, r3", 0x469b, "r11=307"},
		{"add r5, pc", 0x447d, "ref 0x1201, r5=4609"},
		{"add fp, pc", 0x44fb, ""},
		{"add r9, r3", 0x4499, "r9?"},
		{"subs r3, r1, r5", 0x1b4b, "r3?, below r3 true"},
		{"blx r3", 0x4798, "pointer, indirect, scratch?"},
		{"blx fp", 0x47d8, "pointer, indirect, scratch?"},
		{"bx lr", 0x4770, "ended"},
		{"bx r7", 0x4738, "ended"},
		{"bx r3", 0x4718, "pointer, indirect, ended"},
		{"add pc, r3", 0x449f, "table, ended"},
		{"mov pc, r3", 0x469f, "table, ended"},
		{"ldr r3, [pc, #1016]", 0x4bfe, "ref 0x3bf4, r3=15348"},
		{"ldr r3, [pc, #1020]", 0x4bff, "r3?"},
		{"ldr r3, [r1, #124]", 0x6fcb, "r3=693"},
		{"movs r3, #255", 0x23ff, "r3=255"},
		{"lsls r3, r1, #31", 0x07cb, "r3=-2147483648"},
		{"negs r3, r1", 0x424b, "r3=-107"},
		{"mvns r3, r1", 0x43cb, "r3=-108"},
		{"pop {r1, pc}", 0xbd02, "r1?, popped r1, ended"},
		{"pop {r0, r7}", 0xbc81, "r0?, r7?, popped r0"},
		{"ldmia r3!, {r0, r7}", 0xcb81, "r0?, r7?"},
		{"stmia r3!, {r0, r7}", 0xc381, "r0?, r7?"},
		{"lsrs r3, r1, #1", 0x084b, "r3?"},
		{"ands r3, r1", 0x400b, "r3?"},
		{"str r3, [r1, r5]", 0x514b, "r3?"},
		{"ldrb r3, [r1, #31]", 0x7fcb, "r3?"},
		{"ldrh r3, [r1, #62]", 0x8fcb, "r3?"},
		{"uxtb r3, r1", 0xb2cb, "r3?"},
		{"adds r3, #255", 0x33ff, "r3?"},
		{"cmp r3, #255", 0x2bff, ""},
		{"ldr r3, [sp, #1020]", 0x9bff, "r3?"},
		{"add r3, pc, #108", 0xa31b, "r3?"},
		{"mov pc, lr", 0x46f7, "ended"},
		{"mov pc, r7", 0x46bf, "ended"},
		{"blx r0", 0x4780, "call 0x6, pointer, scratch?"},
		{"bx r0", 0x4700, "tail 0x6, pointer, ended"},
		{"b.n .+0x22", 0xe00f, "to 0x1024, ended"},
		{"b.n .+0x802", 0xe3ff, "tail 0x1804, ended"},
		{"bhi.n .-0xfc", 0xd880, "tail 0xf06"},
		{"bls.n .+0x100", 0xd97e, "to 0x1102"},
		{"bls.n .+0xae", 0xd955, "to 0x10b0"},
		{"udf #15", 0xde0f, ""},
		{"svc 1", 0xdf01, ""},
		{"cbnz r7, .+0x82", 0xbbff, "to 0x1084"},
		{"cbz r1, .+0x2e", 0xb1a9, "to 0x1030"},
		{"cbnz r1, .+0x58", 0xbb51, "to 0x105a"},
		{"it ne", 0xbf18, "it 1"},
		{"nop", 0xbf00, "r0?"},
		{"bl .+0x95554e", 0xf155daa5, "call 0x956550, scratch?"},
		{"bl .-0xaaaab8", 0xf555daa2, "call 0xffffffffff55654a, scratch?"},
		{"bl .+0x2aaa9a", 0xf2aafd4b, "call 0x2aba9c, scratch?"},
		{"bl .-0xc", 0xf7fffff8, "call 0xff6, scratch?"},
		{"b.w .-0xaaaac0", 0xf5559a9e, "tail 0xffffffffff556542, ended"},
		{"bne.w .+0x5553e", 0xf055a29d, "tail 0x56540"},
		{"bge.w .-0xaaac8", 0xf695a29a, "tail 0xfffffffffff5653a"},
		{"b.w .+0xe4", 0xf000b870, "to 0x10e6, ended"},
		{"bls.w .-0x30030", 0xf64fafe6, "tail 0xfffffffffffd0fd2"},
		{"beq.w .+0xdc", 0xf000806c, "to 0x10de"},
		{"stmdb sp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}", 0xe92d4ff0, "frame 36"},
		{"str.w r3, [sp, #-255]!", 0xf84d3dff, "frame 255"},
		{"strd r3, r5, [sp, #-1020]!", 0xe96d35ff, "frame 1020"},
		{"sub.w sp, sp, #4096", 0xf5ad5d80, "frame 4096"},
		{"sub.w r3, sp, #16711935", 0xf1ad13ff, "r3?"},
		{"subw sp, sp, #4095", 0xf6ad7dff, "frame 4095"},
		{"subw r3, sp, #4095", 0xf6ad73ff, "r3?"},
		{"subs.w sp, sp, #1024", 0xf5bd6d80, "frame 1024"},
		{"sub.w sp, sp, r3", 0xebad0d03, "frame 307"},
		{"sub.w sp, sp, fp", 0xebad0d0b, "dynamic"},
		{"sub.w r5, sp, fp", 0xebad050b, "below r5 true"},
		{"sub.w r5, sp, r3", 0xebad0503, "r5?"},
		{"sub.w r5, sp, r3, lsl #1", 0xebad0543, "below r5 true"},
		{"sub.w r3, r5, r7", 0xeba50307, "r3?, below r3 true"},
		{"subs.w r3, r5, r7", 0xebb50307, "r3?, below r3 true"},
		{"vpush {d8-d15}", 0xed2d8b10, "frame 64, floats"},
		{"vpush {s31}", 0xed6dfa01, "frame 4, floats"},
		{"bfc r3, #0, #31", 0xf36f031e, "r3?, alignment r3 2147483647"},
		{"bfc r3, #0, #4", 0xf36f0303, "r3?, alignment r3 15"},
		{"bfc r3, #1, #3", 0xf36f0343, "r3?"},
		{"bfc r3, #4, #3", 0xf36f1306, "r3?"},
		{"bic.w r3, r5, #7", 0xf0250307, "r3?, alignment r3 7"},
		{"bics.w r3, r1, #7", 0xf0310307, "r0?, r3?, r7?"},
		{"movw r3, #65244", 0xf64f63dc, "r3=65244"},
		{"movw r3, #6913", 0xf6413301, "r3=6913"},
		{"movt r3, #8193", 0xf2c20301, "ref 0x20010133, r3=536936755"},
		{"movt fp, #8193", 0xf2c20b01, ""},
		{"mov.w r3, #252645135", 0xf04f330f, "r3=252645135"},
		{"movs.w r3, #4278190080", 0xf05f437f, "r3=-16777216"},
		{"mov.w r3, #510", 0xf44f73ff, "r3=510"},
		{"mov.w r3, #255", 0xf04f03ff, "r3=255"},
		{"mov.w r3, #16711935", 0xf04f13ff, "r3=16711935"},
		{"mov.w r3, #4278255360", 0xf04f23ff, "r3=-16711936"},
		{"mvn.w r3, #5", 0xf06f0305, "r3=-6"},
		{"mvns.w r3, #4278190080", 0xf07f437f, "r3=16777215"},
		{"ldr.w r3, [pc, #1]", 0xf8df3001, "ref 0x300f, r3=12303"},
		{"ldr.w r3, [pc, #4094]", 0xf8df3ffe, "ref 0x6006, r3=24582"},
		{"ldr.w r3, [pc, #-4]", 0xf85f3004, "ref 0x3000, r3=12288"},
		{"ldr.w pc, [pc, #16]", 0xf8dff010, "tail 0x303c, pointer, ended"},
		{"ldr.w pc, [pc, #-12]", 0xf85ff00c, "tail 0x2fe8, pointer, ended"},
		{"tbb [pc, r1]", 0xe8dff001, "table, ended"},
		{"tbh [pc, r1, lsl #1]", 0xe8dff011, "table, ended"},
		{"ldr.w pc, [r3, r1, lsl #3]", 0xf853f031, "table, ended"},
		{"ldr.w pc, [r3, #4]!", 0xf853ff04, "pointer, indirect, ended"},
		{"ldr.w pc, [sp], #4", 0xf85dfb04, "ended"},
		{"ldr.w pc, [r3, #255]", 0xf8d3f0ff, "pointer, indirect, ended"},
		{"ldr.w r3, [r1, #4095]", 0xf8d13fff, "r3=12606"},
		{"ldr.w r3, [fp, #1]", 0xf8db3001, "r3?"},
		{"vldr s3, [r1, #4]", 0xedd11a01, "floats, r1?"},
		{"vmov r3, s1", 0xee103a90, "floats, r3?"},
		{"ldmia.w r3, {r1, r5, pc}", 0xe8938022, "all?, ended"},
		{"ldmdb r3, {r1, r5}", 0xe9130022, "all?"},
		{"stmia.w r3, {r1, r5}", 0xe8830022, "r0?, r2?"},
		{"ldmia.w sp!, {r4, r5, r6, r7, r8, r9, sl, fp, pc}", 0xe8bd8ff0, "all?, ended"},
		{"add.w r3, r5, r7", 0xeb050307, "r0?, r3?, r7?"},
		{"umull r3, r5, r7, r1", 0xfba73501, "r1?, r3?, r5?"},
		{"ldrd r3, r5, [r1, #4]", 0xe9d13501, "r1?, r3?, r5?"},
		{"str.w r3, [r1, #4095]", 0xf8c13fff, "r3?, r15?"},
		{"bfi r3, r5, #1, #3", 0xf3650343, "r0?, r3?"},
		{"mrs r3, PRIMASK", 0xf3ef8310, "r0?, r3?, r8?"},
		{"dsb sy", 0xf3bf8f4f, "r8?, r15?"},
		{"ittee eq", 0xbf07, "it 4"},
	} {
		if got := thumbEffect(c.code); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestRISCVInstructions decodes instructions of each kind, for 32 bits and for 64.
func TestRISCVInstructions(t *testing.T) {
	type instruction struct {
		text string
		code uint32
		want string
	}
	for bits, all := range map[int][]instruction{32: {
		{"c.lw x9,4(x15)", 0x43c4, "r9=4533, below r9 false"},
		{"c.lw x9,124(x15)", 0x5fe4, "r9=4893, below r9 false"},
		{"c.lw x9,4(x11)", 0x41c4, "r9?, below r9 false"},
		{"c.addi4spn x9,x2,4", 0x44, "r9?, below r9 false"},
		{"c.srli x9,0x1", 0x8085, "r9?, below r9 false"},
		{"c.slli x15,0x1", 0x786, "r15?"},
		{"c.lwsp x9,252(x2)", 0x54fe, "r9?, below r9 false"},
		{"c.flwsp f15,4(x2)", 0x6792, "r15?"},
		{"c.flw f15,4(x15)", 0x63dc, ""},
		{"c.addi x2,-1", 0x117d, "frame 1"},
		{"c.addi x2,31", 0x17d, ""},
		{"c.addi16sp x2,-496", 0x7141, "frame 496"},
		{"c.addi16sp x2,-320", 0x7129, "frame 320"},
		{"c.addi16sp x2,-16", 0x717d, "frame 16"},
		{"c.addi16sp x2,496", 0x617d, ""},
		{"c.addi x15,31", 0x7fd, "ref 0x602, r15=1538"},
		{"c.addi x15,-1", 0x17fd, "ref 0x5e2, r15=1506"},
		{"c.addi x11,1", 0x585, ""},
		{"c.li x15,31", 0x47fd, "r15=31"},
		{"c.li x11,-1", 0x55fd, "r11=-1"},
		{"c.lui x11,0xfffe1", 0x7585, "r11=-126976"},
		{"c.jr x1", 0x8082, "ended"},
		{"c.jr x5", 0x8282, "ended"},
		{"c.jr x11", 0x8582, "pointer, table, jumps 1, ended"},
		{"c.jr x15", 0x8782, "tail 0x5e3, pointer, ended"},
		{"c.jalr x11", 0x9582, "pointer, indirect, scratch?"},
		{"c.jalr x15", 0x9782, "call 0x5e3, pointer, scratch?"},
		{"c.mv x15,x11", 0x87ae, "r15?"},
		{"c.mv x2,x9", 0x8126, "dynamic"},
		{"c.mv x2,x15", 0x813e, ""},
		{"c.mv x15,x9", 0x87a6, "r15=907, below r15 true"},
		{"c.mv x9,x2", 0x848a, "r9?, below r9 false"},
		{"c.add x15,x13", 0x97b6, "r15?"},
		{"c.add x2,x15", 0x913e, ""},
		{"c.add x2,x11", 0x912e, "dynamic"},
		{"c.sw x15,4(x13)", 0xc2dc, ""},
		{"c.ebreak", 0x9002, ""},
		{"c.addi x0,0", 0x1, ""},
		{"c.j .+0x40", 0xa081, "to 0x1042, ended"},
		{"c.j .-0x800", 0xb001, "tail 0x802, ended"},
		{"c.j .+0x7fe", 0xaffd, "to 0x1800, ended"},
		{"c.jal .+0x554", 0x2b91, "call 0x1556, scratch?"},
		{"c.beqz x11,.+0x20", 0xc185, "to 0x1022"},
		{"c.bnez x11,.-0x100", 0xf181, "tail 0xf02"},
		{"c.bnez x15,.+0xaa", 0xe7cd, "to 0x10ac"},
		{"c.bnez x11,.+0xfe", 0xedfd, "to 0x1100"},
	}, 64: {
		{"c.ld x9,240(x15)", 0x7be4, "r9=5241, below r9 false"},
		{"c.ld x9,120(x15)", 0x7fa4, "r9=4881, below r9 false"},
		{"c.ld x15,8(x11)", 0x659c, "r15?"},
		{"c.addiw x9,-1", 0x34fd, "ref 0x38a, r9=906"},
		{"add x2,x2,x10", 0xa10133, ""},
		{"add x2,x10,x2", 0x250133, ""},
		{"add x2,x2,x11", 0xb10133, "dynamic"},
		{"add x15,x14,x17", 0x11707b3, "r15?"},
		{"sub x2,x2,x10", 0x40a10133, "frame 1007"},
		{"sub x2,x2,x11", 0x40b10133, "dynamic"},
		{"sub x15,x2,x11", 0x40b107b3, "below r15 true"},
		{"sub x15,x2,x10", 0x40a107b3, ""},
		{"sub x15,x14,x17", 0x411707b3, "r15?"},
		{"addi x2,x2,-2047", 0x80110113, "frame 2047"},
		{"addi x2,x2,2047", 0x7ff10113, ""},
		{"addi x2,x9,0", 0x48113, "dynamic"},
		{"addi x2,x10,0", 0x50113, ""},
		{"addi x15,x10,2047", 0x7ff50793, "ref 0xbee, r15=3054"},
		{"addi x15,x0,-1", 0xfff00793, "r15=-1"},
		{"addi x15,x11,-1", 0xfff58793, "r15?"},
		{"addi x9,x2,16", 0x1010493, "r9?, below r9 false"},
		{"addi x15,x8,-2048", 0x80040793, "ref 0xfffffffffffffb27, r15=-1241"},
		{"addiw x15,x10,15", 0xf5079b, "ref 0x3fe, r15=1022"},
		{"slliw x15,x10,0xf", 0xf5179b, "r15?"},
		{"andi x2,x2,-64", 0xfc017113, "frame 63"},
		{"andi x15,x2,-64", 0xfc017793, "r15?"},
		{"andi x2,x10,63", 0x3f57113, ""},
		{"slli x15,x10,0x1", 0x151793, "r15?"},
		{"mul x9,x10,x13", 0x02d504b3, "r9?, below r9 false"},
		{"lui x15,0x80001", 0x800017b7, "r15=-2147479552"},
		{"auipc x15,0x80001", 0x80001797, "r15=-2147475454, auipc r15"},
		{"jalr x0,0(x1)", 0x8067, "ended"},
		{"jalr x0,0(x5)", 0x28067, "ended"},
		{"jalr x0,1(x1)", 0x108067, "tail 0x6c, pointer, ended"},
		{"jalr x0,4(x10)", 0x450067, "tail 0x3f3, pointer, ended"},
		{"jalr x0,4(x11)", 0x458067, "pointer, table, jumps 1, ended"},
		{"jalr x1,4(x10)", 0x4500e7, "call 0x3f3, pointer, scratch?"},
		{"jalr x1,4(x11)", 0x4580e7, "pointer, indirect, scratch?"},
		{"jalr x1,4(x5)", 0x4280e7, "call 0x1ff, pointer, scratch?"},
		{"jalr x1,4(x0)", 0x4000e7, "pointer, indirect, scratch?"},
		{"lw x15,1(x10)", 0x152783, "r15=3024"},
		{"lw x15,-5(x10)", 0xffb52783, "r15=3006"},
		{"ld x9,1(x10)", 0x153483, "r9=3024, below r9 false"},
		{"lw x15,3(x12)", 0x00362783, "r15=6442463241"},
		{"ld x15,3(x12)", 0x00363783, "r15=-6442438647"},
		{"lb x15,1(x10)", 0x150783, "r15?"},
		{"lw x15,1(x0)", 0x102783, "r15?"},
		{"lw x15,1(x11)", 0x15a783, "r15?"},
		{"sw x15,1(x10)", 0xf520a3, ""},
		{"flw f15,1(x10)", 0x152787, "floats, r15?"},
		{"fsw f15,1(x10)", 0xf520a7, "floats"},
		{"fadd.s f15,f10,f12", 0xc577d3, "r15?"},
		{"csrrs x15,mstatus,x0", 0x300027f3, "r15?"},
		{"fence iorw,iorw", 0xff0000f, ""},
		{"beq x11,x10,.+0x20", 0x2a58063, "to 0x1022"},
		{"bge x11,x10,.-0x20", 0xfea5d0e3, "tail 0xfe2"},
		{"bgeu x11,x10,.+0xaaa", 0x2aa5f5e3, "to 0x1aac"},
		{"bltu x11,x10,.+0xffe", 0x7ea5efe3, "to 0x2000"},
		{"jal x0,.+0x40", 0x400006f, "to 0x1042, ended"},
		{"jal x11,.-0x40", 0xfc1ff5ef, "call 0xfc2, scratch?"},
		{"jal x1,.+0xaaaaa", 0x2abaa0ef, "call 0xabaac, scratch?"},
		{"jal x1,.+0x55554", 0x554550ef, "call 0x56556, scratch?"},
	}} {
		for _, c := range all {
			if got := riscvEffect(bits == 32, c.code); got != c.want {
				t.Errorf("%s: %s, want %s", c.text, got, c.want)
			}
		}
	}
}

// A dataView has data at one address and code elsewhere.
type dataView struct {
	blindView
	data uint64
}

func (v dataView) isData(addr uint64) bool { return addr == v.data }

// TestKnownRegister follows a register's value to a call through it, or to where it becomes unknown.
func TestKnownRegister(t *testing.T) {
	type words = []uint16
	const data = 0x1002
	for _, c := range []struct {
		text    string
		machine elf.Machine
		code    words
		want    string
	}{
		{"movs r0, #7; blx r0", elf.EM_ARM, words{0x2007, 0x4780}, "call 0x6, pointer"},
		{"a return before", elf.EM_ARM, words{0x2007, 0x4770, 0x4780}, "pointer, indirect"},
		{"a jump over udf", elf.EM_ARM, words{0x2007, 0xe000, 0xde00, 0x2101, 0x4780}, "call 0x6, pointer"},
		{"a return if equal", elf.EM_ARM, words{0x2007, 0xbf08, 0x4770, 0x4780}, "call 0x6, pointer"},
		{"another number if equal", elf.EM_ARM, words{0x2007, 0xbf08, 0x2007, 0x4780}, "pointer, indirect"},
		{"another register if equal", elf.EM_ARM, words{0xbf08, 0x2101, 0x2007, 0x4780}, "call 0x6, pointer"},
		{"the same number on two ways", elf.EM_ARM, words{0x2007, 0xb101, 0x2007, 0x4780}, "call 0x6, pointer"},
		{"two numbers on two ways", elf.EM_ARM, words{0x2007, 0xb101, 0x2015, 0x4780}, "pointer, indirect"},
		{"two numbers, the second from behind", elf.EM_ARM, words{0x2007, 0x4780, 0x2015, 0xe7fc}, "pointer, indirect"},
		{"a switch behind", elf.EM_ARM, words{0x2007, 0x4780, 0x468f}, "pointer, indirect, table"},
		{"data before", elf.EM_ARM, words{0x2007, data, 0x4780}, "pointer, indirect"},
		{"half an instruction", elf.EM_ARM, words{0x2007, 0x4780, 0xf000}, "call 0x6, pointer"},
		{"bl, then frames", elf.EM_ARM, words{0xf000, 0xf87e, 0xb082, 0xb082}, "frame 16, call 0x1100"},
		{"li x10, 7; jalr x10", elf.EM_RISCV, words{0x451d, 0x9502}, "call 0x7, pointer"},
		{"a return before", elf.EM_RISCV, words{0x451d, 0x8082, 0x9502}, "pointer, indirect"},
		{"a jump over ebreak", elf.EM_RISCV, words{0x451d, 0xa011, 0x9002, 0x4585, 0x9502}, "call 0x7, pointer"},
		{"the same number on two ways", elf.EM_RISCV, words{0x451d, 0xc191, 0x451d, 0x9502}, "call 0x7, pointer"},
		{"two numbers on two ways", elf.EM_RISCV, words{0x451d, 0xc191, 0x4555, 0x9502}, "pointer, indirect"},
		{"data before", elf.EM_RISCV, words{0x451d, data, 0x9502}, "pointer, indirect"},
		{"half an instruction", elf.EM_RISCV, words{0x451d, 0x9502, 0x00ef}, "call 0x7, pointer"},
		{"jal, then frames", elf.EM_RISCV, words{0x00ef, 0x0400, 0x1161, 0x1161}, "frame 16, call 0x1040"},
		{"auipc x6, 0; jalr 8(x6)", elf.EM_RISCV, words{0x0317, 0x0000, 0x00e7, 0x0083}, "call 0x1008, pointer"},
		{"a switch before jalr", elf.EM_RISCV, words{0x0317, 0, 0x8582, 0x00e7, 0x0083}, "pointer, indirect, table, jumps 1"},
	} {
		var code []byte
		for _, w := range c.code {
			code = binary.LittleEndian.AppendUint16(code, w)
		}
		view := dataView{}
		if len(c.code) > 1 && c.code[1] == data {
			view.data = data
		}
		f := &function{addr: 0x1000, size: uint64(len(code)), narrow: true}
		f.fixpoint(func(f *function) { decoders[c.machine](f, code, view) })
		f.flow.states = nil
		if got := effect(f, registers{}, registers{}); got != c.want {
			t.Errorf("%v, %s: %s, want %s", c.machine, c.text, got, c.want)
		}
	}
}
