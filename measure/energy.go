// This file integrates the recording of a current probe.

package measure

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// Energy is what runs of a model took, by a current probe.
type Energy struct {
	Runs   int     `json:"runs"` // in the recording
	Mean   float64 `json:"mean"` // joules per run
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Median float64 `json:"median_s"` // seconds per run, by the probe's clock
}

// A Probe describes the recording of a current probe.
type Probe struct {
	Pin   string  // the column of the board's measure_pin: 0 or 1
	Volts float64 // the supply voltage; 0: the column "voltage"
}

const (
	maxRows    = 1 << 27
	minSamples = 10 // of a run: the error of the energy is then below about a tenth
)

// ReadEnergy reads a recording as CSV and returns the energy of the runs of standalone firmware, which are the pulses
// of its measure_pin. A run that was under way at the beginning or the end does not count. The first line names the
// columns, with the unit in parentheses or brackets: "time" or "timestamp" (s, ms, us, ns), "current" (A, mA, uA, nA),
// if Volts is 0 "voltage" (V, mV), and the pin's. Others are ignored. Errors have class config: other columns or units,
// a time that does not increase, no run, and a run of less than 10 samples.
func ReadEnergy(r io.Reader, p Probe) (*Energy, error) {
	e, err := readEnergy(r, p)
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

// A column of a recording.
type column struct {
	index int
	scale float64 // to SI units
}

// findColumns returns the columns of time, current, voltage (if there is one) and the pin.
func findColumns(header []string, pin string) (map[string]column, error) {
	found := map[string]column{}
	for i, h := range header {
		name, unit := strings.TrimSpace(h), ""
		if strings.EqualFold(name, pin) {
			found["pin"] = column{i, 1}
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
		if _, twice := found[name]; !ok || twice {
			return nil, fmt.Errorf("column %q: its unit is unknown, or there is another one", h)
		}
		found[name] = column{i, scale}
	}
	for _, name := range []string{"time", "current", "pin"} {
		if _, ok := found[name]; !ok {
			return nil, fmt.Errorf("there is no column %s among %s", strings.Replace(name, "pin", strconv.Quote(pin), 1),
				strings.Join(header, ", "))
		}
	}
	return found, nil
}

// A pulse is a run of the model.
type pulse struct {
	begin, joules float64
	samples       int
}

func readEnergy(r io.Reader, p Probe) (*Energy, error) {
	if !(p.Volts >= 0) || math.IsInf(p.Volts, 0) {
		return nil, fmt.Errorf("%v V is no voltage", p.Volts)
	}
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if err != nil {
		return nil, err
	}
	columns, err := findColumns(slices.Clone(header), p.Pin)
	if err != nil {
		return nil, err
	}
	_, hasVolts := columns["voltage"]
	if p.Volts == 0 && !hasVolts {
		return nil, errors.New("there is no voltage, neither given nor as a column")
	}
	var joules, seconds []float64
	var run *pulse
	var last struct{ time, watts, pin float64 }
	for row := 0; ; row++ {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if row >= maxRows {
			return nil, fmt.Errorf("more than %d rows", maxRows)
		}
		number := func(name string) (v float64) {
			c := columns[name]
			text := strings.TrimSpace(record[c.index])
			v, failed := strconv.ParseFloat(text, 64)
			if failed != nil || math.IsNaN(v) || math.IsInf(v, 0) || name == "pin" && v != 0 && v != 1 {
				err = fmt.Errorf("row %d: %s is %q", row+1, name, text)
			}
			return v * c.scale
		}
		now, volts, amperes, pin := number("time"), p.Volts, number("current"), number("pin")
		if p.Volts == 0 {
			volts = number("voltage")
		}
		if err != nil {
			return nil, err
		}
		if row > 0 && now <= last.time {
			return nil, fmt.Errorf("row %d: the time does not increase", row+1)
		}
		if run != nil {
			run.joules += last.watts * (now - last.time)
			run.samples++
		}
		switch {
		case row > 0 && pin == 1 && last.pin == 0:
			run = &pulse{begin: now}
		case pin == 0 && run != nil:
			if run.samples < minSamples {
				return nil, fmt.Errorf("row %d: a run of %d samples only: the probe is too slow", row+1, run.samples)
			}
			joules, seconds = append(joules, run.joules), append(seconds, now-run.begin)
			run = nil
		}
		last.time, last.watts, last.pin = now, volts*amperes, pin
	}
	if len(joules) == 0 {
		return nil, fmt.Errorf("no run: the pin %s has no whole pulse", p.Pin)
	}
	e := &Energy{Runs: len(joules), Min: slices.Min(joules), Max: slices.Max(joules)}
	for _, j := range joules {
		e.Mean += j / float64(len(joules))
	}
	slices.Sort(seconds)
	e.Median = seconds[len(seconds)/2]
	return e, nil
}
