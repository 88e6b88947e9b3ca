// This file defines, for each kind of link, how to reach the firmware.

package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/transport"
)

// A linker implements one kind of link. It has start, open, through, or start and open: a chip emulated by QEMU may or
// may not be behind an emulated probe.
type linker struct {
	start func(context.Context, launch) (transport.Link, error) // runs the image
	// opens the link of a device that keeps its image at its UART's port, or at its address
	open func(ctx context.Context, address string, l boards.Link) (transport.Link, error)
	// opens the link of a device that keeps its image, through its probe, to the firmware that is expected
	through func(ctx context.Context, p flasher.Programmer, e expected, b *boards.Board) (transport.Link, error)
}

// keepsImage reports whether the link is that of a device that keeps its image.
func (l linker) keepsImage() bool { return l.open != nil || l.through != nil }

// A launch is an image to run.
type launch struct {
	link     boards.Link
	emulator string   // path of link.Program; "" of a process
	image    string   // path of the ELF file
	options  []string // further ones of the emulator
	log      hclog.Logger
}

// linkers has each kind that boards.Link lists.
var linkers = map[string]linker{
	"process": {start: startProcess},
	"qemu":    {start: startEmulator, open: openUART},
	"serial":  {open: openUART},
	"tcp":     {open: openTCP},
	"rtt":     {through: openRTT},
}

// startProcess runs the image as a program, with an environment that names the file for its fault record only.
func startProcess(ctx context.Context, s launch) (transport.Link, error) {
	folder, err := scratch.Make("boardsmith-device-")
	if err != nil {
		return nil, regularfile.Error("make a folder for the fault record in", os.TempDir(), err)
	}

	record := filepath.Join(folder.Dir, "fault")
	p, err := transport.StartProcess(ctx, transport.ProcessConfig{
		Path: s.image, Env: []string{"BOARDSMITH_FAULT_FILE=" + record}, Left: record, Log: s.log,
	})
	if err != nil {
		return nil, errors.Join(err, folder.Remove()) // not p: a nil *Process is not a nil Link
	}
	return processLink{p, folder}, nil
}

// startEmulator runs the image in the board's emulator, whose first serial port is the link. The emulator counts
// instructions as time, 16 ns each, and sleeps through real time while the firmware idles.
func startEmulator(ctx context.Context, s launch) (transport.Link, error) {
	p, err := transport.StartProcess(ctx, transport.ProcessConfig{
		Path: s.emulator, Args: emulatorArgs(s.link, s.image, s.options...), Env: command.Environment("/"), Dir: "/",
		StaysOnEOF: true, Log: s.log,
	})
	if err != nil {
		return nil, err // as in startProcess
	}
	return p, nil
}

// openUART opens the serial port of a board, or the terminal of an emulated chip.
func openUART(_ context.Context, port string, l boards.Link) (transport.Link, error) {
	return transport.OpenSerial(port, l.Baud)
}

// openTCP connects to the bridge before a board. What lies between bridge and firmware is a UART, which loses bytes.
func openTCP(ctx context.Context, address string, _ boards.Link) (transport.Link, error) {
	return transport.DialTCP(ctx, transport.TCPConfig{Address: address, Lossy: true})
}

// A processLink is the link to a process, whose fault record is in a file. Closing the link removes the file.
type processLink struct {
	*transport.Process
	folder *scratch.Folder
}

// Close implements transport.Link.
func (l processLink) Close() error {
	return errors.Join(l.Process.Close(), l.folder.Remove())
}
