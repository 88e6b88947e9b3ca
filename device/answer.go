// This file begins sessions with a device, and asks its firmware for its identity.

package device

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	askWithin  = time.Second     // for running firmware to identify itself
	bootWithin = 5 * time.Second // for new firmware to begin a session, and again to identify itself: it reads its flash
	busyWithin = 2 * time.Second // for a bridge to restart, or to see that its last connection has ended
	busyEvery  = 50 * time.Millisecond
)

// begin opens a link and begins a session on it, which owns the link. A bridge refuses connections while it restarts;
// one that serves one client at a time closes them until it has seen the end of the last one: begin tries again for a
// while.
func begin(
	ctx context.Context, open func(context.Context) (transport.Link, error), o transport.SessionOptions,
) (*transport.Session, error) {
	return patiently(ctx, func() (*transport.Session, error) { return beginOnce(ctx, open, o) })
}

// patiently is begin for any kind of session.
func patiently[T any](ctx context.Context, beginOnce func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		s, err := beginOnce()
		var bridge *transport.TCPError
		if err == nil || !errors.As(err, &bridge) || !bridge.Temporary() || time.Since(began) > busyWithin {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, failure.Stopped(ctx, "%w", err)
		case <-time.After(busyEvery):
		}
	}
}

func beginOnce(
	ctx context.Context, open func(context.Context) (transport.Link, error), o transport.SessionOptions,
) (*transport.Session, error) {
	link, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s, err := transport.Dial(ctx, link, o)
	if err != nil {
		return nil, errors.Join(err, link.Close())
	}
	return s, nil
}

// ask asks the running firmware for its identity. It returns nil without a valid answer in time. If the firmware is
// not next, the image about to replace it, ask logs its fault record, which would be lost otherwise. Errors:
// *LeaseError and *AmbiguousError if the device must not be used; *transport.SharedPortError if another program may
// have read the answer; those of ctx.
func (d *Device) ask(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	err := d.attachment.again(ctx, d.board)
	if err != nil && !notAttached(err) {
		return nil, err
	}
	var answer *flashplan.Answer
	if err == nil {
		if answer, err = d.asked(ctx, next); answer == nil && ctx.Err() == nil {
			d.desk.log().Debug("ask", "error", err)
			answer, err = d.askedInLines(ctx, next)
		}
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "ask")
	}
	if err != nil {
		d.desk.log().Debug("ask", "error", err)
		if silence := new(transport.SharedPortError); errors.As(err, &silence) {
			return nil, silence
		}
		return nil, nil
	}
	return answer, nil
}

func (d *Device) asked(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	link := func(ctx context.Context) (transport.Link, error) {
		return d.attachment.openFound(ctx, d.board, expected{image: next})
	}
	t, err := begin(ctx, link, transport.SessionOptions{Log: d.desk.log()})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var answer *flashplan.Answer
	s := rpc.New(t, rpc.Options{Log: d.desk.log(), Explain: func(rec *fault.Record, called string) fault.Explanation {
		return d.explainBuild(answer, rec, called)
	}})
	f, err := s.Function(ctx, "boardsmith.build_id")
	if err != nil {
		return nil, err
	}
	answer, err = askBuild(ctx, f)
	if err == nil && next != nil && answer.BuildID != next.BuildID {
		if _, err := s.PriorFault(ctx); err != nil { // this logs the fault
			d.desk.log().Debug("ask for a fault", "error", err)
		}
	}
	return answer, err
}

// explainBuild explains a fault of the build that has just answered, if the cache has its image.
func (d *Device) explainBuild(answer *flashplan.Answer, rec *fault.Record, called string) fault.Explanation {
	if answer == nil {
		return fault.Explanation{}
	}
	i, err := d.answering(answer)
	if err != nil {
		d.desk.log().Warn("the fault's place in the program is unknown", "error", err)
		return fault.Explanation{}
	}
	return d.explain(i)(rec, called)
}

