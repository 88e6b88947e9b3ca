// This file reads the map that GNU ld writes: which piece of which object is at which address of the image.
//
// It has no information about boards or about the purpose of objects. A map is text for people and has no specified
// grammar; this reader follows the output of ld 2.35 to 2.40 for Arm, RISC-V and x86-64.

package fit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A linkMap is the content of a linker's map.
type linkMap struct {
	regions   []mapRegion
	discarded []mapPiece // constructors that the linker left out
	sections  []mapSection
}

// A mapRegion is one line of the memory configuration; ld's own "*default*" is left out.
type mapRegion struct {
	name           string
	origin, length uint64
	readOnly       bool // its attributes are given, without w
}

// A mapSection is a section of the image.
type mapSection struct {
	name          string
	address, size uint64
	load          uint64 // where its contents are stored until they are copied; equal to address if the map names no other
	pieces        []mapPiece
}

// A mapPiece is the contribution of one object, or of the linker itself, to a section.
type mapPiece struct {
	// the name of the object's section; "*fill*" for a gap, "LONG" and the like for data of the linker script
	name          string
	address, size uint64
	object        string // path, of the archive if member is not ""; "" if the linker created it
	member        string // of the archive
}

const (
	maxMapLine   = 1 << 20 // bytes
	maxMapPieces = 1 << 22 // no firmware has four million sections
)

var (
	errNoMap   = errors.New("not a map of GNU ld")
	errTooLong = fmt.Errorf("a map of more than %d pieces", maxMapPieces)
)

// readMap reads a map and skips what it does not recognise. Callers should therefore compare sizes with the image's.
func readMap(r io.Reader) (*linkMap, error) {
	m := &mapReader{lines: bufio.NewScanner(r), into: &linkMap{}}

	m.lines.Buffer(nil, maxMapLine)

	if err := m.read(); err != nil {
		return nil, err
	}
	if err := m.lines.Err(); err != nil {
		return nil, err
	}

	return m.into, nil
}

type mapReader struct {
	lines *bufio.Scanner
	into  *linkMap
	// If a name is too long for its column, its numbers are on the next line: waiting then adds them, else it is nil.
	waiting func(n mapNumbers)
	pieces  int
}

func (m *mapReader) read() error {
	inRegions, inDiscarded := false, false
	for m.lines.Scan() {
		line := m.lines.Text()
		switch {
		case m.pieces > maxMapPieces:
			return errTooLong
		case line == "Discarded input sections":
			inDiscarded = true
		case line == "Memory Configuration":
			inRegions, inDiscarded, m.waiting = true, false, nil
		case inDiscarded:
			m.readDiscarded(strings.TrimLeft(line, " "))
		case line == "Linker script and memory map":
			return m.readSections()
		case inRegions:
			m.addRegion(line)
		}
	}

	if m.lines.Err() != nil {
		return nil // readMap reports it
	}
	return errNoMap
}

// addRegion reads "name 0xorigin 0xlength attributes".
func (m *mapReader) addRegion(line string) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] == "*default*" {
		return
	}

	origin, ok := mapNumber(words[1])
	length, ok2 := mapNumber(words[2])

	if ok && ok2 {
		readOnly := len(words) > 3 && !strings.Contains(words[3], "w")
		m.into.regions = append(m.into.regions, mapRegion{words[0], origin, length, readOnly})
	}
}

// readDiscarded reads a line about a section of an object that is not in the image.
func (m *mapReader) readDiscarded(body string) {
	// Only the line behind a name can have its numbers.
	wait := m.waiting
	m.waiting = nil

	if !strings.HasPrefix(body, "0x") {
		m.named(body, m.addDiscarded)
	} else if n, ok := readNumbers(body); ok && wait != nil {
		wait(n)
	}
}

func (m *mapReader) addDiscarded(name string, n mapNumbers) {
	if isConstructors(name) && n.size > 0 {
		m.into.discarded = append(m.into.discarded, newPiece(name, n))
		m.pieces++
	}
}

// readSections reads up to the table of symbols that ld adds on request.
func (m *mapReader) readSections() error {
	for m.lines.Scan() {
		line := m.lines.Text()

		if line == "Cross Reference Table" {
			return nil
		}

		if m.pieces > maxMapPieces {
			return errTooLong
		}

		m.readLine(line)
	}
	return nil
}

