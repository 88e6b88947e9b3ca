// This file finds board files and merges a board with its parents.

package boards

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

//go:embed *.json chip cpu family
var shipped embed.FS

var (
	nameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	// one part of the name of a family's board, as in nrf9160dk_nrf9160@1.0.0
	memberRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*$`)
)

// notFound returns the error for a board, chip or cpu that is in no folder of the search path.
func notFound(name string, available []string) error {
	next := "choose one of: " + strings.Join(available, ", ") + "; or name the folder that has boards/NAME.json: " +
		nextstep.Option("Host.Path", "…")
	return failure.New(failure.Config, next, "board %q is not known%s", name, jsonfile.DidYouMean(name, available))
}

// Find loads the board of that name; or FAMILY/NAME, a board of a family, which needs no file of its own (see member);
// or the board file at that path (another name with a slash, or one ending in .json).
// folders is the search path, first match wins: each folder's boards/ is looked into, then the shipped boards.
// Errors: class config, with file and line, for an error in a board file; class config for a name that is not known.
func Find(name string, folders []string) (*Board, error) {
	shelves := shelves(folders)
	searched := shelves

	// Before paths, since the name of a family's board has slashes.
	if family, member := member(shelves, name); family != "" {
		return findMember(shelves, family, member)
	}

	var file string
	if isPath(name) {
		dir, given := filepath.Dir(name), name
		file = abspath.Of(name)
		// The file's parents may lie beside it.
		shelves = append([]shelf{newShelf(dir)}, shelves...)
		name = strings.TrimSuffix(filepath.Base(name), ".json")
		if _, err := fs.Stat(shelves[0].files, name+".json"); err != nil {
			next := "give the path of a board file, or a board of a family: " +
				strings.Join(Families(folders), "/NAME, ") + "/NAME"
			return nil, failure.New(failure.Config, next, "board file %s: %w", given, err)
		}
	}

	if !nameRE.MatchString(name) || strings.HasSuffix(name, ".json") {
		if _, where, _, err := read(shelves, name+".json"); err == nil {
			return nil, failure.New(failure.Config, "rename the file, as in my_board.json", "board file %s: "+
				"a board's name has only letters, digits, _, - and ., and does not begin with - or .", where)
		}
		return nil, notFound(name, names(searched))
	}

	b := newBoard(name)
	b.Path = file
	if err := b.load(shelves, "", name, nil); err != nil {
		return nil, err
	}

	if err := b.hides(); err != nil {
		return nil, err
	}
	return b, b.check()
}

// newBoard returns a board with the values of fields that no file sets.
func newBoard(name string) *Board {
	return &Board{
		Name: name, Origin: map[string]Origin{},
		PacketBytes: 1024, RegistryBytes: 512, LogLevel: "info", RuntimeOpt: "Os", OperatorOpt: "O2",
	}
}

// hides returns an error for a user's board that has the name of a shipped one without Replaces: what was built for and
// recorded of the one would be taken for the other's.
func (b *Board) hides() error {
	if b.Dir == "" || b.Replaces {
		return nil
	}
	if _, err := fs.Stat(shipped, b.Name+".json"); err != nil {
		return nil
	}

	return &jsonfile.Error{
		File: b.Files[len(b.Files)-1],
		Err:  fmt.Errorf("hides the shipped board %s: choose another name, or set \"replaces\": true", b.Name),
	}
}

// OwnFile returns the text of the board's own file, which is in Dir. Errors: class config.
func (b *Board) OwnFile() (text []byte, err error) {
	if family, _, ok := strings.Cut(b.Name, "/"); ok {
		return nil, failure.New(failure.Config, "use the board as it is, or a file that inherits from family/"+family,
			"board %s is of a family and needs no file of its own", b.Name)
	}

	if b.Dir == "" {
		text, err = fs.ReadFile(shipped, b.Name+".json")
	} else {
		text, err = jsonfile.Read(os.DirFS(b.Dir), b.Name+".json")
	}

	if err != nil {
		return nil, failure.Errorf(failure.Config, "board %s: %w", b.Name, err)
	}
	return text, nil
}

// Locate returns the name of the board that Find loads for a name or path, without loading it, and the absolute path of
// its file: "" for a name, which Find searches for.
func Locate(nameOrPath string, folders []string) (name, file string) {
	if !isFile(nameOrPath, folders) {
		return nameOrPath, ""
	}
	return strings.TrimSuffix(filepath.Base(nameOrPath), ".json"), abspath.Of(nameOrPath)
}

// isFile reports whether Find takes a name as the path of a board file.
func isFile(name string, folders []string) bool {
	family, _ := member(shelves(folders), name)
	return family == "" && isPath(name)
}

func isPath(name string) bool {
	return strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) ||
		strings.HasSuffix(name, ".json")
}

// List returns the names of all boards on the search path and of the shipped ones, sorted.
func List(folders []string) []string { return names(shelves(folders)) }

// A shelf is one folder of board files with its chip/ and cpu/.
type shelf struct {
	files fs.FS
	shown string // the folder as the user has written it; "" for the shipped ones
	dir   string // the same, absolute
}

func newShelf(dir string) shelf { return shelf{os.DirFS(dir), dir, abspath.Of(dir)} }

func shelves(folders []string) []shelf {
	var s []shelf
	for _, f := range folders {
		s = append(s, newShelf(filepath.Join(f, "boards")))
	}

	// Last, so that a user's file precedes a shipped one.
	return append(s, shelf{files: shipped})
}

func names(shelves []shelf) []string {
	var all []string
	for _, s := range shelves {
		files, _ := fs.Glob(s.files, "*.json") // the pattern is valid; a missing folder has no boards
		for _, f := range files {
			if name := strings.TrimSuffix(f, ".json"); nameRE.MatchString(name) {
				all = append(all, name)
			}
		}

		families, _ := fs.Glob(s.files, familyFolder+"/*.json")
		for _, f := range families {
			all = append(all, members(shelves, strings.TrimSuffix(path.Base(f), ".json"))...)
		}
	}

	sort.Strings(all)
	return slices.Compact(all)
}

// levels maps a file's folder ("" for boards) to the folders that it may inherit from. Others are families' folders.
var levels = map[string][]string{"": {"chip", "cpu", familyFolder}, "chip": {"cpu"}, "cpu": {}, familyFolder: {}}

func isLevel(folder string) bool { return levels[folder] != nil }

// mayInherit returns the folders that a file in a folder may inherit from.
func mayInherit(level string) []string {
	if up, ok := levels[level]; ok {
		return up
	}
	return []string{familyFolder}
}

// load decodes the file level/name into b, after its parents. from is the file that names it, nil for the board.
func (b *Board) load(shelves []shelf, level, name string, from *Origin) error {
	file := path.Join(level, name) + ".json"
	data, where, dir, err := read(shelves, file)
	switch {
	case err != nil && from == nil:
		return notRead(err, name, names(shelves))
	case err != nil:
		return &jsonfile.Error{File: from.File, Line: from.Line, Err: parentMissing(err, level, name, shelves)}
	}

	var own Board
	lines, err := jsonfile.DecodePart(where, data, &own)
	if err != nil {
		return err
	}

	if own.Inherits != "" {
		here := Origin{where, lines["inherits"]}
		up, parent, ok := strings.Cut(own.Inherits, "/")
		if !ok || !slices.Contains(mayInherit(level), up) || !nameRE.MatchString(parent) {
			next := ""
			if level == "" {
				next = "for a copy of a board: " + nextstep.Target("board:new") + " NAME"
			}
			return &jsonfile.Error{
				File: here.File, Line: here.Line,
				Err: failure.New(failure.Config, next, "inherits %q: %s", own.Inherits, mayInheritText(level)),
			}
		}

		// Parents first: the file replaces what they set.
		if err := b.load(shelves, up, parent, &here); err != nil {
			return err
		}
	}

	if from == nil {
		b.Dir = dir
	}

	if b.Partial {
		// Complete sets these fields again, above those of the build.
		if b.Own, err = ownFields(data); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}

	// Before merge, which copies sources with their folders.
	own.place(where, dir, lines)
	b.merge(&own, where, lines)

	// The board's file may narrow what its chip has (compareChip): the chip's is kept beside it.
	if level == "chip" {
		chip := *b
		chip.Dir = dir
		b.chip = &chip
	}

	b.inheritRatings()
	return nil
}

func mayInheritText(level string) string {
	subject := cmp.Or(level, "board")
	if !isLevel(level) {
		subject = "board of a family"
	}
	up := mayInherit(level)
	if len(up) == 0 {
		return "a " + subject + " inherits from nothing"
	}
	return "a " + subject + " inherits from " + strings.Join(up, "/NAME or ") + "/NAME"
}

func notRead(err error, name string, available []string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return notFound(name, available)
	}
	return failure.Errorf(failure.Config, "board %s: %w", name, err)
}

func parentMissing(err error, level, name string, shelves []shelf) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	var names []string
	for _, s := range shelves {
		files, _ := fs.Glob(s.files, level+"/*.json") // as in names
		for _, f := range files {
			names = append(names, strings.TrimSuffix(f, ".json"))
		}
	}

	full := level + "/" + name
	return fmt.Errorf("inherits %q, which is not known%s", full, jsonfile.DidYouMean(full, names))
}

// read returns the first shelf's file of that name, its name for messages, and its folder on disk, absolute.
func read(shelves []shelf, file string) (data []byte, where, dir string, err error) {
	for _, s := range shelves {
		data, err = jsonfile.Read(s.files, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
		if s.dir == "" {
			return data, "boards/" + file, "", err
		}
		file = filepath.FromSlash(file)
		return data, filepath.Join(s.shown, file), filepath.Dir(filepath.Join(s.dir, file)), err
	}
	return nil, "", "", fmt.Errorf("%s: %w", file, fs.ErrNotExist)
}

// merge sets the fields that a file below the board's files has; lines are those of the file.
func (b *Board) merge(from *Board, where string, lines jsonfile.Lines) {
	lengths := mergeFields(reflect.ValueOf(b).Elem(), reflect.ValueOf(from).Elem(), "", lines)
	b.Files = append(b.Files, where)

	// The folder belongs to the arguments: a file that keeps them keeps it.
	if lines["link.args"] > 0 {
		b.Link.Dir = from.Link.Dir
	}

	for at, line := range lines {
		if list, element, ok := strings.Cut(at, "["); ok {
			// The file's elements follow those of its parents.
			number, rest, _ := strings.Cut(element, "]")
			n, _ := strconv.Atoi(number) // always a number
			at = fmt.Sprintf("%s[%d]%s", list, lengths[list]+n, rest)
		}
		b.Origin[at] = Origin{where, line}
	}
}

// mergeFields sets the fields of a struct that a file has. Lists with the tag merge:"append" accumulate: it returns
// their previous lengths. Maps are merged name by name. What belongs to the files above is not changed.
func mergeFields(to, from reflect.Value, above string, lines jsonfile.Lines) (lengths map[string]int) {
	lengths = map[string]int{}
	for i := range to.NumField() {
		field := to.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		name = above + name
		if lines[name] == 0 {
			continue
		}

		old, own := to.Field(i), from.Field(i)
		_, isValue := old.Addr().Interface().(json.Unmarshaler)
		switch {
		// Without spare capacity, so that the list of the files above keeps its memory.
		case field.Tag.Get("merge") == "append":
			lengths[name] = old.Len()
			old.Set(reflect.AppendSlice(old.Slice3(0, old.Len(), old.Len()), own))
		case old.Kind() == reflect.Map:
			merged := map[string]string{}
			maps.Copy(merged, old.Interface().(map[string]string))
			maps.Copy(merged, own.Interface().(map[string]string))
			old.Set(reflect.ValueOf(merged))
		case old.Kind() == reflect.Struct && !isValue:
			mergeFields(old, own, name+".", lines)
		default:
			old.Set(own)
		}
	}
	return lengths
}
