// This file shows the traffic of a device's link.

package targets

import (
	"bytes"
	"context"
	"os"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// monitor shows the traffic of the device's link until it is interrupted.
func (v *invocation) monitor(ctx context.Context) error {
	d, image, err := v.monitored(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = v.detach() }()
	m := device.Monitoring{Show: func(line string) {
		v.Printf("%s", line)
		v.JSONLine(fields{"status": "running", "line": line})
	}}
	var recording bytes.Buffer
	if v.in.Output != "" {
		if err := v.canWriteOutput(); err != nil {
			return err
		}
		m.Record = &recording
	}
	v.Notef("monitor: Ctrl-C ends it")
	err = d.Monitor(ctx, image, m)
	if m.Record != nil {
		if failed := os.WriteFile(v.in.Output, recording.Bytes(), 0o644); failed != nil {
			return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", failed)
		}
		v.Notef("wrote %s", v.in.Output)
	}
	if ctx.Err() != nil {
		return nil // the usual end
	}
	return err
}

// monitored is the device to listen to: one that keeps its image is taken as it is, any other runs the image that was
// built.
func (v *invocation) monitored(ctx context.Context) (*device.Device, *image.Image, error) {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	desk := v.desk(in)
	d, err := v.attach(ctx, b, in.Device, desk)
	if err != nil {
		return nil, nil, err
	}
	v.device = d
	if d.KeepsImage() {
		return d, nil, nil
	}
	image, err := v.built(ctx)
	return d, image, err
}
