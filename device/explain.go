// This file says where in its image a device stood when it faulted.

package device

import (
	"encoding/hex"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/fault"
	"github.com/boardsmith/boardsmith/rpc"
)

// Explain says where in the image a device stood that kept the record. The image must be the one that it ran. Frames
// that the record does not hold the stack of are missing; some may be guesses, and say so. Without anything to go by
// there are no frames, and no error. An image whose file is a later build's is looked for in the cache; so is the one that
// the record names, where that is another.
func (k *Desk) Explain(i *image.Image, rec *rpc.FaultRecord) (rpc.Explanation, error) {
	return k.explain(i, rec, "")
}

// explain is Explain for a host that knows what it had called: "" if it does not.
func (k *Desk) explain(i *image.Image, rec *rpc.FaultRecord, called string) (rpc.Explanation, error) {
	var is rpc.Explanation
	find := k.images().Whole
	if rec.Build != [8]byte(i.BuildID[:8]) {
		is.Build, called = hex.EncodeToString(rec.Build[:]), "" // the name is one of what runs now
		find = func(*image.Image) (*image.Image, error) { return k.images().Find(is.Build) }
	}
	i, err := find(i)
	if err != nil {
		return is, err
	}
	f, err := i.ELF()
	if err != nil {
		return is, err
	}
	p, err := fault.Read(f, i.Landmarks)
	if err != nil {
		return is, failure.New(failure.Internal, "", "%s: %w", i.Path, err)
	}
	build := is.Build
	is = p.Explain(rec, called)
	is.Build = build
	return is, nil
}

// explain is Explain for a session, which goes on without where that fails.
func (d *Device) explain(i *image.Image) func(*rpc.FaultRecord, string) rpc.Explanation {
	return func(rec *rpc.FaultRecord, called string) rpc.Explanation {
		e, err := d.desk.explain(i, rec, called)
		if err != nil {
			d.desk.log().Warn("the fault's place in the program is unknown", "error", err)
		}
		return e
	}
}
