package device

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
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

// noted is a desk.json with devices of that board, by name and address.
func noted(board string, devices ...[2]string) *DeskFile {
	f := &DeskFile{Format: deskFileFormat}
	for _, d := range devices {
		f.Devices = append(f.Devices, DeskDevice{Name: d[0], Board: board, Link: DeskLink{Kind: "tcp", Address: d[1]}})
	}
	return f
}

// TestAddress checks which address is used: that of the board file, of desk.json, or of the caller.
func TestAddress(t *testing.T) {
	own := remoteBoard(t, "own:1", "")
	two := noted(own.Name, [2]string{"left", "left:1"}, [2]string{"right", "right:1"}, [2]string{"bare", ""})
	for _, c := range []struct {
		name  string
		board *boards.Board
		which string
		file  *DeskFile
		want  string // the address, or a part of the error
	}{
		{"board file", own, "", nil, "own:1"},
		{"asked for", own, "asked:1", two, "asked:1"},
		{"asked for, IPv6", own, "[::1]:4000", nil, "[::1]:4000"},
		{"by name", own, "right", two, "right:1"},
		{"the only one", own, "", noted(own.Name, [2]string{"left", "left:1"}), "left:1"},
		{"of another board", own, "", noted("other", [2]string{"left", "left:1"}), "own:1"},
		{"one of two", own, "", two, "2 attached devices may be board nucleo_f746zg: left:1, right:1"},
		{"neither name nor address", own, "middle", two, `no attached device of board nucleo_f746zg is called "middle"`},
		{"a name without an address", own, "bare", two, "its address is not configured"},
		{"nowhere", remoteBoard(t, "", ""), "", nil, "its address is not configured"},
	} {
		k := testDesk(t)
		k.File = c.file
		d, err := k.Attach(t.Context(), c.board, c.which)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || failure.Next(err) == "" {
				t.Errorf("%s: %v, next step %q, want %q", c.name, err, failure.Next(err), c.want)
			}
			continue
		}
		if d.attachment.port != c.want || d.attachment.at() != "tcp:"+c.want {
			t.Errorf("%s: %s, leased as %s, want %s", c.name, d.attachment.port, d.attachment.at(), c.want)
		}
		must(t, d.Close())
	}
	var several *AmbiguousError
	k := testDesk(t)
	k.File = two
	_, err := k.Attach(t.Context(), own, "")
	if !errors.As(err, &several) || !strings.HasSuffix(failure.Next(err), "which=left:1") {
		t.Errorf("%v, next step %q", err, failure.Next(err))
	}
}

// TestAddressBesideProbe: a board's probe is on USB, its link is not. The lease is the probe's.
func TestAddressBesideProbe(t *testing.T) {
	b := remoteBoard(t, "own:1", "0483:374b")
	k := testDesk(t)
	k.Programmer, k.Tool = "openocd", func(name string) (string, error) { return name, nil }
	plugged(t)
	var none *NoDeviceError
	if _, err := k.Attach(t.Context(), b, ""); !errors.As(err, &none) || !strings.Contains(err.Error(), "0483:374b") {
		t.Errorf("nothing is plugged in: %v", err)
	}
	port := attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "S1", Path: "1-2"}
	plugged(t, port)
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	if n := d.attachment; n.port != "own:1" || n.probe.Serial != "S1" || n.at() != "usb:1-2" {
		t.Errorf("%+v at %s", n.probe, n.at())
	}
	port.Path, port.Name = "3-1", "/dev/ttyTEST9"
	plugged(t, port)
	must(t, d.attachment.again(t.Context(), b))
	if n := d.attachment; n.port != "own:1" || n.probe.USBPath != "3-1" || n.at() != "usb:3-1" {
		t.Errorf("after a replug: %+v at %s, port %s", n.probe, n.at(), n.port)
	}
	must(t, d.Close())
	k.File = noted(b.Name, [2]string{"left", "left:1"})
	k.File.Devices[0].Probe, k.File.Devices[0].Power = "S1", "relay 3"
	d, err = k.Attach(t.Context(), b, "left")
	must(t, err)
	want := DeskLink{Kind: "tcp", Path: "3-1", Address: "left:1"}
	if n := d.attachment; n.port != "left:1" || n.found.link(b) != want {
		t.Errorf("desk.json's: %s, %+v", n.port, n.found.link(b))
	}
	must(t, d.Close())

	k.Programmer = "none" // past the probe
	d, err = k.Attach(t.Context(), b, "left")
	must(t, err)
	if n := d.attachment; n.port != "left:1" || n.at() != "tcp:left:1" || n.programmer != nil || n.power != "relay 3" {
		t.Errorf("without its probe: %s at %s", n.port, n.at())
	}
	must(t, d.Close())
	list, err := k.Devices(t.Context())
	must(t, err)
	for _, a := range list {
		if a.Port == "left:1" {
			t.Errorf("a device with a probe is listed twice: %+v", a)
		}
	}
	k.File.Devices[0].Probe = ""
	list, err = k.Devices(t.Context())
	must(t, err)
	if last := list[len(list)-1]; last.Port != "left:1" || len(last.Boards) != 1 || last.Boards[0] != b.Name {
		t.Errorf("listed %+v", list)
	}
}

// TestPowerOfBridge: a bridge that shares the board's power supply takes a while to listen again.
func TestPowerOfBridge(t *testing.T) {
	l := transporttest.Listen(t, "127.0.0.1:0")
	address := l.Address()
	client, err := transport.DialTCP(t.Context(), transport.TCPConfig{Address: address})
	must(t, err)
	defer client.Close()
	open, err := l.Accept(t.Context()) // it keeps the port from other tests
	must(t, err)
	defer open.Close()
	must(t, l.Close())
	b, k := remoteBoard(t, address, ""), testDesk(t)
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	defer d.Close()
	again := make(chan struct{})
	go func() {
		defer close(again)
		time.Sleep(2 * backEvery)
		l = transporttest.Listen(t, address)
	}()
	d.attachment.power = "exit 0"
	must(t, d.attachment.cyclePower(t.Context(), b))
	<-again
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.Accept(limited); err != nil {
		t.Errorf("cyclePower did not wait for the bridge: %v", err)
	}
}

// TestThroughProbe: a board that is reached through its probe alone needs no port of the probe's USB device, and keeps
// its lease where it is plugged in again.
func TestThroughProbe(t *testing.T) {
	b := remoteBoard(t, "", "0483:374b")
	b.Link, b.Flash.Programmer = boards.Link{Kind: "rtt"}, "openocd"
	k := testDesk(t)
	k.Programmer, k.Tool = "openocd", func(name string) (string, error) { return name, nil }
	port := attached.Port{USB: "0483:374b", Serial: "S1", Path: "1-2"}
	plugged(t, port)
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	if n := d.attachment; n.at() != "usb:1-2" || n.found.link(b) != (DeskLink{Kind: "rtt", Path: "1-2"}) {
		t.Errorf("%+v at %s", n.found, n.at())
	}
	port.Path = "3-1"
	plugged(t, port)
	must(t, d.attachment.again(t.Context(), b))
	if n := d.attachment; n.at() != "usb:3-1" {
		t.Errorf("after a replug: %s", n.at())
	}
	must(t, d.Close())
}
