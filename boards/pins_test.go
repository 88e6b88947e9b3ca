package boards

import (
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestMeasurePin loads boards with a pin for measurements: names of other chips' pins are errors, with the line.
func TestMeasurePin(t *testing.T) {
	for _, c := range []struct {
		parent, pin, wrong string
		number             int
	}{
		{"nucleo_f746zg", "PA5", "", 5},
		{"nucleo_f746zg", "PK7", "", 167},
		{"nucleo_f746zg", "PK8", `"PK8" is not a pin of the chip (PA0-15, `, 0},
		{"nucleo_f746zg", "PA05", "not a pin", 0},
		{"nucleo_f746zg", "PA13", `measure_pin: "PA13" is SWDIO of the debug probe, which would lose the chip`, 0},
		{"b_l475e_iot01a", "PA14", `"PA14" is SWCLK of the debug probe`, 0},
		{"lm3s6965evb", "PC3", `"PC3" is TDO and SWO of the debug probe`, 0},
		{"nrf52840dk", "P1.15", "", 47},
		{"microbit", "P0.17", "", 17},
		{"lm3s6965evb", "PF0", "", 40},
		{"rpi_pico", "GPIO25", "", 25},
		{"host", "PA5", "cannot raise a pin", 0},
		{"mps2_an385", "PA5", "cannot raise a pin", 0},
	} {
		parent, err := Find(c.parent, nil)
		must(t, err)
		b := *parent
		b.MeasurePin = c.pin
		err = b.check()
		if c.wrong != "" {
			wantError(t, err, failure.Config, c.wrong)
			continue
		}
		if number, ok := b.MeasurePinNumber(); err != nil || !ok || number != c.number {
			t.Errorf("%s of %s: %d, %v, %v, want %d", c.pin, c.parent, number, ok, err, c.number)
		}
	}
	for want, pins := range map[string][]string{
		`"PB0-15" has more pins than the first range, "PA0-7"`: {"PA0-7", "PB0-15"}, `"PA10-15" is not a range`: {"PA10-15"},
	} {
		wantError(t, (&Board{Pins: pins}).checkMeasurePin(), "", want)
	}
	for pin, signal := range map[string]string{"PB0": "SWDIO", "PA1": ""} {
		bad := Board{Pins: []string{"PA0-15"}, DebugPins: map[string]string{pin: signal}}
		wantError(t, bad.checkMeasurePin(), "", "debug_pins."+pin)
	}
	bad := Board{Pins: []string{"PA0-15", "PB"}}
	wantError(t, bad.checkMeasurePin(), "", `"PB"`)
	if number, ok := bad.MeasurePinNumber(); ok {
		t.Errorf("without a pin: %d", number)
	}
}
