// This file reads which files the linker took, and why it took the members of archives, as its map lists them.

package fit

import (
	"bufio"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// An Inclusion is a member of an archive that the linker took because another object needs a symbol of it.
type Inclusion struct {
	Member string // path of the archive, with the member's name in parentheses
	By     string // the object, in the same form if it is a member itself
	Symbol string
}

var (
	inclusion       = regexp.MustCompile(`^(\S.*?\.o(?:bj)?\)) +(\S.*) \((.+)\)$`)
	includedMember  = regexp.MustCompile(`^\S.*\.o(?:bj)?\)$`)
	includingObject = regexp.MustCompile(`^ +(\S.*) \((.+)\)$`)
)

// Inclusions reads the list at the top of a map of GNU ld, up to its empty line. It is empty if no archive was used,
// and lacks members that no object needs.
func Inclusions(linkMap io.Reader) (all []Inclusion, err error) {
	lines := bufio.NewScanner(linkMap)
	lines.Buffer(nil, maxMapLine)

	member, inList := "", false
	for lines.Scan() && len(all) < maxMapPieces {
		line := lines.Text()
		// The reason is on the member's line if its name is short, else on the next one.
		if m := inclusion.FindStringSubmatch(line); m != nil && inList {
			all = append(all, Inclusion{m[1], m[2], m[3]})
		} else if m := includingObject.FindStringSubmatch(line); m != nil && inList {
			all = append(all, Inclusion{member, m[1], m[2]})
		} else if includedMember.MatchString(line) {
			member = line
		} else if line == "" && len(all) > 0 {
			return all, nil
		}
		inList = inList || strings.HasPrefix(line, "Archive member included")
	}

	return all, lines.Err()
}

// inclusionColumn is where an entry of the list of members has its reason, if its name is shorter.
const inclusionColumn = 30

// Linked lists the objects that the linker of a map took, also those that a thin archive names, and as ARCHIVE(MEMBER)
// the members of other archives. Paths are as in the map. Errors: class config.
func Linked(mapFile string) (objects, members []string, err error) {
	f, err := os.Open(mapFile)
	if err != nil {
		return nil, nil, failure.New(failure.Config, "build again", "the linker's map: %w", err)
	}
	defer f.Close()

	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxMapLine)

	inList, inSections := false, false
	for lines.Scan() && len(objects)+len(members) < maxMapPieces {
		line := lines.Text()
		file, loaded := strings.CutPrefix(line, "LOAD ")

		switch {
		case strings.HasPrefix(line, "Archive member included"):
			inList = true
		case line == "" && len(objects)+len(members) > 0:
			inList = false
		case line == "Linker script and memory map":
			inList, inSections = false, true
		case inList && line != "" && line[0] != ' ':
			// A short name has its reason on its own line, a longer one on the next.
			if len(line) > inclusionColumn && line[inclusionColumn-1] == ' ' {
				name := strings.TrimRight(line[:inclusionColumn], " ")
				if name[len(name)-1] == ')' || isObject(name) { // else a path with a space
					line = name
				}
			}

			if strings.HasSuffix(line, ")") {
				members = append(members, line)
			} else {
				objects = append(objects, line)
			}
		case inSections && loaded && isObject(file):
			objects = append(objects, file)
		}
	}

	// A file without the list of sections is no map, or was cut short.
	if err = lines.Err(); err == nil && !inSections {
		err = errNoMap
	}

	if err != nil {
		return nil, nil, failure.New(failure.Config, "build again", "%s: %w", mapFile, err)
	}

	return objects, members, nil
}

func isObject(name string) bool {
	return strings.HasSuffix(name, ".o") || strings.HasSuffix(name, ".obj")
}

// Caller follows inclusions from a function in an archive to the first object that is in none, and returns it and the
// function that it calls; "" if there is no such way.
func Caller(all []Inclusion, function string) (object, called string) {
	by := map[string]Inclusion{}
	var next Inclusion

	for _, i := range all {
		by[i.Member] = i
		if i.Symbol == function {
			next = i
		}
	}

	// One step for each inclusion at most: a cycle ends, too.
	for range len(all) {
		if next.By == "" || !strings.HasSuffix(next.By, ")") {
			return next.By, next.Symbol
		}
		next = by[next.By]
	}

	return "", ""
}
