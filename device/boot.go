// This file diagnoses a board that was just flashed and does not respond.

package device

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/device/internal/faultimage"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A coreState is the state of a core that was halted without a reset.
type coreState struct {
	pc         uint32
	frames     []fault.Frame // functions at pc; inlined ones come first
	exception  int           // number of the exception that is being handled; 0: none
	resetCause string        // cause of the last reset, as recorded by the firmware; "" if it did not get that far
}

func (s *coreState) String() string {
	text := fmt.Sprintf("its core is at 0x%08x", s.pc)
	for i, f := range s.frames {
		if i == 0 {
			text += fmt.Sprintf(", in %v", f)
		} else {
			text += fmt.Sprintf(", part of %v", f)
		}
	}

	if s.exception != 0 {
		text += fmt.Sprintf(", in exception %d", s.exception)
	}

	if s.resetCause == "" {
		return text + ", before it read its reset cause"
	}
	return text + ", last reset by " + s.resetCause
}

// bootError returns the error, of class boot, of firmware that was flashed and verified but does not respond, with its
// fault and the core's state as far as the probe reads them. It returns err unchanged if the link is missing or the
// firmware responds with an error.
func (d *Device) bootError(ctx context.Context, i *image.Image, err error) error {
	if ctx.Err() != nil || !isUnresponsive(err) || failure.Of(err) == failure.ProbeMissing {
		return err
	}

	recorded := d.startFault(err, i)
	var state *coreState
	if probe, ok := d.attachment.Programmer.(inspector); ok {
		read, kept, err := d.inspect(ctx, probe, i)
		if err != nil {
			d.desk.log().Warn("the board's state could not be read", "error", err)
		}
		state, recorded = read, cmp.Or(kept, recorded)
	}

	what := fmt.Errorf("board %s was flashed and verified, but the new firmware does not respond", d.board.Name)
	next := nextstep.Target("debug") + " halts it after its reset; or check the link: UART, pins and baud rate"
	if recorded != nil {
		what, next = fmt.Errorf("%w; its fault record: %w", what, recorded), "" // the fault's own
	}
	if state != nil {
		what = fmt.Errorf("%w; %v", what, state)
	}
	return failure.New(failure.Boot, next, "%w (%w)", what, err)
}

// Memory that is read besides the registers: the number of the handled exception (Armv7-M ARM, ICSR.VECTACTIVE)
// and, at the image's landmarks, the memory that is kept over a reset and the reset cause that the port recorded.
const (
	icsr          = 0xE000ED04
	vectActive    = 0x1FF
	resetCauseSet = 0x80
)

// inspect reads the core's state and, if there is one, the fault record through the probe.
func (d *Device) inspect(
	ctx context.Context, probe inspector, i *image.Image,
) (state *coreState, kept *fault.Error, err error) {
	file, err := i.ELF()
	if err != nil {
		return nil, nil, err
	}
	p, err := faultimage.Read(file, i.Landmarks)
	if err != nil {
		return nil, nil, err
	}

	state = new(coreState)
	var ranges []flasher.Range
	var decoders []func(data []byte) // of each range
	add := func(addr, size uint64, decode func([]byte)) {
		ranges, decoders = append(ranges, flasher.Range{Addr: addr, Size: size}), append(decoders, decode)
	}
	add(icsr, 4, func(b []byte) { state.exception = int(binary.LittleEndian.Uint32(b) & vectActive) })
	if r, ok := i.Landmarks.Kept.Find(file); ok && r.Size() > 0 {
		add(r.Start, r.Size(), func(b []byte) { kept = d.findFault(b, i) })
	}
	if r, ok := i.Landmarks.ResetCause.Find(file); ok {
		add(r.Start, 4, func(b []byte) { state.resetCause = resetCause(binary.LittleEndian.Uint32(b)) })
	}

	pc, got, err := probe.Inspect(ctx, ranges)
	if err != nil {
		return nil, nil, err
	}

	state.pc = pc
	if p.IsCode(uint64(pc)) {
		state.frames = p.FramesAt(uint64(pc))
	}

	for n, decode := range decoders {
		decode(got[n].Data)
	}
	return state, kept, nil
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
		// No record begins here, or it is cut off.
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
