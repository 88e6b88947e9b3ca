package device

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/openset"
	"github.com/boardsmith/boardsmith/progress"
)

// A Desk is what using attached devices needs of this computer. The zero value is the normal case. Many goroutines may use it
// at once, once its fields are set: Progress, Tool and Probes must allow for that. It must not be copied after its first use.
type Desk struct {
	Path     []string      // folders whose boards/ are looked into before the shipped ones
	Log      hclog.Logger  // nil: nothing is logged
	Progress progress.Func // told as steps go on, from any goroutine; nil: nobody is
	Cache    *cache.Cache  // where images of earlier builds are; nil: the user's own, or none where the system has no place for it

	Programmer string        // in place of the board's own: openocd, pyocd, west, none
	Reflash    bool          // write all of an image, whatever the board holds, and past its wear budget
	Wait       time.Duration // for a board that somebody else uses; 0: not at all
	File       *DeskFile     // devices that have names, and commands for their power; nil: none
	StateDir   string        // folder of ledger and emulated chips with their leases; "" is the user's own
	Ledger     string        // folder of the ledger, which users or computers may share; "" is the one in StateDir
	LeaseDir   string        // folder of the leases of real probes and of addresses; "" is the one of all users of this computer
	Tool       FindTool      // where programmers are, and what Probes needs; nil: on PATH
	Probes     Probes        // of boards whose probe is emulated, as microbit's; nil: such a board is a *NoProbesError

	attached openset.Set[*Device] // and not closed
}

// Close closes the devices that were attached, and nobody has closed. k can be used again.
func (k *Desk) Close() error { return k.attached.Close() }

func (k *Desk) log() hclog.Logger {
	if k.Log == nil {
		return hclog.NewNullLogger()
	}
	return k.Log.Named("device")
}

func (k *Desk) images() image.Store { return image.Store{Cache: k.Cache, Log: k.log()} }
