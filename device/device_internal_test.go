package device

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// testDesk returns a desk that shares nothing with the user's.
func testDesk(t *testing.T) *Desk {
	return &Desk{
		Host:       Host{Cache: cache.New(t.TempDir(), cache.Options{})},
		Programmer: "none", StateDir: t.TempDir(),
		LeaseDir: filepath.Join(t.TempDir(), "lease"),
	}
}

// TestProgrammerWithoutEffect: a programmer for a board that none writes is an error, in a dry run, too.
func TestProgrammerWithoutEffect(t *testing.T) {
	b := findBoard(t, "host")
	for name, want := range map[string]failure.Class{"openocd": failure.Config, "none": ""} {
		k := testDesk(t)
		k.Programmer = name
		_, err := k.Attach(t.Context(), b, "")
		_, planned := k.EraseCommands(t.Context(), b, "")
		if failure.Of(err) != want || failure.Of(planned) != want {
			t.Errorf("%q: %v, %v", name, err, planned)
		}
	}
}

// TestCloseReleasesOnce: Close releases the lease of its device, and a second one not that of a later device.
func TestCloseReleasesOnce(t *testing.T) {
	b := findBoard(t, "nucleo_f746zg")
	attachedtest.SetPorts(t, attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	k := testDesk(t)
	k.Programmer, k.Tool = "openocd", func(name string) (string, error) { return name, nil }
	earlier, err := k.Attach(t.Context(), b, "")
	must(t, err)
	must(t, earlier.Close())
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	must(t, earlier.Close())
	if other, err := k.Attach(t.Context(), b, ""); err == nil {
		t.Errorf("attached twice: %v", other)
	}
	must(t, d.Close())
}

// TestVerifyAnswer: an answer is an image's if it has the build id and the checksum of its parts, in which gaps are as
// the device's memory has them.
func TestVerifyAnswer(t *testing.T) {
	dir := testkit.Link(t, "gcc", `PHDRS { a PT_LOAD; b PT_LOAD; } SECTIONS { .text 0x1000 : { first = .; *(.text) } :a
		.data 0x1010 : { *(.data) last = .; } :b /DISCARD/ : { *(.note.*) } }`,
		".text\n.fill 8, 1, 0x11\n.data\n.fill 8, 1, 0x22", "-no-pie", "-Wl,-n,-e0,--build-id=none")
	file := readFile(t, filepath.Join(dir, "o.elf"))
	i := &image.Image{Path: filepath.Join(dir, "o.elf"), Digest: cachekey.Digest(file), BuildID: [16]byte{1}}
	i.Landmarks.Parts = []firmware.Place{{Symbol: "first", End: "last"}}
	crc := func(fill string) uint32 {
		part := strings.Repeat("\x11", 8) + strings.Repeat(fill, 8) + strings.Repeat("\x22", 8)
		return firmware.Parts{[]byte(part)}.CRC([]byte("n"))
	}
	memory := []boards.Region{{Name: "flash"}}
	for _, c := range []struct {
		name   string
		keeps  bool
		memory []boards.Region
		answer flashplan.Answer
		parts  []firmware.Place
		right  bool
	}{
		{"in memory", false, memory, flashplan.Answer{BuildID: i.BuildID, CRC: crc("\x00")}, i.Landmarks.Parts, true},
		{"in flash", true, memory, flashplan.Answer{BuildID: i.BuildID, CRC: crc("\xff")}, i.Landmarks.Parts, true},
		{"other gaps", true, memory, flashplan.Answer{BuildID: i.BuildID, CRC: crc("\x00")}, i.Landmarks.Parts, false},
		{"another id", true, memory, flashplan.Answer{CRC: crc("\xff")}, i.Landmarks.Parts, false},
		{"a process", false, nil, flashplan.Answer{BuildID: i.BuildID}, i.Landmarks.Parts, true},
		{"another process", false, nil, flashplan.Answer{}, i.Landmarks.Parts, false},
		{"no parts", true, memory, flashplan.Answer{BuildID: i.BuildID}, nil, true},
	} {
		d := &Device{board: &boards.Board{Name: "b", Memory: c.memory}, remote: &remote{keepsImage: c.keeps}}
		i.Landmarks.Parts, c.answer.Nonce = c.parts, []byte("n")
		parts, err := d.partsOf(i)
		must(t, err)
		err = d.verifyAnswer(&c.answer, i, parts)
		if c.right && err != nil || !c.right && failure.Of(err) != failure.Verify {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, spoil := range []func(){
		func() { i.Landmarks.Parts = []firmware.Place{{Symbol: "none"}} }, func() { i.Path += "x" },
	} {
		spoil()
		if _, err := (&Device{board: &boards.Board{Memory: memory}}).partsOf(i); err == nil {
			t.Error("an image that cannot be read has parts")
		}
	}
}

// TestVerifyChip: another chip than the expected one is an error, unless it is to be flashed again.
func TestVerifyChip(t *testing.T) {
	for _, c := range []struct {
		expected, answer, want string
		reflash, held          bool
	}{
		{"A", "A", "", false, true},
		{"", "B", "", false, true},
		{"A", "B", "chip B, not A", false, true},
		{"A", "", "chip without an id, not A", false, true},
		{"A", "B", "", true, true},
		{"A", "B", "", false, false},
	} {
		d := &Device{board: &boards.Board{Name: "b"}, desk: &Desk{Reflash: c.reflash}, chip: c.expected}
		if c.held {
			d.attachment = &desk.Attachment{}
		}
		err := d.verifyChip(c.answer)
		if c.want == "" && err != nil || c.want != "" && (failure.Of(err) != failure.Config ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// remoteBoard is a board that is reached over TCP at an address, without a probe.
func remoteBoard(t *testing.T, address string) *boards.Board {
	t.Helper()
	b := findBoard(t, "nucleo_f746zg")
	b.Link, b.Flash = boards.Link{Kind: "tcp", Address: address}, boards.Flash{Programmer: "none"}
	return b
}

// TestPowerWaitsForBridge: after a power cycle, a bridge that shares the board's power supply listens only after a
// while.
func TestPowerWaitsForBridge(t *testing.T) {
	l := transporttest.Listen(t, "127.0.0.1:0")
	address := l.Address()
	client, err := transport.DialTCP(t.Context(), transport.TCPConfig{Address: address})
	must(t, err)
	defer client.Close()
	open, err := l.Accept(t.Context()) // it keeps the port from other tests
	must(t, err)
	defer open.Close()
	must(t, l.Close())
	d, err := testDesk(t).Attach(t.Context(), remoteBoard(t, address), "")
	must(t, err)
	defer d.Close()
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		time.Sleep(2 * backEvery)
		l = transporttest.Listen(t, address)
	}()
	d.attachment.Power = "exit 0"
	must(t, d.runPowerCommand(t.Context()))
	<-listening
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.Accept(limited); err != nil {
		t.Errorf("the power cycle did not wait for the bridge: %v", err)
	}
}

// TestSilenceCause: what the ledger has of a device explains why it does not answer, unless that is the image.
func TestSilenceCause(t *testing.T) {
	for want, e := range map[string]ledger.Entry{
		"its last flash was interrupted or failed": {Dirty: true, Image: "aa"},
		"it was erased":                      {},
		"its last flash wrote another image": {Image: "bb"},
		"":                                   {Image: "aa"},
	} {
		if got := silenceCause(e, "aa"); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

func findBoard(t *testing.T, name string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, nil)
	must(t, err)
	return b
}
