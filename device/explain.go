// This file finds the place in its image at which a device faulted.

package device

import (
	"bytes"
	"debug/elf"
	"encoding/hex"

	"github.com/boardsmith/boardsmith/device/internal/faultimage"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// Explain finds where in the image a device stopped, by its fault record. It omits frames whose stack is not in the
// record; guessed frames are marked. Without usable data it returns no frames and no error. The image must be the
// one that the device ran. If a later build replaced the image's file, or the record names another image, Explain
// finds it in the cache.
func (k *Desk) Explain(i *image.Image, rec *fault.Record) (fault.Explanation, error) {
	return k.explain(i, rec, "")
}

// explain is Explain with the name of the function that the host called, or "".
func (k *Desk) explain(i *image.Image, rec *fault.Record, called string) (fault.Explanation, error) {
	var build string // "": i's
	find := k.images().Intact

	// The record has the first half of the build id.
	if rec.Build != [8]byte(i.BuildID[:8]) {
		build, called = hex.EncodeToString(rec.Build[:]), "" // the name belongs to the current image
		find = func(*image.Image) (*image.Image, error) { return k.images().Find(build) }
	}

	i, err := find(i)
	if err != nil {
		return fault.Explanation{Build: build}, err
	}

	f, err := i.ELF()
	if err != nil {
		return fault.Explanation{Build: build}, err
	}

	p, err := faultimage.Read(f, i.Landmarks)
	if err != nil {
		return fault.Explanation{Build: build}, failure.Errorf(failure.Internal, "%s: %w", i.Path, err)
	}

	e := p.Explain(rec, called)
	e.Build = build
	return e, nil
}

// locateFrames finds a function and line in a linked file.
func locateFrames(file []byte, pc uint64) []fault.Frame {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil
	}

	// Landmarks are for stacks and operators: frames need none.
	p, err := faultimage.Read(f, firmware.Landmarks{})
	if err != nil {
		return nil
	}
	return p.FramesAt(pc)
}

// explain returns Explain for a session, which logs errors.
func (d *Device) explain(i *image.Image) func(*fault.Record, string) fault.Explanation {
	return func(rec *fault.Record, called string) fault.Explanation {
		e, err := d.desk.explain(i, rec, called)
		if err != nil {
			d.desk.log().Warn("the fault could not be located in the program", "error", err)
		}
		return e
	}
}
