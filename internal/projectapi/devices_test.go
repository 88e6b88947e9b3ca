package projectapi

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestSeveralDevices: if several devices match, the server chooses none and lists them. The serial of a probe chooses
// one; a serial that no probe has is not taken for the name of a port.
func TestSeveralDevices(t *testing.T) {
	const board = "nucleo_f746zg"
	needTools(t, board)
	b, err := boards.Find(board, nil)
	must(t, err)
	ports := attached.Ports
	t.Cleanup(func() { attached.Ports = ports })
	attached.Ports = func() ([]attached.Port, error) {
		return []attached.Port{
			{Name: "a", USB: b.Link.USB, Serial: "S1", Path: "1-2"}, {Name: "b", USB: b.Link.USB, Serial: "S2", Path: "1-3"},
		}, nil
	}
	p := generated(t, mlftest.Path(t, "add.aot_packed"), values{"board": json.RawMessage(`"` + board + `"`)})
	p.Desk.StateDir, p.Desk.LeaseDir = t.TempDir(), t.TempDir()+"/leases"
	for serial, want := range map[string][]string{
		"null": {"S1", "S2", "serial_number=S1"}, `"S9"`: {"not attached", "S9"},
	} {
		err := p.Flash(t.Context(), values{optSerial: json.RawMessage(serial)})
		if err == nil {
			t.Fatalf("serial_number %s: a device was chosen", serial)
		}
		reply, err := json.Marshal(errorOf(err))
		must(t, err)
		wantError(t, errors.New(string(reply)), "", want...)
	}
	opened, err := p.project()
	must(t, err)
	defer opened.Close()
	if _, err := p.attach(t.Context(), opened, values{optSerial: json.RawMessage(`"S2"`)}); err != nil {
		t.Errorf("serial_number S2: %v", err)
	}
}
