package targets

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/console"
)

// TestNotFlashed checks that the error of a failed flash tells whether something was written, and whether the board
// holds the image.
func TestNotFlashed(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		report device.FlashReport
		want   string // of the line
	}{
		{device.FlashReport{Device: "chip:1"}, ""},
		{
			device.FlashReport{Device: "chip:1", Erased: 2, Wrote: 9},
			`{"device":"chip:1","erased":2,"sectors":0,"status":"dirty","step":"","v":1,"wrote":9}` + "\n",
		},
		{
			device.FlashReport{Device: "chip:1", Erased: 2, Wrote: 9, Verified: true},
			`{"device":"chip:1","erased":2,"sectors":0,"status":"written","step":"","v":1,"wrote":9}` + "\n",
		},
	} {
		var text bytes.Buffer
		out := console.New(testkit.Environment("JSON=1"), &text, io.Discard)
		if err := notFlashed(out, c.report, failed); err != failed || text.String() != c.want {
			t.Errorf("%+v: %v, %s", c.report, err, text.String())
		}
	}
}
