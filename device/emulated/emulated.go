// Package emulated provides debug probes in software, with microcontrollers emulated by QEMU, for the boards
// microbit and netduinoplus2. A program that passes them to its desk,
//
//	desk := device.Desk{Probes: emulated.Probes()}
//
// flashes, runs and debugs these boards as it does boards with a real probe. Other boards do not need this package.
package emulated

import (
	"context"
	"io"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// Probes returns the emulated probes. Each running chip belongs to a process of the program boardsmith-keeper,
// which ends a minute after its last client. Desk.Tool finds the program; if it is nil or returns "", it is found by
// $BOARDSMITH_KEEPER, beside the running executable or on PATH. Without it Attach returns a
// *failure.MissingToolError.
func Probes() device.Probes { return probes{} }

// Keep is the main function of the program boardsmith-keeper: it keeps the chip that the arguments name, without the
// program's name, until there has been no client for some time. Only Probes chooses arguments.
func Keep(args []string) error { return virtualprobe.Keep(args) }

type probes struct{}

// Start implements device.Probes.
func (probes) Start(ctx context.Context, folder, model string,
	find func(program string) (path string, err error),
) (device.EmulatedState, error) {
	if ctx.Err() != nil {
		return device.EmulatedState{}, failure.Stopped(ctx, "start of the emulated chip")
	}

	keeper := func() (string, error) { return chipkeeper.Find("") }
	if find != nil {
		keeper = func() (string, error) {
			if path, err := find(chipkeeper.Program); path != "" || err != nil {
				return path, err
			}
			return chipkeeper.Find("")
		}
	}

	up, err := chipkeeper.Up(ctx, keeper, folder, model, chipkeeper.Stays)
	return stateOf(up, err)
}

// Hold implements device.Probes.
func (probes) Hold(ctx context.Context, folder string) (io.Closer, error) {
	return chipkeeper.Hold(ctx, folder)
}

// State implements device.Probes.
func (probes) State(ctx context.Context, folder string) (device.EmulatedState, error) {
	if ctx.Err() != nil {
		return device.EmulatedState{}, failure.Stopped(ctx, "status of the emulated chip")
	}

	status, err := chipkeeper.Ask(ctx, folder, chipkeeper.Request{Do: "status"})
	if err == nil {
		return stateOf(status, nil)
	}

	// The serial follows from the folder: it is known although the chip does not run.
	silent := device.EmulatedState{Probe: chipkeeper.SerialOf(folder)}
	if ctx.Err() != nil {
		return silent, failure.Stopped(ctx, "status of the emulated chip")
	}
	return silent, nil
}

// Erase implements device.Probes.
func (probes) Erase(ctx context.Context, folder string) (device.EmulatedState, error) {
	return stateOf(chipkeeper.Ask(ctx, folder, chipkeeper.Request{Do: "erase"}))
}

// Swap implements device.Probes.
func (probes) Swap(ctx context.Context, folder string) (device.EmulatedState, error) {
	return stateOf(chipkeeper.Ask(ctx, folder, chipkeeper.Request{Do: "swap"}))
}

// Stop implements device.Probes.
func (probes) Stop(ctx context.Context, folder string) error { return chipkeeper.Down(ctx, folder) }

// stateOf returns the state in a keeper's answer.
func stateOf(a chipkeeper.Answer, err error) (device.EmulatedState, error) {
	if err != nil {
		return device.EmulatedState{}, err
	}

	return device.EmulatedState{
		Running: true, Probe: a.State.Serial, Port: a.Address.UART, Chip: a.State.Chip, Erases: a.State.Erases,
		Server: flasher.Emulated{Bitbang: a.Address.Bitbang, Remote: a.Address.Remote},
	}, nil
}
