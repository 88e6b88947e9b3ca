//go:build !windows

package device_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestEmulatedClock: an emulated timer is compared with the instructions that run meanwhile, over RPC and in standalone
// firmware. One that runs at another rate than the board file has is an error.
func TestEmulatedClock(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const wrong = `{"doc": "a wrong clock", "inherits": "chip/mps2_an521", "templates": ["baremetal"],
		"core_hz": 25000000, "timer": {"kind": "systick", "hz": 25000000},
		"arena_kib": 64, "host_clock": false, "flash": {"programmer": "none"},
		"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "mps2-an521"]}}`
	e := testEnv()
	e.Path = []string{folder}
	writeFile(t, filepath.Join(folder, "boards", "wrong_an521.json"), wrong)
	model := mlftest.Tiny(t, nil)
	for _, app := range []string{boards.RPC, boards.Standalone} {
		open := func(board string) (clock rpc.Clock, err error) {
			spec := project.Spec{Board: board, Model: model, Options: boards.Options{App: app}}
			p := generated(t, spec, e)
			i, d := built(t, p), attachedTo(t, p)
			if app == boards.Standalone {
				s, err := d.OpenStandalone(t.Context(), i)
				if err == nil {
					clock = s.Clock()
					err = s.Close()
				}
				return clock, err
			}
			s, err := d.Open(t.Context(), i)
			if err == nil {
				clock = s.Clock()
				err = s.Close(t.Context())
			}
			return clock, err
		}
		if clock, err := open("mps2_an521"); err != nil || clock != rpc.InstructionClock {
			t.Errorf("%s: %v, %v", app, clock, err)
		}
		_, err := open("wrong_an521")
		if !errors.Is(err, device.ErrClock) || !strings.HasSuffix(err.Error(), "-20.0 % off the reported 25000000") ||
			failure.Of(err) != failure.Config {
			t.Errorf("%s with a wrong clock: %v", app, err)
		}
	}
}
