package image

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

// elfFile is an ELF file of 64 bits with a section of each kind, and with this byte at its end.
func elfFile(t *testing.T, last byte) []byte {
	t.Helper()
	const names = "\x00.text\x00.data\x00.bss\x00.note\x00"
	const head, section = 64, 64
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Size: 100},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC), Size: 20},
		{Name: 7, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_WRITE), Size: 7},
		{Name: 13, Type: uint32(elf.SHT_NOBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_WRITE), Size: 3000},
		{Name: 18, Type: uint32(elf.SHT_PROGBITS), Size: 50000},
		{Type: uint32(elf.SHT_STRTAB), Size: uint64(len(names))},
	}
	strtab := len(sections) - 1
	sections[strtab].Off = uint64(head + section*len(sections))
	h := elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_RISCV), Version: uint32(elf.EV_CURRENT), Shoff: head, Ehsize: head,
		Shentsize: section, Shnum: uint16(len(sections)), Shstrndx: uint16(strtab),
	}
	var b bytes.Buffer
	for _, part := range []any{h, sections, []byte(names), last} {
		must(t, binary.Write(&b, binary.LittleEndian, part))
	}
	return b.Bytes()
}

// elfLoading returns elfFile with a segment of one byte.
func elfLoading(t *testing.T, loaded, last byte) []byte {
	t.Helper()
	data := elfFile(t, last)
	const headerBytes = 56
	at := uint64(len(data))
	binary.LittleEndian.PutUint64(data[32:], at)          // e_phoff
	binary.LittleEndian.PutUint16(data[54:], headerBytes) // e_phentsize
	binary.LittleEndian.PutUint16(data[56:], 1)           // e_phnum
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Off: at + headerBytes, Filesz: 1, Memsz: 1, Paddr: 0x8000}
	b := bytes.NewBuffer(data)
	must(t, binary.Write(b, binary.LittleEndian, p))
	return append(b.Bytes(), loaded)
}

// built writes an image's file.
func built(t *testing.T, id, last byte) *Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "firmware.elf")
	data := elfFile(t, last)
	testkit.WriteFile(t, path, string(data))
	return &Image{
		Path: path, Map: path + ".map", Bin: path + ".bin", Hex: path + ".hex", Digest: cachekey.Digest(data),
		Board: "a-board", BuildID: [16]byte{0xab, 0xcd, 0xef, id},
		Landmarks: firmware.Landmarks{Kept: firmware.Place{Symbol: "id"}},
	}
}

func replace(t *testing.T, i *Image) {
	t.Helper()
	testkit.WriteFile(t, i.Path, "a later build")
}

// An image whose file is a later build's, or is gone, is the cache's if that has it, and else an error.
func TestIntact(t *testing.T) {
	var log bytes.Buffer
	s := Store{Cache: cache.New(t.TempDir(), cache.Options{}), Log: hclog.New(&hclog.LoggerOptions{Output: &log})}
	kept, lost := built(t, 1, 1), built(t, 2, 2)
	for range 2 {
		s.Keep(kept)
	}
	if i, err := s.Intact(kept); i != kept || err != nil {
		t.Errorf("of an image with its file: %+v, %v", i, err)
	}
	for _, change := range []func(*Image){func(i *Image) { replace(t, i) }, func(i *Image) { os.Remove(i.Path) }} {
		change(kept)
		change(lost)
		i, err := s.Intact(kept)
		must(t, err)
		if i.Path == kept.Path || i.Map+i.Bin+i.Hex != "" || i.Digest != kept.Digest || i.BuildID != kept.BuildID {
			t.Errorf("of the cache: %+v", i)
		}
		if f, err := i.ELF(); err != nil || len(f.Sections) != 7 {
			t.Error(err)
		}
		_, err = s.Intact(lost)
		testkit.WantError(t, err, failure.Config)
	}
	if _, err := kept.ELF(); err == nil {
		t.Error("a file that is gone is read")
	}
	if log.Len() > 0 {
		t.Errorf("logged %q", log.String())
	}
}

// An image that is in the cache, and its landmarks, are not written again.
func TestKeepAgain(t *testing.T) {
	dir := t.TempDir()
	s, i := Store{Cache: cache.New(dir, cache.Options{})}, built(t, 1, 1)
	files := func() map[string]os.FileInfo {
		s.Keep(i)
		all := map[string]os.FileInfo{}
		must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err == nil && (strings.HasSuffix(path, i.label()) || strings.HasSuffix(path, landmarksLabel)) {
				all[path], err = os.Stat(path)
			}
			return err
		}))
		return all
	}
	first, second := files(), files()
	testkit.Equal(t, "files, the image and its landmarks", len(first), 2)
	for path, info := range second {
		if !os.SameFile(info, first[path]) {
			t.Errorf("%s was written again", path)
		}
	}
}

