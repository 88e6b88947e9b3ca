package device_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// A desk is an emulated board behind an emulated probe, with a state folder of its own.
type desk struct {
	t     *testing.T
	board string // path of its file
	state string
	env   env
}

// reservedPage is the first page of a boot loader's region on the chip of the tests' microbit. What does not respond is
// read back, page by page: a plain run has a quarter of the flash that a full one has.
var reservedPage = drawn.Count(64, 240)

// newDesk returns a desk with a shipped board, which is programmed through an emulated probe.
func newDesk(t *testing.T, name, tool string) *desk {
	t.Helper()
	text := readFile(t, filepath.Join("..", "boards", name+".json"))
	board := strings.Replace(string(text), "{", `{"replaces": true,`, 1)
	board = strings.Replace(board, `"inherits": "chip/nrf51822",`, fmt.Sprintf(`"inherits": "chip/nrf51822", "memory": [
    {"name": "flash", "origin": 0, "size": %d, "exec": true, "nonvolatile": true,
      "sectors": [{"count": %d, "size": 1024}], "erase_cycles": 20000},
    {"name": "bootloader", "origin": %[1]d, "size": 16384, "nonvolatile": true, "reserved": true,
      "sectors": [{"count": 16, "size": 1024}]},
    {"name": "ram", "origin": "0x20000000", "size": "0x00004000", "exec": true}
  ],`, reservedPage*1024, reservedPage), 1)
	return deskWith(t, boardstest.Shelf(t, map[string]string{name + ".json": board}), name, tool)
}

// programmers returns the tools with which tests of this package's own rules flash: in a plain run OpenOCD alone,
// because each start of pyOCD takes a second of processor time. In TestFlashesEraseLittle it is pyOCD; package flasher
// tests both.
func programmers() []string { return []string{"openocd", "pyocd"}[:drawn.Count(1, 2)] }

// deskWith returns a desk with a board of a search path.
func deskWith(t *testing.T, path, name, tool string) *desk {
	t.Helper()
	needBoardTools(t, name, []string{path})
	programmer, err := programmerPath(tool)
	if err != nil {
		t.Skipf("%s is not installed", tool)
	}
	d := &desk{t: t, board: name, state: t.TempDir(), env: testEnv()}
	d.env.Path, d.env.StateDir, d.env.Programmer = []string{path}, d.state, tool
	d.env.Tool = func(name string) (string, error) {
		if name == tool {
			return programmer, nil
		}
		return programmerPath(name)
	}
	d.env.Log = hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Info})
	t.Cleanup(func() {
		if err := chipkeeper.Down(context.Background(), device.EmulatedDir(d.state, name)); err != nil {
			t.Logf("down: %v", err) // the chip may never have been started
		}
	})
	return d
}

// programmerPath finds a tool, and builds the keeper.
func programmerPath(tool string) (string, error) {
	if tool == chipkeeper.Program {
		return keepertest.Path()
	}
	return testkit.FindTool(tool)
}

// image returns the smallest model's firmware, with an optimization of its operator.
func (d *desk) image(optimization string) *image.Image {
	d.t.Helper()
	return d.imageOf(mlftest.Tiny(d.t, nil), boards.Options{OperatorOpt: optimization})
}

// images are what this package's desks have built: a function of a result for each board, model and options.
// flashedStates are the folders of state of desks that have flashed one of them.
var images, flashedStates sync.Map

// imageOf returns a model's firmware for the board on the desk, with options. Equal ones are built once for all desks:
// no test changes its files.
func (d *desk) imageOf(model string, o boards.Options) *image.Image {
	d.t.Helper()
	board := readFile(d.t, filepath.Join(d.env.Path[0], "boards", d.board+".json"))
	archive := readFile(d.t, model)
	key := sha256.Sum256(fmt.Appendf(nil, "%q %q %+v", board, archive, o))

	build, _ := images.LoadOrStore(key, sync.OnceValues(func() (*image.Image, error) {
		folder := filepath.Join(filepath.Dir(leaseDir), fmt.Sprintf("%x", key[:8]))
		p, err := generateIn(d.t.Context(), folder, project.Spec{Board: d.board, Model: model, Options: o}, d.env)
		if err != nil {
			return nil, err
		}
		i, err := p.Build(d.t.Context())
		return i, errors.Join(err, p.Close())
	}))
	i, err := build.(func() (*image.Image, error))()
	if err != nil {
		d.t.Fatalf("build: %v\n%s", err, failure.Next(err))
	}
	own := *i
	return &own
}

// startFlashed begins a test with an image on the chip and in the ledger, as mustFlash leaves them. An image is flashed
// once for all tests: each desk gets a copy of the state after it, and starts its chip.
func (d *desk) startFlashed(i *image.Image) {
	d.t.Helper()
	state, _ := flashedStates.LoadOrStore(i.Digest, sync.OnceValues(func() (string, error) {
		first := *d
		first.state = filepath.Join(filepath.Dir(leaseDir), "flashed-"+i.Digest[:16])
		first.env.StateDir = first.state
		chip := device.EmulatedDir(first.state, d.board)
		err := errors.Join(first.flashAndOpen(i), chipkeeper.Down(context.Background(), chip))
		return first.state, errors.Join(err, os.RemoveAll(filepath.Join(chip, chipkeeper.ControlSocket)))
	}))
	folder, err := state.(func() (string, error))()
	must(d.t, err)
	must(d.t, os.CopyFS(d.state, os.DirFS(folder)))
	must(d.t, d.attach().Close()) // the chip runs
}

