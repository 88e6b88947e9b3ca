package flasher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/zephyrtest"
)

var (
	must      = testkit.Must
	wantEqual = testkit.WantEqual
	wantIs    = testkit.WantIs
	last      = testkit.Last
	wantError = testkit.WantError
)

func TestMain(m *testing.M) { keepertest.Main(m) }

// A rig is an emulated board and its programmers.
type rig struct {
	t    *testing.T
	dir  string
	base uint64
	size uint64 // of a sector that the test uses
	up   chipkeeper.Answer
	conf Config
}

func openRig(t *testing.T, f boards.Flash, base, size uint64) *rig {
	t.Helper()
	testkit.Need(t, "qemu-system-arm", f.Programmer)
	b := &rig{t: t, dir: t.TempDir(), base: base, size: size}
	up, err := chipkeeper.Up(t.Context(), keepertest.Path, b.dir, f.Chip, chipkeeper.Stays)
	must(t, err)
	t.Cleanup(func() { must(t, chipkeeper.Down(context.Background(), b.dir)) })
	b.up = up
	b.conf = Config{
		Flash: f, Find: testkit.FindTool, Probe: Probe{Emulated: &Emulated{up.Address.Bitbang, up.Address.Remote}},
		Log: hclog.New(&hclog.LoggerOptions{Output: t.Output(), Level: hclog.Info}),
	}
	return b
}

func (b *rig) ask(what string, faults *chipkeeper.Faults) chipkeeper.Answer {
	b.t.Helper()
	a, err := chipkeeper.Ask(testkit.Context(b.t), b.dir, chipkeeper.Request{Do: what, Faults: faults})
	must(b.t, err)
	return a
}

// erases returns how often each sector was erased.
func (b *rig) erases() []int { return b.ask("status", nil).State.Erases }

// flash returns the chip's content without using a programmer.
func (b *rig) flash() []byte {
	b.t.Helper()
	b.ask("save", nil)
	return testkit.ReadFile(b.t, filepath.Join(b.dir, "flash.bin"))
}

func (b *rig) sector(i int) boards.Sector {
	return boards.Sector{Index: i, Addr: b.base + uint64(i)*b.size, Size: b.size}
}

// pattern fills a sector; the first holds a firmware that sleeps.
func (b *rig) pattern(i int, seed byte) Segment {
	data := make([]byte, b.size)
	for k := range data {
		data[k] = byte(k)*3 + byte(k>>8)*5 + byte(i) + seed
	}
	if i == 0 {
		entry := uint32(b.base) + 9
		copy(data, []byte{
			0x00, 0x40, 0x00, 0x20, byte(entry), byte(entry >> 8), byte(entry >> 16), byte(entry >> 24), 0x30,
			0xBF, 0xFD, 0xE7,
		})
	}
	return Segment{b.sector(i).Addr, data}
}

// boardsUnderTest lists the emulated boards, each with a range of equal sectors.
var boardsUnderTest = []struct {
	name       string
	flash      boards.Flash
	base, size uint64
}{
	{"microbit", boards.Flash{Scripts: []string{"target/nrf51.cfg"}, Chip: "nrf51"}, 0, 1024},
	{"netduinoplus2", boards.Flash{Scripts: []string{"target/stm32f4x.cfg"}, Chip: "stm32f412xe"}, 0x08000000, 16 << 10},
}

// onEach runs programmers on the first of the boards; in the full test on the second too.
func onEach(t *testing.T, do func(t *testing.T, b *rig, tool string)) {
	for board := range drawn.Count(1, 2) {
		onBoard(t, board, do)
	}
}

// onBoard runs programmers on one of the boards, with the name of the tool that reaches the probe.
func onBoard(t *testing.T, board int, do func(t *testing.T, b *rig, tool string)) {
	k := boardsUnderTest[board]
	for _, name := range drawn.Of(t, "tool of "+t.Name(), []string{"openocd", "pyocd"}, 1) {
		t.Run(k.name+"/"+name, func(t *testing.T) {
			f := k.flash
			f.Programmer = name
			do(t, openRig(t, f, k.base, k.size), name)
		})
	}
}

// A job erases and writes exactly what it names; the result is verified and can be read.
func TestJob(t *testing.T) {
	t.Parallel()
	job := func(t *testing.T, b *rig, tool string) {
		p, all := created(t, tool, b.conf), Job{Restart: true}
		for i := range 3 {
			all.Erase = append(all.Erase, b.sector(i))
			all.Write = append(all.Write, b.pattern(i, 0))
		}
		all.Verify = all.Write
		ctx := t.Context()
		must(t, p.Do(ctx, all))
		one := b.pattern(1, 77)
		whole := []Segment{all.Write[0], one, all.Write[2]}
		must(t, p.Do(ctx, Job{
			Erase: []boards.Sector{b.sector(1)}, Write: []Segment{one}, Verify: whole, Restart: true,
		}))
		flash := b.flash()
		for i, want := range whole {
			wantEqual(t, flash[uint64(i)*b.size:][:b.size], want.Data, i)
		}
		wantEqual(t, b.erases(), []int{1, 2, 1})
		got, err := p.(flashReader).Read(ctx, []Range{{one.Addr, b.size}, {all.Write[0].Addr, 64}})
		if err != nil || len(got) != 2 || !bytes.Equal(got[0].Data, one.Data) ||
			!bytes.Equal(got[1].Data, all.Write[0].Data[:64]) {
			t.Errorf("read something else: %v", err)
		}
	}
	for _, board := range drawn.Of(t, "boards of a job", []int{0, 1}, 1) {
		onBoard(t, board, job)
	}
	t.Run("Zephyr", func(t *testing.T) {
		onBoard(t, 0, func(t *testing.T, b *rig, _ string) {
			b.conf.Build, b.conf.Flash = zephyrBuildOf(t, b.conf.Flash), boards.Flash{Programmer: "west"}
			job(t, b, "west")
		})
	})
}

