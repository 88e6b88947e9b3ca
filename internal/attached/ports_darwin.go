//go:build darwin && !cgo

// This file lists serial ports on macOS, which reports USB devices only through a C library that is not linked.

package attached

import (
	"go.bug.st/serial"

	"github.com/boardsmith/boardsmith/failure"
)

// systemPorts lists the attached serial ports, by name only.
func systemPorts() ([]Port, error) {
	names, err := serial.GetPortsList()
	if err != nil {
		return nil, failure.Errorf(failure.ProbeMissing, "serial ports: %w", err)
	}
	var ports []Port
	for _, n := range names {
		ports = append(ports, Port{Name: n})
	}
	return ports, nil
}
