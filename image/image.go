// This file is the result of a build.

package image

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/plainfile"
)

// An Image is one built firmware. It is a value: a later build makes another one. The file under Path is that later
// one's then, and the cache has this one's for as long as there is room; once it has not, Flash and Open refuse it.
type Image struct {
	Path     string   // of the ELF file, absolute
	Map      string   // of the linker's map, absolute
	Bin, Hex string   // of the same image as raw bytes and as Intel HEX, absolute; "" for a process, and where the Builder was not told to make them
	Digest   string   // SHA-256 of the ELF file, in hexadecimal
	BuildID  [16]byte // what the running firmware says of itself
	Board    string
	Size     Size
	UpToDate bool     // nothing had to be built
	Edited   []string // generated files that a person had changed, and that are in it as changed

	BuildDir string // the folder that it was built in; "" if that is not known

	Landmarks firmware.Landmarks // how its template says that places in the file are found
}

// Size is how many bytes of memory an image takes.
type Size struct {
	Text int64 `json:"text"` // code and constants
	Data int64 `json:"data"` // variables with a value to begin with
	BSS  int64 `json:"bss"`  // variables that begin as zero, the arena included
}

// ID is the build id in hexadecimal.
func (i *Image) ID() string { return hex.EncodeToString(i.BuildID[:]) }

// ELF reads the image's file, once: what it returns is of the very bytes whose digest was compared. A file that is a later
// build's, or no ELF file, is an error of class config.
func (i *Image) ELF() (*elf.File, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return nil, plainfile.Error("read", i.Path, err)
	}
	if DigestOf(data) != i.Digest {
		return nil, i.isAnother()
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", i.Path, err)
	}
	return f, nil
}

// isAnother is the error of an image whose file is a later build's.
func (i *Image) isAnother() error {
	return failure.New(failure.Config, "build again", "%s is no longer %v", i.Path, i)
}

// SizeOf reads the sizes from an ELF file, as the tool size counts them.
func SizeOf(f *elf.File) Size {
	var s Size
	for _, sec := range f.Sections {
		switch n := int64(sec.Size); {
		case sec.Flags&elf.SHF_ALLOC == 0:
		case sec.Type == elf.SHT_NOBITS:
			s.BSS += n
		case sec.Flags&elf.SHF_WRITE != 0:
			s.Data += n
		default:
			s.Text += n
		}
	}
	return s
}

func (i *Image) String() string { return fmt.Sprintf("build %s for %s", i.ID(), i.Board) }

// DigestOf is the SHA-256 of data, in hexadecimal.
func DigestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// unchanged refuses an image whose file is a later build's.
func (i *Image) unchanged() error {
	f, err := plainfile.Open(i.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return i.isAnother()
	}
	if err != nil {
		return plainfile.Error("read", i.Path, err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return plainfile.Error("read", i.Path, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != i.Digest {
		return i.isAnother()
	}
	return nil
}
