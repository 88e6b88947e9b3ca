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
	Entries    []string    // the functions, by their C names; as NAME=SYMBOL if they are registered under another
	Signatures []Signature // of C functions
	WordBytes  int         // of a pointer
}

// A Signature is a boardsmith_signature_t (boardsmith/boardsmith.h).
type Signature struct {
	Symbol                          string
	Leading, MinTensors, MaxTensors uint8
}

const registryAlign = 16

// Bytes is its size.
func (r Registry) Bytes() int {
	// Names and functions; the functions; the signatures; the count; the end of the names.
	n := (2+len(r.Entries))*r.WordBytes + r.signatureBytes() + 2 + 1
	for _, e := range r.Entries {
		name, _ := EntryNames(e)
		n += len(name) + 1
	}
	return (n + registryAlign - 1) / registryAlign * registryAlign
}

// SignaturesAt returns the address of the list of signatures in a registry at an address; 0 if there are none.
func (r Registry) SignaturesAt(at uint64) uint64 {
	if len(r.Signatures) == 0 {
		return 0
	}
	return at + uint64((2+len(r.Entries))*r.WordBytes)
}

// signatureBytes is the size of the list of signatures, with its end.
func (r Registry) signatureBytes() int {
	if len(r.Signatures) == 0 {
		return 0
	}
	return (len(r.Signatures) + 1) * 2 * r.WordBytes
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
			return nil, failure.Errorf(failure.Link, "operators: section %s is not placed", s.Name)
		}

		data, err := s.Data()
		if err != nil {
			return nil, failure.Errorf(failure.Link, "operators: section %s: %w", s.Name, err)
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
	word(functions + uint64(len(r.Entries)*r.WordBytes+r.signatureBytes())) // where the names are
	word(functions)

	for _, e := range r.Entries {
		_, symbol := EntryNames(e)
		if symbols[symbol] == 0 {
			return nil, failure.Errorf(failure.Link, "the operators have no function %s", symbol)
		}
		word(symbols[symbol])
	}

	for _, s := range r.Signatures {
		if symbols[s.Symbol] == 0 {
			return nil, failure.Errorf(failure.Link, "the operators have no function %s", s.Symbol)
		}
		word(symbols[s.Symbol])
		w.Write(append([]byte{s.Leading, s.MinTensors, s.MaxTensors}, make([]byte, r.WordBytes-3)...))
	}

	// The list of signatures ends with an empty one.
	w.Write(make([]byte, r.signatureBytes()-len(r.Signatures)*2*r.WordBytes))
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
