// This file defines Image, the result of a build.

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
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// An Image is one built firmware. It is a value: a later build makes another one and replaces the file at Path. The
// cache keeps this image's file while there is room; without it, Flash and Open return an error.
type Image struct {
	Path     string   // of the ELF file, absolute
	Map      string   // of the linker's map, absolute
	Bin, Hex string   // of the raw bytes and of Intel HEX, absolute; "" for a process, and unless Builder.Forms is set
	ExtraBin string   // as Bin, of the flash besides that of the code: firmware-REGION.bin; "" if the image has none
	Digest   string   // SHA-256 of the ELF file, in hexadecimal
	BuildID  [16]byte // the build id that the running firmware reports
	Board    string
	Size     Size
	UpToDate bool     // nothing had to be built
	Edited   []string // generated files that the user had changed before the build

	BuildDir string // the folder of its build, for programmers that take settings from there; "" if unknown

	Landmarks firmware.Landmarks // how to find places in the file, from its template
}

// Size is the memory of an image in bytes.
type Size struct {
	Text int64 `json:"text"` // code and constants
	Data int64 `json:"data"` // initialised variables
	BSS  int64 `json:"bss"`  // variables that begin as zero, including the arena
}

// ID returns the build id in hexadecimal.
func (i *Image) ID() string { return hex.EncodeToString(i.BuildID[:]) }

// ELF reads the image's file once, compares its digest and parses the same bytes. It returns an error of class
// config if the file is a later build's or not an ELF file.
func (i *Image) ELF() (*elf.File, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return nil, regularfile.Error("read", i.Path, err)
	}
	if cachekey.Digest(data) != i.Digest {
		return nil, i.isAnother()
	}

	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", i.Path, err)
	}
	return f, nil
}

// isAnother returns the error for an image whose file was replaced by a later build.
func (i *Image) isAnother() error {
	return failure.New(failure.Config, "build again", "%s is no longer %v", i.Path, i)
}

func (i *Image) String() string { return fmt.Sprintf("build %s for %s", i.ID(), i.Board) }

// unchanged returns an error if a later build replaced the image's file.
func (i *Image) unchanged() error {
	f, err := regularfile.Open(i.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return i.isAnother()
	}
	if err != nil {
		return regularfile.Error("read", i.Path, err)
	}

	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return regularfile.Error("read", i.Path, err)
	}

	if hex.EncodeToString(h.Sum(nil)) != i.Digest {
		return i.isAnother()
	}
	return nil
}
