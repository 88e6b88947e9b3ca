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
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	archiveMagic = "!<arch>\n"
	headerBytes  = 60
	ltoMark      = "__gnu_lto_" // starts the names of symbols that GCC adds to every object with -flto
)

const nextTwice = "leave one of them out, or rename the symbol; a file of a library is left out by \"!FILE\" in " +
	"sources of its " + File

var errArchive = errors.New("not an archive of ELF objects")

// An Object is an ELF object that is linked.
type Object struct {
	Name  string // for messages; in an archive, the member's
	Data  []byte
	Parts []Object // which an earlier link has combined into it; nil: none, or unknown
}

// ReadArchive returns the members of an archive, in GNU's format.
func ReadArchive(file string) (all []Object, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(data, []byte(archiveMagic))
	if !ok {
		return nil, errArchive
	}
	var longNames []byte
	for len(rest) > 0 {
		if len(rest) < headerBytes {
			return nil, errArchive
		}
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size < 0 || size > len(rest)-headerBytes {
			return nil, errArchive
		}
		name, data := strings.TrimRight(string(rest[:16]), " "), rest[headerBytes:headerBytes+size]
		rest = rest[min(len(rest), headerBytes+size+size%2):]
		if name == "//" {
			longNames = data
		} else if name != "/" && name != "/SYM64/" { // those are indexes
			all = append(all, Object{Name: memberName(name, longNames), Data: data})
		}
	}
	return all, nil
}

// memberName returns a member's name, which ends with a slash. "/NUMBER" is an offset in the table of long names.
func memberName(name string, longNames []byte) string {
	if at, err := strconv.Atoi(strings.TrimPrefix(name, "/")); err == nil && at >= 0 && at < len(longNames) {
		long, _, _ := bytes.Cut(longNames[at:], []byte("\n"))
		name = string(long)
	}
	return strings.TrimSuffix(name, "/")
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
		if err := o.addTo(strong, weak); err != nil {
			return failure.Errorf(failure.Link, "%s: %w", o.Name, err)
		}
	}
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

// addTo adds the symbols that the object defines, each with the name of the object, or of its part that has it.
func (o Object) addTo(strong, weak map[string]string) error {
	parts := map[string]string{}
	for _, p := range o.Parts {
		if err := p.symbols(func(name string, _ bool) { parts[name] = cmp.Or(parts[name], p.Name) }); err != nil {
			return err
		}
	}
	return o.symbols(func(name string, isWeak bool) {
		to := strong
		if isWeak {
			to = weak
		}
		to[name] = cmp.Or(to[name], parts[name], o.Name)
	})
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
