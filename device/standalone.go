// This file opens sessions with standalone firmware, and asks it for its identity.

package device

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/flashplan"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/transport"
)

// speaksLines reports whether an image is standalone firmware.
func speaksLines(i *image.Image) bool { return i != nil && i.Landmarks.Protocol == firmware.Lines }

// A StandaloneSession is an open link to standalone firmware, for executor.OpenStandalone. One goroutine at a time may
// use it.
type StandaloneSession = standalone.Session

// OpenStandalone is Open for an image without an RPC server (boards.Options.App). The caller closes the session, which
// ends a process. It checks that the firmware is exactly this build, on the chip of desk.json or the last Flash, and
// logs a fault from before the session. Errors: *WrongImageError, *WrongBoardError; those of package standalone.
func (d *Device) OpenStandalone(ctx context.Context, i *image.Image) (*StandaloneSession, error) {
	i, err := d.accepts(i)
	if err != nil {
		return nil, err
	}
	if !speaksLines(i) {
		return nil, failure.New(failure.Config, "use Open, or build with "+
			failure.Option("Spec.Options", "app="+boards.Standalone), "%v has an RPC server: it is not standalone firmware", i)
	}
	d.desk.Progress.Report(ProgressEvent{Step: "open", Detail: d.board.Name})
	power := powerCycle{d: d}
	for {
		s, err := d.openLines(ctx, i)
		if err == nil || !power.helps(ctx, err) {
			return s, err
		}
	}
}

func (d *Device) openLines(ctx context.Context, i *image.Image) (*standalone.Session, error) {
	link := func(ctx context.Context) (transport.Link, error) { return d.openLink(ctx, i) }
	s, answer, err := beginLines(ctx, link, standalone.Options{Log: d.desk.log(), Explain: d.explain(i)})
	if err != nil {
		return nil, d.emulatorEnded(err, i)
	}
	err = d.isImage(answer, i)
	if err == nil {
		err = d.sameChip(answer.Chip)
	}
	if err == nil {
		_, err = s.PriorFault(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// beginLines opens a link and a session on it, and asks the firmware for its identity.
func beginLines(ctx context.Context, open func(context.Context) (transport.Link, error), o standalone.Options) (
	*standalone.Session, *flashplan.Answer, error,
) {
	var answer *flashplan.Answer
	s, err := patiently(ctx, func() (*standalone.Session, error) {
		link, err := open(ctx)
		if err != nil {
			return nil, err
		}
		s := standalone.New(link, o)
		if answer, err = askLines(ctx, s); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		return s, nil
	})
	return s, answer, err
}

// askLines asks for the identity with a new nonce.
func askLines(ctx context.Context, s *standalone.Session) (*flashplan.Answer, error) {
	nonce := rand.Uint64()
	is, err := s.Identify(ctx, nonce)
	if err != nil {
		return nil, err
	}
	return &flashplan.Answer{
		BuildID: is.BuildID, Nonce: binary.LittleEndian.AppendUint64(nil, nonce), CRC: is.CRC,
		Chip: hex.EncodeToString(is.Chip),
	}, nil
}

// askedInLines is asked for standalone firmware, with a limit that covers a slow link. It leaves a fault record to
// OpenStandalone.
func (d *Device) askedInLines(ctx context.Context, next *image.Image) (*flashplan.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, bootWithin)
	defer cancel()
	link := func(ctx context.Context) (transport.Link, error) {
		return d.attachment.openFound(ctx, d.board, expected{image: next})
	}
	s, answer, err := beginLines(ctx, link, standalone.Options{Log: d.desk.log(), StartTimeout: askWithin})
	if err != nil {
		return nil, err
	}
	return answer, s.Close()
}

// greetInLines is greet for standalone firmware.
func (d *Device) greetInLines(
	ctx context.Context, link func(context.Context) (transport.Link, error), i *image.Image,
) (*flashplan.Answer, error) {
	s, answer, err := beginLines(ctx, link, standalone.Options{Log: d.desk.log(), StartTimeout: bootWithin})
	if err != nil {
		return nil, err
	}
	return answer, errors.Join(d.isImage(answer, i), s.Close())
}
