// This file runs firmware of another computer on a board, for package serve.

package tune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/transport"
)

// Describe implements serve.Place.
func (b *servedBoard) Describe() (json.RawMessage, error) {
	digest, err := boardDigest(b.firmware.board)
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return json.Marshal(boardFacts{Board: b.firmware.board.Name, Digest: digest, Name: name})
}

// Prepare implements serve.Place. description is an image.Image without paths.
func (b *servedBoard) Prepare(ctx context.Context, description, file []byte) (json.RawMessage, error) {
	b.leave()
	i, err := b.storeImage(description, file)
	if err != nil {
		return nil, err
	}

	var p prepared
	p.Tier, p.Reason, err = b.place.Prepare(ctx, i)
	// A worn board is a result, so that the client gets the data of the error.
	if errors.As(err, &p.Worn) {
		return json.Marshal(p)
	}
	if err != nil {
		return nil, err
	}

	if d, ok := b.place.(*devicePlace); ok {
		p.Keeps = d.device.KeepsImage()
	}
	b.clientImage = i
	return json.Marshal(p)
}

// storeImage writes a client's image to a file, in place of the last one.
func (b *servedBoard) storeImage(description, file []byte) (*image.Image, error) {
	var sent image.Image
	if err := json.Unmarshal(description, &sent); err != nil {
		return nil, failure.Errorf(failure.Config, "the description of the image: %w", err)
	}
	if own := b.firmware.board.Name; sent.Board != own {
		return nil, failure.Errorf(failure.Config, "the image is for board %.100q, this board is a %s", sent.Board, own)
	}

	i := &image.Image{ // no more of the client's than this: other fields are paths of this computer
		Board: sent.Board, BuildID: sent.BuildID, Landmarks: sent.Landmarks, Digest: cachekey.Digest(file),
		Path:     filepath.Join(b.firmware.imagesDir(), "client.elf"),
		BuildDir: b.firmware.current().resident.BuildDir, // a programmer's settings
	}
	return i, writeAtomic(i.Path, file, 0o700)
}

// Reset implements serve.Place.
func (b *servedBoard) Reset(ctx context.Context, try int) error {
	b.leave()
	return b.place.Reset(ctx, try)
}

// leave ends the use of the board by firmware of this computer or of a client.
func (b *servedBoard) leave() {
	b.closeSession()
	b.modules, b.clientImage = nil, nil
}

// Link implements serve.Place.
func (b *servedBoard) Link(ctx context.Context) (transport.Link, error) {
	p, ok := b.place.(interface {
		Link(ctx context.Context, i *image.Image) (transport.Link, error)
	})

	switch {
	case !ok:
		return nil, failure.Errorf(failure.Config, "board %s has no link for another computer", b.name)
	case b.clientImage == nil:
		return nil, failure.Errorf(failure.Config, "board %s has no image of this client", b.name)
	}
	return p.Link(ctx, b.clientImage)
}
