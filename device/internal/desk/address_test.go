package desk

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// remoteBoard is a board that is reached over TCP; programmed through its probe if probe is a USB device.
func remoteBoard(t *testing.T, address, probe string) *boards.Board {
	t.Helper()
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	b.Link = boards.Link{Kind: "tcp", Address: address}
	b.Flash.USB = probe
	if probe == "" {
		b.Flash = boards.Flash{Programmer: "none"}
	}
	return b
}

// fileOf is a desk.json with devices of that board, by name and address.
func fileOf(board string, devices ...[2]string) *File {
	f := &File{Format: FileFormat}
	for _, d := range devices {
		f.Devices = append(f.Devices, Entry{Name: d[0], Board: board, Link: Link{Kind: "tcp", Address: d[1]}})
	}
	return f
}

// TestAddressPrecedence: the caller's address is used before desk.json's, and that before the board file's.
func TestAddressPrecedence(t *testing.T) {
	own := remoteBoard(t, "own:1", "")
	two := fileOf(own.Name, [2]string{"left", "left:1"}, [2]string{"right", "right:1"}, [2]string{"bare", ""})
	for _, c := range []struct {
		name  string
		board *boards.Board
		which string
		file  *File
		want  string // the address, or a part of the error
	}{
		{"board file", own, "", nil, "own:1"},
		{"caller", own, "asked:1", two, "asked:1"},
		{"caller, IPv6", own, "[::1]:4000", nil, "[::1]:4000"},
		{"caller, capitals", own, "Asked:1", nil, "Asked:1"},
		{"name in desk.json", own, "right", two, "right:1"},
		{"only one in desk.json", own, "", fileOf(own.Name, [2]string{"left", "left:1"}), "left:1"},
		{"another board in desk.json", own, "", fileOf("other", [2]string{"left", "left:1"}), "own:1"},
		{"two in desk.json", own, "", two, "which=left:1"},
		{"neither name nor address", own, "middle", two, `device "middle" of board nucleo_f746zg is not attached`},
		{"name without an address", own, "bare", two, "at an address, which is not configured"},
		{"none", remoteBoard(t, "", ""), "", nil, "at an address, which is not configured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := attach(t, c.board, "none", c.which, c.file, filepath.Join(t.TempDir(), "lease"))
			if err != nil {
				wantError(t, err, "", c.want)
				return
			}
			if a.Port != c.want || a.LeaseName() != "tcp:"+strings.ToLower(c.want) {
				t.Errorf("%s, leased as %s, want %s", a.Port, a.LeaseName(), c.want)
			}
			a.Close()
		})
	}
}

// TestAddressBesideProbe: a board with a probe on USB and a link over TCP is leased by its probe.
func TestAddressBesideProbe(t *testing.T) {
	b, leases := remoteBoard(t, "own:1", "0483:374b"), filepath.Join(t.TempDir(), "lease")
	attachedtest.SetPorts(t)
	if _, err := Find(b, "openocd", "", nil); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "0483:374b") {
		t.Errorf("without devices: %v", err)
	}
	port := attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "S1", Path: "1-2"}
	attachedtest.SetPorts(t, port)
	a, err := attach(t, b, "openocd", "", nil, leases)
	must(t, err)
	if a.Port != "own:1" || a.Probe.Serial != "S1" || a.LeaseName() != "usb:1-2" {
		t.Errorf("%+v, leased as %s", a.Probe, a.LeaseName())
	}
	port.Path, port.Name = "3-1", "/dev/ttyTEST9"
	attachedtest.SetPorts(t, port)
	must(t, a.Relocate(t.Context()))
	if a.Port != "own:1" || a.Probe.USBPath != "3-1" || a.LeaseName() != "usb:3-1" {
		t.Errorf("after a replug: %+v, leased as %s, port %s", a.Probe, a.LeaseName(), a.Port)
	}
	a.Close()
	file := fileOf(b.Name, [2]string{"left", "left:1"})
	file.Devices[0].Probe, file.Devices[0].Power = "S1", "relay 3"
	a, err = attach(t, b, "openocd", "left", file, leases)
	must(t, err)
	want := Link{Kind: "tcp", Path: "3-1", Address: "left:1"}
	if a.Port != "left:1" || a.Link() != want {
		t.Errorf("of desk.json: %s, %+v", a.Port, a.Link())
	}
	a.Close()

	a, err = attach(t, b, "none", "left", file, leases)
	must(t, err)
	if a.Port != "left:1" || a.LeaseName() != "tcp:left:1" || a.Programmer != nil || a.Power != "relay 3" {
		t.Errorf("without its probe: %s, leased as %s", a.Port, a.LeaseName())
	}
	a.Close()
	wantEqual(t, len(ListRemote(file)), 0, "a device with a probe is listed twice")
	file.Devices[0].Probe = ""
	list := ListRemote(file)
	if len(list) != 1 || list[0].Port != "left:1" || len(list[0].Boards) != 1 || list[0].Boards[0] != b.Name {
		t.Errorf("listed %+v", list)
	}
}

// TestLinkThroughProbe: a board that is reached through its probe alone needs no port of the probe's USB device.
func TestLinkThroughProbe(t *testing.T) {
	b := remoteBoard(t, "", "0483:374b")
	b.Link, b.Flash.Programmer = boards.Link{Kind: "rtt"}, "openocd"
	attachedtest.SetPorts(t, attached.Port{USB: "0483:374b", Serial: "S1", Path: "1-2"})
	a, err := attach(t, b, "openocd", "", nil, filepath.Join(t.TempDir(), "lease"))
	must(t, err)
	if a.LeaseName() != "usb:1-2" || a.Link() != (Link{Kind: "rtt", Path: "1-2"}) {
		t.Errorf("%+v, leased as %s", a.Link(), a.LeaseName())
	}
	a.Close()
}