func (m *mapReader) readLine(line string) {
	body := strings.TrimLeft(line, " ")
	// Only the line behind a name can have its numbers.
	wait := m.waiting
	m.waiting = nil

	switch indent := len(line) - len(body); {
	case body == "":
	case strings.HasPrefix(body, "0x"):
		n, ok := readNumbers(body)
		if ok && wait != nil {
			wait(n)
		} else if ok && indent > 1 {
			statement, _, _ := strings.Cut(n.rest, " ") // LONG, QUAD and the like of a linker script
			m.addPiece(statement, mapNumbers{n.address, n.size, ""})
		}
	case indent == 0:
		m.named(body, m.addSection)
	case indent == 1:
		m.named(body, m.addPiece)
	}
}

// named splits a line into a name and numbers; the numbers may be on the next line.
func (m *mapReader) named(body string, add func(name string, n mapNumbers)) {
	name, rest, _ := strings.Cut(body, " ")
	if strings.ContainsAny(name, "()") { // a pattern of the linker script
		return
	}

	rest = strings.TrimLeft(rest, " ")
	if rest == "" {
		m.waiting = func(n mapNumbers) { add(name, n) }
		return
	}

	if n, ok := readNumbers(rest); ok {
		add(name, n)
	}
}

func (m *mapReader) addSection(name string, n mapNumbers) {
	s := mapSection{name: name, address: n.address, size: n.size, load: n.address}

	if text, ok := strings.CutPrefix(n.rest, "load address "); ok {
		if load, ok := mapNumber(text); ok {
			s.load = load
		}
	}

	m.into.sections = append(m.into.sections, s)
	m.pieces++
}

func (m *mapReader) addPiece(name string, n mapNumbers) {
	all := m.into.sections
	if len(all) == 0 || n.size == 0 {
		return
	}

	last := &all[len(all)-1]
	last.pieces = append(last.pieces, newPiece(name, n))
	m.pieces++
}

func newPiece(name string, n mapNumbers) mapPiece {
	p := mapPiece{name: name, address: n.address, size: n.size}

	if name != "*fill*" { // the rest of such a line is the value that fills the gap
		p.object = n.rest
		if at := strings.LastIndexByte(p.object, '('); at > 0 && strings.HasSuffix(p.object, ")") {
			p.object, p.member = p.object[:at], p.object[at+1:len(p.object)-1]
		}
	}
	return p
}

// mapNumbers are an address, a size and the rest of their line.
type mapNumbers struct {
	address, size uint64
	rest          string
}

func readNumbers(text string) (n mapNumbers, ok bool) {
	first, text, _ := strings.Cut(text, " ")
	second, rest, _ := strings.Cut(strings.TrimLeft(text, " "), " ")

	n.rest = strings.TrimSpace(rest)
	if n.address, ok = mapNumber(first); ok {
		n.size, ok = mapNumber(second)
	}
	return n, ok
}

// mapNumber reads a hexadecimal number; a map has no others.
func mapNumber(word string) (uint64, bool) {
	digits, ok := strings.CutPrefix(word, "0x")
	if !ok {
		return 0, false
	}

	n, err := strconv.ParseUint(digits, 16, 64)
	return n, err == nil
}

// objects returns each object that pieces come from once, without those in archives.
func (m *linkMap) objects() (all []string) {
	for _, s := range m.sections {
		for _, p := range s.pieces {
			if p.object != "" && p.member == "" && !slices.Contains(all, p.object) {
				all = append(all, p.object)
			}
		}
	}
	return all
}

// open replaces the pieces of an object that an earlier link combined from others by the pieces of those others. of is
// the map of that earlier link; each section of the object is one of its sections.
func (m *linkMap) open(object string, of *linkMap) {
	for i := range m.sections {
		s := &m.sections[i]
		var pieces []mapPiece
		for _, p := range s.pieces {
			if p.object != object || p.member != "" {
				pieces = append(pieces, p)
				continue
			}
			pieces = append(pieces, of.within(p)...)
		}
		s.pieces = pieces
	}
}

// within returns the pieces that piece p was combined from. If a later link shortened p, it drops what was cut off at
// the end.
func (m *linkMap) within(p mapPiece) (pieces []mapPiece) {
	at := slices.IndexFunc(m.sections, func(s mapSection) bool { return s.name == p.name })
	if at < 0 {
		return []mapPiece{p}
	}

	s := m.sections[at]
	for _, q := range s.pieces {
		offset := q.address - s.address
		if offset >= p.size {
			break
		}
		q.address, q.size = p.address+offset, min(q.size, p.size-offset)
		pieces = append(pieces, q)
	}
	return pieces
}

func openMap(name string) (*linkMap, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the linker's map: %w", err)
	}
	defer f.Close()

	m, err := readMap(f)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", name, err)
	}

	return m, nil
}
