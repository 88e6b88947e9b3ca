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

const (
	maxRows    = 1 << 27
	minSamples = 10 // of a run: the error of the energy is then below about a tenth
)

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

// A column of a recording.
type column struct {
	index int
	scale float64 // to SI units
}

// findColumns returns the columns of time, current, voltage (if there is one) and the pin.
func findColumns(header []string, pin string) (map[string]column, error) {
	columns := map[string]column{}
	for i, h := range header {
		name, unit := strings.TrimSpace(h), ""
		if strings.EqualFold(name, pin) {
			columns["pin"] = column{i, 1}
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
		columns[name] = column{i, scale}
	}
	for _, name := range []string{"time", "current", "pin"} {
		if _, ok := columns[name]; !ok {
			return nil, fmt.Errorf("there is no column %s among %s", strings.Replace(name, "pin", strconv.Quote(pin), 1),
				strings.Join(header, ", "))
		}
	}
	return columns, nil
}

// A sample is a row of a recording, in SI units.
type sample struct{ time, watts, pin float64 }

// A recording reads the samples of a probe.
type recording struct {
	lines   *csv.Reader
	columns map[string]column
	volts   float64 // 0: of the column
	row     int     // number of rows that were read
}

func openRecording(r io.Reader, pin string, volts float64) (*recording, error) {
	if !(volts >= 0) || math.IsInf(volts, 0) {
		return nil, fmt.Errorf("%v V is no voltage", volts)
	}
	lines := csv.NewReader(r)
	lines.ReuseRecord = true
	header, err := lines.Read()
	if err != nil {
		return nil, err
	}
	columns, err := findColumns(slices.Clone(header), pin)
	if err != nil {
		return nil, err
	}
	if _, hasVolts := columns["voltage"]; volts == 0 && !hasVolts {
		return nil, errors.New("there is no voltage, neither given nor as a column")
	}
	return &recording{lines: lines, columns: columns, volts: volts}, nil
}

// next returns the next sample; io.EOF after the last.
func (r *recording) next() (s sample, err error) {
	record, err := r.lines.Read()
	if err != nil {
		return s, err
	}
	if r.row++; r.row > maxRows {
		return s, fmt.Errorf("more than %d rows", maxRows)
	}
	number := func(name string) float64 {
		c := r.columns[name]
		text := strings.TrimSpace(record[c.index])
		v, failed := strconv.ParseFloat(text, 64)
		if failed != nil || math.IsNaN(v) || math.IsInf(v, 0) || name == "pin" && v != 0 && v != 1 {
			err = fmt.Errorf("row %d: %s is %q", r.row, name, text)
		}
		return v * c.scale
	}
	volts := r.volts
	if volts == 0 {
		volts = number("voltage")
	}
	return sample{number("time"), volts * number("current"), number("pin")}, err
}

// A pulse is a run of the model.
type pulse struct{ seconds, joules float64 }

func readEnergy(r io.Reader, pin string, volts float64) (*Energy, error) {
	recording, err := openRecording(r, pin, volts)
	if err != nil {
		return nil, err
	}
	runs, err := recording.pulses()
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no run: the pin %s has no whole pulse", pin)
	}
	var joules, seconds []float64
	e := &Energy{Runs: len(runs)}
	for _, run := range runs {
		joules, seconds = append(joules, run.joules), append(seconds, run.seconds)
		e.Mean += run.joules / float64(len(runs))
	}
	slices.Sort(seconds)
	e.Min, e.Max, e.Median = slices.Min(joules), slices.Max(joules), seconds[len(seconds)/2]
	return e, nil
}

// pulses integrates the power while the pin is 1. A pulse that the recording has only a part of does not count.
func (r *recording) pulses() (runs []pulse, err error) {
	var (
		last    sample
		begin   float64 // of the pulse
		joules  float64
		samples = -1 // of the pulse; -1: not in one
	)
	for {
		s, err := r.next()
		if errors.Is(err, io.EOF) {
			return runs, nil
		}
		if err != nil {
			return nil, err
		}
		if r.row > 1 && s.time <= last.time {
			return nil, fmt.Errorf("row %d: the time does not increase", r.row)
		}
		if samples >= 0 {
			joules += last.watts * (s.time - last.time)
			samples++
		}
		switch {
		case r.row > 1 && s.pin == 1 && last.pin == 0:
			begin, joules, samples = s.time, 0, 0
		case s.pin == 0 && samples >= 0:
			if samples < minSamples {
				return nil, fmt.Errorf("row %d: a run of %d samples only: the probe is too slow", r.row, samples)
			}
			runs, samples = append(runs, pulse{s.time - begin, joules}), -1
		}
		last = s
	}
}
