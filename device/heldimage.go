package device

import (
	"context"
	"encoding/hex"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// Holds finds the image that the device holds: the one that its firmware reports or, without an answer, the
// ledger's. The image's file is the cache's. Errors: class config; class verify if the content is unknown; as of
// Identify.
func (d *Device) Holds(ctx context.Context) (*image.Image, error) {
	if d.attachment == nil {
		return nil, failure.New(failure.Config, "leave IMAGE out", "board %s holds no image before it is opened",
			d.board.Name)
	}
	a, err := d.ask(ctx, nil)
	if err != nil {
		return nil, err
	}
	if a != nil {
		return d.desk.images().Find(hex.EncodeToString(a.buildID[:]))
	}
	seen, err := d.attachment.behind(d.board.Name)
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 || seen[0].Image == "" {
		return nil, failure.New(failure.Verify, "flash it",
			"%s did not respond, and the ledger has no image for it: its contents are unverified", d.attachment.probeEntry())
	}
	return d.desk.images().Find(seen[0].Image)
}
