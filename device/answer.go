// This file queries a device's firmware for its identity, and compares the answer with an image.

package device

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	probeWithin = time.Second     // for running firmware to identify itself
	bootWithin  = 5 * time.Second // for new firmware to begin a session, and again to identify itself: it reads its flash
)

// probeRunning queries the identity of the firmware that runs, which may be any. It returns nil without a valid answer
// in time. next is the image about to replace the firmware, or nil; unless it is the same build, the firmware's fault
// record is logged, which would be lost otherwise. Errors: *LeaseError and class config if the device must not be used;
// transport.ErrSharedPort if another program may have read the answer; those of ctx.
func (d *Device) probeRunning(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	err := d.relocate(ctx)
	if err != nil && !errors.Is(err, desk.ErrMissing) {
		return nil, err
	}

	var answer *flashplan.Answer
	if err == nil {
		// Any firmware may run, so that both protocols are tried.
		if answer, err = d.probeRPC(ctx, next); answer == nil && ctx.Err() == nil {
			d.desk.log().Debug("no answer by RPC", "error", err)
			answer, err = d.probeStandalone(ctx, next)
		}
	}

	switch {
	case ctx.Err() != nil:
		return nil, failure.Stopped(ctx, "ask")
	case err == nil:
		return answer, nil
	case errors.Is(err, transport.ErrSharedPort):
		return nil, failure.Errorf(failure.Transport, "%w", err)
	}
	d.desk.log().Debug("the firmware was not identified", "error", err)
	return nil, nil
}

// probeRPC is probeRunning for firmware with an RPC server, on a device that was just relocated.
func (d *Device) probeRPC(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	t, err := dial(ctx, d.openerOfAny(next), transport.SessionOptions{Log: d.desk.log()})
	if err != nil {
		return nil, err
	}
	defer t.Close()

	// The closure reads answer when PriorFault calls it: by then the build is known.
	var answer *flashplan.Answer
	explain := func(rec *fault.Record, called string) fault.Explanation { return d.explainAnswer(answer, rec, called) }
	s := rpc.New(t, rpc.Options{Log: d.desk.log(), Explain: explain})

	f, err := s.Function(ctx, identityFunction)
	if err != nil {
		return nil, err
	}

	answer, err = queryIdentity(ctx, f)
	if err == nil && next != nil && answer.BuildID != next.BuildID {
		if _, err := s.PriorFault(ctx); err != nil { // PriorFault logs the fault
			d.desk.log().Debug("the fault record was not read", "error", err)
		}
	}
	return answer, err
}

// probeStandalone is probeRPC for standalone firmware, with a limit that covers a slow link. It leaves a fault record
// to OpenStandalone.
func (d *Device) probeStandalone(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	s, answer, err := dialStandalone(ctx, d.openerOfAny(next),
		standalone.Options{Log: d.desk.log(), StartTimeout: probeWithin})
	if err != nil {
		return nil, err
	}
	return answer, s.Close()
}

// openerOfAny opens the link of a device that was just relocated, on which any firmware may run, probably next.
func (d *Device) openerOfAny(next *image.Image) opener {
	return func(ctx context.Context) (transport.Link, error) {
		return d.openRelocated(ctx, d.board.Link, expected{image: next})
	}
}

// explainAnswer explains a fault of the build that answered, if the cache has its image.
func (d *Device) explainAnswer(answer *flashplan.Answer, rec *fault.Record, called string) fault.Explanation {
	if answer == nil {
		return fault.Explanation{}
	}
	i, err := d.imageOf(answer)
	if err != nil {
		d.desk.log().Warn("the fault's place in the program is unknown", "error", err)
		return fault.Explanation{}
	}
	return d.explain(i)(rec, called)
}

// imageOf finds the image of a firmware's answer in the cache: of several with its build id, that of its CRC.
func (d *Device) imageOf(a *flashplan.Answer) (*image.Image, error) {
	return d.desk.images().FindWhich(hex.EncodeToString(a.BuildID[:]), func(i *image.Image) bool {
		parts, err := d.partsOf(i)
		return err == nil && a.Doubt(i.BuildID, parts) == ""
	})
}

// verifyStarted checks that the firmware, which was just started, is the image with these parts. Errors: those of
// verifySession.
func (d *Device) verifyStarted(ctx context.Context, i *image.Image, parts firmware.Parts) (*flashplan.Answer, error) {
	if isStandalone(i) {
		s, answer, err := dialStandalone(ctx, d.openerOf(i), standalone.Options{Log: d.desk.log(), StartTimeout: bootWithin})
		if err != nil {
			return nil, err
		}
		return answer, errors.Join(d.verifyAnswer(answer, i, parts), s.Close())
	}

	t, err := dial(ctx, d.openerOf(i), transport.SessionOptions{Log: d.desk.log(), StartTimeout: bootWithin})
	if err != nil {
		return nil, err
	}

	// A new limit: the checksum of a large flash takes time, too.
	limited, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	answer, err := d.verifySession(limited, rpc.New(t, rpc.Options{Log: d.desk.log()}), i, parts)
	return answer, errors.Join(err, t.Close())
}

// verifySession checks that the firmware of a session is the image with these parts: class verify; those of the
// session.
func (d *Device) verifySession(
	ctx context.Context, s *rpc.Session, i *image.Image, parts firmware.Parts,
) (*flashplan.Answer, error) {
	f, err := s.Function(ctx, identityFunction)
	if errors.Is(err, rpc.ErrNotFound) {
		return nil, wrongImage(d.board.Name, i.ID(), "")
	}
	if err != nil {
		return nil, err
	}

	answer, err := queryIdentity(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.board.Name, err)
	}
	return answer, d.verifyAnswer(answer, i, parts)
}

// verifyAnswer returns an error of class verify unless the answer proves that the device runs the image.
func (d *Device) verifyAnswer(answer *flashplan.Answer, i *image.Image, parts firmware.Parts) error {
	if answer.Doubt(i.BuildID, parts) == "" {
		return nil
	}
	return wrongImage(d.board.Name, i.ID(), hex.EncodeToString(answer.BuildID[:]))
}

// partsOf reads the parts of an image from its file, as they are in this device; nil if its template names none.
func (d *Device) partsOf(i *image.Image) (firmware.Parts, error) {
	if len(d.board.Memory) == 0 {
		return nil, nil // a process: it is not in flash
	}

	fill := byte(0) // of gaps between the parts, in an emulator's memory
	if d.KeepsImage() {
		fill = flashplan.Erased
	}

	file, err := i.ELF()
	if err != nil {
		return nil, err
	}
	return firmware.ReadParts(file, i.Landmarks, i.Path, fill)
}

// verifyChip returns an error if the firmware answers from a chip other than the expected one.
func (d *Device) verifyChip(chip string) error {
	if d.attachment == nil || d.chip == "" || d.chip == chip || d.desk.Reflash {
		return nil
	}
	return desk.WrongBoard(d.board.Name,
		fmt.Sprintf("the firmware answers from chip %s, not %s", cmp.Or(chip, "without an id"), d.chip))
}

// isStandalone reports whether an image is standalone firmware.
func isStandalone(i *image.Image) bool { return i != nil && i.Landmarks.Protocol == firmware.Lines }
