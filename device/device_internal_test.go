package device

import (
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
)

var (
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantLen    = testkit.WantLen
	last       = testkit.Last
	writeFile  = testkit.WriteFile
	readFile   = testkit.ReadFile
	wantError  = testkit.WantError
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
		wantError(t, last((&Device{board: &boards.Board{Memory: memory}}).partsOf(i)), "")
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
	address, ctx := transporttest.Refusing(t), t.Context()
	d, err := testDesk(t).Attach(ctx, remoteBoard(t, address), "")
	must(t, err)
	defer d.Close()
	listening := make(chan *transporttest.Listener, 1)
	time.AfterFunc(2*backEvery, func() { listening <- transporttest.Listen(t, address) })
	d.attachment.Power = "exit 0"
	must(t, d.runPowerCommand(ctx))
	must(t, last((<-listening).Accept(testkit.Within(t, 10*time.Second))))
}

// TestSilenceCause: what the ledger has of a device explains why it does not answer, unless that is the image.
func TestSilenceCause(t *testing.T) {
	for want, e := range map[string]ledger.Entry{
		"its last flash was interrupted or failed": {Dirty: true, Image: "aa"},
		"it was erased":                      {},
		"its last flash wrote another image": {Image: "bb"},
		"":                                   {Image: "aa"},
	} {
		wantEqual(t, silenceCause(e, "aa"), want, e)
	}
}

func findBoard(t *testing.T, name string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, nil)
	must(t, err)
	return b
}

// TestToolOnPATH: a program for which Desk.Tool returns no path is searched on PATH.
func TestToolOnPATH(t *testing.T) {
	testkit.Need(t, "go")
	want, err := exec.LookPath("go")
	must(t, err)
	k := &Desk{Tool: func(string) (string, error) { return "", nil }}
	wantResult(t, want)(k.tool("go"))
}

// TestLinkKindsAreImplemented: each kind that a board file may name is implemented, and no other.
func TestLinkKindsAreImplemented(t *testing.T) {
	field, _ := reflect.TypeFor[boards.Link]().FieldByName("Kind")
	wantEqual(t, slices.Sorted(maps.Keys(linkers)), slices.Sorted(strings.SplitSeq(field.Tag.Get("is"), "|")))
	for kind, l := range linkers {
		if l.start == nil && !l.keepsImage() {
			t.Errorf("a link of kind %s can be neither started nor opened", kind)
		}
	}
}
