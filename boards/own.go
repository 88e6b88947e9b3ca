// This file checks and reads the files that a board brings with it: linker script, start-up code, headers, libraries,
// and those of the command after the link.

package boards

import (
	"encoding/json"
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

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// Words of PostLink and of Link.Args that are replaced.
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

// maxOwnBytes limits the size of a file that a board brings with it.
const maxOwnBytes = 64 << 20

// A PostLink is a command that is run on the linked image, for instance to sign it: a program and its arguments. What
// it writes is flashed. The zero value means that there is none.
type PostLink struct {
	Words []string
	Dir   string // the folder of the board file that has it, absolute; "" in a project
}

// UnmarshalJSON decodes the command from its list of words.
func (c *PostLink) UnmarshalJSON(b []byte) error { return unmarshalInner(b, &c.Words) }

// unmarshalInner is json.Unmarshal for one value of a file. A wrong type then has no offset, because that would be in
// the value, not in the file; the decoder of the file adds the field.
func unmarshalInner(b []byte, to any) error {
	err := json.Unmarshal(b, to)
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		typ.Offset = 0
	}
	return err
}

// MarshalJSON encodes the words only.
func (c PostLink) MarshalJSON() ([]byte, error) { return json.Marshal(c.Words) }

// IsZero reports whether there is no command.
func (c PostLink) IsZero() bool { return len(c.Words) == 0 }

// Writes returns the word for the file that the command writes, OutBinWord or OutHexWord.
func (c PostLink) Writes() string {
	if slices.ContainsFunc(c.Words, func(w string) bool { return strings.Contains(w, OutHexWord) }) {
		return OutHexWord
	}
	return OutBinWord
}

var (
	wordRE      = regexp.MustCompile(`\{[^{}]*\}`)
	boardFileRE = regexp.MustCompile(regexp.QuoteMeta(BoardWord) + `/([A-Za-z0-9_./-]*)`)
	variableRE  = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
)

