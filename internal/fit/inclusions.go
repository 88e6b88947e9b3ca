// This file reads why the linker took the members of archives, as its map lists them.

package fit

import (
	"bufio"
	"io"
	"regexp"
	"strings"
)

// An Inclusion is a member of an archive that the linker took because another object needs a symbol of it.
type Inclusion struct {
	Member string // path of the archive, with the member's name in parentheses
	By     string // the object, in the same form if it is a member itself
	Symbol string
}

var (
	inclusion       = regexp.MustCompile(`^(\S.*?\.o\)) +(\S.*) \((.+)\)$`)
	includedMember  = regexp.MustCompile(`^\S.*\.o\)$`)
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
	for range len(all) {
		if next.By == "" || !strings.HasSuffix(next.By, ")") {
			return next.By, next.Symbol
		}
		next = by[next.By]
	}
	return "", ""
}
