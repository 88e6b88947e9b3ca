// This file compares results with earlier ones.

package measure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

const (
	baselineFormat = 1
	maxBaseline    = 64 << 20 // bytes
)

// A Baseline holds results with which later ones are compared.
type Baseline struct {
	Format  int       `json:"format"` // 1
	Results []*Result `json:"results"`
}

// ReadBaseline reads a file that Write has written. Errors have class config; errors.Is finds fs.ErrNotExist.
func ReadBaseline(path string) (*Baseline, error) {
	f, err := plainfile.Open(path)
	if err != nil {
		return nil, failure.New(failure.Config, "measure once to write it", "%w", err)
	}
	defer f.Close()
	b := &Baseline{}
	const next = "restore it, or remove it and measure once more"
	data, err := io.ReadAll(io.LimitReader(f, maxBaseline+1))
	switch {
	case err != nil:
		return nil, failure.New(failure.Config, next, "%w", err)
	case len(data) > maxBaseline:
		return nil, failure.New(failure.Config, next, "%s is longer than %d bytes", path, maxBaseline)
	}
	var newer struct{ Format int }
	if err := json.Unmarshal(data, &newer); err != nil {
		return nil, failure.New(failure.Config, next, "%s: %w", path, err)
	}
	if newer.Format != baselineFormat {
		return nil, failure.New(failure.Config, next, "%s: format %d is not %d", path, newer.Format, baselineFormat)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(b); err != nil {
		return nil, failure.New(failure.Config, next, "%s: %w", path, err)
	}
	for i, r := range b.Results {
		if r == nil || b.Find(r) != r {
			return nil, failure.Errorf(failure.Config, "%s: result %d is empty, or of the same model and board as another", path,
				i)
		}
	}
	return b, nil
}

// Write writes the baseline to a file, atomically. Equal baselines give equal bytes.
func (b *Baseline) Write(path string) error {
	data, err := json.MarshalIndent(Baseline{baselineFormat, b.Results}, "", " ")
	if err != nil {
		return err
	}
	if err := atomicwriter.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return failure.New(failure.Config, "choose a file that can be written", "%w", err)
	}
	return nil
}

// Update adds results, in place of earlier ones of the same model on the same board. It leaves out their Outputs, which
// are compared with expected ones only, results with a Failure, and those with wrong outputs.
func (b *Baseline) Update(results []*Result) {
	b.Format = baselineFormat
	for _, r := range results {
		if r.Failure != nil || r.Err() != nil {
			continue
		}
		b.Results = slices.DeleteFunc(b.Results, func(old *Result) bool { return old.Key() == r.Key() })
		kept := *r
		kept.Outputs = nil
		b.Results = append(b.Results, &kept)
	}
	slices.SortFunc(b.Results, func(x, y *Result) int { return strings.Compare(x.Key(), y.Key()) })
}

// Find returns the result of the same model on the same board, as the same kind of firmware, or nil.
func (b *Baseline) Find(r *Result) *Result {
	i := slices.IndexFunc(b.Results, func(old *Result) bool { return old != nil && old.Key() == r.Key() })
	if i < 0 {
		return nil
	}
	return b.Results[i]
}

// Limits are how much each quantity may grow, as a share: 0.02 is 2 %.
type Limits struct {
	Cost, Flash, RAM, Stack float64
}

// DefaultLimits are those of ParseLimits("").
const DefaultLimits = "time=2%,flash=1%,ram=1%,stack=1%"

// ParseLimits parses limits, in per cent, such as DefaultLimits. Those that the text omits are the defaults. Errors
// have class config.
func ParseLimits(text string) (Limits, error) {
	var l Limits
	for _, list := range []string{DefaultLimits, text} {
		for word := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(word) == "" {
				continue
			}
			name, number, _ := strings.Cut(strings.TrimSpace(word), "=")
			to := map[string]*float64{"time": &l.Cost, "flash": &l.Flash, "ram": &l.RAM, "stack": &l.Stack}[name]
			percent, err := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64)
			if to == nil || err != nil || !(percent >= 0) || math.IsInf(percent, 0) {
				return Limits{}, failure.New(failure.Config, "write them as in "+DefaultLimits, "%q is no limit in per cent of "+
					"time, flash, ram or stack", word)
			}
			*to = percent / 100
		}
	}
	return l, nil
}

// A Change is a quantity of a result that differs from the baseline's.
type Change struct {
	Quantity string  `json:"quantity"` // cost, flash, ram or stack
	Unit     string  `json:"unit"`     // of Old and New: bytes, or that of the cost
	Old      float64 `json:"old"`
	New      float64 `json:"new"`
	Limit    float64 `json:"limit"`            // of the growth, as a share of Old
	Exceeds  bool    `json:"exceeds"`          // it has grown by more than the limit
	Causes   []Cause `json:"causes,omitempty"` // parts first, then functions and variables, the largest differences first
}

