// This file reads the container: a tar, plain or gzipped, of plain files and folders.

package mlf

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/spelling"
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

// Open reads an archive, a tar or a gzipped tar by its content, whatever its name. A folder with a model.json, or a
// .json file, is the description of a model in plain C (docs/c-models.md): the result is the archive of that model with
// a typed call of its function. Every error has class config.
func Open(file string) (*Archive, error) {
	a := &Archive{Path: file}
	if raw, err := readDescribed(file); raw != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return parse(file, raw)
	}

	raw, err := readPacked(file)
	if err != nil {
		err = a.fault("", openAdvice(file, err), "%w", err)
	} else {
		a, err = parse(file, raw)
	}

	// The kind of a foreign file explains more than the failure to read it.
	next := foreign[strings.ToLower(filepath.Ext(file))]
	if next != "" && err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, (&Archive{Path: file}).fault("", next, "neither an archive nor the description of a model")
	}
	return a, err
}

const (
	nextC       = "describe its function in a .json file beside it (docs/c-models.md)"
	nextNetwork = "convert the network to C (docs/c-models.md), or export it to an archive (docs/tvm.md)"
)

// foreign has the next step for files of other kinds, by the ends of their names.
var foreign = map[string]string{
	".c": nextC, ".h": nextC, ".o": nextC, ".a": nextC, ".cpp": nextC,
	".onnx": nextNetwork, ".tflite": nextNetwork, ".pt": nextNetwork, ".pth": nextNetwork, ".pt2": nextNetwork,
	".h5": nextNetwork, ".keras": nextNetwork,
}

// ReadFiles returns the files of a tar or a gzipped tar that is no archive of a model. Names are relative and clean,
// and each occurs once. It unpacks at most limit bytes. name is for messages. Every error has class config.
func ReadFiles(name string, packed []byte, limit int64) ([]File, error) {
	a := &Archive{Path: name}

	var err error
	if a.Raw, err = unpack(bytes.NewReader(packed), min(limit, maxArchive)); err != nil {
		return nil, a.fault("", "", "%w", err)
	}

	if err := a.readTar(); err != nil {
		return nil, err
	}
	return a.Files, nil
}

// openAdvice returns the next step for a file that does not exist: the most similar name in its folder.
func openAdvice(file string, err error) string {
	if !errors.Is(err, os.ErrNotExist) {
		return ""
	}

	var names []string
	entries, _ := os.ReadDir(filepath.Dir(file)) // none in a folder that does not exist
	for _, e := range entries {
		if slices.Contains([]string{".tar", ".gz", ".tgz", ".json"}, filepath.Ext(e.Name())) {
			names = append(names, e.Name())
		}
	}

	return cmp.Or(spelling.Nearest(filepath.Base(file), names), "check the path of the model")
}

// readPacked returns the tar in a file, uncompressed.
func readPacked(file string) ([]byte, error) {
	f, err := regularfile.Open(file)
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

	// One byte more than allowed shows that there are more.
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("damaged or truncated: %w", err)
	}

	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("it unpacks to more than %d bytes", limit)
	}
	return raw, nil
}

// Parse is Open for an archive in memory, or for a tar of a model in plain C with its model.json. name is for messages.
func Parse(name string, packed []byte) (*Archive, error) {
	raw, err := unpack(bytes.NewReader(packed), maxArchive)
	if err != nil {
		return nil, (&Archive{Path: name}).fault("", "", "%w", err)
	}
	return parse(name, raw)
}

func parse(name string, raw []byte) (*Archive, error) {
	sum := sha256.Sum256(raw)
	a := &Archive{Path: name, Raw: raw, Digest: hex.EncodeToString(sum[:])}
	if err := a.readTar(); err != nil {
		return nil, err
	}

	if packed, err := a.packDescribed(); packed != nil || err != nil {
		if err != nil {
			return nil, err
		}
		// The packed tar has a metadata.json: this ends the recursion.
		return parse(name, packed)
	}

	if err := a.leaveFolder(); err != nil {
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
	tree := tree{}
	for count := 0; ; count++ {
		// Where the member before ends, in case it is the last.
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

		if h.Typeflag == tar.TypeXGlobalHeader || ofSystem(h.Name) {
			continue // a comment for the whole archive, or not a file of the model
		}

		if err := a.addMember(r, h, tree); err != nil {
			return err
		}
	}
}

// checkEnd returns an error without the zero block that ends every tar, which a tar truncated between two members
// lacks. end is the offset after the last member.
func (a *Archive) checkEnd(end int) error {
	// A member fills whole blocks.
	at := (end + tarBlock - 1) / tarBlock * tarBlock

	if len(a.Files) == 0 {
		return a.fault("", "", "it holds no files")
	}

	if at+tarBlock > len(a.Raw) {
		return a.fault("", "", "truncated: the tar's end mark is missing")
	}
	return nil
}

func (a *Archive) addMember(r io.Reader, h *tar.Header, tree tree) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return a.fault(fmt.Sprintf("%.80q", h.Name), untrusted, "%w", err)
	}

	if name == "." {
		return nil
	}

	switch h.Typeflag {
	case tar.TypeDir:
		return a.addFolder(name, tree)
	case tar.TypeReg:
	case tar.TypeLink, tar.TypeSymlink:
		return a.fault(name, "pack it again with files in place of links: tar --dereference --hard-dereference",
			"it is a link to %.80q; only plain files and folders are supported", h.Linkname)
	default:
		return a.fault(name, untrusted, "it is %s; only plain files and folders are supported", kindName(h.Typeflag))
	}

	// The holes of a sparse file take no bytes of the tar, whose size is limited.
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return a.fault(name, "", "sparse files are not supported")
		}
	}

	if e, ok := tree[strings.ToLower(name)]; ok && e.name == name {
		return a.fault(name, "pack it again, each file once", "it occurs twice in the archive")
	}

	// A tar need not list the folders of its files.
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

	a.Files = append(a.Files, File{name, unixLines(data)})
	return a.addName(name, true, tree)
}