// zephyrBuildOf returns a Zephyr build with the settings of a board file: OpenOCD finds the configuration in a folder
// with a space and, in it, another one beside it; it runs commands, each of which would fail at another time.
func zephyrBuildOf(t *testing.T, f boards.Flash) string {
	t.Helper()
	args := map[string][]string{
		"openocd": append([]string{
			"--cmd-pre-init", "set CONFIGURED $_TARGETNAME", "--cmd-post-verify",
			"if {[$CONFIGURED curstate] ne {halted}} {error running}",
		}, zephyrtest.OpenOCD...),
		"pyocd": {"--target=" + f.Chip, "--frequency=2000000", "--flash-opt=-O reset_type=sw", "--dt-flash=y"},
	}
	dir := zephyrtest.Build(t, f.Programmer, map[string][]string{f.Programmer: args[f.Programmer]},
		"source [find beside.cfg]\n")
	beside := filepath.Join(dir, "..", "the board", "support", "beside.cfg")
	testkit.WriteFile(t, beside, "source [find "+f.Scripts[0]+"]\n")
	return dir
}

// TestOtherSectors: erase units that the chip does not have end the run before anything is erased, whether they are
// larger or smaller, also beside right ones, and whatever chip is accepted.
func TestOtherSectors(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *rig, tool string) {
		b.conf.AnyChip = true
		p := created(t, tool, b.conf)
		for _, other := range []boards.Sector{
			{Addr: b.base, Size: 4 * b.size},
			{Addr: b.base + b.size, Size: b.size / 4},
			{Addr: b.base + b.size/2, Size: b.size},
			{Addr: 0x60000000, Size: b.size},
		} {
			err := p.Do(t.Context(), Job{Erase: []boards.Sector{b.sector(2), other}})
			wantError(t, err, "", "sectors", fmt.Sprintf("0x%x bytes at 0x%08x, where", other.Size, other.Addr))
			wantIs(t, err, ErrOtherChip, other)
		}
		wantEqual(t, len(b.erases()), 0, "erased")
	})
}

// TestBankWithoutAddress: sectors of a bank for which OpenOCD prints no address are not at that of another bank.
func TestBankWithoutAddress(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "openocd")
	const banks = `proc flash {what args} {
 if {$what eq "list"} {return {a b}}
 if {$what eq "probe"} return
 echo [expr {$args == 0 ? "FIRST" : "a bank"}]
 echo "#  $args: 0x00000${args}00 (0x100 0kB) not protected"
}`
	for first, want := range map[string]string{
		"#0 : x at 0x08000000, size 0x00000100, buswidth 0": mark + otherSector + "0x8000100 0x0 0x0",
		"a bank": mark + noSectors,
	} {
		script := fmt.Sprintf(strings.ReplaceAll(sectorsScript, "\n", "; "), "134217984 256")
		out, _ := exec.Command("openocd", "-c", noServers(noGDB), "-c", "rename flash flashes",
			"-c", strings.ReplaceAll(banks, "FIRST", first), "-c", script, "-c", "shutdown").CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %s", first, out)
		}
	}
}

// Before the first erase, the tool compares the chip's identification register with the board file; a different
// chip ends the run unless any is accepted.
func TestIdentification(t *testing.T) {
	t.Parallel()
	right := map[string]boards.Identification{
		"nrf51":       {Address: 0x1000005C, Mask: 0xFFFF, Values: []boards.Number{0x20, 0x1D}, Source: "s"},
		"stm32f412xe": {Address: 0xE0042000, Mask: 0xFFF, Values: []boards.Number{0x413, 0x441}, Source: "s"},
	}
	onEach(t, func(t *testing.T, b *rig, tool string) {
		chip := right[b.conf.Flash.Chip]
		for n, c := range []struct {
			name   string
			values []boards.Number
			any    bool
			works  bool
		}{
			{"another chip", []boards.Number{0x1E, 0x411}, false, false},
			{"another chip, as asked", []boards.Number{0x1E}, true, true},
			{"the right one", chip.Values, false, true},
		} {
			before := b.erases()
			b.conf.Chip, b.conf.AnyChip = chip, c.any
			b.conf.Chip.Values = c.values
			p := created(t, tool, b.conf)
			data := []Segment{b.pattern(0, byte(n))}
			err := p.Do(t.Context(), Job{Erase: []boards.Sector{b.sector(0)}, Write: data, Verify: data})
			erased := !slices.Equal(b.erases(), before)
			if c.works != (err == nil) || c.works != erased || !c.works &&
				(!errors.Is(err, ErrOtherChip) ||
					!strings.Contains(err.Error(), fmt.Sprintf("value 0x%x is not", uint64(chip.Values[1])))) {
				t.Errorf("%s: erased: %v, %v", c.name, erased, err)
			}
			if err := p.Do(t.Context(), Job{Verify: data}); c.works && err != nil {
				t.Errorf("%s: verifying: %v", c.name, err)
			}
		}
	})
}

