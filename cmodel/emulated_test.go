package cmodel_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// A machine is an emulated core with a compiler whose C library writes to standard output by semihosting.
type machine struct {
	name, compiler string
	flags          []string
	sources        []string // in testdata
	qemu           []string
}

var machines = []machine{
	{
		name: "mps2_an385", compiler: "arm-none-eabi-gcc",
		flags: []string{"-mcpu=cortex-m3", "-mthumb", "--specs=rdimon.specs", "-Ttestdata/emulated.ld"},

		sources: []string{"testdata/emulated.c"}, qemu: []string{"qemu-system-arm", "-machine", "mps2-an385"},
	},
	{
		name: "qemu_riscv32", compiler: "riscv64-unknown-elf-gcc",
		flags: []string{
			"-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs", "--oslib=semihost", "--crt0=hosted",
			"-Wl,--defsym=__flash=0x80000000,--defsym=__flash_size=4M,--defsym=__ram=0x80400000,--defsym=__ram_size=4M",
		},
		qemu: []string{"qemu-system-riscv32", "-machine", "virt", "-bios", "none"},
	},
}

// TestEmulated runs archives through the main.c of TestArchives on emulated cores: one in a plain run, all in a full
// one, each on one machine, and in a run without limit on all machines.
func TestEmulated(t *testing.T) {
	type pair struct {
		archive string
		machine machine
	}
	var pairs []pair
	n := 0
	for _, path := range mlftest.Archives(t) {
		if name := mlftest.Name(path); strings.Contains(name, "_llvm_") || strings.HasSuffix(name, "_dsp") {
			continue
		}
		for i, m := range machines {
			if drawn.InSoak() || i == n%len(machines) {
				pairs = append(pairs, pair{path, m})
			}
		}
		n++
	}
	if !drawn.InFull() {
		pairs = []pair{{mlftest.Path(t, "twoin.aot_packed"), machines[0]}}
	}
	for _, p := range pairs {
		t.Run(mlftest.Name(p.archive)+"/"+p.machine.name, func(t *testing.T) { emulate(t, p.archive, p.machine) })
	}
}

func emulate(t *testing.T, archive string, on machine) {
	testkit.Need(t, on.compiler, on.qemu[0])
	_, m := mlftest.Open(t, archive)
	in, out := mlftest.Arrays(archive)
	dir := unpack(t, generate(t, archive, cmodel.Options{}))
	write(t, dir+"/main.c", userMain(m, mlftest.Read(t, in)))
	sources, err := filepath.Glob(dir + "/src/*.c")
	must(t, err)
	elf := dir + "/program.elf"
	args := slices.Concat(on.flags, []string{
		"-Os", "-std=gnu11", "-w", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections",
		"-I" + dir + "/include", "-o", elf, dir + "/main.c",
	}, sources, on.sources, []string{"-lm"})
	output(t, ".", on.compiler, args...)
	said := output(t, dir, on.qemu[0], slices.Concat(on.qemu[1:], []string{
		"-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native",
		"-kernel", elf,
	})...)
	if out != "" {
		must(t, compare(m, said, mlftest.Read(t, out), 3))
	}
}
