//go:build !windows

package virtualprobe

import (
	"bytes"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// nrfDo erases a page or programs a word through the flash controller, as a debugger does.
func nrfDo(t *testing.T, c *Chip, erase bool, addr, v uint32) error {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	must(t, c.ready())
	config, to := uint32(1), addr
	if erase {
		config, to, v = 2, nrfErasePg, addr
	}
	must(t, c.core.Write(nrfConfig, 4, config))
	return c.core.Write(to, 4, v)
}

// A power cut inside an erase leaves a page that is neither as before nor erased and reads differently each time.
// Nothing else has changed, and an erase repairs it. A cut inside programming leaves one word in this state. A full run
// cuts six times as often.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	_, full := image(t, 8*nrfPage, 0)
	must(t, c.Load(full))
	const at, end = 5 * nrfPage, 6 * nrfPage
	page := func() []byte {
		t.Helper()
		b, err := c.Flash()
		must(t, err)
		wantEqual(t, slices.Delete(bytes.Clone(b[:len(full)]), at, end), slices.Delete(bytes.Clone(full), at, end))
		return b[at:end]
	}
	random := drawn.Rand(t, "cuts of power")
	unsteady, cuts := 0, drawn.Count(2, 12)
	for range cuts {
		seed := random.Uint64()
		must(t, c.Load(full))
		c.Break(chipkeeper.Faults{Cut: &chipkeeper.Cut{Erase: true, After: 1, Seed: seed}})
		wantEqual(t, nrfDo(t, c, true, at, 0), errPowerCut, "no cut")
		first, steady := page(), true
		for range 7 {
			b := page()
			for i, old := range full[at:end] {
				wantEqual(t, b[i]&old, old, i, b[i]) // an erase sets bits only
			}
			steady = steady && bytes.Equal(b, first)
		}
		if !steady {
			unsteady++
		}
		must(t, nrfDo(t, c, true, at, 0))
		wantEqual(t, page(), erasedPage)
		c.Break(chipkeeper.Faults{Cut: &chipkeeper.Cut{After: 2, Seed: seed}})
		must(t, nrfDo(t, c, false, at, 0x12345678))
		wantEqual(t, nrfDo(t, c, false, at+8, 0), errPowerCut, "no cut")
		b, want := page(), bytes.Clone(erasedPage)
		copy(want, []byte{0x78, 0x56, 0x34, 0x12})
		copy(want[8:12], b[8:])
		wantEqual(t, b, want)
	}
	if unsteady < cuts/2 {
		t.Errorf("%d of %d pages read differently", unsteady, cuts)
	}
}

// The probe loses power together with the board, so the tool fails. When the power is back, the chip starts, and the
// next run writes the rest.
func TestPowerCutUnderTools(t *testing.T) {
	t.Parallel()
	for _, m := range drawn.Of(t, "chips that lose power", []Model{NRF51, STM32F412}, 1) {
		c := powerUp(t, m)
		name, want := image(t, 20000, 0)
		for _, cut := range []chipkeeper.Cut{{Erase: true, After: 2, Seed: 1}, {After: 100, Seed: 2}} {
			c.Break(chipkeeper.Faults{Cut: &cut})
			if pyocd(t, c, name) == nil {
				t.Errorf("%s, %+v: no error", m.Name, cut)
			}
		}
		c.Break(chipkeeper.Faults{})
		must(t, pyocd(t, c, name))
		mustHold(t, c, want)
	}
}

// Bits change by themselves, in the flash as a debugger reads it and as firmware reads it.
func TestBitsFall(t *testing.T) {
	t.Parallel()
	for _, m := range drawn.Of(t, "chips whose bits fall", []Model{NRF51, STM32F412}, 1) {
		c := powerUp(t, m)
		_, want := image(t, 4096, 0)
		must(t, c.Load(want))
		c.Break(chipkeeper.Faults{Fall: map[uint32]byte{100: 0xFF, 1000: 0x0F}})
		want[100], want[1000] = 0, want[1000]&0xF0
		mustHold(t, c, want)
		c.mu.Lock()
		seen, err := c.machine.Read(m.flash.base+100, 1)
		c.mu.Unlock()
		if err != nil || seen != 0 {
			t.Errorf("%s: firmware sees 0x%02x: %v", m.Name, seen, err)
		}
		c.Break(chipkeeper.Faults{Fall: map[uint32]byte{200: 0xFF}, FallAfter: 3})
		mustHold(t, c, want)
		for range 3 {
			c.exclusively(func() { c.dap.readDP(dpIDR) })
		}
		want[200] = 0
		mustHold(t, c, want)
	}
}

