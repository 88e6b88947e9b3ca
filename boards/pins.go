// This file checks the pin that is high while firmware measures, and those that a debug probe uses.

package boards

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// pinRange is a range of pins in a chip file: "PA0-15" are PA0 to PA15.
var pinRange = regexp.MustCompile(`^([A-Z](?:[A-Z0-9.]*[A-Z.])?)0-([1-9][0-9]?)$`)

// checkMeasurePin checks the chip's pins and the board's choice of one.
func (b *Board) checkMeasurePin() error {
	for i, r := range b.Pins {
		if !pinRange.MatchString(r) {
			return b.wrong(fmt.Sprintf("pins[%d]", i), `%q is not a range of pins from 0 on, as in "PA0-15"`, r)
		}
		// The width of the first range numbers those of all (MeasurePinNumber).
		if lastPin(r) > lastPin(b.Pins[0]) {
			return b.wrong(fmt.Sprintf("pins[%d]", i), "%q has more pins than the first range, %q", r, b.Pins[0])
		}
		for _, other := range b.Pins[:i] {
			if pinRange.FindStringSubmatch(r)[1] == pinRange.FindStringSubmatch(other)[1] {
				return b.wrong(fmt.Sprintf("pins[%d]", i), "%q and %q name the same pins", other, r)
			}
		}
	}

	if err := b.checkDebugPins(); err != nil || b.MeasurePin == "" || b.Partial {
		return err
	}

	if len(b.Pins) == 0 {
		return b.wrong("measure_pin", "the port of this board cannot raise a pin: its files name no pins")
	}
	if _, ok := b.MeasurePinNumber(); !ok {
		return b.wrong("measure_pin", "%q is not a pin of the chip (%s)", b.MeasurePin, b.freePins())
	}
	if signal, ok := b.DebugPins[b.MeasurePin]; ok {
		return b.wrong("measure_pin", "%q is %s of the debug probe, which would lose the chip: choose another pin (%s)",
			b.MeasurePin, signal, b.freePins())
	}
	return nil
}

// checkDebugPins returns an error for a debug pin that is no pin of the chip, or has no signal.
func (b *Board) checkDebugPins() error {
	for _, pin := range slices.Sorted(maps.Keys(b.DebugPins)) {
		if _, ok := b.numberOf(pin); !ok || b.DebugPins[pin] == "" {
			return b.wrong("debug_pins."+pin, "%q with the signal %q is none of the pins with a signal", pin, b.DebugPins[pin])
		}
	}
	return nil
}

// freePins lists the ranges of pins, and what is left out of them.
func (b *Board) freePins() string {
	text := strings.Join(b.Pins, ", ")
	if len(b.DebugPins) > 0 {
		text += " without " + strings.Join(slices.Sorted(maps.Keys(b.DebugPins)), ", ")
	}
	return text
}

// lastPin returns the number of the last pin of a range that pinRange matches.
func lastPin(r string) int {
	last, _ := strconv.Atoi(pinRange.FindStringSubmatch(r)[2]) // two digits
	return last
}

// MeasurePinNumber returns the number of MeasurePin in the port's C: the place of its range in Pins times the pins of
// the first range, plus the pin's own number. ok is false for a board without such a pin.
func (b *Board) MeasurePinNumber() (number int, ok bool) { return b.numberOf(b.MeasurePin) }

// PinNumbers returns the first and the last number of each range in Pins, as MeasurePinNumber numbers them.
func (b *Board) PinNumbers() (ranges [][2]int) {
	for i, r := range b.Pins {
		first := i * (lastPin(b.Pins[0]) + 1)
		ranges = append(ranges, [2]int{first, first + lastPin(r)})
	}
	return ranges
}

// DebugPinNumbers returns the numbers of DebugPins, as ranges of one pin.
func (b *Board) DebugPinNumbers() (ranges [][2]int) {
	for _, pin := range slices.Sorted(maps.Keys(b.DebugPins)) {
		if number, ok := b.numberOf(pin); ok {
			ranges = append(ranges, [2]int{number, number})
		}
	}
	return ranges
}

func (b *Board) numberOf(name string) (number int, ok bool) {
	width := 0
	for i, r := range b.Pins {
		m := pinRange.FindStringSubmatch(r)
		if m == nil {
			return 0, false
		}
		last, err := strconv.Atoi(m[2])
		if err != nil {
			return 0, false
		}

		// All ranges are numbered with the width of the first.
		if i == 0 {
			width = last + 1
		}

		digits, isIn := strings.CutPrefix(name, m[1])
		pin, err := strconv.Atoi(digits)
		// Itoa, so that PA01 is not PA1.
		if isIn && err == nil && strconv.Itoa(pin) == digits && pin >= 0 && pin <= last {
			return i*width + pin, true
		}
	}
	return 0, false
}
