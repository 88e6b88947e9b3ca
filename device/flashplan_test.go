package device_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/project"
)

// TestChecksumSkipsGap: a checksum covers the two parts and skips the gap between them, as the firmware does.
func TestChecksumSkipsGap(t *testing.T) {
	t.Parallel()
	b := findBoard(t, "microbit")
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(compiler) > 0 {
		t.Skip(compiler[0])
	}
	p := generated(t, project.Spec{Board: b.Name})
	i := built(t, p)
	img, err := flashplan.ContentOf(b, i)
	must(t, err)
	gap := 0
	for n := 1; n < len(img.Sectors); n++ {
		before := img.Sectors[n-1]
		if end := before.Addr + before.Size; img.Sectors[n].Addr != end {
			gap++
			if img.Sectors[n].Addr != uint64(b.ModelAt) {
				t.Errorf("sectors from 0x%x to 0x%x are not in the image", end, img.Sectors[n].Addr)
			}
		}
	}
	if gap != 1 {
		t.Errorf("%d gaps", gap)
	}
	bin := readFile(t, strings.TrimSuffix(i.Path, ".elf")+".bin")
	for _, s := range img.Sectors {
		offset := s.Addr - uint64(b.Memory[0].Origin)
		n := min(s.Size, uint64(len(bin))-offset)
		if !bytes.Equal(bin[offset:offset+n], s.Data[:n]) {
			t.Errorf("firmware.bin differs at 0x%x", s.Addr)
		}
	}
	if last := img.Sectors[len(img.Sectors)-1]; uint64(len(bin)) > last.Addr+last.Size {
		t.Errorf("firmware.bin has %d bytes", len(bin))
	}
	broken := *i
	broken.Path = filepath.Join(t.TempDir(), "x.elf")
	data := readFile(t, i.Path)
	data = bytes.ReplaceAll(data, []byte("bare_resident_end"), []byte("bare_resident_exd"))
	must(t, os.WriteFile(broken.Path, data, 0o600))
	broken.Digest = cachekey.Digest(data)
	_, err = flashplan.ContentOf(b, &broken)
	wantError(t, err, failure.Config)
}
