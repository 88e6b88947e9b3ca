// This file reads archives of objects, and checks that no symbol of a library is defined elsewhere.

package library

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	archiveMagic = "!<arch>\n"
	thinMagic    = "!<thin>\n"
	headerBytes  = 60 // of each object, with its name and its size
	nameEnd      = 16
	sizeAt       = 48
	sizeEnd      = 58

	ltoMark = "__gnu_lto_" // starts the names of symbols that GCC adds to every object with -flto
)

const nextTwice = "leave one of them out, or rename the symbol; a file of a library is left out by \"!FILE\" in " +
	"sources of its " + File

var (
	errArchive   = errors.New("not an archive of ELF objects")
	errTruncated = errors.New("truncated, or an object of invalid size")
)

// An Object is an ELF object that is linked.
type Object struct {
	Name string // for messages; in an archive, the member's
	Data []byte
}

// ReadArchive returns the objects of an archive in a file.
func ReadArchive(file string) ([]Object, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Objects(data)
}

// Objects returns the objects of an archive (ar(5)). Whether they are ELF is not checked.
func Objects(data []byte) (all []Object, err error) {
	if bytes.HasPrefix(data, []byte(thinMagic)) {
		return nil, errors.New("a thin library, which names its objects in place of holding them: create it without T")
	}

	rest, ok := bytes.CutPrefix(data, []byte(archiveMagic))
	if !ok {
		return nil, errors.New("not a library of objects")
	}

	var longNames []byte
	for len(rest) > 0 {
		if len(rest) < headerBytes {
			return nil, errTruncated
		}

		size, err := strconv.Atoi(strings.TrimSpace(string(rest[sizeAt:sizeEnd])))
		if err != nil || size < 0 || size > len(rest)-headerBytes {
			return nil, errTruncated
		}

		name, object := strings.TrimSpace(string(rest[:nameEnd])), rest[headerBytes:headerBytes+size]
		// Objects begin at even offsets.
		rest = rest[min(headerBytes+size+size%2, len(rest)):]

		if tableRE.MatchString(name) {
			if name == "//" {
				longNames = object
			}
			continue
		}

		if name, object, err = named(name, object, longNames); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(name, "__.SYMDEF") { // macOS's table of symbols
			all = append(all, Object{Name: name, Data: object})
		}

	}
	return all, nil
}

// tableRE matches the names of tables: of symbols, and of long names.
var tableRE = regexp.MustCompile(`^/(\D.*)?$`)

// named returns the name and the content of an object in an archive: a long name is in a table, or precedes the object.
func named(name string, object, longNames []byte) (string, []byte, error) {
	if length, ok := strings.CutPrefix(name, "#1/"); ok {
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(object) {
			return "", nil, errors.New("an object's name of invalid size")
		}
		return strings.TrimRight(string(object[:n]), "\x00"), object[n:], nil
	}
	if place, ok := strings.CutPrefix(name, "/"); ok {
		at, err := strconv.Atoi(place)
		if err != nil || at < 0 || at > len(longNames) {
			return "", nil, errors.New("an object's name that the table of names does not have")
		}
		line, _, _ := bytes.Cut(longNames[at:], []byte("\n"))
		name = string(line)
	}
	return strings.TrimSuffix(name, "/"), object, nil
}

// symbols calls found with each global symbol that the object defines.
func (o Object) symbols(found func(name string, weak bool)) error {
	f, err := elf.NewFile(bytes.NewReader(o.Data))
	if err != nil {
		return fmt.Errorf("%w: %w", errArchive, err)
	}

	list, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%w: %w", errArchive, err)
	}

	for _, s := range list {
		bind := elf.ST_BIND(s.Info)
		if (bind == elf.STB_GLOBAL || bind == elf.STB_WEAK) && s.Section != elf.SHN_UNDEF &&
			!strings.HasPrefix(s.Name, ltoMark) {
			found(s.Name, bind == elf.STB_WEAK)
		}
	}
	return nil
}

// A Link is what one link takes. Its linker finds a library's object in an archive, and only for a symbol that no
// object before it defines: it does not report that a library's definition is left out.
type Link struct {
	Archives map[string]string // files, by the libraries' names
	Objects  []Object          // all others
	// Taken reports whether a member of a library's archive was linked; nil: that is unknown
	Taken func(library, member string) bool
}

// Check returns an error if two libraries, or a library and an object beside them, define one symbol, or if a library's
// definition was left out because of a weak one: which of them is linked would depend on their order. Weak symbols of
// libraries may occur elsewhere.
func (l Link) Check() error {
	strong, weak := map[string]string{}, map[string]string{}
	for _, o := range l.Objects {
		err := o.symbols(func(name string, isWeak bool) {
			to := strong
			if isWeak {
				to = weak
			}
			to[name] = cmp.Or(to[name], o.Name)
		})
		if err != nil {
			return failure.Errorf(failure.Link, "%s: %w", o.Name, err)
		}
	}

	// In the order of names, so that equal libraries have equal errors.
	for _, name := range slices.Sorted(maps.Keys(l.Archives)) {
		members, err := definedIn(l.Archives[name])
		if err != nil {
			return failure.Errorf(failure.Link, "library %s: %w", name, err)
		}
		for _, symbol := range slices.Sorted(maps.Keys(members)) {
			if other := strong[symbol]; other != "" {
				return failure.New(failure.Link, nextTwice, "%s and library %s both define %s", other, name, symbol)
			}
			if other := weak[symbol]; other != "" && l.Taken != nil && !l.Taken(name, members[symbol]) {
				return failure.New(failure.Link, "define it in a source of the board or the template, or rename it",
					"library %s defines %s, but the weak definition in %s is linked", name, symbol, other)
			}

			strong[symbol] = "library " + name
		}
	}
	return nil
}

// definedIn returns the global symbols that an archive's objects define, without weak ones, each with its member.
func definedIn(file string) (map[string]string, error) {
	objects, err := ReadArchive(file)
	if err != nil {
		return nil, err
	}

	all := map[string]string{}
	for _, o := range objects {
		err := o.symbols(func(name string, isWeak bool) {
			if !isWeak {
				all[name] = cmp.Or(all[name], o.Name)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
