// This file refuses packs whose objects would take more room than allowed, before go-git unpacks them in memory.

package gitfolder

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	maxObject  = 128 << 20 // bytes of one file, which go-git holds in memory
	maxObjects = 4 << 20
)

// checkPack reads the sizes that the objects of a pack have once they are unpacked.
func checkPack(r io.ReadSeeker, limit int64) error {
	scan := packfile.NewScanner(r)
	_, count, err := scan.Header()
	if err != nil {
		return err
	}
	if count > maxObjects {
		return fmt.Errorf("%w: %d objects", errTooMuch, count)
	}
	for range count {
		h, err := scan.NextObjectHeader()
		if err != nil {
			return err
		}
		if err := checkSize(h.Length, limit); err != nil {
			return err
		}
		head := &beginning{}
		if _, _, err := scan.NextObject(head); err != nil {
			return err
		}
		size := h.Length
		if h.Type == plumbing.OFSDeltaObject || h.Type == plumbing.REFDeltaObject {
			size = head.result()
		}
		if err := checkSize(size, limit); err != nil {
			return err
		}
		limit -= size
	}
	_, err = scan.Checksum()
	return err
}

func checkSize(size, limit int64) error {
	switch {
	case size < 0 || size > maxObject:
		return fmt.Errorf("%w: a file of more than %d MiB", errTooMuch, maxObject>>20)
	case size > limit:
		return errTooMuch
	}
	return nil
}

// A beginning keeps the first bytes of a delta: the sizes of its base and of its result.
type beginning struct{ bytes.Buffer }

func (b *beginning) Write(p []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// result returns the size of a delta's result, -1 if it has none.
func (b *beginning) result() int64 {
	_, err := binary.ReadUvarint(b)
	size, err2 := binary.ReadUvarint(b)
	if err != nil || err2 != nil || size > maxObject {
		return -1
	}
	return int64(size)
}