// flashedMicrobit returns a desk with an emulated micro:bit, the image that it holds, and another one.
func flashedMicrobit(t *testing.T, tool string) (d *desk, held, other *image.Image) {
	t.Helper()
	d = newDesk(t, "microbit", tool)
	held, other = d.image(""), d.image("O0")
	d.startFlashed(held)
	return d, held, other
}

// mustFlash flashes the image, undisturbed, and fails unless the chip holds it and answers.
func (d *desk) mustFlash(i *image.Image) {
	d.t.Helper()
	must(d.t, d.flashAndOpen(i))
}

func (d *desk) flashAndOpen(i *image.Image) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	b, err := boards.Find(d.board, d.env.Path)
	if err != nil {
		return err
	}
	dev, err := attach(ctx, b, "", d.env)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer dev.Close()
	if _, err := dev.Flash(ctx, i); err != nil {
		return fmt.Errorf("flash: %w", err)
	}
	if err := d.holds(i); err != nil {
		return err
	}
	s, err := dev.Open(ctx, i)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return s.Close(ctx)
}

// attach leases the board until the test ends.
func (d *desk) attach() *device.Device {
	d.t.Helper()
	b, err := boards.Find(d.board, d.env.Path)
	must(d.t, err)
	dev, err := attach(d.t.Context(), b, "", d.env)
	must(d.t, err)
	d.t.Cleanup(func() { dev.Close() })
	return dev
}

// request sends a request to the emulated chip: what to do, perhaps with faults.
func (d *desk) request(what string, faults *chipkeeper.Faults) chipkeeper.Answer {
	d.t.Helper()
	q := chipkeeper.Request{Do: what, Faults: faults}
	a, err := chipkeeper.Ask(testkit.Context(d.t), device.EmulatedDir(d.state, d.board), q)
	if err != nil {
		d.t.Logf("%s: %v", what, err)
	}
	return a
}

func (d *desk) status() chipkeeper.Answer {
	d.t.Helper()
	return d.request("status", nil)
}

// setFaults replaces the faults of the emulated chip.
func (d *desk) setFaults(f chipkeeper.Faults) chipkeeper.Answer {
	d.t.Helper()
	return d.request("faults", &f)
}

// flash returns the content of the emulated chip's flash, without a programmer.
func (d *desk) flash() []byte {
	d.t.Helper()
	d.request("save", nil)
	return readFile(d.t, filepath.Join(device.EmulatedDir(d.state, d.board), "flash.bin"))
}

// mustHold fails unless the chip holds the image.
func (d *desk) mustHold(i *image.Image) {
	d.t.Helper()
	must(d.t, d.holds(i))
}

// holds returns an error if the chip does not hold the image as objcopy reads it.
func (d *desk) holds(i *image.Image) error {
	b, err := boards.Find(d.board, d.env.Path)
	if err != nil {
		return err
	}
	return holdsAt(d.flash(), uint64(b.Memory[0].Origin), i)
}

// holdsAt returns an error if the content of a flash at base is not the image.
func holdsAt(flash []byte, base uint64, i *image.Image) error {
	parts, err := objcopied(i.Path)
	if err != nil {
		return err
	}
	for _, s := range parts {
		if s.Addr < base || s.End() > base+uint64(len(flash)) {
			return fmt.Errorf("objcopy has %d bytes at 0x%x, outside the flash", len(s.Data), s.Addr)
		}
		if !bytes.Equal(flash[s.Addr-base:][:len(s.Data)], s.Data) {
			return fmt.Errorf("the chip does not hold the %d bytes at 0x%x", len(s.Data), s.Addr)
		}
	}
	return nil
}

// objcopied returns the segments of an ELF file by their load addresses, as GNU objcopy writes them.
func objcopied(elf string) (parts []flasher.Segment, err error) {
	text, err := exec.Command("arm-none-eabi-objcopy", "-O", "verilog", elf, "/dev/stdout").Output()
	if err != nil {
		return nil, fmt.Errorf("objcopy: %w", err)
	}
	for _, word := range strings.Fields(string(text)) {
		at, isAddr := strings.CutPrefix(word, "@")
		v, err := strconv.ParseUint(at, 16, 64)
		switch {
		case err != nil:
			return nil, fmt.Errorf("objcopy: %w", err)
		case isAddr:
			parts = append(parts, flasher.Segment{Addr: v})
		default:
			last := &parts[len(parts)-1]
			last.Data = append(last.Data, byte(v))
		}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("objcopy: %s has no segments", elf)
	}
	return parts, nil
}
