//go:build !darwin || cgo

// This file lists serial ports and the USB devices that they belong to.

package attached

import (
	"strings"

	"go.bug.st/serial/enumerator"

	"github.com/boardsmith/boardsmith/failure"
)

// systemPorts lists the attached serial ports. A probe and its board's UART are one USB device, and have one serial.
func systemPorts() ([]Port, error) {
	list, err := enumerator.GetDetailedPortsList()
	if err != nil {
		return nil, failure.Errorf(failure.ProbeMissing, "serial ports: %w", err)
	}
	var ports []Port
	for _, p := range list {
		info := Port{Name: p.Name, Serial: p.SerialNumber, Product: p.Product}
		info.Path, info.Interface = usbLocation(p.Name)
		if p.IsUSB {
			info.USB = strings.ToLower(p.VID + ":" + p.PID)
		}
		ports = append(ports, info)
	}
	return ports, nil
}