// Of two images of one build id the cache's is the one with the same bytes.
func TestWholeOfTwo(t *testing.T) {
	s := Store{Cache: cache.New(t.TempDir(), cache.Options{})}
	first, second := built(t, 1, 1), built(t, 1, 2)
	s.Keep(first)
	s.Keep(second)
	for _, i := range []*Image{first, second} {
		replace(t, i)
		if got, err := s.Intact(i); err != nil || got.Digest != i.Digest {
			t.Errorf("%v, %v", got, err)
		} else if f, err := got.ELF(); err != nil {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// Without a folder for a cache nothing is kept or found.
func TestNoCache(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "BOARDSMITH_HOME", "LocalAppData", "USERPROFILE"} {
		t.Setenv(name, "")
	}
	var s Store
	i := built(t, 1, 1)
	s.Keep(i)
	if got, err := s.Intact(i); got != i || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	replace(t, i)
	_, err := s.Intact(i)
	testkit.WantError(t, err, failure.Config)
	_, err = s.Find(i.ID())
	testkit.WantError(t, err, failure.Config, "no cache folder")
	quiet := Store{Cache: cache.New(t.TempDir(), cache.Options{})}
	quiet.Keep(i) // it is another build's; nobody asked to hear of it
}

// A damaged entry is not stored, with a warning, and is not found as another build's image.
func TestNotKept(t *testing.T) {
	for name, spoil := range map[string]func(*Image){
		"another file":  func(i *Image) { replace(t, i) },
		"no file":       func(i *Image) { os.Remove(i.Path) },
		"no digest":     func(i *Image) { i.Digest = "sha" },
		"half a digest": func(i *Image) { i.Digest = i.Digest[:32] },
	} {
		var log bytes.Buffer
		s := Store{Cache: cache.New(t.TempDir(), cache.Options{}), Log: hclog.New(&hclog.LoggerOptions{Output: &log})}
		i := built(t, 1, 1)
		spoil(i)
		s.Keep(i)
		testkit.WantText(t, name+": "+log.String(), "could not be stored")
		_, err := s.Find(i.ID())
		testkit.WantError(t, err, "", "is not in the cache")
	}
	i := built(t, 1, 1)
	replace(t, i)
	_, err := i.ELF()
	testkit.WantError(t, err, failure.Config, "no longer build abcdef01")
	i.Digest = cachekey.Digest([]byte("a later build"))
	_, err = i.ELF()
	testkit.WantError(t, err, failure.Config)
}

// An image of the cache is found by the beginning of its build id or of its digest, if that is one image's alone.
func TestFind(t *testing.T) {
	c := cache.New(t.TempDir(), cache.Options{})
	s := Store{Cache: c}
	first, second := built(t, 1, 1), built(t, 2, 2)
	first.Board = "system/vendor/kit@1.0.0"
	s.Keep(first)
	s.Keep(second)
	for name, want := range map[string]*Image{
		first.ID(): first, first.ID()[:8]: first, second.ID()[:9]: second, first.Digest[:6]: first, second.Digest: second,
	} {
		i, err := s.Find(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same := i.Digest == want.Digest && i.Board == want.Board && i.label() == want.label()
		if !same || !i.UpToDate || i.Size != (Size{Text: 120, Data: 7, BSS: 3000}) || i.Map+i.Bin+i.Hex != "" {
			t.Errorf("%s: %+v", name, i)
		}
	}
	for name, why := range map[string]string{
		first.ID()[:6]: "the beginning of 2 images", "0123456789": "is not in the cache", "": "is not the beginning",
		first.ID()[:5]: "is not the beginning", first.Digest + "0": "is not the beginning",
		strings.ToUpper(first.ID()): "is not the beginning",
	} {
		_, err := s.Find(name)
		testkit.WantError(t, err, failure.Config, why)
	}
}

// Files of one build that load the same bytes, as earlier versions made them in several folders, are one image: the
// newest. Files that load other bytes are several.
func TestFindOneOfEqualLoads(t *testing.T) {
	c := cache.New(t.TempDir(), cache.Options{})
	s := Store{Cache: c}
	keep := func(id, loaded, last byte) *Image {
		i := built(t, id, last)
		data := elfLoading(t, loaded, last)
		i.Digest = cachekey.Digest(data)
		testkit.WriteFile(t, i.Path, string(data))
		s.Keep(i)
		return i
	}
	keep(1, 7, 1)
	newest := keep(1, 7, 2)
	for range 2 { // finding one must not make another the newest
		i, err := s.Find(newest.ID())
		must(t, err)
		testkit.Equal(t, "digest", i.Digest, newest.Digest)
	}
	keep(1, 8, 3)
	_, err := s.Find(newest.ID()) // other bytes are loaded
	testkit.WantError(t, err, failure.Config, "the beginning of 2 images")
}

// Landmarks are no image, and an image without its landmarks, or with another version's label, cannot be used.
func TestLandmarksOfTheCache(t *testing.T) {
	c := cache.New(t.TempDir(), cache.Options{})
	s := Store{Cache: c}
	i := built(t, 1, 1)
	s.Keep(i)
	_, err := s.Find(cachekey.Digest(landmarksJSON(i.Landmarks)))
	testkit.WantError(t, err, failure.Config, "is not in the cache")
	older, alone := elfFile(t, 3), elfFile(t, 4)
	for label, data := range map[string][]byte{"older": older, strings.Repeat("12", 16) + "-b-0123456789abcdef": alone} {
		must(t, c.PutImage(label, data))
	}
	for why, data := range map[string][]byte{"another version": older, "lacks its landmarks": alone} {
		_, err := s.Find(cachekey.Digest(data))
		testkit.WantError(t, err, failure.Config, why)
	}
	text := []byte("text")
	must(t, c.PutImage(i.label(), text))
	_, err = s.Find(cachekey.Digest(text))
	testkit.WantError(t, err, failure.Config)
	if e := c.HasImage(sha256.Sum256(text), i.label(), 4); !e {
		t.Error("the cache has lost it")
	}
}