// An access answered with WAIT has no effect, and takes effect once when it is repeated. With overrun detection, every
// answer is FAULT until the flag is cleared.
func TestWait(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	c.Break(chipkeeper.Faults{Waits: 3})
	c.mu.Lock()
	defer c.mu.Unlock()
	var acks []ack
	write := func(ap bool, reg, v uint32) { acks = append(acks, written(c.dap, ap, reg, v)) }
	write(false, dpStat, statDebugReq|statSystemReq)
	write(false, dpSelect, 0)
	write(true, apCSW, 0x23000052)
	write(true, apTAR, 0x20000000)
	for _, v := range []uint32{1, 1, 1, 1, 2, 3, 3, 3, 3} {
		write(true, apDRW, v)
	}
	const ok, wait = ackOK, ackWait
	want := []ack{ok, ok, ok, ok, wait, wait, wait, ok, ok, ok, wait, wait, wait}
	wantEqual(t, acks, want)
	acks = nil
	write(false, dpStat, statDebugReq|statSystemReq|statOrunDetect)
	c.dap.waiting, c.dap.access = 0, 2
	write(true, apDRW, 3) // WAIT, which is an overrun
	write(true, apDRW, 3)
	if v, _ := c.dap.readDP(dpStat); v&statStickyOrun == 0 {
		t.Error("no overrun")
	}
	write(false, dpAbort, abortOrunClr)
	c.dap.waits = 0
	write(true, apDRW, 4)
	wantEqual(t, acks, []ack{ok, wait, ackFault, ok, ok})
	words := make([]uint32, 4)
	if err := c.core.ReadBlock(0x20000000, words); err != nil || !slices.Equal(words, []uint32{1, 2, 3, 4}) {
		t.Errorf("written: %v, %v", words, err)
	}
}

// written writes a register as a front end does, which asks for the port's state before an access.
func written(d *dap, ap bool, reg, v uint32) ack {
	switch {
	case !ap:
		return d.writeDP(reg, v)
	case d.busy():
		return ackWait
	}
	return d.writeAP(reg, v)
}

// Real tools handle WAIT: pyOCD's probe repeats the access; OpenOCD 0.12 over JTAG repeats a batch, and stops with an
// error if that loses a result. Both report an error rather than leave wrong flash.
func TestWaitUnderTools(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	c.Break(chipkeeper.Faults{Waits: 50})
	name, want := image(t, 8192, 0)
	if openocd(t, listen(t, c.serveBitbang), nrfTarget, name, "0") == nil {
		mustHold(t, c, want)
	}
	name, want = image(t, 8192, 3)
	must(t, pyocd(t, c, name))
	mustHold(t, c, want)
}

// One client has the probe, through any front end. Another client is refused, as a probe on USB refuses it, until the
// first has disconnected.
func TestSecondClient(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	wire, remote := listen(t, c.serveBitbang), listen(t, c.serveRemote)
	first, err := net.Dial("tcp", "127.0.0.1:"+wire)
	must(t, err)
	defer first.Close()
	must(t, last(first.Write([]byte("R"))))
	must(t, last(first.Read(make([]byte, 1))))
	ask := func() (a remoteAnswer) {
		t.Helper()
		conn, err := net.Dial("tcp", "127.0.0.1:"+remote)
		must(t, err)
		defer conn.Close()
		must(t, last(conn.Write([]byte(`{"id":0,"request":"hello","arguments":[1]}`+"\n"))))
		must(t, json.NewDecoder(conn).Decode(&a))
		return a
	}
	if a := ask(); a.Status != remoteProbe || !strings.Contains(a.Error, "is busy") {
		t.Errorf("a second client: %+v", a)
	}
	first.Close()
	await(t, "the probe's release", func() bool { return ask().Status == remoteOK })
}

// A swapped chip has an id of its own, which debuggers and firmware read alike. It keeps the id when its emulator is
// restarted.
func TestSwappedIdentity(t *testing.T) {
	t.Parallel()
	c := powerUp(t, NRF51)
	id := func() (id [2]uint32) {
		t.Helper()
		c.mu.Lock()
		defer c.mu.Unlock()
		must(t, c.ready())
		for i := range id {
			v, err := c.machine.Read(0x10000060+uint32(4*i), 4)
			must(t, err)
			id[i] = v
		}
		return id
	}
	seen := map[[2]uint32]bool{id(): true}
	for n := range 2 {
		must(t, c.Swap(n+1))
		now := id()
		if seen[now] {
			t.Errorf("chip %d has another one's id %x", n+1, now)
		}
		seen[now] = true
		c.exclusively(func() { c.wear.off = true })
		wantEqual(t, id(), now, n+1)
	}
}
