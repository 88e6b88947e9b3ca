// Package boardfile finds and reads the files that a board brings with it, beside its board file.
//
// It does not read board files: package boards does.
package boardfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Words of a board's PostLink and of its Link.Args that are replaced.
const (
	// BoardWord, and a slash path after it, is a file in the folder of the board file, or of the project.
	BoardWord = "{board}"
	// ELFWord, BinWord and HexWord are of PostLink: the linked image, which the command reads.
	ELFWord = "{elf}"
	BinWord = "{bin}" // raw bytes, from the first one of the image on
	HexWord = "{hex}" // Intel HEX
	// OutBinWord and OutHexWord are of PostLink: the file that the command writes.
	OutBinWord = "{out.bin}" // raw bytes, from the start of the region of the code on
	OutHexWord = "{out.hex}" // Intel HEX
)

// Folders of sources.
const (
	PortFolder   = "port" // of a template: its ports; a project gets its board's, in SourceFolder
	SourceFolder = "src"  // of a project: its sources, its board's among them
)

// InProject returns the slash path, in a project, of a source, start-up code or folder of headers that a board file
// names. In a project, the ports are no folder of their own.
func InProject(name string) string {
	return path.Join(SourceFolder, strings.TrimPrefix(name, PortFolder+"/"))
}

// MaxFileBytes limits the size of a board file; real ones have a few KiB.
const MaxFileBytes = 1 << 20

// FileName returns a board's name as one part of a path. Other names give other parts.
func FileName(name string) string { return strings.ReplaceAll(name, "/", "+") } // no name has a plus sign

// maxOwnBytes limits the size of a file that a board brings with it.
const maxOwnBytes = 64 << 20

// FileRE matches a file in the board's folder, in a word: BoardWord and its slash path.
var FileRE = regexp.MustCompile(regexp.QuoteMeta(BoardWord) + `/([A-Za-z0-9_./-]*)`)

// FilesIn returns the slash paths after each BoardWord in a list of words, each once.
func FilesIn(words []string) (names []string) {
	for _, w := range words {
		for _, m := range FileRE.FindAllStringSubmatch(w, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// IsPath reports whether a library's name is a folder beside the board file: any other is as in a project's Libraries.
func IsPath(library string) bool {
	return strings.Contains(library, "/") && !strings.Contains(library, ":")
}

// IsHeader reports whether a file is a header by its ending: those in a folder of Include are copied into projects.
func IsHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp", ".inc", ".inl"}, path.Ext(name))
}

// CheckFolder returns an error for a folder, by its slash path, that is not in the one of the board file that names it.
func CheckFolder(dir, folder string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	info, err := root.Stat(filepath.FromSlash(path.Clean(folder)))
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	return err
}

// FilesBeside returns the slash paths of files in a folder beside a board file, and of links to files, whose names are
// wanted. It follows no link out of the board file's folder, and none to another folder.
func FilesBeside(dir, folder string, wanted func(name string) bool) (names []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), path.Clean(folder), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !wanted(name) {
			return err
		}
		if info, err := root.Stat(filepath.FromSlash(name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// ReadBeside reads a file by its slash path in the folder of a board file, and returns the mode of a copy: 0o755 if its
// owner may run it, otherwise 0o644. It follows no link out of the folder. Errors: those of the file system; others for
// a file that is not plain or larger than 64 MiB.
func ReadBeside(dir, name string) (data []byte, mode fs.FileMode, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	info, err := root.Stat(filepath.FromSlash(name)) // before it is opened, because opening a pipe waits
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxOwnBytes {
		return nil, 0, fmt.Errorf("%s is not a plain file under %d MiB", filepath.Join(dir, name), maxOwnBytes>>20)
	}
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	mode = 0o644
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	data, err = io.ReadAll(io.LimitReader(f, maxOwnBytes))
	return data, mode, err
}
