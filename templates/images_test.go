package templates_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project"
)

// This file looks at built images as a chip's boot ROM does.

// built is the sample's image for the board, as programmed from the start of its flash, and the ELF file of it.
func built(t *testing.T, board string, options ...boards.Options) (image []byte, program string, b *boards.Board) {
	t.Helper()
	b, err := boards.Find(board, nil)
	must(t, err)
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(compiler) > 0 {
		t.Skip(compiler[0].Error() + ": " + failure.Next(compiler[0]))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	model := filepath.Join(t.TempDir(), samples.Name)
	testkit.WriteFile(t, model, string(samples.Archive()))
	dir := filepath.Join(t.TempDir(), "p")
	spec := project.Spec{Board: board, Model: model}
	for _, o := range options {
		spec.Options = o
	}
	p, err := (&project.Builder{Forms: true}).Generate(ctx, dir, spec)
	must(t, err)
	defer p.Close()
	if _, err := p.Build(ctx); err != nil {
		t.Fatal(err)
	}
	image = testkit.ReadFile(t, filepath.Join(dir, "build", "firmware.bin"))
	return image, filepath.Join(dir, "build", "firmware.elf"), b
}

// checkVectors looks at the vector table at offset: a stack in RAM, and an entry in the image.
func checkVectors(t *testing.T, image []byte, b *boards.Board, offset int) {
	t.Helper()
	flash, _ := b.Region(b.Place.Code)
	sp := uint64(binary.LittleEndian.Uint32(image[offset:]))
	entry := uint64(binary.LittleEndian.Uint32(image[offset+4:]))
	stack, _ := b.Region(cmp.Or(b.Place.Stack, b.Place.Data))
	if sp <= uint64(stack.Origin) || sp > uint64(stack.Origin+stack.Size) || sp%8 != 0 {
		t.Errorf("the vectors' SP is %#x", sp)
	}
	if entry%2 != 1 || entry < uint64(flash.Origin)+uint64(offset) || entry >= uint64(flash.Origin)+uint64(len(image)) {
		t.Errorf("the vectors' entry is %#x", entry)
	}
}

// TestIMXRT1060Image reads the configuration block and the image vector table as the boot ROM does (IMXRT1060RM,
// chapter System Boot).
func TestIMXRT1060Image(t *testing.T) {
	image, _, b := built(t, "mimxrt1060_evk")
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(image[at:]) }
	for _, c := range []struct {
		at   int
		want uint32
		what string
	}{
		{0x000, 0x42464346, "tag FCFB"},
		{0x004, 0x56010400, "version"},
		{0x00C, 0x00030301, "sample clock, CS hold and setup time"},
		{0x010, 0, "no device mode command"},
		{0x01C, 0, "no configuration command"},
		{0x044, 0x00060401, "serial NOR, four pads, 100 MHz"},
		{0x050, 8 << 20, "bytes on A1"},
		{0x080, 0x0A1804EB, "EBh, 24 address bits on four pads"},
		{0x084, 0x32041E00, "mode 00h, four dummy clocks"},
		{0x088, 0x00002604, "read on four pads"},
		{0x1C0, 256, "page"},
		{0x1C4, 4096, "sector"},
		{0x1D0, 65536, "block"},
		{0x1000, 0x412000D1, "image vector table"},
		{0x1004, 0x60002000, "entry: the vectors"},
		{0x100C, 0, "no DCD"},
		{0x1010, 0x60001020, "boot data"},
		{0x1014, 0x60001000, "self"},
		{0x1018, 0, "no signature"},
		{0x1020, 0x60000000, "start"},
		{0x1024, 8 << 20, "length"},
		{0x1028, 0, "no plugin"},
	} {
		testkit.Equal(t, c.what, word(c.at), c.want)
	}
	checkVectors(t, image, b, 0x2000)
}
