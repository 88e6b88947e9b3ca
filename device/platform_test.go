package device

import (
	"context"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestPlatformDiffers: a board file that claims what the device denies does not get a session.
func TestPlatformDiffers(t *testing.T) {
	t.Parallel()
	b := &boards.Board{Name: "b", Platform: boards.Platform{
		CoreHz: new(216000000), ICache: new(true), DCache: new(true), WaitStates: new(7),
		CPUID: new(boards.Number(0x411fc271)), FPU: new(true),
	}}
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
	if err := comparePlatform(b, p); err != nil {
		t.Error(err)
	}
}

// A fakeClock is a device with a link of some delay.
type fakeClock struct {
	hz    uint32
	rate  float64
	delay time.Duration
	began time.Time
}

func (f *fakeClock) ask(context.Context) (rpc.Platform, error) {
	time.Sleep(f.delay)
	ticks := uint64(time.Since(f.began).Seconds() * f.rate)
	return rpc.Platform{TicksHz: &f.hz, Ticks: &ticks}, nil
}

func TestMeasureClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		delay time.Duration
		right bool
	}{
		{1e6, 0, true},
		{1.03e6, 0, false},
		{0.97e6, 0, false},
		{1e6, 2 * time.Millisecond, true},
		{1.05e6, 2 * time.Millisecond, false},
	} {
		f := &fakeClock{1e6, c.rate, c.delay, time.Now()}
		says, got, err := measureClock(t.Context(), f.ask)
		off := got/float64(says) - 1
		if err != nil || says != 1e6 || (off > -clockTolerance && off < clockTolerance) != c.right {
			t.Errorf("rate %v, delay %v: measured %v, %v", c.rate, c.delay, got, err)
		}
	}
	mute := func(context.Context) (rpc.Platform, error) { return rpc.Platform{}, nil }
	if says, _, err := measureClock(t.Context(), mute); says != 0 || err != nil {
		t.Errorf("of a device without ticks: %v, %v", says, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	slow := &fakeClock{1e6, 1e6, time.Millisecond, time.Now()}
	if _, _, err := measureClock(ctx, slow.ask); failure.Of(err) != failure.Timeout {
		t.Errorf("beyond the deadline: %v", err)
	}
}
