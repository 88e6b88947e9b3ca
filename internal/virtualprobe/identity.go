// This file gives an emulated chip that was swapped an id of its own. QEMU's nRF51822 has a fixed one, in a constant of
// the program: in the memory of that process it is changed.

package virtualprobe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// nrfDeviceID is DEVICEID in QEMU's factory information (hw/nvram/nrf51_nvm.c).
const nrfDeviceID uint64 = 0x9ABCDEF1_12345678

// nrfIdentity is what comes before the id there (CODEPAGESIZE to CONFIGID are further up), and the id of the nth chip.
func nrfIdentity(n int) []byte {
	before := append(bytes.Repeat([]byte{0xFF}, 16), 3, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(before, nrfDeviceID+uint64(n))
}

// replaceConstant changes a constant of a running program, which must occur once in what was mapped of its file.
func replaceConstant(pid int, program string, old, new []byte) error {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return fmt.Errorf("identity of the emulated chip: %w", err)
	}
	defer maps.Close()
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("identity of the emulated chip: %w", err)
	}
	defer memory.Close()
	var found []int64
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		if !strings.Contains(lines.Text(), program) {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil {
			continue
		}
		text := make([]byte, to-from)
		if _, err := memory.ReadAt(text, from); err != nil {
			continue // of a mapping that cannot be read
		}
		if i := bytes.Index(text, old); i >= 0 {
			found = append(found, from+int64(i))
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("identity of the emulated chip: %d places in %s hold it", len(found), program)
	}
	_, err = memory.WriteAt(new, found[0])
	return err
}
