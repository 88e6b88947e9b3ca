package device

import (
	"context"
	"encoding/hex"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// Holds finds the image that the device holds: the one that its firmware says it is, else the one that the ledger knows, if
// nobody has answered. Its file is the cache's. Errors are of class config, or verify where nobody knows what it
// holds; as of Identify.
func (d *Device) Holds(ctx context.Context) (*image.Image, error) {
	if d.attachment == nil {
		return nil, failure.New(failure.Config, "leave IMAGE out", "board %s holds no image before it is opened", d.board.Name)
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
		return nil, failure.New(failure.Verify, "flash it", "nobody knows what %s holds: its firmware does not answer, and the ledger does not say", d.attachment.probeEntry())
	}
	return d.desk.images().Find(seen[0].Image)
}
