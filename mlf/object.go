// This file reads what an object was compiled for, so that a wrong one is rejected before linking.

package mlf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// An ObjectInfo describes an ELF object.
type ObjectInfo struct {
	Machine elf.Machine
	Class   elf.Class // 32 or 64 bits
	Data    elf.Data  // byte order
	// float ABI: "soft", "hard" (ARM), "soft", "single", "double", "quad" (RISC-V); "" if there is one only or none is
	// used
	FloatABI string
	// ARM: the core or architecture by the compiler's name, such as "cortex-m3" or "7E-M"; RISC-V: the ISA string; else ""
	CPU string
	// ARM: Tag_CPU_arch (10 is ARMv7, 11 v6-M, 13 v7E-M, 16 v8-M baseline, 17 v8-M mainline, 21 v8.1-M); else 0
	Arch      int
	FPArch    int      // ARM: Tag_FP_arch (0 no floating-point instructions, 6 VFPv4-D16, 8 FPv5-D16); else 0
	FPSingle  bool     // ARM: these are of single precision only (Tag_ABI_HardFP_use)
	MVE       int      // ARM: Tag_MVE_arch (0 no vector instructions); else 0
	Defined   []string // global symbols that it defines
	Undefined []string // undefined global symbols
}

// Info reads an object's ELF header, attributes and symbols.
func (f File) Info() (ObjectInfo, error) {
	return f.describe(func(o *ObjectInfo, e *elf.File) error {
		if e.Type != elf.ET_REL {
			return fmt.Errorf("it is %v, not an object to be linked", e.Type)
		}
		return o.readSymbols(e)
	})
}

// Target reads the ELF header and attributes of an object or a linked program, and no symbols.
func (f File) Target() (ObjectInfo, error) {
	return f.describe(func(*ObjectInfo, *elf.File) error { return nil })
}

// otherFormats are files that compilers and archivers write in place of an object, by how they begin.
var otherFormats = map[string]string{
	"BC\xc0\xde": "LLVM's bitcode of -flto", "\xde\xc0\x17\x0b": "LLVM's bitcode of -flto",
	"!<arch>\n": "a library of objects", "!<thin>\n": "a library of objects",
	"\xcf\xfa\xed\xfe": "an object of macOS", "\x64\x86": "an object of Windows",
}

func (f File) describe(more func(*ObjectInfo, *elf.File) error) (o ObjectInfo, err error) {
	// debug/elf is not hardened against hostile files.
	defer func() {
		if p := recover(); p != nil {
			o, err = ObjectInfo{}, errors.New("not an object: inconsistent tables")
		}
	}()

	// These get a better error than debug/elf's.
	for magic, format := range otherFormats {
		if bytes.HasPrefix(f.Data, []byte(magic)) {
			return ObjectInfo{}, fmt.Errorf("%s, not an object in ELF", format)
		}
	}

	e, err := elf.NewFile(bytes.NewReader(f.Data))
	if err != nil {
		return ObjectInfo{}, fmt.Errorf("not an object: %w", err)
	}
	defer e.Close()

	o = ObjectInfo{Machine: e.Machine, Class: e.Class, Data: e.Data}
	if err := more(&o, e); err != nil {
		return ObjectInfo{}, err
	}

	switch o.Machine {
	case elf.EM_ARM:
		err = o.readARM(e)
	case elf.EM_RISCV:
		err = o.readRISCV(e, f.Data)
	}
	return o, err
}

func (o *ObjectInfo) readSymbols(e *elf.File) error {
	symbols, err := e.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("symbols: %w", err)
	}

	for _, s := range symbols {
		bind := elf.ST_BIND(s.Info)
		switch {
		case bind != elf.STB_GLOBAL && bind != elf.STB_WEAK:
		case s.Section != elf.SHN_UNDEF:
			o.Defined = append(o.Defined, s.Name)
		// A weak symbol need not be defined anywhere.
		case bind == elf.STB_GLOBAL:
			o.Undefined = append(o.Undefined, s.Name)
		}
	}
	return nil
}

// Attributes of ARM objects ("Addenda to, and errata in, the ABI for the Arm architecture", build attributes).
const (
	armCPUName       = 5
	armCPUArch       = 6
	armFPArch        = 10
	armHardFPUse     = 27 // 0 as armFPArch implies, 1 single precision only, 3 both
	armVFPArgs       = 28 // 0 base, 1 VFP registers, 2 toolchain's own, 3 both
	armCompatibility = 32 // a number and a text
	armMVEArch       = 48
)

