package boards

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestSettleUpload: standalone firmware has no window for uploaded code, whatever the board has.
func TestSettleUpload(t *testing.T) {
	found, err := Find("mps2_an385", nil)
	must(t, err)
	b := *found
	b.UploadKiB = 64
	for app, want := range map[string]int{RPC: 64, Standalone: 0} {
		o, err := b.Settle(Options{App: app})
		must(t, err)
		testkit.Equal(t, app, o.UploadKiB, want)
	}
}

// TestSettleNull: an arena in memory that begins at address 0 does not include the null pointer's bytes.
func TestSettleNull(t *testing.T) {
	b, err := Find("nucleo_h743zi", nil)
	must(t, err)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Place: "arena=itcm", ArenaKiB: 63}, ""},
		{
			Options{Place: "arena=itcm", ArenaKiB: 64},
			`an arena of 64 KiB, with 256 unused bytes at address 0, does not fit into region "itcm" of 65536 bytes: 256 bytes too`,
		},
		{Options{Place: "arena=itcm,stack=itcm", ArenaKiB: 56, StackBytes: 8192}, "256 bytes too many"},
		{Options{Place: "arena=itcm", ArenaKiB: 48, UploadKiB: 8}, ""},
		{Options{Place: "arena=itcm", ArenaKiB: 49, UploadKiB: 8}, "1024 bytes too many"}, // the window is at 8 KiB
	} {
		_, err := b.Settle(c.o)
		testkit.WantErrorIf(t, c.want != "", err, "", c.want)
	}
}
