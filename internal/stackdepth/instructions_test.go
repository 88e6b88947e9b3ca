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

func thumbEffect(code ...uint16) string {
	f := &function{addr: 0x1000, size: 0x200, narrow: true, flow: flow{states: map[uint64]registers{}}}
	before := thumbState{registers: registersBefore(16, armSP)}
	before.below[belowRegister], before.alignment[alignedRegister], before.popped[poppedRegister] = true, 7, true
	s := before
	if len(code) == 1 {
		f.thumb16(&s, uint32(code[0]), decodePC, blindView{})
	} else {
		f.thumb32(&s, uint32(code[0]), uint32(code[1]), decodePC, blindView{})
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

// TestThumbInstructions decodes one instruction of each kind.
func TestThumbInstructions(t *testing.T) {
	type words = []uint16
	for _, c := range []struct {
		text string
		code words
		want string
	}{
		{"push {r0, lr}", words{0xb501}, "frame 8"},
		{"push {r0, r1, r2, r3, r4, r5, r6, r7, lr}", words{0xb5ff}, "frame 36"},
		{"sub sp, #4", words{0xb081}, "frame 4"},
		{"sub sp, #508", words{0xb0ff}, "frame 508"},
		{"add sp, #4", words{0xb001}, ""},
		{"add sp, fp", words{0x44dd}, "dynamic"},
		{"add sp, r7", words{0x44bd}, ""},
		{"mov sp, r9", words{0x46cd}, "dynamic"},
		{"mov sp, sl", words{0x46d5}, "frame 7"},
		{"mov sp, r7", words{0x46bd}, ""},
		{"mov r3, sp", words{0x466b}, "r3?"},
		{"mov r9, sp", words{0x46e9}, "r9?, below r9 false"},
		{"add r3, sp, #4", words{0xab01}, "r3?"},
		{"mov r3, r9", words{0x464b}, "r3=907"},
		{"mov r9, fp", words{0x46d9}, "r9?"},
		{"mov fp, r3", words{0x469b}, "r11=307"},
		{"add r5, pc", words{0x447d}, "ref 0x1201, r5=4609"},
		{"add fp, pc", words{0x44fb}, ""},
		{"add r9, r3", words{0x4499}, "r9?"},
		{"subs r3, r1, r5", words{0x1b4b}, "r3?, below r3 true"},
		{"blx r3", words{0x4798}, "pointer, indirect, scratch?"},
		{"blx fp", words{0x47d8}, "pointer, indirect, scratch?"},
		{"bx lr", words{0x4770}, "ended"},
		{"bx r7", words{0x4738}, "ended"},
		{"bx r3", words{0x4718}, "pointer, indirect, ended"},
		{"bx r5", words{0x4728}, "pointer, indirect, ended"},
		{"add pc, r3", words{0x449f}, "table, ended"},
		{"mov pc, r3", words{0x469f}, "table, ended"},
		{"wfi", words{0xbf30}, "r0?"},
		{"ldr r3, [pc, #4]", words{0x4b01}, "ref 0x3018, r3=12312"},
		{"ldr r3, [pc, #1016]", words{0x4bfe}, "ref 0x3bf4, r3=15348"},
		{"ldr r3, [pc, #1020]", words{0x4bff}, "r3?"},
		{"ldr r3, [r1, #4]", words{0x684b}, "r3=333"},
		{"ldr r3, [r1, #124]", words{0x6fcb}, "r3=693"},
		{"movs r3, #255", words{0x23ff}, "r3=255"},
		{"lsls r3, r1, #1", words{0x004b}, "r3=214"},
		{"lsls r3, r1, #31", words{0x07cb}, "r3=-2147483648"},
		{"negs r3, r1", words{0x424b}, "r3=-107"},
		{"mvns r3, r1", words{0x43cb}, "r3=-108"},
		{"pop {r1, r5}", words{0xbc22}, "r1?, r5?, popped r1, popped r5"},
		{"pop {r1, pc}", words{0xbd02}, "r1?, popped r1, ended"},
		{"pop {r0, r7}", words{0xbc81}, "r0?, r7?, popped r0"},
		{"ldmia r3!, {r0, r7}", words{0xcb81}, "r0?, r7?"},
		{"stmia r3!, {r0, r7}", words{0xc381}, "r0?, r7?"},
		{"lsrs r3, r1, #1", words{0x084b}, "r3?"},
		{"asrs r3, r1, #1", words{0x104b}, "r3?"},
		{"adds r3, r1, r5", words{0x194b}, "r3?"},
		{"adds r3, r1, #1", words{0x1c4b}, "r3?"},
		{"subs r3, r1, #1", words{0x1e4b}, "r3?"},
		{"ands r3, r1", words{0x400b}, "r3?"},
		{"bics r3, r1", words{0x438b}, "r3?"},
		{"muls r3, r1", words{0x434b}, "r3?"},
		{"str r3, [r1, r5]", words{0x514b}, "r3?"},
		{"ldrsh r3, [r1, r5]", words{0x5f4b}, "r3?"},
		{"ldrb r3, [r1, #31]", words{0x7fcb}, "r3?"},
		{"strb r3, [r1, #31]", words{0x77cb}, "r3?"},
		{"ldrh r3, [r1, #62]", words{0x8fcb}, "r3?"},
		{"uxtb r3, r1", words{0xb2cb}, "r3?"},
		{"rev r3, r1", words{0xba0b}, "r3?"},
		{"adds r3, #255", words{0x33ff}, "r3?"},
		{"subs r3, #255", words{0x3bff}, "r3?"},
		{"cmp r3, #255", words{0x2bff}, ""},
		{"ldr r3, [sp, #1020]", words{0x9bff}, "r3?"},
		{"str r3, [sp, #1020]", words{0x93ff}, "r3?"},
		{"add r3, pc, #108", words{0xa31b}, "r3?"},
		{"svc 255", words{0xdfff}, ""},
		{"bkpt 0x00ff", words{0xbeff}, "r7?"},
		{"cpsid i", words{0xb672}, "r2?"},
		{"mov pc, lr", words{0x46f7}, "ended"},
		{"mov pc, r7", words{0x46bf}, "ended"},
		{"add pc, r7", words{0x44bf}, "table, ended"},
		{"add pc, lr", words{0x44f7}, "table, ended"},
		{"mov lr, r3", words{0x469e}, "r14=307"},
		{"adds r7, r1, #1", words{0x1c4f}, "r7?"},
		{"blx r0", words{0x4780}, "call 0x6, pointer, scratch?"},
		{"bx r0", words{0x4700}, "tail 0x6, pointer, ended"},
		{"b.n .+0x22", words{0xe00f}, "to 0x1024, ended"},
		{"b.w .-0x800", words{0xf7ff, 0xbbfe}, "tail 0x802, ended"},
		{"b.n .+0x802", words{0xe3ff}, "tail 0x1804, ended"},
		{"b.n .+0x558", words{0xe2aa}, "tail 0x155a, ended"},
		{"bne.n .+0x22", words{0xd10f}, "to 0x1024"},
		{"bhi.n .-0xfc", words{0xd880}, "tail 0xf06"},
		{"bls.n .+0x100", words{0xd97e}, "to 0x1102"},
		{"bls.n .+0xae", words{0xd955}, "to 0x10b0"},
		{"udf #15", words{0xde0f}, ""},
		{"svc 1", words{0xdf01}, ""},
		{"cbz r1, .+0x20", words{0xb171}, "to 0x1022"},
		{"cbnz r7, .+0x82", words{0xbbff}, "to 0x1084"},
		{"cbz r1, .+0x2e", words{0xb1a9}, "to 0x1030"},
		{"cbnz r1, .+0x58", words{0xbb51}, "to 0x105a"},
		{"it ne", words{0xbf18}, "it 1"},
		{"ite ne", words{0xbf14}, "it 2"},
		{"nop", words{0xbf00}, "r0?"},
		{"bl .+0x104", words{0xf000, 0xf880}, "call 0x1106, scratch?"},
		{"bl .-0xc", words{0xf7ff, 0xfff8}, "call 0xff6, scratch?"},
		{"bl .+0x95554e", words{0xf155, 0xdaa5}, "call 0x956550, scratch?"},
		{"bl .-0xaaaab8", words{0xf555, 0xdaa2}, "call 0xffffffffff55654a, scratch?"},
		{"bl .+0x2aaa9a", words{0xf2aa, 0xfd4b}, "call 0x2aba9c, scratch?"},
		{"b.w .-0xaaaac0", words{0xf555, 0x9a9e}, "tail 0xffffffffff556542, ended"},
		{"bne.w .+0x5553e", words{0xf055, 0xa29d}, "tail 0x56540"},
		{"bge.w .-0xaaac8", words{0xf695, 0xa29a}, "tail 0xfffffffffff5653a"},
		{"b.w .+0xe4", words{0xf000, 0xb870}, "to 0x10e6, ended"},
		{"b.w .+0x6fffdc", words{0xf2ff, 0xb7ec}, "tail 0x700fde, ended"},
		{"beq.w .+0xdc", words{0xf000, 0x806c}, "to 0x10de"},
		{"bne.w .-0xe", words{0xf47f, 0xaff7}, "tail 0xff4"},
		{"bls.w .-0x30030", words{0xf64f, 0xafe6}, "tail 0xfffffffffffd0fd2"},
		{"stmdb sp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}", words{0xe92d, 0x4ff0}, "frame 36"},
		{"str.w r3, [sp, #-255]!", words{0xf84d, 0x3dff}, "frame 255"},
		{"str.w r3, [sp, #-4]!", words{0xf84d, 0x3d04}, "frame 4"},
		{"strd r3, r5, [sp, #-8]!", words{0xe96d, 0x3502}, "frame 8"},
		{"strd r3, r5, [sp, #-1020]!", words{0xe96d, 0x35ff}, "frame 1020"},
		{"sub.w sp, sp, #4096", words{0xf5ad, 0x5d80}, "frame 4096"},
		{"sub.w r3, sp, #16711935", words{0xf1ad, 0x13ff}, "r3?"},
		{"sub.w sp, sp, #4278255360", words{0xf1ad, 0x2dff}, "frame 4278255360"},
		{"sub.w sp, sp, #2139095040", words{0xf1ad, 0x4dff}, "frame 2139095040"},
		{"subw sp, sp, #4095", words{0xf6ad, 0x7dff}, "frame 4095"},
		{"subw r3, sp, #4095", words{0xf6ad, 0x73ff}, "r3?"},
		{"subs.w sp, sp, #1024", words{0xf5bd, 0x6d80}, "frame 1024"},
		{"sub.w sp, sp, r3", words{0xebad, 0x0d03}, "frame 307"},
		{"sub.w sp, sp, fp", words{0xebad, 0x0d0b}, "dynamic"},
		{"sub.w r5, sp, fp", words{0xebad, 0x050b}, "below r5 true"},
		{"sub.w r5, sp, r3", words{0xebad, 0x0503}, "r5?"},
		{"sub.w r5, sp, r3, lsl #1", words{0xebad, 0x0543}, "below r5 true"},
		{"sub.w r3, r5, r7", words{0xeba5, 0x0307}, "r3?, below r3 true"},
		{"subs.w r3, r5, r7", words{0xebb5, 0x0307}, "r3?, below r3 true"},
		{"vpush {d8}", words{0xed2d, 0x8b02}, "frame 8, floats"},
		{"vpush {d8-d15}", words{0xed2d, 0x8b10}, "frame 64, floats"},
		{"vpush {s31}", words{0xed6d, 0xfa01}, "frame 4, floats"},
		{"bfc r3, #0, #4", words{0xf36f, 0x0303}, "r3?, alignment r3 15"},
		{"bfc r3, #0, #31", words{0xf36f, 0x031e}, "r3?, alignment r3 2147483647"},
		{"bfc r3, #1, #3", words{0xf36f, 0x0343}, "r3?"},
		{"bfc r3, #4, #3", words{0xf36f, 0x1306}, "r3?"},
		{"bic.w r3, r5, #7", words{0xf025, 0x0307}, "r3?, alignment r3 7"},
		{"bics.w r3, r1, #7", words{0xf031, 0x0307}, "r0?, r3?, r7?"},
		{"movw r3, #65244", words{0xf64f, 0x63dc}, "r3=65244"},
		{"movw r3, #6913", words{0xf641, 0x3301}, "r3=6913"},
		{"movt r3, #8193", words{0xf2c2, 0x0301}, "ref 0x20010133, r3=536936755"},
		{"movt fp, #8193", words{0xf2c2, 0x0b01}, ""},
		{"mov.w r3, #252645135", words{0xf04f, 0x330f}, "r3=252645135"},
		{"movs.w r3, #4278190080", words{0xf05f, 0x437f}, "r3=-16777216"},
		{"mov.w r3, #510", words{0xf44f, 0x73ff}, "r3=510"},
		{"mov.w r3, #255", words{0xf04f, 0x03ff}, "r3=255"},
		{"mov.w r3, #16711935", words{0xf04f, 0x13ff}, "r3=16711935"},
		{"mov.w r3, #4278255360", words{0xf04f, 0x23ff}, "r3=-16711936"},
		{"mvn.w r3, #5", words{0xf06f, 0x0305}, "r3=-6"},
		{"mvns.w r3, #4278190080", words{0xf07f, 0x437f}, "r3=16777215"},
		{"ldr.w r3, [pc, #1]", words{0xf8df, 0x3001}, "ref 0x300f, r3=12303"},
		{"ldr.w r3, [pc, #4094]", words{0xf8df, 0x3ffe}, "ref 0x6006, r3=24582"},
		{"ldr.w r3, [pc, #-4]", words{0xf85f, 0x3004}, "ref 0x3000, r3=12288"},
		{"ldr.w pc, [pc, #16]", words{0xf8df, 0xf010}, "tail 0x303c, pointer, ended"},
		{"ldr.w pc, [pc, #-12]", words{0xf85f, 0xf00c}, "tail 0x2fe8, pointer, ended"},
		{"tbb [pc, r1]", words{0xe8df, 0xf001}, "table, ended"},
		{"tbh [pc, r1, lsl #1]", words{0xe8df, 0xf011}, "table, ended"},
		{"ldr.w pc, [r3, r1, lsl #3]", words{0xf853, 0xf031}, "table, ended"},
		{"ldr.w pc, [r3, #4]!", words{0xf853, 0xff04}, "pointer, indirect, ended"},
		{"ldr.w pc, [sp], #4", words{0xf85d, 0xfb04}, "ended"},
		{"ldr.w pc, [r3, #255]", words{0xf8d3, 0xf0ff}, "pointer, indirect, ended"},
		{"ldr.w r3, [r1, #1]", words{0xf8d1, 0x3001}, "r3=324"},
		{"ldr.w r3, [r1, #4095]", words{0xf8d1, 0x3fff}, "r3=12606"},
		{"ldr.w r3, [fp, #1]", words{0xf8db, 0x3001}, "r3?"},
		{"vldr s3, [r1, #4]", words{0xedd1, 0x1a01}, "floats, r1?"},
		{"vmov r3, s1", words{0xee10, 0x3a90}, "floats, r3?"},
		{"vmov s1, r3", words{0xee00, 0x3a90}, "floats, r3?"},
		{"vadd.f64 d1, d2, d3", words{0xee32, 0x1b03}, "floats, r1?"},
		{"vstr d3, [r1, #4]", words{0xed81, 0x3b01}, "floats, r3?"},
		{"ldmia.w r3, {r1, r5, pc}", words{0xe893, 0x8022}, "all?, ended"},
		{"ldmdb r3, {r1, r5}", words{0xe913, 0x0022}, "all?"},
		{"ldmia.w r3!, {r1, r5}", words{0xe8b3, 0x0022}, "all?"},
		{"stmia.w r3, {r1, r5}", words{0xe883, 0x0022}, "r0?, r2?"},
		{"ldmia.w sp!, {r4, r5, r6, r7, r8, r9, sl, fp, pc}", words{0xe8bd, 0x8ff0}, "all?, ended"},
		{"add.w r3, r5, r7", words{0xeb05, 0x0307}, "r0?, r3?, r7?"},
		{"add.w sl, r5, r7", words{0xeb05, 0x0a07}, "r0?, r7?, r10?"},
		{"mrc 15, 0, r3, cr1, cr0, {0}", words{0xee11, 0x3f10}, "r0?, r3?, r15?"},
		{"mul.w r3, r5, r7", words{0xfb05, 0xf307}, "r3?, r7?, r15?"},
		{"umull r3, r5, r7, r1", words{0xfba7, 0x3501}, "r1?, r3?, r5?"},
		{"ldrd r3, r5, [r1, #4]", words{0xe9d1, 0x3501}, "r1?, r3?, r5?"},
		{"str.w r3, [r1, #4095]", words{0xf8c1, 0x3fff}, "r3?, r15?"},
		{"strh.w r3, [r1, #4095]", words{0xf8a1, 0x3fff}, "r3?, r15?"},
		{"ldrex r3, [r1]", words{0xe851, 0x3f00}, "r0?, r3?, r15?"},
		{"bfi r3, r5, #1, #3", words{0xf365, 0x0343}, "r0?, r3?"},
		{"ubfx r3, r5, #1, #3", words{0xf3c5, 0x0342}, "r0?, r2?, r3?"},
		{"sdiv r3, r5, r7", words{0xfb95, 0xf3f7}, "r3?, r7?, r15?"},
		{"lsl.w r3, r5, r7", words{0xfa05, 0xf307}, "r3?, r7?, r15?"},
		{"clz r3, r5", words{0xfab5, 0xf385}, "r3?, r5?, r15?"},
		{"uxth.w r3, sl", words{0xfa1f, 0xf38a}, "r3?, r10?, r15?"},
		{"mrs r3, PRIMASK", words{0xf3ef, 0x8310}, "r0?, r3?, r8?"},
		{"dsb sy", words{0xf3bf, 0x8f4f}, "r8?, r15?"},
		{"itte eq", words{0xbf06}, "it 3"},
		{"ittee eq", words{0xbf07}, "it 4"},
	} {
		if got := thumbEffect(c.code...); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestRISCVInstructions decodes one instruction of each kind; for 32 bits those that differ or are shorter.
func TestRISCVInstructions(t *testing.T) {
	for _, c := range []struct {
		text   string
		code   uint32
		narrow bool
		want   string
	}{
		{"c.lw x9,4(x15)", 0x43c4, true, "r9=4533, below r9 false"},
		{"c.lw x13,4(x15)", 0x43d4, true, "r13=4533"},
		{"c.lw x9,124(x15)", 0x5fe4, true, "r9=4893, below r9 false"},
		{"c.lw x9,4(x11)", 0x41c4, true, "r9?, below r9 false"},
		{"c.addi4spn x9,x2,4", 0x44, true, "r9?, below r9 false"},
		{"c.srli x9,0x1", 0x8085, true, "r9?, below r9 false"},
		{"c.srai x15,0x1f", 0x87fd, true, "r15?"},
		{"c.andi x9,1", 0x8885, true, "r9?, below r9 false"},
		{"c.sub x15,x9", 0x8f85, true, "r15?"},
		{"c.slli x15,0x1", 0x786, true, "r15?"},
		{"c.lwsp x15,4(x2)", 0x4792, true, "r15?"},
		{"c.lwsp x9,252(x2)", 0x54fe, true, "r9?, below r9 false"},
		{"c.flwsp f15,4(x2)", 0x6792, true, "r15?"},
		{"c.flw f15,4(x15)", 0x63dc, true, ""},
		{"c.addi x2,-1", 0x117d, true, "frame 1"},
		{"c.addi x2,31", 0x17d, true, ""},
		{"c.addi16sp x2,-16", 0x717d, true, "frame 16"},
		{"c.addi16sp x2,-496", 0x7141, true, "frame 496"},
		{"c.addi16sp x2,-320", 0x7129, true, "frame 320"},
		{"c.addi16sp x2,496", 0x617d, true, ""},
		{"c.addi x15,31", 0x7fd, true, "ref 0x602, r15=1538"},
		{"c.addi x15,-1", 0x17fd, true, "ref 0x5e2, r15=1506"},
		{"c.addi x11,1", 0x585, true, ""},
		{"c.addi x9,1", 0x485, true, "ref 0x38c, r9=908"},
		{"c.li x15,31", 0x47fd, true, "r15=31"},
		{"c.li x11,-1", 0x55fd, true, "r11=-1"},
		{"c.lui x15,0x1f", 0x67fd, true, "r15=126976"},
		{"c.lui x11,0xfffe1", 0x7585, true, "r11=-126976"},
		{"c.jr x1", 0x8082, true, "ended"},
		{"c.jr x5", 0x8282, true, "ended"},
		{"c.jr x11", 0x8582, true, "pointer, table, jumps 1, ended"},
		{"c.jr x15", 0x8782, true, "tail 0x5e3, pointer, ended"},
		{"c.jalr x11", 0x9582, true, "pointer, indirect, scratch?"},
		{"c.jalr x15", 0x9782, true, "call 0x5e3, pointer, scratch?"},
		{"c.li x15,30", 0x47f9, true, "r15=30"},
		{"c.mv x15,x13", 0x87b6, true, "r15=1307"},
		{"c.mv x15,x11", 0x87ae, true, "r15?"},
		{"c.mv x2,x9", 0x8126, true, "dynamic"},
		{"c.mv x2,x15", 0x813e, true, ""},
		{"c.mv x15,x9", 0x87a6, true, "r15=907, below r15 true"},
		{"c.mv x9,x2", 0x848a, true, "r9?, below r9 false"},
		{"c.add x15,x13", 0x97b6, true, "r15?"},
		{"c.add x15,x1", 0x9786, true, "r15?"},
		{"c.add x2,x15", 0x913e, true, ""},
		{"c.add x2,x11", 0x912e, true, "dynamic"},
		{"c.sw x15,4(x13)", 0xc2dc, true, ""},
		{"c.swsp x15,4(x2)", 0xc23e, true, ""},
		{"c.ebreak", 0x9002, true, ""},
		{"c.addi x0,0", 0x1, true, ""},
		{"c.j .+0x40", 0xa081, true, "to 0x1042, ended"},
		{"c.j .-0x800", 0xb001, true, "tail 0x802, ended"},
		{"c.j .+0x7fe", 0xaffd, true, "to 0x1800, ended"},
		{"c.jal .+0x40", 0x2081, true, "call 0x1042, scratch?"},
		{"c.jal .-0x800", 0x3001, true, "call 0x802, scratch?"},
		{"c.jal .+0x554", 0x2b91, true, "call 0x1556, scratch?"},
		{"c.beqz x11,.+0x20", 0xc185, true, "to 0x1022"},
		{"c.bnez x11,.-0x100", 0xf181, true, "tail 0xf02"},
		{"c.bnez x11,.+0xfe", 0xedfd, true, "to 0x1100"},
		{"c.bnez x15,.+0xaa", 0xe7cd, true, "to 0x10ac"},
		{"c.ld x9,16(x15)", 0x6b84, false, "r9=4569, below r9 false"},
		{"c.ld x9,240(x15)", 0x7be4, false, "r9=5241, below r9 false"},
		{"c.ld x9,120(x15)", 0x7fa4, false, "r9=4881, below r9 false"},
		{"c.ld x15,8(x11)", 0x659c, false, "r15?"},
		{"c.ldsp x15,8(x2)", 0x67a2, false, "r15?"},
		{"c.addiw x15,31", 0x27fd, false, "ref 0x602, r15=1538"},
		{"c.addiw x9,-1", 0x34fd, false, "ref 0x38a, r9=906"},
		{"c.addw x15,x9", 0x9fa5, false, "r15?"},
		{"add x2,x2,x10", 0xa10133, false, ""},
		{"add x2,x10,x2", 0x250133, false, ""},
		{"add x2,x2,x11", 0xb10133, false, "dynamic"},
		{"add x15,x14,x17", 0x11707b3, false, "r15?"},
		{"sub x2,x2,x10", 0x40a10133, false, "frame 1007"},
		{"sub x2,x2,x11", 0x40b10133, false, "dynamic"},
		{"sub x15,x2,x11", 0x40b107b3, false, "below r15 true"},
		{"sub x15,x2,x10", 0x40a107b3, false, ""},
		{"sub x15,x14,x17", 0x411707b3, false, "r15?"},
		{"addi x2,x2,-2047", 0x80110113, false, "frame 2047"},
		{"addi x2,x2,-16", 0xff010113, false, "frame 16"},
		{"addi x2,x2,2047", 0x7ff10113, false, ""},
		{"addi x2,x9,0", 0x48113, false, "dynamic"},
		{"addi x2,x10,0", 0x50113, false, ""},
		{"addi x15,x10,2047", 0x7ff50793, false, "ref 0xbee, r15=3054"},
		{"addi x15,x0,-1", 0xfff00793, false, "r15=-1"},
		{"addi x15,x11,-1", 0xfff58793, false, "r15?"},
		{"addi x15,x2,4", 0x410793, false, "r15?"},
		{"addi x9,x2,16", 0x1010493, false, "r9?, below r9 false"},
		{"addi x15,x9,0", 0x48793, false, "ref 0x38b, r15=907"},
		{"addi x15,x8,-2048", 0x80040793, false, "ref 0xfffffffffffffb27, r15=-1241"},
		{"addiw x15,x10,15", 0xf5079b, false, "ref 0x3fe, r15=1022"},
		{"addiw x15,x15,15", 0x00f7879b, false, "ref 0x5f2, r15=1522"},
		{"slliw x15,x10,0xf", 0xf5179b, false, "r15?"},
		{"andi x2,x2,-64", 0xfc017113, false, "frame 63"},
		{"andi x2,x10,-16", 0xff057113, false, "frame 15"},
		{"andi x15,x2,-64", 0xfc017793, false, "r15?"},
		{"andi x2,x10,63", 0x3f57113, false, ""},
		{"slli x15,x10,0x1", 0x151793, false, "r15?"},
		{"xor x15,x10,x13", 0xd547b3, false, "r15?"},
		{"mul x9,x10,x13", 0x02d504b3, false, "r9?, below r9 false"},
		{"mul x15,x10,x13", 0x2d507b3, false, "r15?"},
		{"lui x15,0x80001", 0x800017b7, false, "r15=-2147479552"},
		{"lui x9,0x1", 0x14b7, false, "r9=4096"},
		{"auipc x15,0x80001", 0x80001797, false, "r15=-2147475454, auipc r15"},
		{"auipc x5,0x1", 0x1297, false, "r5=8194, auipc r5"},
		{"jalr x0,0(x1)", 0x8067, false, "ended"},
		{"jalr x0,0(x5)", 0x28067, false, "ended"},
		{"jalr x0,1(x1)", 0x108067, false, "tail 0x6c, pointer, ended"},
		{"jalr x0,4(x10)", 0x450067, false, "tail 0x3f3, pointer, ended"},
		{"jalr x0,4(x11)", 0x458067, false, "pointer, table, jumps 1, ended"},
		{"jalr x1,4(x10)", 0x4500e7, false, "call 0x3f3, pointer, scratch?"},
		{"jalr x1,4(x11)", 0x4580e7, false, "pointer, indirect, scratch?"},
		{"jalr x1,4(x5)", 0x4280e7, false, "call 0x1ff, pointer, scratch?"},
		{"jalr x1,4(x0)", 0x4000e7, false, "pointer, indirect, scratch?"},
		{"lw x15,1(x10)", 0x152783, false, "r15=3024"},
		{"lw x15,1(x15)", 0x0017a783, false, "r15=4524"},
		{"lw x15,-5(x10)", 0xffb52783, false, "r15=3006"},
		{"ld x15,1(x10)", 0x153783, false, "r15=3024"},
		{"ld x9,1(x10)", 0x153483, false, "r9=3024, below r9 false"},
		{"lw x15,3(x12)", 0x00362783, false, "r15=6442463241"},
		{"ld x15,3(x12)", 0x00363783, false, "r15=-6442438647"},
		{"lb x15,1(x10)", 0x150783, false, "r15?"},
		{"lw x15,1(x0)", 0x102783, false, "r15?"},
		{"lw x15,1(x11)", 0x15a783, false, "r15?"},
		{"sw x15,1(x10)", 0xf520a3, false, ""},
		{"sd x15,1(x10)", 0xf530a3, false, ""},
		{"flw f15,1(x10)", 0x152787, false, "floats, r15?"},
		{"fld f15,1(x10)", 0x153787, false, "floats, r15?"},
		{"fsw f15,1(x10)", 0xf520a7, false, "floats"},
		{"fadd.s f15,f10,f12", 0xc577d3, false, "r15?"},
		{"fcvt.w.s x15,f10", 0xc00577d3, false, "r15?"},
		{"csrrs x15,mstatus,x0", 0x300027f3, false, "r15?"},
		{"amoadd.w x15,x10,(x13)", 0xa6a7af, false, "r15?"},
		{"fence iorw,iorw", 0xff0000f, false, ""},
		{"ecall", 0x73, false, ""},
		{"beq x11,x10,.+0x20", 0x2a58063, false, "to 0x1022"},
		{"bge x11,x10,.-0x20", 0xfea5d0e3, false, "tail 0xfe2"},
		{"bltu x11,x10,.+0xffe", 0x7ea5efe3, false, "to 0x2000"},
		{"bgeu x11,x10,.+0xaaa", 0x2aa5f5e3, false, "to 0x1aac"},
		{"jal x0,.+0x40", 0x400006f, false, "to 0x1042, ended"},
		{"jal x0,.+0x1ffe", 0x7ff0106f, false, "tail 0x3000, ended"},
		{"jal x1,.+0x40", 0x40000ef, false, "call 0x1042, scratch?"},
		{"jal x11,.-0x40", 0xfc1ff5ef, false, "call 0xfc2, scratch?"},
		{"jal x1,.+0xffffe", 0x7ffff0ef, false, "call 0x101000, scratch?"},
		{"jal x1,.+0xaaaaa", 0x2abaa0ef, false, "call 0xabaac, scratch?"},
		{"jal x1,.+0x55554", 0x554550ef, false, "call 0x56556, scratch?"},
	} {
		if got := riscvEffect(c.narrow, c.code); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
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
