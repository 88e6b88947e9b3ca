package transport

import (
	"errors"

	"go.bug.st/serial"
)

// openPort opens a port and drops the bytes that it received before. No other program can have it open.
func openPort(name string, baud int) (driver, error) {
	port, err := serial.Open(name, &serial.Mode{BaudRate: baud})
	if err != nil {
		return nil, err
	}

	if err := port.ResetInputBuffer(); err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return port, nil
}

// programsWith returns nothing: the system refuses to open a port twice.
func programsWith(string) []string { return nil }
