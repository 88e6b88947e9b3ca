package project

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/project/internal/generator"
)

// An mpuModel is a memory protection unit as a port has set it up.
type mpuModel struct {
	v8      bool
	control uint32
	regions []mpuRegion
}

type mpuRegion struct{ base, attributes uint32 }

// buildMPU compiles the board's file for the unit, unchanged, for this computer, with a program that prints what it
// writes. The window for uploaded code, if the options have one, lies at the address. It returns the program, or the
// compiler's messages.
func buildMPU(t *testing.T, b *boards.Board, o boards.Options, window uint64) (program, messages string) {
	t.Helper()
	dir := t.TempDir()
	settled, err := b.Settle(o)
	must(t, err)
	writeFile(t, filepath.Join(dir, "crt_config.h"), string(generator.ConfigHeader(b, settled)))
	source := "../templates/baremetal/" + mpuV7
	if isV8(b) {
		source = "../templates/baremetal/" + mpuV8
	}
	testkit.NoteFiles(t, source, "../templates/baremetal/port/cpu/cortexm/mpu.h", "testdata/mpu/*")
	stack, _ := b.Region(b.Place.StackRegion())
	program = filepath.Join(dir, "mpu")
	args := []string{
		"-std=gnu11", "-O1", "-no-pie", "-Wall", "-Wextra", "-Wconversion", "-Wundef", "-Werror", "-fsanitize=undefined",
		"-fno-sanitize-recover=all",
		"-I" + dir, "-I../templates/baremetal/port", "-I../templates/firmware", "-I../crt/include", "-Itestdata/mpu",
		"-include", "mpu.h",
		fmt.Sprintf("-Wl,--defsym=bare_guard_start=%#x,--defsym=bare_handler_guard_start=%#x,--defsym=bare_upload_start=%#x",
			uint64(stack.Origin), uint64(stack.Origin)+0x1000, window),
		"-o", program, "testdata/mpu/mpu.c", source,
	}
	if b.ELF.Arch == "v6-m" {
		args = append(args, "-D__ARM_ARCH_6M__=1")
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Sprintf("cc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return program, ""
}

func isV8(b *boards.Board) bool {
	return slices.ContainsFunc(b.Sources, func(s boards.Source) bool { return s.Name == mpuV8 })
}

// mpuOf runs the program of buildMPU. The window is opened (1) and closed (0) in the order of turns.
func mpuOf(t *testing.T, b *boards.Board, o boards.Options, window uint64, turns ...string) mpuModel {
	t.Helper()
	program, messages := buildMPU(t, b, o, window)
	if messages != "" {
		t.Fatal(messages)
	}
	m := mpuModel{v8: isV8(b)}
	out, err := exec.Command(program, turns...).Output()
	must(t, err)
	m.regions = make([]mpuRegion, 16)
	for line := range strings.Lines(string(out)) {
		var n int
		var r mpuRegion
		if _, err := fmt.Sscanf(line, "%d %x %x", &n, &r.base, &r.attributes); err == nil {
			m.regions[n] = r
		} else {
			_, _ = fmt.Sscanf(line, "control %x", &m.control)
		}
	}
	return m
}

// An mpuAccess is what privileged code does.
type mpuAccess int

const (
	reads mpuAccess = iota
	writes
	executes
)

// at returns the regions that have an address, the one of the highest priority first. Sources: those of the port's
// files.
func (m mpuModel) at(addr uint32) (all []mpuRegion) {
	for _, r := range slices.Backward(m.regions) {
		log2 := r.attributes>>1&31 + 1
		part := uint64(addr) % (1 << log2) >> (log2 - 3)
		has := uint64(addr)>>log2 == uint64(r.base)>>log2 && r.attributes>>8>>part&1 == 0
		if m.v8 {
			has = addr >= r.base&^31 && addr <= r.attributes|31
		}
		if has && r.attributes&1 == 1 {
			all = append(all, r)
		}
	}
	return all
}

// allows reports whether an access does not fault.
func (m mpuModel) allows(a mpuAccess, addr uint32) bool {
	all := m.at(addr)
	if len(all) == 0 {
		return a != executes || addr < 0x40000000 || addr>>29 == 3 || addr>>29 == 4
	}
	r := all[0]
	if m.v8 {
		return len(all) == 1 && [...]bool{reads: true, writes: r.base>>2&1 == 0, executes: r.base&1 == 0}[a]
	}
	ap, xn := r.attributes>>24&7, r.attributes>>28&1 == 1
	return [...]bool{reads: ap != 0, writes: ap >= 1 && ap <= 3, executes: ap != 0 && !xn}[a]
}

// TestMemoryProtection checks the accesses that each board's unit allows.
func TestMemoryProtection(t *testing.T) {
	t.Parallel()
	need(t, "cc")
	table := nullTable(t)
	for _, b := range bareBoards(t) {
		if !isProtected(b) {
			if b.Link.Kind == "serial" {
				t.Errorf("no test tries a null pointer on %s", b.Name)
			}
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			m := mpuOf(t, b, boards.Options{}, 0)
			if m.control != 5 {
				t.Errorf("the unit's control register is %#x", m.control)
			}
			for _, null := range []uint32{0, 255} {
				m.want(t, null, !table[b.Name].read, !table[b.Name].write, b.Place.Code != "" && regionAt(b, 0) == b.Place.Code)
			}
			for _, r := range b.Memory {
				first, last := uint32(r.Origin), uint32(r.Origin+r.Size-1)
				if r.Name == b.Place.StackRegion() {
					first += 0x2000 // beyond the guards
				}
				if first < 256 {
					first = 256
				}
				for _, at := range []uint32{first, last} {
					m.want(t, at, true, r.Name != b.Place.Code, r.Name == b.Place.Code)
				}
			}
			if stack, _ := b.Region(b.Place.StackRegion()); b.Defines["BARE_GUARD_BYTES"] != "" {
				m.want(t, uint32(stack.Origin), false, false, false)
				m.want(t, uint32(stack.Origin)+0x10FF, false, false, false)
				m.want(t, uint32(stack.Origin)+0x1100, true, true, false)
			}
			for _, at := range []uint32{0x40000000, 0x5FFFFFFF, 0xE000E100} { // peripherals
				m.want(t, at, true, true, false)
			}
			if !m.v8 { // whose cores have a limit register
				m.want(t, 0x1FFFFFF0, true, false, true)
			}
			external := b.Defines["CPU_NO_EXTERNAL_MEMORY"] == ""
			m.want(t, 0x9FFFFFF0, external, external, false)
		})
	}
}

// TestUploadWindow checks the accesses that each board's unit allows to the window for uploaded code, closed and open,
// and around it.
func TestUploadWindow(t *testing.T) {
	t.Parallel()
	need(t, "cc")
	for _, b := range drawn.Of(t, "window", bareBoards(t), 2) {
		o := boards.Options{UploadKiB: 4, ArenaKiB: 4}
		r, _ := b.Region(b.Place.UploadRegion())
		if _, err := b.Settle(o); !isProtected(b) || err != nil {
			t.Logf("without %s: no unit, or no room: %v", b.Name, err)
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			const bytes = 4096
			start := (uint64(r.Origin) + uint64(r.Size)/2) &^ (bytes - 1)
			for _, c := range []struct {
				turns []string
				opens bool
			}{{nil, false}, {[]string{"1"}, true}, {[]string{"1", "0"}, false}} {
				m := mpuOf(t, b, o, start, c.turns...)
				for _, at := range []uint64{start, start + bytes - 4} {
					m.want(t, uint32(at), true, true, c.opens)
				}
				for _, at := range []uint64{start - 4, start + bytes} {
					if at < uint64(r.Origin+r.Size) {
						m.want(t, uint32(at), true, true, r.Name == b.Place.Code)
					}
				}
			}
		})
	}
}

func (m mpuModel) want(t *testing.T, at uint32, read, write, execute bool) {
	t.Helper()
	if m.allows(reads, at) != read || m.allows(writes, at) != write || m.allows(executes, at) != execute {
		t.Errorf("%#x: reading %v, writing %v, executing %v; want %v, %v, %v\n%x", at,
			m.allows(reads, at), m.allows(writes, at), m.allows(executes, at), read, write, execute, m.regions)
	}
}

// regionAt is the name of the memory that has an address, "" if none has.
func regionAt(b *boards.Board, addr uint64) string {
	for _, r := range b.Memory {
		if addr-uint64(r.Origin) < uint64(r.Size) {
			return r.Name
		}
	}
	return ""
}