// Inspect returns the core's program counter and memory, and neither resets nor stops it.
func TestInspect(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *rig, tool string) {
		p, data := created(t, tool, b.conf), []Segment{b.pattern(0, 0)} // it sleeps at its ninth byte
		must(t, p.Do(t.Context(), Job{Erase: []boards.Sector{b.sector(0)}, Write: data, Verify: data, Restart: true}))
		for range 2 {
			pc, got, err := p.(inspector).Inspect(t.Context(), []Range{{data[0].Addr, 8}, {0xE000ED00, 4}})
			must(t, err)
			if pc&^2 != uint32(b.base)+8 || len(got) != 2 ||
				!bytes.Equal(got[0].Data, data[0].Data[:8]) || got[1].Data[3] != 0x41 {
				t.Errorf("pc %#x, read %v", pc, got)
			}
		}
	})
}

// Errors name the cause: a difference, a probe that vanishes.
func TestFailures(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *rig, tool string) {
		p := created(t, tool, b.conf)
		job := Job{Erase: []boards.Sector{b.sector(0)}, Write: []Segment{b.pattern(0, 0)}}
		must(t, p.Do(t.Context(), job))
		job.Write[0] = b.pattern(0, 9) // what is there already need not be written
		job.Verify = job.Write
		first := job.Write[0].Data[0x20]
		weak := 0x10&^(first&0x10) | 1&^first | 2&^first
		for _, c := range []struct {
			name   string
			faults chipkeeper.Faults
			want   failure.Class
		}{
			{"a weak bit", chipkeeper.Faults{Weak: map[uint32]byte{0x20: weak}}, failure.Verify},
			{"unplugged", chipkeeper.Faults{UnplugAfter: 300}, failure.Flash},
		} {
			b.ask("faults", &c.faults)
			err := p.Do(t.Context(), job)
			got := failure.Of(err)
			if got == failure.Flash && c.want == failure.Verify {
				got = c.want // a programmer may find it while it writes
			}
			if err == nil || got != c.want {
				t.Errorf("%s: class %v, want %v: %v", c.name, got, c.want, err)
			}
		}
		b.ask("faults", &chipkeeper.Faults{})
		must(t, p.Do(t.Context(), job))
	})
}

// shell is a command that runs a script.
func shell(script string) command.Command {
	return command.Command{Path: "/bin/sh", Args: []string{"-c", script}}
}

// A missing probe is an error of class probe-missing, without a long wait.
func TestNoProbe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openocd", "pyocd"} {
		t.Run(name, func(t *testing.T) {
			testkit.Need(t, name)
			p := created(t, name, Config{
				Flash: boardsUnderTest[0].flash, Find: testkit.FindTool,
				Probe: Probe{Emulated: &Emulated{"127.0.0.1:1", "127.0.0.1:1"}},
			})
			wantError(t, p.Do(t.Context(), Job{Verify: []Segment{{0, make([]byte, 4)}}}), failure.ProbeMissing)
		})
	}
}

// Firmware that left an interrupt enabled does not run its handler while the flash below that is being erased.
func TestInterruptsWhileErasing(t *testing.T) {
	t.Parallel()
	onBoard(t, 0, func(t *testing.T, b *rig, tool string) {
		p := created(t, tool, b.conf)
		busy := b.pattern(0, 0)
		entry := uint32(b.base) + 9
		copy(busy.Data, []byte{
			0x00, 0x40, 0x00, 0x20, byte(entry), byte(entry >> 8), byte(entry >> 16), byte(entry >> 24),
			0x01, 0x20, 0x01, 0x49, 0x08, 0x60, 0xFE, 0xE7, // movs r0, #1; ldr r1, =NVIC_ISER; str r0, [r1]; b .
			0x00, 0xE1, 0x00, 0xE0,
		})
		job := Job{Erase: []boards.Sector{b.sector(0)}, Write: []Segment{busy}, Verify: []Segment{busy}, Restart: true}
		must(t, p.Do(t.Context(), job))
		next := Job{Erase: []boards.Sector{b.sector(0), b.sector(1)}, Write: []Segment{b.pattern(1, 5), b.pattern(0, 5)}}
		next.Verify = next.Write
		must(t, p.Do(t.Context(), next))
	})
}