// FilesIn returns the slash paths after each BoardWord in a list of words, each once.
func FilesIn(words []string) (names []string) {
	for _, w := range words {
		for _, m := range boardFileRE.FindAllStringSubmatch(w, -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// isVariable reports whether a word of PostLink stands for the value of an environment variable.
func isVariable(word string) bool { return variableRE.MatchString(word) }

// Variables returns the names of the environment variables that words of the command stand for, each once.
func (c PostLink) Variables() (names []string) {
	for _, w := range c.Words {
		if isVariable(w) && !slices.Contains(names, w[1:]) {
			names = append(names, w[1:])
		}
	}
	return names
}

// place notes, after one file was decoded, in which folder the paths are that it sets.
func (b *Board) place(where, dir string, lines, items map[string]int) {
	for field, s := range map[string]*Source{"linker_script": &b.LinkerScript, "startup": &b.Startup} {
		line, set := lines[field]
		if set && s.Name != "" {
			s.Dir, s.At = dir, Origin{where, line}
		} else if set {
			*s = Source{} // "" removes the parent's
		}
	}
	for field, list := range map[string][]Source{
		"sources": b.Sources, "include": b.Include, "settings": b.Settings, "libraries": b.Libraries,
	} {
		for i := range list {
			list[i].Dir, list[i].At = dir, Origin{where, items[fmt.Sprintf("%s[%d]", field, i)]}
		}
	}
	if _, set := lines["post_link"]; set {
		b.PostLink.Dir = dir
	}
	if _, set := lines["link.args"]; set {
		b.Link.Dir = dir
	}
}

// checkOwn returns an error for a path that leaves the folder of its board file, or that is no file of its kind.
func (b *Board) checkOwn() error {
	for _, f := range []struct {
		field string
		Source
		kinds []string
	}{
		{"linker_script", b.LinkerScript, []string{".ld", ".lds", ".x", ".S"}},
		{"startup", b.Startup, []string{".c", ".S"}},
	} {
		if f.Name == "" {
			continue
		}
		if err := plainPath(f.Name, f.kinds); err != nil {
			return b.wrong(f.field, "%w", err)
		}
		if len(b.Memory) == 0 && !b.Partial {
			return b.wrong(f.field, "a board without a memory map has none")
		}
	}
	for _, f := range b.Include {
		if err := plainPath(f.Name, nil); f.Name != "." && err != nil {
			return f.wrong("include", err)
		}
	}
	for _, f := range b.Settings {
		if err := plainPath(f.Name, nil); err != nil {
			return f.wrong("settings", err)
		}
	}
	for _, l := range b.Libraries {
		if err := checkLibrary(l.Name); err != nil {
			return l.wrong("libraries", err)
		}
	}
	for _, name := range FilesIn(b.Link.Args) {
		if err := plainPath(name, nil); err != nil {
			return b.wrong("link.args", "%w", err)
		}
	}
	return b.checkPostLink()
}

// wrong returns an error about a source, with its origin.
func (s Source) wrong(field string, err error) error {
	return &FileError{File: s.At.File, Line: s.At.Line, Err: fmt.Errorf("%s: %w", field, err)}
}

// IsPath reports whether a library's name is a folder beside the board file: any other is as in a project's Libraries.
func IsPath(library string) bool {
	return strings.Contains(library, "/") && !strings.Contains(library, ":")
}

func checkLibrary(name string) error {
	if IsPath(name) {
		return plainPath(strings.TrimPrefix(name, "./"), nil)
	}
	if name == "" || strings.ContainsAny(name, " \t\n\\") {
		return fmt.Errorf("%q is no library", name)
	}
	return nil
}

// plainPath returns an error for a path that is not below its folder or has another extension than one of kinds; nil
// allows any.
func plainPath(name string, kinds []string) error {
	for part := range strings.SplitSeq(name, "/") {
		if !nameRE.MatchString(part) {
			return fmt.Errorf("%q is not a relative path of plain names", name)
		}
	}
	if kinds != nil && !slices.Contains(kinds, path.Ext(name)) {
		return fmt.Errorf("%q is none of %s", name, strings.Join(kinds, ", "))
	}
	return nil
}

func (b *Board) checkPostLink() error {
	c := b.PostLink
	if c.IsZero() {
		return nil
	}
	if len(b.Memory) == 0 && !b.Partial {
		return b.wrong("post_link", "a board without a memory map has none")
	}
	if c.Words[0] == "" || strings.ContainsAny(strings.Join(c.Words, ""), "\x00\n\r") {
		return b.wrong("post_link", "no program, or a line break in a word")
	}
	if program := c.Words[0]; boardFileRE.FindString(program) != program && strings.ContainsAny(program, "${}") {
		return b.wrong("post_link", "%q is no program: write a name or %s/FILE", program, BoardWord)
	}
	placeholders := []string{BoardWord, ELFWord, BinWord, HexWord, OutBinWord, OutHexWord}
	writes := map[string]bool{}
	for _, w := range c.Words {
		for _, word := range wordRE.FindAllString(w, -1) {
			if !slices.Contains(placeholders, word) {
				return b.wrong("post_link", "the word %s is not known%s", word, jsonfile.DidYouMean(word, placeholders))
			}
			if word == OutBinWord || word == OutHexWord {
				writes[word] = true
			}
		}
		if strings.HasPrefix(w, "$") && !isVariable(w) {
			return b.wrong("post_link", "%q is not $NAME, a variable", w)
		}
		if strings.Count(w, BoardWord) != len(boardFileRE.FindAllString(w, -1)) {
			return b.wrong("post_link", "%q: write %s/FILE", w, BoardWord)
		}
	}
	if len(writes) != 1 {
		return b.wrong("post_link", "one of %s and %s must name the file that it writes", OutBinWord, OutHexWord)
	}
	for _, name := range FilesIn(c.Words) {
		if err := plainPath(name, nil); err != nil {
			return b.wrong("post_link", "%w", err)
		}
	}
	return nil
}

// headerKinds are the extensions of files that #include may name.
var headerKinds = []string{".h", ".hh", ".hpp", ".inc", ".inl"}

// IsHeader reports whether a file in a folder of Include is copied into projects.
func IsHeader(name string) bool { return slices.Contains(headerKinds, path.Ext(name)) }

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
