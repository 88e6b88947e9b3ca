// This file writes the registries of operators.

package firmware

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A Registry is a TVMFuncRegistry with its names and functions (crt_abi.md §4), to be put behind linked operators.
type Registry struct {
	Entries   []string // the functions, by their C names; as NAME=SYMBOL if they are registered under another
	WordBytes int      // of a pointer
}

const registryAlign = 16

// Bytes is its size.
func (r Registry) Bytes() int {
	n := (2+len(r.Entries))*r.WordBytes + 2 + 1 // names and functions; the functions; the count; the end of the names
	for _, e := range r.Entries {
		name, _ := EntryNames(e)
		n += len(name) + 1
	}
	return (n + registryAlign - 1) / registryAlign * registryAlign
}

// Append returns what the file has in memory from base on up to the address at, and behind it the registry, up to end.
// symbols are the file's. An entry that is not among them, what lies elsewhere, and variables of threads that do not
// begin as zero are errors of class link.
func (r Registry) Append(f *elf.File, symbols map[string]uint64, base, at, end uint64) ([]byte, error) {
	all := make([]byte, end-base)
	for _, s := range f.Sections {
		switch {
		case s.Flags&elf.SHF_TLS != 0 && (s.Type != elf.SHT_NOBITS || s.Size > maxThreadBytes):
			return nil, failure.New(failure.Link, "make them plain variables",
				"operators have variables of a thread (section %s)", s.Name)
		case s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOBITS || s.Size == 0:
			continue
		case s.Addr < base || s.Addr+s.Size > at:
			return nil, failure.New(failure.Link, "", "operators: section %s is not placed", s.Name)
		}
		data, err := s.Data()
		if err != nil {
			return nil, failure.New(failure.Link, "", "operators: section %s: %w", s.Name, err)
		}
		copy(all[s.Addr-base:], data)
	}
	registry, err := r.encode(f, symbols, at)
	if err != nil {
		return nil, err
	}
	copy(all[at-base:], registry)
	return all, nil
}

// maxThreadBytes is what the firmware's one thread keeps for the errno of a C library that is linked with operators.
const maxThreadBytes = 16

func (r Registry) encode(f *elf.File, symbols map[string]uint64, at uint64) ([]byte, error) {
	var w bytes.Buffer
	word := func(v uint64) {
		b := make([]byte, 8)
		if r.WordBytes == 8 {
			f.ByteOrder.PutUint64(b, v)
		} else {
			f.ByteOrder.PutUint32(b, uint32(v))
		}
		w.Write(b[:r.WordBytes])
	}
	functions := at + 2*uint64(r.WordBytes)
	word(functions + uint64(len(r.Entries)*r.WordBytes)) // where the names are
	word(functions)
	for _, e := range r.Entries {
		_, symbol := EntryNames(e)
		if symbols[symbol] == 0 {
			return nil, failure.New(failure.Link, "", "the operators have no function %s", symbol)
		}
		word(symbols[symbol])
	}
	count := make([]byte, 2)
	f.ByteOrder.PutUint16(count, uint16(len(r.Entries)))
	w.Write(count)
	for _, e := range r.Entries {
		name, _ := EntryNames(e)
		fmt.Fprintf(&w, "%s\x00", name)
	}
	w.WriteByte(0)
	return w.Bytes(), nil
}

// EntryNames returns the name that an entry is registered under, and its C name.
func EntryNames(entry string) (name, symbol string) {
	name, symbol, differ := strings.Cut(entry, "=")
	if !differ {
		symbol = name
	}
	return name, symbol
}
