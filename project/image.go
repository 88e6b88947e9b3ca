// This file is the result of a build.

package project

import (
	"bytes"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"

	"github.com/boardsmith/boardsmith/failure"
)

// An Image is one built firmware. It is a value: a later build makes another one. The file under Path is that later
// one's then, and the cache has this one's for as long as there is room; once it has not, Flash and Open refuse it.
type Image struct {
	Path     string   // of the ELF file, absolute
	Map      string   // of the linker's map, absolute
	Bin, Hex string   // of the same image as raw bytes and as Intel HEX, absolute; "" for a process
	Digest   string   // SHA-256 of the ELF file, in hexadecimal
	BuildID  [16]byte // what the running firmware says of itself
	Board    string
	Size     Size
	UpToDate bool     // nothing had to be built
	Edited   []string // generated files that a person had changed, and that are in it as changed

	build string // the folder that it was built in; "" if that is not known
}

// Size is how many bytes of memory an image takes.
type Size struct {
	Text int64 `json:"text"` // code and constants
	Data int64 `json:"data"` // variables with a value to begin with
	BSS  int64 `json:"bss"`  // variables that begin as zero, the arena included
}

// ID is the build id in hexadecimal.
func (i *Image) ID() string { return hex.EncodeToString(i.BuildID[:]) }

// elf reads the image's file, once: what it returns is of the very bytes whose digest was compared. A file that is a later
// build's, or no ELF file, is an error of class config.
func (i *Image) elf() (*elf.File, error) {
	data, err := os.ReadFile(i.Path)
	if err != nil {
		return nil, fileError("read", i.Path, err)
	}
	if digestOf(data) != i.Digest {
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

// sizeOf reads the sizes from an ELF file, as the tool size counts them.
func sizeOf(f *elf.File) Size {
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

// inspect checks that the build made what the board runs, and measures it.
func (p *Project) inspect(path string) (Size, error) {
	f, err := elf.Open(path)
	if err != nil {
		if os.IsNotExist(err) {
			return Size{}, failure.New(failure.Link, "", "the build command succeeded but made no %s", p.state.Template.ELF)
		}
		return Size{}, failure.New(failure.Link, "", "%s: %w", path, err)
	}
	defer f.Close()
	if is := objectKind(f.Machine, f.Class, f.Data); !p.state.Board.ELF.Accepts(is) {
		return Size{}, failure.New(failure.Config, "check the compiler "+p.state.Board.Toolchain.CC, "%s is for %s, but board %s takes %s",
			p.state.Template.ELF, is, p.state.Board.Name, p.state.Board.ELF)
	}
	at, err := symbolsOf(f, path)
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return Size{}, err
	}
	if err := coverAll(f, at); err != nil {
		return Size{}, failure.New(failure.Link, "", "%s: %w", p.state.Template.ELF, err)
	}
	return sizeOf(f), nil
}

func (i *Image) String() string { return fmt.Sprintf("build %s for %s", i.ID(), i.Board) }