// untrusted is the advice for members that no exporter writes.
const untrusted = "do not use this archive unless you trust its source"

// A tree has the archive's files and folders by their path in lower case.
type tree map[string]treeEntry

type treeEntry struct {
	name   string
	isFile bool
}

// addFolder records a folder and its parents. It returns an error if one is a file.
func (a *Archive) addFolder(name string, tree tree) error {
	for ; name != "."; name = path.Dir(name) {
		if err := a.addName(name, false, tree); err != nil {
			return err
		}
	}
	return nil
}

// addName records a file or folder. It returns an error if its name is that of another one on some computer.
func (a *Archive) addName(name string, isFile bool, tree tree) error {
	key := strings.ToLower(name)
	switch e, ok := tree[key]; {
	case ok && e.name != name:
		return a.fault(name, "rename one of them",
			"its name differs from that of %s only in capitals, which are equal on some computers", e.name)
	case ok && e.isFile != isFile:
		return a.fault(name, "", "it is both a file and a folder")
	}

	tree[key] = treeEntry{name, isFile}
	return nil
}

// ofSystem reports whether a member is what macOS or Windows adds to the files of a folder: it is ignored.
func ofSystem(name string) bool {
	for _, part := range strings.Split(path.Clean(name), "/") {
		if strings.HasPrefix(part, "._") || slices.Contains([]string{
			"__MACOSX", ".DS_Store", ".Spotlight-V100", ".Trashes", ".fseventsd", "Thumbs.db", "desktop.ini",
		}, part) {
			return true
		}
	}
	return false
}

// unixLines returns a text whose lines all end as on Windows with the line ends that TVM writes; other data unchanged.
func unixLines(data []byte) []byte {
	const windows = "\r\n"

	n := bytes.Count(data, []byte("\n"))
	if n == 0 || bytes.IndexByte(data, 0) >= 0 || bytes.Count(data, []byte(windows)) != n {
		return data
	}
	return bytes.ReplaceAll(data, []byte(windows), []byte("\n"))
}

// leaveFolder makes names relative to the folder of metadata.json, if the archive was packed with it, and checks those
// of generated code.
func (a *Archive) leaveFolder() error {
	top := ""
	if a.Find(metadataFile) == nil {
		for _, f := range a.Files {
			// The outermost, if there are several.
			if dir, base := path.Split(f.Name); base == metadataFile && (top == "" || len(dir) < len(top)) {
				top = dir
			}
		}
	}

	for i := range a.Files {
		f := &a.Files[i]
		name, below := strings.CutPrefix(f.Name, top)
		if !below {
			return a.fault(f.Name, "pack the content of "+top+", or this folder alone",
				"it lies beside %s, the folder of %s", top, metadataFile)
		}

		if strings.HasPrefix(name, "codegen/") && strings.ContainsFunc(name, notInSource) {
			return a.fault(fmt.Sprintf("%.80q", f.Name), untrusted,
				"names of generated code may contain only letters, digits and . _ + -")
		}

		f.Name = name
	}
	return nil
}

// kindName names an unsupported kind of member.
func kindName(flag byte) string {
	switch flag {
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	}
	return fmt.Sprintf("of unknown kind %q", flag)
}

// cleanName returns a member's name relative to the folder for extraction. It returns an error for a name that
// leads out of that folder or is not portable.
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
	return path.Clean(name), nil
}

// notInSource reports whether a character has a special meaning in a Makefile.
func notInSource(r rune) bool {
	return r >= utf8.RuneSelf || !spelling.IsAlnum(byte(r)) && !strings.ContainsRune("._+-/", r)
}
