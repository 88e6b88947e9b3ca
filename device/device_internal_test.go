package device

import (
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/internal/attached"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// testDesk has nothing in common with the user's.
func testDesk(t *testing.T) *Desk {
	return &Desk{Host: Host{Cache: cache.New(t.TempDir(), cache.Options{})},
		Programmer: "none", StateDir: t.TempDir(),
		LeaseDir: filepath.Join(t.TempDir(), "lease"),
	}
}

// TestClose lets go of the device, and of no later one.
func TestClose(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	plugged(t, attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	k := testDesk(t)
	k.Programmer, k.Tool = "openocd", func(name string) (string, error) { return name, nil }
	var earlier *Device
	for range 2 {
		d, err := k.Attach(t.Context(), b, "")
		must(t, err)
		if earlier != nil {
			must(t, earlier.Close())
		}
		if other, err := k.Attach(t.Context(), b, ""); err == nil {
			t.Errorf("attached twice: %v", other)
		}
		must(t, d.Close())
		earlier = d
	}
}