// answering finds the image of a firmware's answer in the cache: of several with its build id, that of its CRC.
func (d *Device) answering(a *flashplan.Answer) (*image.Image, error) {
	return d.desk.images().FindWhich(hex.EncodeToString(a.BuildID[:]), func(i *image.Image) bool {
		return d.isImage(a, i) == nil
	})
}

// askBuild calls boardsmith.build_id with a new nonce. The answer has the build id, the CRC-32 of the nonce and of
// the image's current flash, and the chip's id.
func askBuild(ctx context.Context, f rpc.Function) (*flashplan.Answer, error) {
	nonce := binary.LittleEndian.AppendUint64(nil, rand.Uint64())
	answer, err := f.Call(ctx, int64(binary.LittleEndian.Uint64(nonce)))
	if err != nil {
		return nil, err
	}
	const idBytes, crcBytes = 16, 4
	b, ok := answer.([]byte)
	if !ok || len(b) < idBytes+crcBytes {
		return nil, failure.Errorf(failure.Transport, "boardsmith.build_id answered %T of %d bytes", answer, len(b))
	}
	a := &flashplan.Answer{BuildID: [16]byte(b), Nonce: nonce, Chip: hex.EncodeToString(b[idBytes+crcBytes:])}
	a.CRC = binary.LittleEndian.Uint32(b[idBytes:])
	return a, nil
}

// neverAnswered reports an error of firmware that did not begin a session.
func neverAnswered(err error) bool {
	return errors.As(err, new(*transport.HandshakeError)) || errors.As(err, new(*standalone.SilentError))
}

// greet asks the firmware, which was just started, for its identity.
func (d *Device) greet(ctx context.Context, i *image.Image) (*flashplan.Answer, error) {
	link := func(ctx context.Context) (transport.Link, error) { return d.attachment.open(ctx, d.board, i) }
	if speaksLines(i) {
		return d.greetInLines(ctx, link, i)
	}
	t, err := begin(ctx, link, transport.SessionOptions{Log: d.desk.log(), StartTimeout: bootWithin})
	if err != nil {
		return nil, err
	}
	answer, err := d.greetOn(ctx, t, i)
	return answer, errors.Join(err, t.Close())
}

func (d *Device) greetOn(ctx context.Context, t *transport.Session, i *image.Image) (*flashplan.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	return d.confirm(ctx, rpc.New(t, rpc.Options{Log: d.desk.log()}), i)
}

// Confirm asks the firmware of a session that Open returned again. It returns a *WrongImageError if the build id or a
// byte of the flash differs from the image's. Call it between two programs of others that run on the device.
func (d *Device) Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error {
	_, err := d.confirm(ctx, s, i)
	return err
}

// confirm checks that the firmware's build id and CRC are the image's.
func (d *Device) confirm(ctx context.Context, s *rpc.Session, i *image.Image) (*flashplan.Answer, error) {
	wrong := &WrongImageError{Device: d.board.Name, Want: i.ID()}
	f, err := s.Function(ctx, "boardsmith.build_id")
	var none *rpc.NotFoundError
	if errors.As(err, &none) {
		return nil, wrong
	}
	if err != nil {
		return nil, err
	}
	got, err := askBuild(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.board.Name, err)
	}
	return got, d.isImage(got, i)
}

// isImage returns a *WrongImageError unless the firmware's build id and CRC are the image's.
func (d *Device) isImage(got *flashplan.Answer, i *image.Image) error {
	wrong := &WrongImageError{Device: d.board.Name, Want: i.ID(), Got: hex.EncodeToString(got.BuildID[:])}
	if got.BuildID != i.BuildID {
		return wrong
	}
	if len(d.board.Memory) == 0 {
		return nil // a process: it is not in flash
	}
	hole := byte(0)
	if d.attachment != nil {
		hole = flashplan.Erased
	}
	file, err := i.ELF()
	if err != nil {
		return err
	}
	parts, err := firmware.ReadParts(file, i.Landmarks, i.Path, hole)
	if err != nil {
		return err
	}
	if parts != nil && got.CRC != parts.CRC(got.Nonce) {
		return wrong
	}
	return nil
}
