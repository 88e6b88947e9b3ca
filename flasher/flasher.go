// Package flasher programs one attached board through its debug probe: openocd, pyocd, west.
//
// What a board needs is in its board file. The package neither builds images nor communicates with the running
// firmware.
package flasher

import (
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/abspath"
)

// programmers has each of boards.Programmers but boards.NoProgrammer.
var programmers = map[string]func(Config) Programmer{
	"openocd": newOpenOCD,
	"pyocd":   newPyOCD,
	"west":    newWest,
}

// New returns the programmer of that name. An unknown one is an error of class config.
func New(name string, c Config) (Programmer, error) {
	make, ok := programmers[name]
	if !ok {
		return nil, failure.New(failure.Config, "the programmers are: "+strings.Join(boards.Programmers(), ", "),
			"unknown programmer %q", name)
	}
	find := c.Find
	if find == nil {
		find = exec.LookPath
	}
	c.Find = func(name string) (string, error) { // tools run in other folders
		path, err := find(name)
		return abspath.Of(path), err
	}
	abspath.Fix(&c.Build)
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}
	return make(c), nil
}
