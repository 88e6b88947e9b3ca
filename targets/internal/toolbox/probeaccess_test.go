package toolbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// For each problem that doctor finds, it prints how to fix it.
func TestUdevRules(t *testing.T) {
	old := ruleFolders
	t.Cleanup(func() { ruleFolders = old })
	dir := t.TempDir()
	ruleFolders = []string{filepath.Join(dir, "none"), dir}
	testkit.WriteFile(t, filepath.Join(dir, "70-other.rules"), `ATTRS{idVendor}=="1234", MODE="660"`)
	if f := udevRules(); f.Installed || !strings.Contains(f.Fix, "udevadm control --reload") {
		t.Errorf("%+v", f)
	}
	rules := filepath.Join(dir, "60-openocd.rules")
	testkit.WriteFile(t, rules,
		`ATTRS{idVendor}=="0483", ATTRS{idProduct}=="374b", MODE="660", GROUP="plugdev", TAG+="uaccess"`)
	if f := udevRules(); !f.Installed || f.Version != rules {
		t.Errorf("%+v", f)
	}
}

func TestGroups(t *testing.T) {
	f := inGroup("boardsmith-no-such-group", "ports")
	if os.Geteuid() == 0 {
		if !f.Installed {
			t.Errorf("root: %+v", f)
		}
		return
	}
	if f.Installed || f.Fix == "" {
		t.Errorf("%+v", f)
	}
}

func TestProbeAccess(t *testing.T) {
	node := filepath.Join(t.TempDir(), "001")
	d := attached.USBDevice{ID: "0483:374b", Serial: "066D", Path: "1-2", Product: "ST-Link", Release: "0100", Node: node}
	if f := canOpen(d, attached.ProbeKind(d.ID)); f.Installed || f.Reason == "" || f.Fix == "" {
		t.Errorf("one that cannot be opened: %+v", f)
	}
	testkit.WriteFile(t, node, "")
	f := canOpen(d, attached.ProbeKind(d.ID))
	if !f.Installed || !strings.Contains(f.Version, "066D") || !strings.Contains(f.Version, "release 0100") ||
		!strings.Contains(f.Version, "STSW-LINK007") {
		t.Errorf("%+v", f)
	}
}
