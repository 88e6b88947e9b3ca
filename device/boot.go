// This file diagnoses a board that was just flashed and does not respond.

package device

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/faultimage"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A BootError reports firmware that was flashed and verified but does not respond.
type BootError struct {
	Board string
	Fault *fault.Error // its fault record, read through the probe; nil: none
	State *CoreState   // state of the core; nil: the probe could not read it
	Err   error        // the link's error
}

// A CoreState is the state of a core that was halted without a reset.
type CoreState struct {
	PC, LR, SP uint32
	Frames     []fault.Frame // functions at PC; inlined ones come first
	Exception  int           // number of the exception that is being handled; 0: none
	ResetCause string        // cause of the last reset, as recorded by the firmware; "" if it did not get that far
}

func (e *BootError) Error() string {
	text := fmt.Sprintf("board %s was flashed and verified, but the new firmware does not respond", e.Board)
	if e.Fault != nil {
		text += "; its fault record: " + e.Fault.Error()
	}
	if e.State != nil {
		text += "; " + e.State.String()
	}
	return text + fmt.Sprintf(" (%v)", e.Err)
}

func (s *CoreState) String() string {
	text := fmt.Sprintf("its core is at 0x%08x", s.PC)
	for i, f := range s.Frames {
		if i == 0 {
			text += fmt.Sprintf(", in %v", f)
		} else {
			text += fmt.Sprintf(", part of %v", f)
		}
	}
	if s.Exception != 0 {
		text += fmt.Sprintf(", in exception %d", s.Exception)
	}
	if s.ResetCause == "" {
		return text + ", before it read its reset cause"
	}
	return text + ", last reset by " + s.ResetCause
}

// Unwrap returns the link's error and, if there is one, the fault.
func (e *BootError) Unwrap() []error {
	if e.Fault == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Fault}
}

// FailureClass returns failure.Boot.
func (e *BootError) FailureClass() failure.Class { return failure.Boot }

// NextStep returns what to check next.
func (e *BootError) NextStep() string {
	if e.Fault != nil {
		return e.Fault.NextStep()
	}
	return failure.Target("debug") + " halts it after its reset; or check the link: UART, pins and baud rate"
}

// bootError returns a *BootError with the link's error and the core's state. It returns err unchanged if the link
// is missing or the firmware responds with an error.
func (d *Device) bootError(ctx context.Context, i *image.Image, err error) error {
	var wrong *WrongImageError
	if ctx.Err() != nil || !isUnresponsive(err) || failure.Of(err) == failure.ProbeMissing || errors.As(err, &wrong) {
		return err
	}
	boot := &BootError{Board: d.board.Name, Fault: d.startFault(err, i), Err: err}
	probe, ok := d.attachment.Programmer.(inspector)
	if !ok {
		return boot
	}
	if err := boot.inspect(ctx, probe, d, i); err != nil {
		d.desk.log().Warn("the board's state could not be read", "error", err)
	}
	return boot
}

// Memory that is read besides the registers: the number of the handled exception (Armv7-M ARM, ICSR.VECTACTIVE)
// and, at the image's landmarks, the memory that is kept over a reset and the reset cause that the port recorded.
const (
	icsr          = 0xE000ED04
	vectActive    = 0x1FF
	resetCauseSet = 0x80
)

// inspect reads the core's state and the fault record through the probe.
func (e *BootError) inspect(ctx context.Context, probe inspector, d *Device, i *image.Image) error {
	file, err := i.ELF()
	if err != nil {
		return err
	}
	p, err := faultimage.Read(file, i.Landmarks)
	if err != nil {
		return err
	}
	var ranges []flasher.Range
	var decoders []func(data []byte) // of each range
	add := func(addr, size uint64, decode func([]byte)) {
		ranges, decoders = append(ranges, flasher.Range{Addr: addr, Size: size}), append(decoders, decode)
	}
	add(icsr, 4, func(b []byte) { e.State.Exception = int(binary.LittleEndian.Uint32(b) & vectActive) })
	if r, ok := i.Landmarks.Kept.Find(file); ok && r.Size() > 0 {
		add(r.Start, r.Size(), func(b []byte) { e.Fault = cmp.Or(d.findFault(b, i), e.Fault) })
	}
	if r, ok := i.Landmarks.ResetCause.Find(file); ok {
		add(r.Start, 4, func(b []byte) { e.State.ResetCause = resetCause(binary.LittleEndian.Uint32(b)) })
	}
	core, got, err := probe.Inspect(ctx, ranges)
	if err != nil {
		return err
	}
	e.State = &CoreState{PC: core.PC, LR: core.LR, SP: core.SP}
	if p.IsCode(uint64(core.PC)) {
		e.State.Frames = p.FramesAt(uint64(core.PC))
	}
	for n, decode := range decoders {
		decode(got[n].Data)
	}
	return nil
}

// resetCause describes the port's record of the reset cause; "" before the port has set it.
func resetCause(v uint32) string {
	var list []string
	for n, cause := range []string{"power", "pin", "software", "watchdog", "lockup or fault", "low power or other"} {
		if v&(1<<n) != 0 {
			list = append(list, cause)
		}
	}
	switch {
	case v&resetCauseSet == 0:
		return ""
	case len(list) == 0:
		return "an unknown cause"
	}
	return strings.Join(list, ", ")
}

// findFault finds the fault record of exactly this image in memory that is kept over a reset, or returns nil.
func (d *Device) findFault(memory []byte, i *image.Image) *fault.Error {
	const lengthOffset, minBytes, align = 6, 8, 4
	for ; len(memory) >= minBytes; memory = memory[align:] {
		n := int(binary.LittleEndian.Uint16(memory[lengthOffset:]))
		if n > len(memory) {
			continue
		}
		rec, err := fault.ParseRecord(memory[:n])
		if err == nil && rec.Build == [8]byte(i.BuildID[:8]) {
			return &fault.Error{Record: rec, Explanation: d.explain(i)(rec, "")}
		}
	}
	return nil
}
