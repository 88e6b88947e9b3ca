// This file sets the id of a swapped emulated chip. QEMU's nRF51822 has a fixed id in a constant of the program, so the
// constant is changed in the memory of its process.

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

// nrfIdentity returns the words before the id in that constant (CODEPAGESIZE to CONFIGID precede them), and the id of
// chip number n.
func nrfIdentity(n int) []byte {
	prefix := append(bytes.Repeat([]byte{0xFF}, 16), 3, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(prefix, nrfDeviceID+uint64(n))
}

// replaceConstant changes a constant of a running program. The constant must occur exactly once in the mapped parts of
// its file.
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
			continue // this mapping cannot be read
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
