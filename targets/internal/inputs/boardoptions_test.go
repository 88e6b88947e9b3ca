package inputs_test

import (
	"maps"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
)

// TestBoardOptions: options of one board take the place of equal ones without a board.
func TestBoardOptions(t *testing.T) {
	got, err := inputs.ParseBoardOptions([]string{
		"arena_kib=64", "microbit:arena_kib=4", "operator_flags=a.c:-O3", "zephyr/qemu_x86:stack_bytes=4096",
		"microbit:stack_bytes=1024",
	})
	testkit.Must(t, err)
	if want := map[string]boards.Options{
		"":                {ArenaKiB: 64, OperatorFlags: "a.c:-O3"},
		"microbit":        {ArenaKiB: 4, StackBytes: 1024, OperatorFlags: "a.c:-O3"},
		"zephyr/qemu_x86": {ArenaKiB: 64, StackBytes: 4096, OperatorFlags: "a.c:-O3"},
	}; !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for _, wrong := range [][]string{{"microbit:arena=4"}, {"host:arena_kib=4", "host:arena_kib=5"}, {"host:"}, {":"}} {
		_, err := inputs.ParseBoardOptions(wrong)
		testkit.WantError(t, err, failure.Config)
	}
}
