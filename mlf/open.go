// This file reads the container: a tar, plain or gzipped, of plain files and folders.

package mlf

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/internal/plainfile"
)

// Limits, so that a hostile file cannot exhaust memory. Archives of microcontroller models are far smaller.
const (
	maxArchive = 512 << 20 // bytes of the tar, uncompressed
	maxFile    = 256 << 20 // bytes of one member
	maxFiles   = 10_000    // members, folders included
	maxName    = 512       // bytes of one member's name
	maxPart    = 240       // bytes of a part of it: file systems allow 255, and tools add an extension
	tarBlock   = 512
)

// Open reads an archive, a tar or a gzipped tar by its content, whatever its name. Every error is a *FormatError.
func Open(file string) (*Archive, error) {
	a := &Archive{Path: file}
	raw, err := readPacked(file)
	if err != nil {
		return nil, a.fault("", openAdvice(err), "%w", err)
	}
	return Parse(file, raw)
}

func openAdvice(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "check the path of the model"
	}
	return ""
}

// readPacked returns the tar in a file, uncompressed.
func readPacked(file string) ([]byte, error) {
	f, err := plainfile.Open(file)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	return unpack(f, maxArchive)
}

func pathless(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// unpack returns the tar of a stream that may be gzipped, at most limit bytes.
func unpack(r io.Reader, limit int64) ([]byte, error) {
	var magic [6]byte
	n, err := io.ReadFull(r, magic[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	r = io.MultiReader(bytes.NewReader(magic[:n]), r)
	switch head := string(magic[:n]); {
	case head == "":
		return nil, errors.New("it is empty")
	case strings.HasPrefix(head, "\x1f\x8b"):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case strings.HasPrefix(head, "\xfd7zXZ"), strings.HasPrefix(head, "BZh"), strings.HasPrefix(head, "\x28\xb5\x2f\xfd"):
		return nil, errors.New("unsupported compression: only .tar and .tar.gz are supported")
	case strings.HasPrefix(head, "PK\x03\x04"):
		return nil, errors.New("a zip: only .tar and .tar.gz are supported")
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("damaged or truncated: %w", err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", limit)
	}
	return raw, nil
}

// Parse reads an archive from its uncompressed tar. The Archive keeps the bytes: do not change them. name is for
// messages. Every error is a *FormatError.
func Parse(name string, raw []byte) (*Archive, error) {
	sum := sha256.Sum256(raw)
	a := &Archive{Path: name, Raw: raw, Digest: hex.EncodeToString(sum[:])}
	if err := a.readTar(); err != nil {
		return nil, err
	}
	if err := a.readMetadata(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Archive) readTar() error {
	src := bytes.NewReader(a.Raw)
	r := tar.NewReader(src)
	tree := map[string]bool{} // path -> is a file
	for count := 0; ; count++ {
		end := len(a.Raw) - src.Len()
		h, err := r.Next()
		if err == io.EOF {
			return a.checkEnd(end)
		}
		if err != nil {
			return a.fault("", "", "not a tar, or damaged or truncated: %w", err)
		}
		if count >= maxFiles {
			return a.fault("", "", "it has more than %d members", maxFiles)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // a comment for the whole archive
		}
		if err := a.addMember(r, h, tree); err != nil {
			return err
		}
	}
}

// checkEnd returns an error without the zero block that ends every tar, which a tar truncated between two members
// lacks. end is the offset after the last member.
func (a *Archive) checkEnd(end int) error {
	at := (end + tarBlock - 1) / tarBlock * tarBlock
	if len(a.Files) == 0 {
		return a.fault("", "", "it holds no files")
	}
	if at+tarBlock > len(a.Raw) {
		return a.fault("", "", "truncated: the tar's end mark is missing")
	}
	return nil
}

func (a *Archive) addMember(r io.Reader, h *tar.Header, tree map[string]bool) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return a.fault(fmt.Sprintf("%.80q", h.Name), "do not use this archive unless you trust its source", "%w", err)
	}
	if name == "." {
		return nil
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return a.addFolder(name, tree)
	case tar.TypeReg:
	default:
		return a.fault(name, "do not use this archive unless you trust its source",
			"it is %s; only plain files and folders are supported", kindName(h.Typeflag))
	}
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return a.fault(name, "", "sparse files are not supported")
		}
	}
	if _, twice := tree[name]; twice {
		return a.fault(name, "", "it occurs twice in the archive")
	}
	if err := a.addFolder(path.Dir(name), tree); err != nil {
		return err
	}
	if h.Size > maxFile {
		return a.fault(name, "", "it is larger than %d MiB", maxFile>>20)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return a.fault(name, "", "damaged or truncated: %w", err)
	}
	tree[name] = true
	a.Files = append(a.Files, File{name, data})
	return nil
}

// addFolder records a folder and its parents. It returns an error if one is a file.
func (a *Archive) addFolder(name string, tree map[string]bool) error {
	for ; name != "."; name = path.Dir(name) {
		if tree[name] {
			return a.fault(name, "", "it is both a file and a folder")
		}
		tree[name] = false
	}
	return nil
}

// kindName names an unsupported kind of member.
func kindName(flag byte) string {
	switch flag {
	case tar.TypeLink, tar.TypeSymlink:
		return "a link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	}
	return fmt.Sprintf("of unknown kind %q", flag)
}

// cleanName returns a member's name relative to the folder for extraction. It returns an error for a name that
// leads out of that folder, is not portable or, in codegen/, has a special meaning in a Makefile.
func cleanName(name string) (string, error) {
	switch {
	case len(name) > maxName:
		return "", fmt.Errorf("its name is longer than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("its name is not plain text")
	case strings.HasPrefix(name, "/"), strings.Contains(name, `\`), strings.Contains(name, ":"):
		return "", errors.New("its name is not relative, or has a backslash or colon")
	}
	for _, part := range strings.Split(name, "/") {
		switch {
		case part == "..":
			return "", errors.New("its name refers to a place outside of the archive")
		case len(part) > maxPart:
			return "", fmt.Errorf("a part of its name is longer than %d bytes", maxPart)
		}
	}
	clean := path.Clean(name)
	if strings.HasPrefix(clean, "codegen/") && strings.ContainsFunc(clean, notInSource) {
		return "", errors.New("names of generated code may contain only letters, digits and . _ + -")
	}
	return clean, nil
}

func notInSource(r rune) bool {
	return r >= utf8.RuneSelf || !isAlnum(byte(r)) && !strings.ContainsRune("._+-/", r)
}
