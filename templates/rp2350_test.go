package templates_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// This file reads an RP2350's image as its boot ROM does.

// A picobin item is a part of a block (RP2350 datasheet §5.9): its type, and its words after the first two bytes.
type picobinItem struct {
	kind  byte
	words []uint32
}

// picobin returns the items of the block at the first start mark in the first 4 KiB, which must be the only one, and a
// loop of itself.
func picobin(image []byte) (items []picobinItem, err error) {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	var found []int
	for at := 0; at+4 <= min(len(image), 4096); at += 4 {
		if word(at) == 0xFFFFDED3 {
			found = append(found, at)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%d start marks in the first 4 KiB", len(found))
	}
	first := found[0] + 4
	for at := first; at+4 <= len(image); {
		kind, size := image[at], int(image[at+1])
		if kind&0x80 != 0 { // types with two bytes of size
			size = int(binary.LittleEndian.Uint16(image[at+1:]))
		}
		if kind == 0xFF {
			if size != (at-first)/4 || word(at+4) != 0 || word(at+8) != 0xAB123579 {
				return nil, fmt.Errorf("the last item has %d of %d words, next block %d, end mark %#x", size, (at-first)/4,
					word(at+4), word(at+8))
			}
			return items, nil
		}
		if size == 0 || size > 0x80 {
			return nil, fmt.Errorf("item %#x has %d words", kind, size)
		}
		item := picobinItem{kind: kind}
		for i := range size {
			item.words = append(item.words, word(at+4*i))
		}
		items = append(items, item)
		at += 4 * size
	}
	return nil, fmt.Errorf("no last item")
}

// TestRP2350Image reads the image definition, and the vectors where it points.
func TestRP2350Image(t *testing.T) {
	image, _, b := built(t, "rpi_pico2")
	items, err := picobin(image)
	must(t, err)
	i := slices.IndexFunc(items, func(i picobinItem) bool { return i.kind == 0x42 })
	if i != 0 || len(items[0].words) != 1 {
		t.Fatalf("no image type first: %x", items)
	}
	const exe, secure, arm, rp2350 = 1, 2 << 4, 0 << 8, 1 << 12 // §5.9.3
	testkit.Equal(t, "the image's type", items[0].words[0]>>16, exe|secure|arm|rp2350)
	i = slices.IndexFunc(items, func(i picobinItem) bool { return i.kind == 0x03 })
	if i < 0 || len(items[i].words) != 2 {
		t.Fatalf("no vector table: %x", items)
	}
	flash, _ := b.Region(b.Place.Code)
	at := items[i].words[1] - uint32(flash.Origin)
	if at%512 != 0 || at > 4096 { // 16 + 52 vectors
		t.Fatalf("the vectors are at offset %#x", at)
	}
	checkVectors(t, image, b, int(at))
}