// Compare returns what differs from an earlier result of the same model on the same board. A cost in seconds differs if
// the 95 % intervals of the means do not overlap, and exceeds its limit if the lower end of the new one does, seen from
// the upper end of the old one; another cost differs if it does so by more than the resolution of the device's timer.
// Errors have class config: a result with a Failure, or with costs in another unit.
func Compare(old, current *Result, l Limits) ([]Change, error) {
	if old.Failure != nil || current.Failure != nil || old.Cost.Unit != current.Cost.Unit {
		return nil, failure.New(failure.Config, "write the baseline once more", "%s: %s cannot be compared with %s",
			current.Key(), cmp.Or(current.Cost.Unit, "a failure"), cmp.Or(old.Cost.Unit, "a failure"))
	}
	var all []Change
	add := func(c Change, causes []Cause) {
		c.Causes = causes
		all = append(all, c)
	}
	if c, ok := compareCost(old.Cost, current.Cost, l.Cost); ok {
		add(c, causes(costs(old), costs(current)))
	}
	for _, q := range []struct {
		name     string
		old, new int64
		limit    float64
		causes   func() []Cause
	}{
		{"flash", old.Flash, current.Flash, l.Flash, func() []Cause {
			return append(causes(shares(old, flashOf), shares(current, flashOf)), causes(old.FlashOf, current.FlashOf)...)
		}},
		{"ram", old.RAM, current.RAM, l.RAM, func() []Cause {
			return append(causes(shares(old, ramOf), shares(current, ramOf)), causes(old.RAMOf, current.RAMOf)...)
		}},
		{"stack", old.Stack, current.Stack, l.Stack, func() []Cause { return causes(frames(old), frames(current)) }},
	} {
		if q.old == q.new || q.name == "stack" && (q.old == 0 || q.new == 0) { // unknown
			continue
		}
		add(Change{
			Quantity: q.name, Unit: "bytes", Old: float64(q.old), New: float64(q.new), Limit: q.limit,
			Exceeds: float64(q.new) > float64(q.old)*(1+q.limit),
		}, q.causes())
	}
	return all, nil
}

// compareCost returns the change of a cost; ok is false if there is none.
func compareCost(old, current Cost, limit float64) (c Change, ok bool) {
	c = Change{Quantity: "cost", Unit: current.Unit, Old: old.Median, New: current.Median, Limit: limit}
	if current.Unit == Seconds {
		c.Exceeds = current.Low > old.High*(1+limit)
		return c, current.Low > old.High || current.High < old.Low
	}
	c.Exceeds = current.Median > old.Median*(1+limit)+current.Resolution
	return c, math.Abs(current.Median-old.Median) > max(old.Resolution, current.Resolution)
}

// A Cause is a part, a function, a variable, an operator or a stack frame whose share of a quantity has changed.
type Cause struct {
	Name string  `json:"name"`
	Old  float64 `json:"old"` // 0: there was none
	New  float64 `json:"new"`
}

// maxCauses is the number of causes of each kind.
const maxCauses = 5

// causes returns what differs most, the largest difference first.
func causes[N int64 | float64](old, current map[string]N) (all []Cause) {
	names := maps.Clone(old)
	if names == nil {
		names = map[string]N{}
	}
	maps.Copy(names, current)
	for name := range names {
		if old[name] != current[name] {
			all = append(all, Cause{name, float64(old[name]), float64(current[name])})
		}
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(math.Abs(b.New-b.Old), math.Abs(a.New-a.Old)), strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxCauses)]
}

func flashOf(p Part) int64 { return p.Flash }
func ramOf(p Part) int64   { return p.RAM }

// shares returns a quantity of each part.
func shares(r *Result, of func(Part) int64) map[string]int64 {
	all := map[string]int64{}
	for _, p := range r.Parts {
		all[p.Name] += of(p)
	}
	return all
}

// costs returns the cost of each operator.
func costs(r *Result) map[string]float64 {
	all := map[string]float64{}
	for _, o := range r.Operators {
		all[o.Node] += o.Median
	}
	return all
}

// frames returns the stack of each function of the deepest calls, which end with their bytes.
func frames(r *Result) map[string]int64 {
	all := map[string]int64{}
	for _, call := range r.StackPath {
		if at := strings.LastIndexByte(call, ' '); at > 0 {
			if n, err := strconv.ParseInt(call[at+1:], 10, 64); err == nil {
				all[call[:at]] += n
			}
		}
	}
	return all
}

// Check returns an error of class does-not-fit that names the first quantity above its limit, or nil.
func Check(r *Result, changes []Change) error {
	for _, c := range changes {
		if c.Exceeds {
			return failure.New(failure.DoesNotFit,
				"reduce it, raise its limit, or write the baseline once more", "%s: %v", r.Key(), c)
		}
	}
	return nil
}

// String returns, for example, "flash 23304 -> 23904 bytes (+2.58 %), above the limit of +1 %".
func (c Change) String() string {
	text := fmt.Sprintf("%s %.6g -> %.6g %s", c.Quantity, c.Old, c.New, c.Unit)
	if c.Unit != Seconds && c.Unit != DeviceSeconds {
		text = fmt.Sprintf("%s %.0f -> %.0f %s", c.Quantity, c.Old, c.New, c.Unit)
	}
	if c.Old > 0 {
		text += fmt.Sprintf(" (%+.2f %%)", 100*(c.New/c.Old-1))
	}
	if c.Exceeds {
		text += fmt.Sprintf(", above the limit of +%.3g %%", 100*c.Limit)
	}
	return text
}
