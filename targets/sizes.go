// This file says how much memory each part of a firmware takes, by the linker's map.

package targets

import (
	"bufio"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project"
)

// A partSize is one part's bytes of each kind of memory.
type partSize struct {
	name string
	project.Size
}

// parts are what a firmware consists of, by where its objects lie in the project; the last takes what is left.
var parts = []struct {
	name     string
	prefixes []string
}{
	{"operators", []string{"build/model/", "model/"}},
	{"runtime", []string{"build/crt/"}},
	{"main and port", []string{"build/src/", "build/build_id.o"}},
	{"C library, start", nil},
}

func partOf(object string) int {
	for i, p := range parts {
		for _, prefix := range p.prefixes {
			if strings.HasPrefix(object, prefix) {
				return i
			}
		}
	}
	return len(parts) - 1
}

func (s *session) size(ctx context.Context) error {
	image, err := s.built(ctx)
	if err != nil {
		return err
	}
	list, err := imageParts(image)
	if err != nil {
		return err
	}
	list = append(list, partSize{"all", image.Size})
	s.out.printf("%-18s %10s %10s %10s   bytes", "", "text", "data", "bss")
	var lines []record
	for _, p := range list {
		s.out.printf("%-18s %10d %10d %10d", p.name, p.Text, p.Data, p.BSS)
		lines = append(lines, record{"part": p.name, "text": p.Text, "data": p.Data, "bss": p.BSS})
	}
	r := s.record()
	r["sizes"] = lines
	s.out.line(r)
	return nil
}

// imageParts adds up the image by parts.
func imageParts(image *project.Image) ([]partSize, error) {
	kinds, err := sectionKinds(image.Path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(image.Map)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the linker's map: %w", err)
	}
	defer f.Close()
	list := make([]partSize, len(parts))
	for i, p := range parts {
		list[i].name = p.name
	}
	err = readMap(f, func(section, object string, size int64) {
		if kind := kinds[section]; kind != nil {
			*kind(&list[partOf(object)].Size) += size
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", image.Map, err)
	}
	// What the linker made without an object, alignment too, is the difference to the image.
	rest := image.Size
	for _, p := range list[:len(list)-1] {
		rest.Text, rest.Data, rest.BSS = rest.Text-p.Text, rest.Data-p.Data, rest.BSS-p.BSS
	}
	list[len(list)-1].Size = rest
	return list, nil
}

// sectionKinds says into which kind of memory each section of the image goes; those without memory are absent.
func sectionKinds(path string) (map[string]func(*project.Size) *int64, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the firmware: %w", err)
	}
	defer f.Close()
	kinds := map[string]func(*project.Size) *int64{}
	for _, sec := range f.Sections {
		switch {
		case sec.Flags&elf.SHF_ALLOC == 0:
		case sec.Type == elf.SHT_NOBITS:
			kinds[sec.Name] = func(s *project.Size) *int64 { return &s.BSS }
		case sec.Flags&elf.SHF_WRITE != 0:
			kinds[sec.Name] = func(s *project.Size) *int64 { return &s.Data }
		default:
			kinds[sec.Name] = func(s *project.Size) *int64 { return &s.Text }
		}
	}
	return kinds, nil
}

var (
	// An output section begins in the first column, an input section after one space; a long name has the numbers
	// on the next line.
	outputRE  = regexp.MustCompile(`^([._a-zA-Z]\S*)`)
	inputRE   = regexp.MustCompile(`^ (\*fill\*|[._a-zA-Z]\S*)(?:\s+0x[0-9a-f]+\s+0x([0-9a-f]+)(?: (.*))?)?$`)
	numbersRE = regexp.MustCompile(`^\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S.*)$`)
)

// readMap calls add for each piece of an output section in a map of GNU ld.
func readMap(r io.Reader, add func(section, object string, size int64)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	begun, named := false, false
	section := ""
	for lines.Scan() {
		line := lines.Text()
		if !begun {
			begun = strings.HasPrefix(line, "Linker script and memory map")
			continue
		}
		if m := outputRE.FindStringSubmatch(line); m != nil {
			section, named = m[1], false
			continue
		}
		size, object := "", ""
		if m := inputRE.FindStringSubmatch(line); m != nil {
			named = m[2] == ""
			size, object = m[2], m[3]
		} else if m := numbersRE.FindStringSubmatch(line); m != nil && named {
			named = false
			size, object = m[1], m[2]
		}
		if n, err := strconv.ParseInt(size, 16, 64); err == nil && n > 0 {
			add(section, strings.TrimSpace(object), n)
		}
	}
	if !begun && lines.Err() == nil {
		return failure.New(failure.Config, "", "no map of GNU ld")
	}
	return lines.Err()
}
