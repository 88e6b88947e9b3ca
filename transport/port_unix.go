//go:build unix

// This file opens serial ports without the waits of the driver: its reads block, and with them its Close, when another
// program takes the bytes that had arrived.

package transport

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"go.bug.st/serial"
	"golang.org/x/sys/unix"
)

// A terminal is a serial port. Reads and writes wait in Go's poller, so that Close ends them.
type terminal struct{ *os.File }

// openPort opens a port and drops the bytes that it received before.
func openPort(name string, baud int) (driver, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	var path *fs.PathError
	if errors.As(err, &path) {
		return nil, path.Err // a serialError has the path
	}

	t := terminal{f}
	if err := configure(name, baud); err != nil {
		return nil, errors.Join(err, f.Close())
	}

	// After configure, whose driver makes the port shared again when it closes it.
	if err := t.control(func(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCEXCL, 0) }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

// configure sets the port's mode, which lasts for as long as a program has it open.
func configure(name string, baud int) error {
	syscall.ForkLock.RLock() // the driver's descriptor would be inherited by a child
	defer syscall.ForkLock.RUnlock()

	port, err := serial.Open(name, &serial.Mode{BaudRate: baud})
	if err != nil {
		return err
	}
	return errors.Join(port.ResetInputBuffer(), port.Close())
}

func (t terminal) control(do func(fd int) error) (err error) {
	raw, failed := t.SyscallConn()
	if failed == nil {
		failed = raw.Control(func(fd uintptr) { err = do(int(fd)) })
	}
	return errors.Join(failed, err)
}

// ResetOutputBuffer implements driver: without it, Close could wait for what a stalled port does not send.
func (t terminal) ResetOutputBuffer() error { return t.control(dropOutput) }
