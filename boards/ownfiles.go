// This file checks and reads the files that a board brings with it: linker script, start-up code, headers, libraries,
// and those of the command after the link.

package boards

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

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
	if slices.ContainsFunc(c.Words, func(w string) bool { return strings.Contains(w, boardfile.OutHexWord) }) {
		return boardfile.OutHexWord
	}
	return boardfile.OutBinWord
}

var (
	wordRE     = regexp.MustCompile(`\{[^{}]*\}`)
	variableRE = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)
)

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

// place notes, in the board of one file, in which folder the paths are that it sets.
func (b *Board) place(where, dir string, lines jsonfile.Lines) {
	for field, s := range map[string]*Source{"linker_script": &b.LinkerScript, "startup": &b.Startup} {
		if s.Name != "" { // "" removes the parent's
			s.Dir, s.At = dir, Origin{where, lines[field]}
		}
	}

	for field, list := range map[string][]Source{
		"sources": b.Sources, "include": b.Include, "settings": b.Settings, "libraries": b.Libraries,
	} {
		for i := range list {
			list[i].Dir, list[i].At = dir, Origin{where, lines[fmt.Sprintf("%s[%d]", field, i)]}
		}
	}

	b.PostLink.Dir, b.Link.Dir = dir, dir
}

// checkOwn returns an error for a file that only firmware with a memory map has, and for a path that leaves the folder
// of its board file.
func (b *Board) checkOwn() error {
	for field, isSet := range map[string]bool{
		"linker_script": b.LinkerScript.Name != "", "startup": b.Startup.Name != "", "post_link": !b.PostLink.IsZero(),
	} {
		if isSet && len(b.Memory) == 0 && !b.Partial {
			return b.wrong(field, "a board without a memory map has none")
		}
	}

	for _, l := range b.Libraries {
		if err := checkLibrary(l.Name); err != nil {
			return l.wrong("libraries", err)
		}
	}

	for _, name := range boardfile.FilesIn(b.Link.Args) {
		if err := plainPath(name); err != nil {
			return b.wrong("link.args", "%w", err)
		}
	}

	return b.checkPostLink()
}

// wrong returns an error about a source, with its origin.
func (s Source) wrong(field string, err error) error {
	return &FileError{File: s.At.File, Line: s.At.Line, Err: fmt.Errorf("%s: %w", field, err)}
}

func checkLibrary(name string) error {
	if boardfile.IsPath(name) {
		return plainPath(strings.TrimPrefix(name, "./"))
	}

	if name == "" || strings.ContainsAny(name, ` \`) {
		return fmt.Errorf("%q is no library", name)
	}
	return nil
}

// plainPath returns an error for a path that is not below its folder.
func plainPath(name string) error { return jsonfile.CheckValue(name, "path") }

func (b *Board) checkPostLink() error {
	c := b.PostLink
	if c.IsZero() {
		return nil
	}

	if c.Words[0] == "" {
		return b.wrong("post_link", "no program")
	}
	if program := c.Words[0]; boardfile.FileRE.FindString(program) != program && strings.ContainsAny(program, "${}") {
		return b.wrong("post_link", "%q is no program: write a name or %s/FILE", program, boardfile.BoardWord)
	}

	placeholders := []string{
		boardfile.BoardWord, boardfile.ELFWord, boardfile.BinWord, boardfile.HexWord,
		boardfile.OutBinWord, boardfile.OutHexWord,
	}

	writes := map[string]bool{}
	for _, w := range c.Words {
		for _, word := range wordRE.FindAllString(w, -1) {
			if !slices.Contains(placeholders, word) {
				return b.wrong("post_link", "the word %s is not known%s", word, jsonfile.DidYouMean(word, placeholders))
			}
			if word == boardfile.OutBinWord || word == boardfile.OutHexWord {
				writes[word] = true
			}
		}

		if strings.HasPrefix(w, "$") && !isVariable(w) {
			return b.wrong("post_link", "%q is not $NAME, a variable", w)
		}
		if strings.Count(w, boardfile.BoardWord) != len(boardfile.FileRE.FindAllString(w, -1)) {
			return b.wrong("post_link", "%q: write %s/FILE", w, boardfile.BoardWord)
		}
	}

	// What it writes is flashed: one file.
	if len(writes) != 1 {
		return b.wrong("post_link", "one of %s and %s must name the file that it writes", boardfile.OutBinWord,
			boardfile.OutHexWord)
	}

	for _, name := range boardfile.FilesIn(c.Words) {
		if err := plainPath(name); err != nil {
			return b.wrong("post_link", "%w", err)
		}
	}
	return nil
}
