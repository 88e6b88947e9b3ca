package rpc_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/rpc"
)

// TestPlatformJSON: a platform that was written as JSON is read as what it was.
func TestPlatformJSON(t *testing.T) {
	hz, on, states, lost := uint32(168e6), true, uint8(5), uint32(3)
	for r := range 64 {
		reset := rpc.ResetCause(r)
		want := rpc.Platform{
			CoreHz: &hz, TicksHz: &hz, ICache: &on, DCache: &on, Prefetch: &on, FPU: &on, WaitStates: &states,
			Reset: &reset, ChipID: rpc.HexBytes{0, 0xab, 255}, CPUID: &hz, Emulated: &on, Lost: &lost,
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got rpc.Platform
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"reset": "moon"}`, `{"reset": ""}`, `{"chip_id": "abc"}`, `{"chip_id": "xy"}`} {
		var got rpc.Platform
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}
