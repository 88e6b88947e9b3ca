// This file defines Desk: what all devices of a computer share, which is the ledger, leases, files and programs.

package device

import (
	"cmp"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/statedir"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Desk configures the use of attached devices. The zero value is the usual one. After its fields are set, it may
// be used from many goroutines; Progress, Tool and Probes must allow for that. It must not be copied after its
// first use. Relative paths are relative to the working folder. The first call that uses the fields makes them
// absolute.
type Desk struct {
	Host

	Programmer string        // instead of the board's: openocd, pyocd, west, none
	Reflash    bool          // write whole images, whatever the board holds, even beyond its wear budget
	Wait       time.Duration // how long to wait for a device that another process uses; 0: not at all
	File       *DeskFile     // named devices, with commands for their power; nil: none
	StateDir   string        // folder of the ledger and of emulated chips with their leases; "": the user's
	// folder of the ledger, which users or computers may share; "": in StateDir, or without one BOARDSMITH_LEDGER, if set
	Ledger string
	// folder of the leases of real probes and of addresses; "" is the one of all users of this computer
	LeaseDir string
	// returns the path of a programmer, or of a program of Probes, by its name: *failure.MissingToolError; nil, or "" as
	// path: the programmer on PATH, and the program that Probes finds itself
	Tool func(program string) (path string, err error)
	// receives a recording of each link that a device opens, in transport's format, one after the other if one device is
	// used at a time; nil: none
	Trace  io.Writer
	Probes Probes // emulated probes, for boards such as microbit; nil: such boards cannot be attached

	mu sync.Mutex // of makeAbsolute
}

// A DeskFile is desk.json, format 1: Devices, and the methods Find, Note and Write.
type DeskFile = desk.File

// A DeskDevice is one device in desk.json, by a name that the user gave it: Name, Board, Probe, Chip, Link, Power and
// Notes.
type DeskDevice = desk.Entry

// ReadDeskFile reads a desk.json. A missing file counts as empty. An invalid one is an error of class config.
func ReadDeskFile(path string) (*DeskFile, error) { return desk.ReadFile(path) }

func (k *Desk) log() hclog.Logger {
	if k.Log == nil {
		return hclog.NewNullLogger()
	}
	return k.Log.Named("device")
}

func (k *Desk) images() image.Store { return image.Store{Cache: k.Cache, Log: k.log()} }

// makeAbsolute makes the paths in k's fields absolute.
func (k *Desk) makeAbsolute() {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.StateDir == "" { // else the ledger is there, too
		k.Ledger = cmp.Or(k.Ledger, ledger.Shared())
	}

	abspath.Fix(&k.StateDir, &k.Ledger, &k.LeaseDir)
	abspath.FixEach(&k.Path)
}

// stateDir returns the folder of state that must outlast the cache.
func (k *Desk) stateDir() (string, error) {
	k.makeAbsolute()
	if k.StateDir != "" {
		return k.StateDir, nil
	}
	return statedir.Path()
}

// ledger returns the ledger of devices.
func (k *Desk) ledger() (*ledger.Ledger, error) {
	k.makeAbsolute()
	if k.Ledger != "" {
		return ledger.New(k.Ledger), nil
	}

	dir, err := k.stateDir()
	if err != nil {
		return nil, err
	}
	return ledger.New(filepath.Join(dir, "ledger")), nil
}

// leaseDir returns the folder of leases: for a real probe the one of all users, for an emulated one this user's.
func (k *Desk) leaseDir(b *boards.Board) (string, error) {
	if b.Flash.Emulated {
		dir, err := k.stateDir()
		return filepath.Join(dir, "lease"), err
	}

	dir := k.LeaseDir
	if dir == "" {
		var err error
		if dir, err = ledger.LeaseDir(); err != nil {
			return "", err
		}
	}
	return dir, ledger.ShareLeases(dir)
}

// tool returns the path of a programmer.
func (k *Desk) tool(name string) (string, error) {
	if k.Tool != nil {
		if path, err := k.Tool(name); path != "" || err != nil {
			return path, err
		}
	}

	path, err := exec.LookPath(name)
	if err != nil {
		return "", &failure.MissingToolError{Tool: name, Install: nextstep.Target("setup")}
	}
	return path, nil
}

// programmerOf returns the name of the programmer to use, boards.NoProgrammer if nothing is programmed.
func (k *Desk) programmerOf(b *boards.Board) string {
	if neverProgrammed(b) {
		return boards.NoProgrammer
	}
	return cmp.Or(k.Programmer, b.Flash.Programmer)
}

// neverProgrammed reports whether a board's file has nothing that a programmer needs.
func neverProgrammed(b *boards.Board) bool {
	return b.Flash.Programmer == boards.NoProgrammer && b.Flash.Chip == "" && len(b.Flash.Scripts) == 0
}

// check returns an error for a board whose link and programmer only a build determines, and for one that no programmer
// writes if the desk names one.
func (k *Desk) check(b *boards.Board) error {
	if err := checkComplete(b); err != nil {
		return err
	}
	if neverProgrammed(b) && cmp.Or(k.Programmer, boards.NoProgrammer) != boards.NoProgrammer {
		return failure.New(failure.Config, "leave "+nextstep.Option("Desk.Programmer", k.Programmer)+" out",
			"%s has no effect: no programmer writes board %s", k.Programmer, b.Name)
	}
	return nil
}

// checkComplete returns an error for a board whose link and programmer only a build determines.
func checkComplete(b *boards.Board) error {
	if b.Partial {
		return failure.New(failure.Config,
			"build a project for it first ("+nextstep.Target("build")+") and choose that; Project.Board returns its board",
			"only a build finds out how board %s is reached", b.Name)
	}
	return nil
}
