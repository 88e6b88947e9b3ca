package rpc_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/rpc"
)

// TestPlatformSurvivesJSON: a platform that was written as JSON is read as what it was.
func TestPlatformSurvivesJSON(t *testing.T) {
	hz, on, states, lost := uint32(168e6), true, uint8(5), uint32(3)
	for r := range 64 {
		reset := rpc.ResetCause(r)
		want := rpc.Platform{
			CoreHz: &hz, TicksHz: &hz, ICache: &on, DCache: &on, Prefetch: &on, FPU: &on, WaitStates: &states,
			Reset: &reset, ChipID: []byte{0, 0xab, 255}, CPUID: &hz, Emulated: &on, Lost: &lost,
			ArenaUsed: &hz, Clock: rpc.HostClock,
		}
		text, err := json.Marshal(want)
		must(t, err)
		var got rpc.Platform
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"reset": "moon"}`, `{"reset": ""}`, `{"chip_id": "abc"}`, `{"chip_id": "xy"}`} {
		var got rpc.Platform
		wantError(t, json.Unmarshal([]byte(text), &got), "")
	}
}

// platform of a Cortex-M4 at 168 MHz.
var platform = []byte{
	1, 1, 4, 0, 0x7a, 3, 10, 2, 4, 0, 0x7a, 3, 10, 3, 8, 1, 0, 0, 0, 1, 0, 0, 0, 4, 1, 0b1101, 5, 1, 5, 6, 1, 0b1100,
	7, 2, 0xab, 0xcd, 8, 4, 0x41, 0xc2, 0x0f, 0x41, 9, 1, 0, 10, 4, 0, 0, 0, 0, 200, 1, 9,
	11, 8, 0, 1, 0, 0, 7, 0, 0, 0, 12, 4, 0, 23, 0, 0,
}

func TestPlatformInWordsAndJSON(t *testing.T) {
	ctx := testkit.Context(t)
	d := device()
	d.Globals["boardsmith.platform"] = func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
		return rpctest.Result(tvmrpc.Raw(platform)), nil
	}
	p := value(open(t, d).Platform(ctx))(t)
	text, err := json.Marshal(p)
	const want = `{"core_hz":168000000,"ticks_hz":168000000,"icache":true,"dcache":false,"prefetch":true,"fpu":true,` +
		`"wait_states":5,"reset":"software, watchdog","chip_id":"abcd","cpuid":1091551809,"emulated":false,"lost_bytes":0,"arena_used":5888}`
	if err != nil || string(text) != want || *p.Ticks != 1<<32+1 ||
		p.CountedInstructions != 256 || p.CountedTicks != 7 {
		t.Errorf("got  %s, ticks %v, %v\nwant %s", text, p.Ticks, err, want)
	}
	const words = "core 168 MHz, timer 168 MHz (unverified), instruction cache on, data cache off, prefetch on, FPU on, " +
		"5 wait states"
	p.Clock = rpc.HostClock
	wantEqual(t, p.String(), strings.Replace(words, " (unverified)", "", 1), p)
	p.Clock = ""
	if p.String() != words || (rpc.Platform{}).String() != "" {
		t.Errorf("in words %q", p)
	}
	wantIs(t, last(open(t, device()).Platform(ctx)), rpc.ErrNotFound, "of a device without that function")
}

func TestInvalidPlatformIsProtocolError(t *testing.T) {
	for n := range platform {
		_, _ = rpc.ParsePlatform(platform[:n]) // must not panic
	}
	for _, b := range [][]byte{{}, {2}, {1, 1}, {1, 1, 4, 0}, {1, 1, 3, 0, 0, 0}, {1, 5, 1, 0, 5, 1, 0}} {
		wantError(t, last(rpc.ParsePlatform(b)), failure.Transport)
	}
}

func FuzzPlatform(f *testing.F) {
	f.Add(platform)
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := rpc.ParsePlatform(b)
		if err != nil {
			wantError(t, err, failure.Transport)
			return
		}
		must(t, last(json.Marshal(p)))
	})
}
