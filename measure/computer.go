// This file names this computer, on which the times of its processes depend.

package measure

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// computer returns the system, the processors and a digest of the name of this computer.
func computer() string {
	name, _ := os.Hostname() // "": all computers without a name are one
	sum := sha256.Sum256([]byte(name))
	text := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if processor := processorName(); processor != "" {
		text += " " + processor
	}
	return fmt.Sprintf("%s, %x", text, sum[:4])
}

// processorName returns the name that Linux has for the processor; "" elsewhere.
func processorName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
