// Package flasher writes a built image to one attached board.
//
// It knows programmers, not boards: what a board needs is in its board file. It neither builds images nor talks to
// the running program.
package flasher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// A Flasher writes an image to one attached board.
type Flasher interface {
	// Flash makes the board hold the image and has verified it when it returns without an error. image is the path
	// of an ELF file.
	Flash(ctx context.Context, image string) (Report, error)
}

// A Report says what flashing did.
type Report struct {
	Wrote  int64  // bytes programmed
	Erased int    // sectors erased
	Why    string // why it was that much, in a few words
}

// runners are the programmers there are, by the name a board file gives.
var runners = map[string]func(boards.Flash, hclog.Logger) Flasher{
	"none": newNone, // the image is loaded when the link opens
}

// Names lists the runners, sorted.
func Names() []string { return slices.Sorted(maps.Keys(runners)) }

// New returns the flasher that the board file asks for. An unknown runner is an error of class config.
func New(f boards.Flash, log hclog.Logger) (Flasher, error) {
	make, ok := runners[f.Runner]
	if !ok {
		return nil, failure.New(failure.Config, "the runners are: "+strings.Join(Names(), ", "), "flash runner %q is not known", f.Runner)
	}
	return make(f, log), nil
}

// none is the runner of boards that load the image when their link opens: processes and emulators.
type none struct{ log hclog.Logger }

func newNone(_ boards.Flash, log hclog.Logger) Flasher { return none{log} }

// Flash writes nothing.
func (n none) Flash(ctx context.Context, image string) (Report, error) {
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("flash: %w", err)
	}
	n.log.Debug("nothing to flash", "image", image)
	return Report{Why: "nothing to write: the image is loaded when the link opens"}, nil
}
