// Package flasher programs one attached board through its debug probe: openocd, pyocd, west.
//
// What a board needs is in its board file. The package neither builds images nor communicates with the running
// firmware.
package flasher

import (
	"context"
	"os/exec"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// An implementation is the part of a programmer that package boards does not have.
type implementation struct {
	create func(Config) Programmer // nil: a Zephyr build determines it (newWest)
	// adds the settings that a Zephyr build has for the programmer; ok is false if the build cannot write flash with it
	adopt func(*zephyrBuild, *Config) (ok bool, err error)
}

// programmers has each of boards.Programmers but boards.NoProgrammer.
var programmers = map[string]implementation{
	"openocd": {newOpenOCD, (*zephyrBuild).openocd},
	"pyocd":   {newPyOCD, (*zephyrBuild).pyocd},
	"west":    {},
}

// New returns the programmer of that name; for a Zephyr build, the one that its settings are for. Errors: class config,
// for an unknown one and for a build that cannot be used.
func New(name string, c Config) (Programmer, error) {
	p, ok := programmers[name]
	if !ok {
		return nil, failure.New(failure.Config, "the programmers are: "+strings.Join(boards.Programmers(), ", "),
			"unknown programmer %q", name)
	}
	if (boards.Flash{Programmer: name}).Needs() == "chip" && c.Flash.Chip == "" {
		return nil, failure.New(failure.Config, "add it, or choose the board's own programmer",
			"the programmer %s needs flash.chip, which the board's file does not set", name)
	}

	abspath.Fix(&c.Build, &c.Image)
	if c.Log == nil {
		c.Log = hclog.NewNullLogger()
	}

	if p.create == nil {
		return newWest(c)
	}
	return p.create(c), nil
}

// tool returns the absolute path of a tool, because tools run in other folders.
func (c Config) tool(name string) (string, error) {
	find := c.Find
	if find == nil {
		find = exec.LookPath
	}

	path, err := find(name)
	return abspath.Of(path), err
}

// toolIn is tool for a call that does nothing after its context has ended.
func (c Config) toolIn(ctx context.Context, name string) (string, error) {
	if ctx.Err() != nil {
		return "", failure.Stopped(ctx, "%s's data of a chip", name)
	}
	return c.tool(name)
}
