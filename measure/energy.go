// This file integrates the recording of a current probe.

package measure

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
)

// Energy is what runs of a model took, by a current probe.
type Energy struct {
	Runs   int     `json:"runs"` // in the recording
	Mean   float64 `json:"mean"` // joules per run
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Median float64 `json:"median_s"` // seconds per run, by the probe's clock
}

// minSamples is the least number of samples of a run: the error of the energy is then below about a tenth.
const minSamples = 10

// ReadEnergy reads a recording as CSV and returns the energy of the runs of standalone firmware, which are the pulses
// of its measure_pin. A run that was under way at the beginning or the end does not count. The first line names the
// columns, with the unit in parentheses or brackets: "time" or "timestamp" (s, ms, us, ns), "current" (A, mA, uA, nA),
// if volts is 0 "voltage" (V, mV), and the pin's, of 0 and 1. Others are ignored. Errors have class config: other
// columns or units, a time that does not increase, no run, and a run of less than 10 samples.
func ReadEnergy(r io.Reader, pin string, volts float64) (*Energy, error) {
	e, err := readEnergy(r, pin, volts)
	if err != nil {
		return nil, failure.New(failure.Config, "export a CSV with the columns time (s), current (A) and the pin's, each "+
			"pin in a column of its own", "the recording of the current: %w", err)
	}
	return e, nil
}

// units are factors to seconds, amperes and volts.
var units = map[string]map[string]float64{
	"time":    {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9},
	"current": {"a": 1, "ma": 1e-3, "ua": 1e-6, "µa": 1e-6, "μa": 1e-6, "na": 1e-9},
	"voltage": {"v": 1, "mv": 1e-3},
}

var headed = regexp.MustCompile(`^\s*(\S.*?)\s*[(\[]\s*(\S+?)\s*[)\]]\s*$`)

// A field is a column of a recording.
type field struct {
	index int
	scale float64 // to SI units
}

// findColumns returns the columns of time, current, voltage (if there is one) and the pin.
func findColumns(header []string, pin string) (map[string]field, error) {
	columns := map[string]field{}
	for i, h := range header {
		name, unit := strings.TrimSpace(h), ""
		if strings.EqualFold(name, pin) {
			columns["pin"] = field{i, 1}
			continue
		}

		if m := headed.FindStringSubmatch(h); m != nil {
			name, unit = m[1], strings.ToLower(m[2])
		}
		name = strings.ToLower(name)
		if name == "timestamp" {
			name = "time"
		}

		if units[name] == nil {
			continue
		}
		scale, ok := units[name][unit]
		if _, twice := columns[name]; !ok || twice {
			return nil, fmt.Errorf("column %q: its unit is unknown, or there is another one", h)
		}
		columns[name] = field{i, scale}
	}

	for _, name := range []string{"time", "current", "pin"} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("there is no column %s among %s", strings.Replace(name, "pin", strconv.Quote(pin), 1),
				strings.Join(header, ", "))
		}
	}
	return columns, nil
}

// A reading is a row of a recording, in SI units.
type reading struct{ time, watts, pin float64 }

// readingOf reads a row. volts is 0 if the voltage has a column.
func readingOf(row []string, columns map[string]field, volts float64) (s reading, err error) {
	number := func(name string) float64 {
		c := columns[name]
		text := strings.TrimSpace(row[c.index])
		v, failed := strconv.ParseFloat(text, 64)
		if failed != nil || math.IsNaN(v) || math.IsInf(v, 0) || name == "pin" && v != 0 && v != 1 {
			err = fmt.Errorf("%s is %q", name, text)
		}
		return v * c.scale
	}

	if volts == 0 {
		volts = number("voltage")
	}
	return reading{number("time"), volts * number("current"), number("pin")}, err
}

func readEnergy(r io.Reader, pin string, volts float64) (*Energy, error) {
	if !(volts >= 0) || math.IsInf(volts, 0) {
		return nil, fmt.Errorf("%v V is no voltage", volts)
	}

	lines := csv.NewReader(r)
	header, err := lines.Read()
	if err != nil {
		return nil, err
	}
	columns, err := findColumns(header, pin)
	if err != nil {
		return nil, err
	}
	if _, hasVolts := columns["voltage"]; volts == 0 && !hasVolts {
		return nil, errors.New("there is no voltage, neither given nor as a column")
	}

	joules, seconds, err := pulses(lines, columns, volts)
	if err != nil {
		return nil, err
	}
	if len(joules) == 0 {
		return nil, fmt.Errorf("no run: the pin %s has no whole pulse", pin)
	}

	of := rpc.StatsOf(joules)
	return &Energy{of.N, of.Mean, of.Min, of.Max, rpc.StatsOf(seconds).Median}, nil
}

// pulses integrates the power while the pin is 1. A pulse that the recording has only a part of does not count.
func pulses(lines *csv.Reader, columns map[string]field, volts float64) (joules, seconds []float64, err error) {
	var last reading
	begin, sum, samples := 0.0, 0.0, -1 // of the pulse; -1: not in one
	for row := 1; ; row++ {
		text, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return joules, seconds, nil
		}
		if err != nil {
			return nil, nil, err
		}

		s, err := readingOf(text, columns, volts)
		if err == nil && row > 1 && s.time <= last.time {
			err = errors.New("the time does not increase")
		}
		// The power of a sample lasts until the next one.
		if samples >= 0 {
			sum += last.watts * (s.time - last.time)
			samples++
		}

		switch {
		case row > 1 && s.pin == 1 && last.pin == 0:
			begin, sum, samples = s.time, 0, 0
		case s.pin == 0 && samples >= 0 && samples < minSamples:
			err = cmp.Or(err, fmt.Errorf("a run of %d samples only: the probe is too slow", samples))
		case s.pin == 0 && samples >= 0:
			joules, seconds, samples = append(joules, sum), append(seconds, s.time-begin), -1
		}

		if err != nil {
			return nil, nil, fmt.Errorf("row %d: %w", row, err)
		}
		last = s
	}
}
