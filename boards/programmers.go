// This file is the table of the programmers: what a board file may contain for each. Package flasher implements them,
// under the same names.

package boards

import (
	"slices"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// A programmer is one way to write an image to the board.
type programmer struct {
	name  string
	needs string // field of Flash that a board file must have for it; "": none
	rtt   bool   // it serves a link through the probe
	build bool   // its settings are those of a Zephyr build
}

// NoProgrammer is the programmer of a board to which nothing is written.
const NoProgrammer = "none"

var programmers = []programmer{
	{name: NoProgrammer},
	{name: "openocd", needs: "scripts", rtt: true},
	{name: "pyocd", needs: "chip"},
	{name: "west", build: true},
}

// Programmers lists the programmers of board files; package flasher implements all but NoProgrammer.
func Programmers() (names []string) {
	for _, p := range programmers {
		names = append(names, p.name)
	}
	return names
}

// programmer returns the table's row for the programmer; ok is false if there is none.
func (f Flash) programmer() (p programmer, ok bool) {
	i := slices.IndexFunc(programmers, func(p programmer) bool { return p.name == f.Programmer })
	if i < 0 {
		return programmer{}, false
	}
	return programmers[i], true
}

// Needs returns the field that a board file must have for the programmer, "" for none.
func (f Flash) Needs() string {
	p, _ := f.programmer()
	return p.needs
}

func (b *Board) checkFlash() error {
	f := b.Flash
	p, ok := f.programmer()
	lacks := map[string]bool{"scripts": len(f.Scripts) == 0, "chip": f.Chip == ""}

	switch {
	case f.Programmer == "": // of a partial board
		return nil
	case !ok:
		return b.wrong("flash.programmer", "%q is no programmer%s", f.Programmer,
			jsonfile.DidYouMean(f.Programmer, Programmers()))
	case lacks[p.needs]:
		return b.wrong("flash", "the programmer %s needs %s", p.name, p.needs)
	case p.build && !b.Partial && slices.Contains(b.Templates, "baremetal"):
		return b.wrong("flash.programmer", "%s writes what it has built, and the template baremetal builds without it",
			p.name)
	}
	return nil
}