func (o *ObjectInfo) readARM(e *elf.File) error {
	attrs, err := attributes(e, ".ARM.attributes", "aeabi", o.order(), armIsText)
	if err != nil || len(attrs) == 0 {
		return err
	}

	o.CPU, o.Arch = attrs[armCPUName].text, int(attrs[armCPUArch].number)
	o.FPArch, o.MVE = int(attrs[armFPArch].number), int(attrs[armMVEArch].number)
	o.FPSingle = attrs[armHardFPUse].number == 1

	switch attrs[armVFPArgs].number {
	case 0:
		o.FloatABI = "soft"
	case 1:
		o.FloatABI = "hard"
	}
	return nil
}

// armIsText: below 32 only the two names are text, from 32 on the odd tags.
func armIsText(tag uint64) bool {
	return tag == 4 || tag == armCPUName || tag > armCompatibility && tag%2 == 1
}

// The bits of a RISC-V header's flags (RISC-V ELF psABI), and the attribute with the ISA.
const (
	riscvFloat = 0x6
	riscvArch  = 5
)

func (o *ObjectInfo) readRISCV(e *elf.File, data []byte) error {
	// debug/elf does not return the header's flags.
	at := 36 // e_flags of a 32-bit header
	if o.Class == elf.ELFCLASS64 {
		at = 48
	}

	if len(data) < at+4 {
		return errors.New("truncated header")
	}

	flags := o.order().Uint32(data[at:])
	o.FloatABI = []string{"soft", "single", "double", "quad"}[flags&riscvFloat>>1]

	attrs, err := attributes(e, ".riscv.attributes", "riscv", o.order(), func(tag uint64) bool { return tag%2 == 1 })
	o.CPU = attrs[riscvArch].text
	return err
}

func (o *ObjectInfo) order() binary.ByteOrder {
	if o.Data == elf.ELFDATA2MSB {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

type attribute struct {
	number uint64
	text   string
}

var errAttributes = errors.New("its build attributes are damaged")

// attributes reads the attributes of a whole file from a section of format 'A': sections by vendor, in them
// subsections by scope, in them pairs of tag and value. A missing section has no attributes.
func attributes(e *elf.File, section, vendor string, order binary.ByteOrder,
	isText func(uint64) bool,
) (map[uint64]attribute, error) {
	attributes := map[uint64]attribute{}

	s := e.Section(section)
	if s == nil {
		return attributes, nil
	}

	if s.Size > maxAttributes {
		return nil, errAttributes
	}

	data, err := s.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", section, err)
	}

	if len(data) == 0 || data[0] != 'A' {
		return nil, errAttributes
	}

	for data = data[1:]; len(data) > 0; {
		part, rest, ok := sized(data, data, order)
		if !ok {
			return nil, errAttributes
		}
		data = rest

		name, body, ok := bytes.Cut(part[4:], []byte{0})
		if !ok {
			return nil, errAttributes
		}
		if string(name) != vendor {
			continue
		}

		if err := readScopes(body, order, isText, attributes); err != nil {
			return nil, err
		}
	}
	return attributes, nil
}

// sized splits off a part that begins with its length, which includes itself.
func sized(data, length []byte, order binary.ByteOrder) (part, rest []byte, ok bool) {
	if len(length) < 4 {
		return nil, nil, false
	}

	n := uint64(order.Uint32(length))
	if n < 4+uint64(len(data)-len(length)) || n > uint64(len(data)) {
		return nil, nil, false
	}
	return data[:n], data[n:], true
}

const (
	fileScope     = 1
	maxAttributes = 1 << 20 // bytes; real ones have about a hundred
)

func readScopes(body []byte, order binary.ByteOrder, isText func(uint64) bool, attributes map[uint64]attribute) error {
	for len(body) > 0 {
		part, rest, ok := sized(body, body[1:], order)
		if !ok {
			return errAttributes
		}

		if part[0] == fileScope && !readPairs(part[5:], isText, attributes) {
			return errAttributes
		}

		body = rest
	}
	return nil
}

func readPairs(p []byte, isText func(uint64) bool, attributes map[uint64]attribute) bool {
	for len(p) > 0 {
		tag, n := binary.Uvarint(p)
		if n <= 0 {
			return false
		}

		p = p[n:]
		var a attribute
		// That tag alone has a number and a text.
		if tag == armCompatibility || !isText(tag) {
			if a.number, n = binary.Uvarint(p); n <= 0 {
				return false
			}
			p = p[n:]
		}

		if tag == armCompatibility || isText(tag) {
			text, rest, ok := bytes.Cut(p, []byte{0})
			if !ok {
				return false
			}
			a.text, p = string(text), rest
		}

		attributes[tag] = a
	}
	return true
}
