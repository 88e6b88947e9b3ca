// Package flasher programs one attached board through its debug probe: openocd, pyocd, west.
//
// What a board needs is in its board file. The package neither builds images nor communicates with the running
// firmware.
package flasher

import (
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
)

// programmers maps the names in board files to programmers. "none" is not among them: the image is then loaded when
// the link opens.
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
		return nil, failure.New(failure.Config, "the programmers are: "+strings.Join(Names(), ", ")+", and none",
			"unknown programmer %q", name)
	}
	if c.Find == nil {
		c.Find = exec.LookPath
	}
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return make(c), nil
}
