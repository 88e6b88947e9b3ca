// Package flasher programs one attached board through its debug probe: openocd, pyocd, west.
//
// It knows programmers, not boards: what a board needs is in its board file. It neither builds images nor talks to
// the running program.
package flasher

import (
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
)

// programmers are those there are, by the name that a board file gives. "none" is not among them: then the image is
// loaded when the link opens.
var programmers = map[string]func(Config) Programmer{
	"openocd": newOpenOCD,
	"pyocd":   newPyOCD,
	"west":    newWest,
}

// Names lists the programmers, sorted.
func Names() []string { return slices.Sorted(maps.Keys(programmers)) }

// New returns the programmer of that name. An unknown one is an error of class config.
func New(name string, c Config) (Programmer, error) {
	make, ok := programmers[name]
	if !ok {
		return nil, failure.New(failure.Config, "the programmers are: "+strings.Join(Names(), ", ")+", and none", "programmer %q is not known", name)
	}
	if c.Find == nil {
		c.Find = exec.LookPath
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return make(c), nil
}
