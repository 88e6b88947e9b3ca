// Package svd reads the peripherals, registers, fields and interrupts of a chip from an SVD file (CMSIS System View
// Description 1.3), in which a chip's manufacturer describes it.
//
// A file may come from anywhere: its size, its nesting, the number of elements that are kept of it and the number of
// registers that its arrays stand for are limited. The package compares nothing.
package svd

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// The limits. The largest of the files that this was tried with has 11 MiB, 7,000 registers and 25,000 fields.
const (
	maxBytes         = 32 << 20
	maxKept          = 200_000 // peripherals, clusters, registers, fields, address blocks and interrupts as written
	maxElements      = 200_000
	maxFields        = 1_000_000
	maxRegisterBytes = 128
	maxNesting       = 16 // of clusters, and of steps from one derivedFrom to the next
)

// A Device is a chip.
type Device struct {
	Name        string
	Peripherals []Peripheral // in the order of the file
	Interrupts  []Interrupt  // by number, then name; each pair once
}

// A Peripheral is a block of registers.
type Peripheral struct {
	Name      string
	Base      uint64
	Blocks    []Block    // address blocks of the file; of none, one that covers the registers
	Registers []Register // by address
}

// A Block is a range of addresses that belongs to a peripheral.
type Block struct {
	Start, Bytes uint64
}

// At returns the registers that have an address: several where one has different meanings at different times.
func (p *Peripheral) At(address uint64) (list []*Register) {
	after := sort.Search(len(p.Registers), func(i int) bool { return p.Registers[i].Address > address })
	// Registers overlap: a long one may begin before others that end earlier.
	for i := after - 1; i >= 0 && address-p.Registers[i].Address < maxRegisterBytes; i-- {
		if r := &p.Registers[i]; address-r.Address < r.Bytes {
			list = append(list, r)
		}
	}

	slices.Reverse(list)
	return list
}

// A Register is one register; each element of an array is a register of its own.
type Register struct {
	Name    string // with its clusters: "CH[0].CTRL"
	Address uint64
	Bytes   uint64
	Fields  []Field
}

// A Field is some neighbouring bits of a register.
type Field struct {
	Name       string
	LSB, Width uint64
}

// Mask returns the field's bits in its register.
func (f Field) Mask() uint64 { return (1<<f.Width - 1) << f.LSB }

// An Interrupt is the number of an external interrupt.
type Interrupt struct {
	Name       string
	Number     uint64
	Peripheral string // that has it in the file
}

// ReadFile reads a file. Errors are of class config and name it.
func ReadFile(name string) (*Device, error) {
	f, err := regularfile.Open(name)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "SVD file: %w", err)
	}
	defer f.Close()

	d, err := Read(f)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%s: %w", name, err)
	}
	return d, nil
}

// errSize reports a file that is too large.
var errSize = fmt.Errorf("more than %d MiB", maxBytes>>20)

// A limited reader is an error where io.LimitReader ends, so that the file is not taken for a shorter one.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errSize
	}

	n, err := l.r.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// Read reads a description. It closes nothing.
func Read(r io.Reader) (*Device, error) { return read(r, maxBytes, maxKept) }

// A counted reader is an error where a file has more elements than are kept: each takes half a kilobyte, empty or not.
type counted struct {
	*xml.Decoder
	kept, limit int
}

func (c *counted) Token() (xml.Token, error) {
	t, err := c.Decoder.Token()
	if start, ok := t.(xml.StartElement); ok {
		switch start.Name.Local {
		case "peripheral", "cluster", "register", "field", "addressBlock", "interrupt":
			if c.kept++; c.kept > c.limit {
				return nil, fmt.Errorf("line %d: more than %d registers, fields and the like", line(c.Decoder), c.limit)
			}
		}
	}
	return t, err
}

func line(d *xml.Decoder) int {
	n, _ := d.InputPos()

	return n
}

func read(r io.Reader, limit int64, most int) (*Device, error) {
	decoder := xml.NewDecoder(&limited{r, limit})
	decoder.CharsetReader = charset
	var root node
	if err := xml.NewTokenDecoder(&counted{Decoder: decoder, limit: most}).Decode(&root); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("not an SVD file: %w", err)
	}

	if root.XMLName.Local != "device" {
		return nil, fmt.Errorf("not an SVD file: its root is <%s>, not <device>", root.XMLName.Local)
	}

	d := &Device{Name: strings.TrimSpace(root.Name)}
	b := &builder{device: d, root: &root}

	if err := b.all(); err != nil {
		return nil, err
	}

	if len(d.Peripherals) == 0 {
		return nil, errors.New("it describes no peripherals")
	}

	return d, nil
}

// charset reads the encodings of which ASCII is a part. Only texts for people have other characters.
func charset(name string, r io.Reader) (io.Reader, error) {
	switch strings.ToLower(name) {
	case "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252":
		return &latin{r: r}, nil
	}
	return nil, fmt.Errorf("encoding %q", name)
}

// A latin reader converts bytes above ASCII into question marks.
type latin struct{ r io.Reader }

func (l *latin) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	for i, c := range b[:n] {
		if c >= 0x80 {
			b[i] = '?'
		}
	}

	return n, err
}

// finish sorts and completes what was read.
func (d *Device) finish() {
	for i := range d.Peripherals {
		p := &d.Peripherals[i]

		slices.SortStableFunc(p.Registers, func(a, b Register) int { return compare(a.Address, b.Address) })
		if len(p.Blocks) == 0 {
			end := p.Base
			for _, r := range p.Registers {
				end = max(end, r.Address+r.Bytes)
			}
			p.Blocks = []Block{{p.Base, end - p.Base}}
		}
	}

	slices.SortStableFunc(d.Interrupts, func(a, b Interrupt) int {
		if a.Number != b.Number {
			return compare(a.Number, b.Number)
		}
		return strings.Compare(a.Name, b.Name)
	})

	d.Interrupts = slices.CompactFunc(d.Interrupts, func(a, b Interrupt) bool {
		return a.Number == b.Number && a.Name == b.Name && a.Peripheral == b.Peripheral
	})
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
