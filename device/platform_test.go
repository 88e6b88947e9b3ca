package device

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestPlatformDiffers: each setting that differs between board file and device is in the error.
func TestPlatformDiffers(t *testing.T) {
	b := &boards.Board{Name: "b", CoreHz: 216000000}
	b.Platform.ICache, b.Platform.DCache, b.Platform.FPU = new(true), new(true), new(true)
	b.Platform.WaitStates, b.Platform.CPUID = new(7), new(boards.Number(0x411fc271))
	p := rpc.Platform{
		CoreHz: new(uint32(16000000)), ICache: new(true), DCache: new(false), WaitStates: new(uint8(7)),
		CPUID: new(uint32(0x411fc271)),
	}
	err := comparePlatform(b, p)
	const want = "board b: core_hz is 216000000 in the board file, but 16000000 on the device; " +
		"dcache is on in the board file, but off on the device; fpu is on in the board file, but unknown on the device"
	if err == nil || err.Error() != want || failure.Of(err) != failure.Config {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	p.CoreHz, p.DCache, p.FPU = new(uint32(216000000)), new(true), new(true)
	must(t, comparePlatform(b, p))
}

// TestClocksDiffer: a port with clocks of its own must have those of the board file, also if the board file names no
// platform. A clock that the device does not report, or the board file does not have, is not compared.
func TestClocksDiffer(t *testing.T) {
	hz := func(n uint32) *uint32 { return &n }
	for _, c := range []struct {
		name  string
		core  int
		timer string
		hz    int
		p     rpc.Platform
		want  string
	}{
		{"nothing reported", 25, "mcycle", 1000, rpc.Platform{}, ""},
		{"right", 25, "systick", 0, rpc.Platform{CoreHz: hz(25), TicksHz: hz(25)}, ""},
		{"no clock in the board file", 0, "systick", 0, rpc.Platform{CoreHz: hz(25), TicksHz: hz(25)}, ""},
		{"timer of its own", 25, "chip", 0, rpc.Platform{CoreHz: hz(25), TicksHz: hz(1)}, ""},
		{
			"core", 50,
			"chip", 0,
			rpc.Platform{CoreHz: hz(25), TicksHz: hz(1)},
			"board b: core_hz is 50 in the board file, but 25 on the device",
		},
		{
			"timer", 25, "mcycle", 1000,
			rpc.Platform{CoreHz: hz(25), TicksHz: hz(10)},
			"board b: timer.hz is 1000 in the board file, but 10 on the device",
		},
		{
			"systick counts the core's clock", 50, "systick", 0,
			rpc.Platform{TicksHz: hz(25)},
			"board b: timer.hz is 50 in the board file, but 25 on the device",
		},
	} {
		b := &boards.Board{Name: "b", CoreHz: c.core}
		b.Timer.Kind, b.Timer.Hz = c.timer, c.hz
		if err := comparePlatform(b, c.p); (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// A fakeClock is a device with a link of some delay.
type fakeClock struct {
	hz    uint32
	rate  float64
	delay time.Duration
	start time.Time
}

func (f *fakeClock) query(context.Context) (rpc.Platform, error) {
	time.Sleep(f.delay)
	ticks := uint64(time.Since(f.start).Seconds() * f.rate)
	return rpc.Platform{TicksHz: &f.hz, Ticks: &ticks}, nil
}

// TestMeasureClock: a clock that differs from its reported rate by more than the tolerance is measured as such, also
// through a slow link; there is no result if the link is too slow for one.
func TestMeasureClock(t *testing.T) {
	for _, c := range []struct {
		name    string
		rate    float64
		delay   time.Duration
		decided bool
		right   bool
	}{
		{"right", 1e6, 0, true, true},
		{"fast", 1.03e6, 0, true, false},
		{"slow", 0.97e6, 0, true, false},
		{"right, slow link", 1e6, 2 * time.Millisecond, true, true},
		{"fast, very slow link", 1.03e6, 200 * time.Millisecond, false, false},
		{"wrong, very slow link", 2e6, 200 * time.Millisecond, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeClock{1e6, c.rate, c.delay, time.Now()}
				reported, got, err := measureClock(t.Context(), f.query)
				off := got/1e6 - 1
				if err != nil || (reported == 1e6) != c.decided ||
					c.decided && (off > -clockTolerance && off < clockTolerance) != c.right {
					t.Errorf("measured %v of %v, %v", got, reported, err)
				}
			})
		})
	}
	noTicks := func(context.Context) (rpc.Platform, error) { return rpc.Platform{}, nil }
	if reported, _, err := measureClock(t.Context(), noTicks); reported != 0 || err != nil {
		t.Errorf("of a device without ticks: %v, %v", reported, err)
	}
	ctx := testkit.Within(t, 10*time.Millisecond)
	slow := &fakeClock{1e6, 1e6, time.Millisecond, time.Now()}
	_, _, err := measureClock(ctx, slow.query)
	wantError(t, err, failure.Timeout)
}

// TestClockOfAnotherImage: what one image has shown is not shown by another one on the same device.
func TestClockOfAnotherImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Device{board: &boards.Board{Name: "b"}}
		right, wrong := &fakeClock{1e6, 1e6, 0, time.Now()}, &fakeClock{1e6, 2e6, 0, time.Now()}
		one, two := &image.Image{Digest: "1"}, &image.Image{Digest: "2"}
		if err := d.verifyClock(t.Context(), one, right.query, false); err != nil || d.verified.clock != rpc.HostClock {
			t.Errorf("%q, %v", d.verified.clock, err)
		}
		if err := d.verifyClock(t.Context(), two, wrong.query, false); !errors.Is(err, ErrClock) || d.verified.clock != "" {
			t.Errorf("%q, %v", d.verified.clock, err)
		}
	})
}
