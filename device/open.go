// This file opens sessions, after checking that the device runs exactly the image.

package device

import (
	"context"
	"errors"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// Open starts a session with the firmware. The caller closes the session, which ends a process. Open checks that
// the firmware is exactly this build, by build id and CRC-32 (class verify), on the chip of desk.json or the last Flash
// (class config), and that the device matches its board file (class config, ErrClock). It logs
// a fault from before the session, which is also its PriorFault. If a board does not respond and Desk.File has a
// power command, Open cycles the power once. Further errors: those of transport and rpc.
func (d *Device) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	i, err := d.accept(i)
	if err != nil {
		return nil, err
	}
	if isStandalone(i) {
		return nil, failure.New(failure.Config, "use OpenStandalone, or build with "+
			nextstep.Option("Spec.Options", "app="+boards.RPC), "%v has no RPC server: it is standalone firmware", i)
	}
	return openCycling(ctx, d, i, d.openOnce)
}

// openCycling opens a session; if the board does not respond, once more after a power cycle.
func openCycling[T any](
	ctx context.Context, d *Device, i *image.Image, open func(context.Context, *image.Image) (*T, error),
) (*T, error) {
	d.desk.Report(ProgressEvent{Step: "open", Detail: d.board.Name})

	power := powerCycle{d: d}
	for {
		s, err := open(ctx, i)
		if err == nil || !power.cycle(ctx, err) {
			return s, err
		}
	}
}

func (d *Device) openOnce(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	t, err := dial(ctx, d.openerOf(i), transport.SessionOptions{Log: d.desk.log(), CheckBytes: true})
	if err != nil {
		return nil, d.silenceError(d.emulatorError(err, i), i)
	}

	s := rpc.New(t, rpc.Options{Log: d.desk.log(), Explain: d.explain(i), Locate: locateFrames})
	if err := d.verifyOpened(ctx, s, i); err != nil {
		return nil, errors.Join(d.emulatorError(err, i), t.Close())
	}
	return s, nil
}

// silenceError returns the error of firmware that does not answer with its cause: a fault at each start, or what the
// ledger records of the device, unless that is the image. It returns any other error unchanged.
func (d *Device) silenceError(err error, i *image.Image) error {
	if !errors.As(err, new(*transport.HandshakeError)) || failure.Of(err) == failure.Transport {
		return err
	}
	if fault := d.startFault(err, i); fault != nil {
		return failure.New(failure.Boot, "", "board %s faults at its start: %w (%w)", d.board.Name, fault, err)
	}
	if d.attachment == nil {
		return err
	}

	entries, listErr := d.entriesBehindProbe()
	if listErr != nil || len(entries) == 0 {
		return err // without a ledger, only the link's error is known
	}

	cause := silenceCause(entries[0], i.Digest)
	if cause == "" {
		return err
	}
	return failure.New(failure.Boot, "flash it: "+nextstep.Target("flash"), "%s does not answer: %s: %w",
		entries[0].Device, cause, err)
}

// startFault returns the fault of firmware that did not answer: its record is what a board sent each time that it
// started, or what a process left. Nil: there is none.
func (d *Device) startFault(err error, i *image.Image) *fault.Error {
	var silent *transport.HandshakeError
	if !errors.As(err, &silent) {
		return nil
	}

	rec := standalone.RecordIn(silent.Text)
	if ended := new(transport.ProcessError); rec == nil && errors.As(err, &ended) {
		rec, _ = fault.ParseRecord(ended.Left) // without a record, only the process's end is known
	}

	if rec == nil {
		return nil
	}
	return &fault.Error{Record: rec, Explanation: d.explain(i)(rec, "")}
}

// silenceCause returns why a device with this entry may not run the image; "" if the entry has that image.
func silenceCause(e ledger.Entry, digest string) string {
	switch {
	case e.Dirty:
		return "its last flash was interrupted or failed"
	case e.Image == "":
		return "it was erased"
	case e.Image != digest:
		return "its last flash wrote another image"
	}
	return ""
}

// verifyOpened makes the checks of Open.
func (d *Device) verifyOpened(ctx context.Context, s *rpc.Session, i *image.Image) error {
	parts, err := d.partsOf(i)
	if err != nil {
		return err
	}

	answer, err := d.verifySession(ctx, s, i, parts)
	if err != nil {
		return err
	}

	if err := d.verifyChip(answer.Chip); err != nil {
		return err
	}

	if _, err := s.PriorFault(ctx); err != nil { // PriorFault logs the fault
		return err
	}

	return d.verifyPlatform(ctx, s, i)
}

// Confirm checks again that the firmware of a session that Open returned is the image. It returns an error of class
// verify if the build id or a byte of the flash differs from the image's. Call it between two programs of others that
// run on the device.
func (d *Device) Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error {
	parts, err := d.partsOf(i)
	if err == nil {
		_, err = d.verifySession(ctx, s, i, parts)
	}
	return err
}

// A StandaloneSession is an open link to standalone firmware, for executor.OpenStandalone. One goroutine at a time may
// use it.
type StandaloneSession = standalone.Session

// OpenStandalone is Open for an image without an RPC server (boards.Options.App). The caller closes the session, which
// ends a process. It checks that the firmware is exactly this build, on the chip of desk.json or the last Flash, and
// logs a fault from before the session, and that the timer runs at its reported rate (ErrClock). Further errors:
// class verify for another image, class config on another chip; those of package standalone.
func (d *Device) OpenStandalone(ctx context.Context, i *image.Image) (*StandaloneSession, error) {
	i, err := d.accept(i)
	if err != nil {
		return nil, err
	}
	if !isStandalone(i) {
		return nil, failure.New(failure.Config, "use Open, or build with "+
			nextstep.Option("Spec.Options", "app="+boards.Standalone), "%v has an RPC server: it is not standalone firmware", i)
	}
	return openCycling(ctx, d, i, d.openStandaloneOnce)
}

func (d *Device) openStandaloneOnce(ctx context.Context, i *image.Image) (*standalone.Session, error) {
	s, answer, err := dialStandalone(ctx, d.openerOf(i), standalone.Options{Log: d.desk.log(), Explain: d.explain(i)})
	if err != nil {
		return nil, d.silenceError(d.emulatorError(err, i), i)
	}

	parts, err := d.partsOf(i)
	if err == nil {
		err = d.verifyAnswer(answer, i, parts)
	}
	if err == nil {
		err = d.verifyChip(answer.Chip)
	}
	if err == nil {
		// PriorFault logs the fault.
		_, err = s.PriorFault(ctx)
	}
	if err == nil {
		err = d.verifyTimer(ctx, s, i)
	}

	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
