// This file reads which symbols an archive of objects defines.

package library

import (
	"bytes"
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

var errArchive = errors.New("not an archive of ELF objects")

// defined returns the global symbols that an archive's objects define, without weak ones.
func defined(file string) (map[string]bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(data, []byte(archiveMagic))
	if !ok {
		return nil, errArchive
	}
	all := map[string]bool{}
	for len(rest) > 0 {
		if len(rest) < headerBytes {
			return nil, errArchive
		}
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size < 0 || size > len(rest)-headerBytes {
			return nil, errArchive
		}
		name, member := rest[:16], rest[headerBytes:headerBytes+size]
		rest = rest[min(len(rest), headerBytes+size+size%2):]
		if name[0] == '/' && !('0' <= name[1] && name[1] <= '9') {
			continue // the archive's index, and its table of long names
		}
		if err := symbols(member, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// symbols adds the symbols of an object.
func symbols(object []byte, to map[string]bool) error {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	list, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%w: %w", errArchive, err)
	}
	for _, s := range list {
		if elf.ST_BIND(s.Info) == elf.STB_GLOBAL && s.Section != elf.SHN_UNDEF &&
			!strings.HasPrefix(s.Name, ltoMark) {
			to[s.Name] = true
		}
	}
	return nil
}

// Check returns an error if two libraries, or a library and an object beside them, define one symbol: which of them is
// linked would depend on their order. Archives are files by the libraries' names; objects have names of files.
func Check(archives map[string]string, objects map[string][]byte) error {
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		all := map[string]bool{}
		if err := symbols(objects[name], all); err != nil {
			return failure.Errorf(failure.Link, "%s: %w", name, err)
		}
		for symbol := range all {
			owner[symbol] = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(archives)) {
		all, err := defined(archives[name])
		if err != nil {
			return failure.Errorf(failure.Link, "library %s: %w", name, err)
		}
		for _, symbol := range slices.Sorted(maps.Keys(all)) {
			if other := owner[symbol]; other != "" {
				return failure.New(failure.Link, "leave one of them out, or rename the symbol",
					"%s and library %s both define %s", other, name, symbol)
			}
			owner[symbol] = "library " + name
		}
	}
	return nil
}
