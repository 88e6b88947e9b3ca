package tune

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A place can hold firmware and open sessions with it: an attached device, or a board of another computer. One
// goroutine at a time uses it. It is all that the scheduler requires of a board.
type place interface {
	// Prepare puts the firmware onto the place, which may write flash. It returns the tier and the reason for it.
	Prepare(ctx context.Context, i *image.Image) (Tier, string, error)
	// Open opens a session with the firmware. The caller closes it.
	Open(ctx context.Context, i *image.Image) (*rpc.Session, error)
	// Confirm returns an error if the firmware at the other end of the session is damaged.
	Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error
	// Reset resets the place. try counts the resets in a row from 1; later ones use stronger means. Prepare follows.
	Reset(ctx context.Context, try int) error
	// Close releases the place.
	Close() error
}

// An attached is the part of a place that is a device.
type attached struct {
	board  *boards.Board
	device *device.Device // nil: not attached
}

func (a *attached) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	return a.device.Open(ctx, i)
}

func (a *attached) Confirm(ctx context.Context, s *rpc.Session, i *image.Image) error {
	if !a.device.KeepsImage() && len(a.board.Memory) == 0 {
		return nil // a process has no flash
	}
	return a.device.Confirm(ctx, s, i)
}

// A devicePlace is a place on a desk.
type devicePlace struct {
	attached
	desk  *device.Desk
	which string // device, as Desk.Attach expects it
}

func (p *devicePlace) Prepare(ctx context.Context, i *image.Image) (Tier, string, error) {
	if p.device == nil {
		var err error
		if p.device, err = p.desk.Attach(ctx, p.board, p.which); err != nil {
			return "", "", err
		}
	}

	report, err := p.device.Flash(ctx, i)
	if report.Erased < report.Sectors {
		return Sectors, report.Reason, err
	}
	return Image, report.Reason, err
}

// Link opens the link below a session, for a place that wraps this one.
func (p *devicePlace) Link(ctx context.Context, i *image.Image) (transport.Link, error) {
	return p.device.Link(ctx, i)
}

// probeResetTry is the first try in which Reset uses a device's probe.
const probeResetTry = 2

// Reset detaches the device, so that a process or an emulator restarts. From probeResetTry on, it first resets a device
// with a probe.
func (p *devicePlace) Reset(ctx context.Context, try int) error {
	if p.device == nil {
		return nil
	}
	if p.device.KeepsImage() && try >= probeResetTry {
		if err := p.device.Reset(ctx); err != nil {
			return err
		}
	}

	err := p.device.Close()
	p.device = nil
	return err
}

func (p *devicePlace) Close() error {
	if p.device == nil {
		return nil
	}
	return p.device.Close()
}
