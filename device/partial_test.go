package device_test

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
)

// TestPartialBoardIsRefused: a board whose link only its build determines is refused before that build.
func TestPartialBoardIsRefused(t *testing.T) {
	t.Parallel()
	b, err := boards.Find("zephyr/nucleo_f746zg", nil)
	must(t, err)
	desk := &device.Desk{StateDir: t.TempDir()}
	for name, do := range map[string]func() error{
		"Attach": func() error { _, err := desk.Attach(t.Context(), b, ""); return err },
		"EraseCommands": func() error {
			_, err := desk.EraseCommands(t.Context(), b, "")
			return err
		},
		"StartEmulated": func() error { _, err := desk.StartEmulated(t.Context(), b); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := do()
			if failure.Of(err) != failure.Config || failure.Next(err) == "" ||
				!strings.Contains(err.Error(), "only a build finds out how board zephyr/nucleo_f746zg is reached") {
				t.Errorf("%v, next %q", err, failure.Next(err))
			}
		})
	}
}
