// This file takes a project to a device, and records its history of flashes in its project.json.

package project

import (
	"context"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/rpc"
)

// maxFlashes limits the history.
const maxFlashes = 20

// RecordFlash adds the result of Flash to the history in project.json, which holds the last 20. It records nothing for
// a device that loads its image when the link opens. A flash that wrote nothing replaces a preceding one that wrote
// nothing.
func (p *Project) RecordFlash(i *image.Image, r device.FlashReport, failed error) error {
	if err := p.errIfClosed(); err != nil {
		return err
	}
	if r.Device == "" {
		return nil
	}

	entry := projectfile.Flash{
		Time: time.Now().UTC().Round(time.Second), Device: r.Device, Programmer: r.Programmer, Image: i.Digest,
		BuildID: i.ID(),
		Reason:  r.Reason, Bytes: r.Wrote, Sectors: r.Erased, Class: failure.Of(failed),
	}

	return p.update(func(s *projectfile.State) {
		if n := len(s.Flashes); n > 0 && s.Flashes[n-1].Idle() && entry.Idle() && s.Flashes[n-1].Same(entry) {
			s.Flashes = s.Flashes[:n-1]
		}
		s.Flashes = append(s.Flashes, entry)
		s.Flashes = s.Flashes[max(0, len(s.Flashes)-maxFlashes):]
	})
}

// Built returns the image of the project's last build, or nil if there is none or its files have changed. It does
// not check whether a new build would give another image.
func (p *Project) Built() (*image.Image, error) {
	if err := p.errIfClosed(); err != nil {
		return nil, err
	}
	t, err := workdir.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()

	last := builddir.Last(t, &p.state)
	if last == nil {
		return nil, nil
	}
	return p.image(last, true), nil
}

// Run builds the project, attaches a device of the desk, flashes it and opens a session: Build, Attach, Flash,
// Open. The device stays attached until p is closed. A nil desk means the zero value.
func (p *Project) Run(ctx context.Context, desk *device.Desk, which string) (*rpc.Session, error) {
	d, i, err := p.flashed(ctx, desk, which)
	if err != nil {
		return nil, err
	}
	return d.Open(ctx, i)
}

// RunStandalone is Run for a project of standalone firmware (boards.Options.App). The caller closes the session.
func (p *Project) RunStandalone(ctx context.Context, desk *device.Desk, which string) (
	*device.StandaloneSession, error,
) {
	d, i, err := p.flashed(ctx, desk, which)
	if err != nil {
		return nil, err
	}
	return d.OpenStandalone(ctx, i)
}

// flashed builds the project, attaches a device until p is closed, and flashes it.
func (p *Project) flashed(ctx context.Context, desk *device.Desk, which string) (*device.Device, *image.Image, error) {
	if desk == nil {
		desk = &device.Desk{}
	}

	i, err := p.Build(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err := desk.Attach(ctx, p.Board(), which)
	if err != nil {
		return nil, nil, err
	}

	// It stays attached until Close, also after a failed flash.
	p.devices = append(p.devices, d)
	r, err := d.Flash(ctx, i)

	// A failed flash is recorded, too.
	if err := errors.Join(err, p.RecordFlash(i, r, err)); err != nil {
		return nil, nil, err
	}
	return d, i, nil
}
