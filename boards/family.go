// This file loads the boards of a family, of which one file describes what all have in common, and completes a board
// by what its build found out.

package boards

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// familyFolder has a file for each family: what holds for all its boards. The folder with the family's name has those
// boards about which more is known.
const familyFolder = "family"

// member splits the name of a board of a family, FAMILY/NAME. The family is "" if there is none, or if NAME, which may
// have slashes itself, is not one for a board.
func member(shelves []shelf, name string) (family, member string) {
	family, member, _ = strings.Cut(name, "/")
	if strings.HasSuffix(member, ".json") || !nameRE.MatchString(family) || isLevel(family) {
		return "", ""
	}

	for part := range strings.SplitSeq(member, "/") {
		if !memberRE.MatchString(part) {
			return "", ""
		}
	}

	for _, s := range shelves {
		if _, err := fs.Stat(s.files, path.Join(familyFolder, family+".json")); err == nil {
			return family, member
		}
	}
	return "", ""
}

// Families returns the names of the families of boards on the search path and of the shipped ones, sorted.
func Families(folders []string) (names []string) {
	for _, s := range shelves(folders) {
		files, _ := fs.Glob(s.files, familyFolder+"/*.json") // the pattern is valid
		for _, f := range files {
			names = append(names, strings.TrimSuffix(path.Base(f), ".json"))
		}
	}

	slices.Sort(names)
	return slices.Compact(names)
}

// findMember loads a board of a family: its own file, or else the family's for a board with that name in Zephyr.
func findMember(shelves []shelf, family, member string) (*Board, error) {
	b := newBoard(family + "/" + member)
	level, file := familyFolder, family
	for _, s := range shelves {
		if _, err := fs.Stat(s.files, b.Name+".json"); err == nil {
			level, file = family, member
		}
	}

	if err := b.load(shelves, level, file, nil); err != nil {
		return nil, err
	}
	if b.ZephyrBoard == "" {
		b.ZephyrBoard = member
	}
	return b, b.check()
}

// members returns the names of the family's boards that have a file.
func members(shelves []shelf, family string) (all []string) {
	for _, s := range shelves {
		_ = fs.WalkDir(s.files, family, func(name string, d fs.DirEntry, err error) error {
			name, isBoard := strings.CutSuffix(name, ".json")
			if _, member := member(shelves, name); err == nil && isBoard && member != "" {
				all = append(all, name)
			}
			return nil // unreadable folders have no boards
		})
	}
	return all
}

// settled are the fields that have had their effect when a project was generated.
var settled = []string{
	"inherits", "templates", "partial", "zephyr_board", "sources", "defines", "functions", "linker_script", "startup",
	"include", "libraries", "post_link",
}

// accumulated are the other fields that a build may set and that accumulate over the levels.
var accumulated = []string{"cflags", "ldflags"}

// ownFields returns those of a board file that a build may set, too, and the file replaces.
func ownFields(data []byte) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}

	for _, name := range slices.Concat(settled, accumulated) {
		delete(fields, name)
	}

	if len(fields) == 0 {
		return nil, nil
	}
	return json.Marshal(fields)
}

// Complete returns the board with the contents of a file that its build wrote, in a board file's format: one level
// between the family's file and the board's own. The result is checked like any board, and is not partial. b is
// unchanged. Errors: those of Find.
func (b *Board) Complete(file string, data []byte) (*Board, error) {
	if len(data) > boardfile.MaxFileBytes {
		return nil, &jsonfile.Error{File: file, Err: fmt.Errorf("larger than %d bytes", boardfile.MaxFileBytes)}
	}

	var built Board
	lines, err := jsonfile.DecodePart(file, data, &built)
	if err != nil {
		return nil, err
	}

	for _, field := range settled {
		if line, ok := lines[field]; ok {
			return nil, &jsonfile.Error{File: file, Line: line, Err: fmt.Errorf("%s: a build cannot change it", field)}
		}
	}

	merged, err := b.copied()
	if err != nil {
		return nil, err
	}

	built.place(file, "", lines)
	merged.merge(&built, file, lines)

	// The board's own file is above what its build found out.
	if b.Own != nil {
		var own Board
		lines, err := jsonfile.DecodePart(file, b.Own, &own)
		if err != nil {
			return nil, err
		}
		if own.Link.Kind != "" && own.Link.Kind != merged.Link.Kind {
			merged.Link = Link{} // the fields of a link belong together
		}
		mergeFields(reflect.ValueOf(merged).Elem(), reflect.ValueOf(&own).Elem(), "", lines)
	}

	merged.Partial = false
	return merged, merged.check()
}

// copied returns a board that shares no memory with b, without its files.
func (b *Board) copied() (*Board, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}

	c := &Board{Name: b.Name, Origin: map[string]Origin{}}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("board %s: %w", b.Name, err)
	}
	return c, nil
}
