// This file checks and reads the files that a board brings with it: linker script, start-up code, headers, libraries,
// and those of the command after the link.

package boards

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// A postLink is a command that is run on the linked image, for instance to sign it: a program and its arguments. What
// it writes is flashed. The zero value means that there is none.
type postLink struct {
	Words []string
	Dir   string // the folder of the board file that has it, absolute; "" in a project
}

// UnmarshalJSON decodes the command from its list of words.
func (c *postLink) UnmarshalJSON(b []byte) error { return unmarshalInner(b, &c.Words) }

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
func (c postLink) MarshalJSON() ([]byte, error) { return json.Marshal(c.Words) }

// IsZero reports whether there is no command.
func (c postLink) IsZero() bool { return len(c.Words) == 0 }

// Writes returns the word for the file that the command writes, OutBinWord or OutHexWord.
func (c postLink) Writes() string {
	if slices.ContainsFunc(c.Words, func(w string) bool { return strings.Contains(w, boardfile.OutHexWord) }) {
		return boardfile.OutHexWord
	}
	return boardfile.OutBinWord
}

// Variables returns the names of the environment variables that words of the command stand for, each once.
func (c postLink) Variables() (names []string) {
	for _, w := range c.Words {
		if name, ok := strings.CutPrefix(w, "$"); ok && !slices.Contains(names, name) {
			names = append(names, name)
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

	for field, words := range map[string][]string{"link.args": b.Link.Args, "post_link": b.PostLink.Words} {
		for _, name := range boardfile.FilesIn(words) {
			if err := jsonfile.CheckValue(name, "path"); err != nil {
				return b.wrong(field, "%w", err)
			}
		}
	}
	if b.PostLink.IsZero() {
		return nil
	}

	program, all := b.PostLink.Words[0], strings.Join(b.PostLink.Words, " ")
	switch {
	case boardfile.FileRE.FindString(program) != program && strings.ContainsAny(program, "${}"):
		return b.wrong("post_link", "%q is no program: write a name or %s/FILE", program, boardfile.BoardWord)
	// What it writes is flashed: one file.
	case strings.Contains(all, boardfile.OutBinWord) == strings.Contains(all, boardfile.OutHexWord):
		return b.wrong("post_link", "one of %s and %s must name the file that it writes", boardfile.OutBinWord,
			boardfile.OutHexWord)
	}
	return nil
}
