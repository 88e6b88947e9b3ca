// This file is the nRF51822 of the machine microbit: QEMU emulates its flash controller (nRF51 reference manual v3.0.1,
// chapter 6), but some words of its factory information are not where they belong.

package virtualprobe

// NRF51 is the chip of the machine microbit.
var NRF51 = Model{
	Name: "nrf51", Program: "qemu-system-arm", Args: []string{"-M", "microbit"},
	dpID: 0x0BB11477, jtagID: 0x0BB11477, apID: 0x04770021, apBlock: 1 << 10,
	flash: span{0, 256 << 10},
	wrap:  newNRF51,
}

const (
	nrfConfig   = 0x4001E504
	nrfErasePg  = 0x4001E508
	nrfEraseAll = 0x4001E50C
	nrfPage     = 1024
)

type nrf51 struct {
	*machine
	kept    []byte // flash from before it was powered
	started bool
}

func newNRF51(m *machine, flash []byte) chipModel { return &nrf51{machine: m, kept: flash} }

// factory overrides what QEMU misplaces (nRF51 reference manual §7: CODEPAGESIZE, CODESIZE, CLENR0, NUMRAMBLOCK, ...).
var factory = map[uint32]uint32{
	0x10000028: 0xFFFFFFFF, 0x1000002C: 0xFFFFFFFF, 0x10000034: 1, 0x10000038: 0x4000, 0x1000005C: 0x1D,
}

func (n *nrf51) Read(addr uint32, width int) (uint32, error) {
	if v, ok := factory[addr&^3]; ok {
		return v >> (8 * (addr & 3)) & (1<<(8*width) - 1), nil
	}
	return n.machine.Read(addr, width)
}

func (n *nrf51) plain(addr uint32) bool {
	return addr < 256<<10 || addr-0x20000000 < 16<<10
}

func (n *nrf51) runnable(addr uint32) bool { return n.plain(addr) }

func (n *nrf51) beforeRun() error { return nil } // its flash is the emulator's

// afterReset gives the flash its content when the chip is powered; it survives resets by itself.
func (n *nrf51) afterReset() error {
	if n.started {
		return nil
	}
	n.started = true
	words := make([]uint32, len(n.kept)/4)
	for i := range words {
		b := n.kept[4*i:]
		words[i] = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	}
	n.kept = nil
	return n.program(words)
}

// program erases all and writes words from address 0 on, through the controller.
func (n *nrf51) program(words []uint32) error {
	for _, w := range []struct{ addr, v uint32 }{{nrfConfig, 2}, {nrfEraseAll, 1}, {nrfConfig, 1}} {
		if err := n.Write(w.addr, 4, w.v); err != nil {
			return err
		}
	}
	for i, v := range words {
		if v != 0xFFFFFFFF {
			if err := n.Write(uint32(4*i), 4, v); err != nil {
				return err
			}
		}
	}
	return n.Write(nrfConfig, 4, 0)
}
