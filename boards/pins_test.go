package boards

import (
	"errors"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// TestMeasurePin loads boards with a pin for measurements: names of other chips' pins are errors, with the line.
func TestMeasurePin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parent, pin, wrong string
		number             int
	}{
		{"nucleo_f746zg", "PA5", "", 5},
		{"nucleo_f746zg", "PK7", "", 167},
		{"nucleo_f746zg", "PK8", `"PK8" is not a pin of the chip (PA0-15, `, 0},
		{"nucleo_f746zg", "PA05", "not a pin", 0},
		{"nucleo_f746zg", "PA-1", "not a pin", 0},
		{"nucleo_f746zg", "PA", "not a pin", 0},
		{"nucleo_f746zg", "5", "not a pin", 0},
		{"nucleo_f746zg", "PA13", `measure_pin: "PA13" is SWDIO of the debug probe, which would lose the chip`, 0},
		{"b_l475e_iot01a", "PA14", `"PA14" is SWCLK of the debug probe`, 0},
		{"nucleo_f746zg", "PL0", "PK0-7 without PA13, PA14)", 0},
		{"lm3s6965evb", "PC3", `"PC3" is TDO and SWO of the debug probe`, 0},
		{"nrf52840dk", "P1.15", "", 47},
		{"nrf52840dk", "P0.32", "not a pin", 0},
		{"microbit", "P0.17", "", 17},
		{"lm3s6965evb", "PF0", "", 40},
		{"lm3s6965evb", "PE4", "not a pin", 0},
		{"rpi_pico", "GPIO25", "", 25},
		{"host", "PA5", "cannot raise a pin", 0},
		{"mps2_an385", "PA5", "cannot raise a pin", 0},
	} {
		parent, err := Find(c.parent, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := *parent
		b.MeasurePin = c.pin
		err = b.check()
		var file *jsonfile.Error
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || !errors.As(err, &file) {
				t.Errorf("%s of %s: %v, want %q", c.pin, c.parent, err, c.wrong)
			}
			continue
		}
		if number, ok := b.MeasurePinNumber(); err != nil || !ok || number != c.number {
			t.Errorf("%s of %s: %d, %v, %v, want %d", c.pin, c.parent, number, ok, err, c.number)
		}
	}
	for want, pins := range map[string][]string{
		`"PB0-15" has more pins than the first range, "PA0-7"`: {"PA0-7", "PB0-15"}, `"PA10-15" is not a range`: {"PA10-15"},
	} {
		bad := Board{Pins: pins}
		if err := bad.checkMeasurePin(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pins, err)
		}
	}
	for pin, signal := range map[string]string{"PB0": "SWDIO", "PA1": ""} {
		bad := Board{Pins: []string{"PA0-15"}, DebugPins: map[string]string{pin: signal}}
		if err := bad.checkMeasurePin(); err == nil || !strings.Contains(err.Error(), "debug_pins."+pin) {
			t.Errorf("%s: %v", pin, err)
		}
	}
	bad := Board{Pins: []string{"PA0-15", "PB"}}
	if err := bad.checkMeasurePin(); err == nil || !strings.Contains(err.Error(), `"PB"`) {
		t.Errorf("a bad range: %v", err)
	}
	if number, ok := bad.MeasurePinNumber(); ok {
		t.Errorf("without a pin: %d", number)
	}
}
