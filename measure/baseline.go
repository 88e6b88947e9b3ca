// This file compares results with earlier ones.

package measure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/rpc"
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
	f, err := regularfile.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failure.New(failure.Config, "measure once to write it", "%w", err)
	case errors.Is(err, regularfile.ErrFolder):
		return nil, failure.New(failure.Config, "name a file in it", "%w", err)
	case err != nil:
		return nil, failure.New(failure.Config, "name a file that can be read", "%w", err)
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, maxBaseline+1))
	if err == nil && len(data) > maxBaseline {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxBaseline)
	}
	if err != nil {
		return nil, damaged(err)
	}

	// The format is read first: a newer one may have fields that this version does not have.
	b := &Baseline{}
	var newer struct {
		Format int `json:"format"`
	}
	err = json.Unmarshal(data, &newer)
	if newer.Format > baselineFormat {
		return nil, failure.New(failure.Config, "use the version of boardsmith that wrote it, or a newer one",
			"%s has format %d, and this version reads format %d", path, newer.Format, baselineFormat)
	}
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(b)
	}
	if err != nil {
		return nil, damaged(&jsonfile.Error{File: path, Line: jsonfile.Line(data, err), Err: err})
	}
	if err := b.check(); err != nil {
		return nil, damaged(fmt.Errorf("%s: %w", path, err))
	}
	return b, nil
}

// damaged returns the error of a file that is no baseline.
func damaged(err error) error {
	return failure.New(failure.Config, "restore it, or remove it and measure once more", "%w", err)
}

// check returns an error for what UpdateBaseline does not write.
func (b *Baseline) check() error {
	if b.Format != baselineFormat {
		return fmt.Errorf("format %d is not %d", b.Format, baselineFormat)
	}
	for i, r := range b.Results {
		if r == nil || b.Find(r) != r {
			return fmt.Errorf("result %d is empty, or of the same model and board as another", i)
		}
		if text := r.damage(); text != "" {
			return fmt.Errorf("%s: %s", r.Key(), text)
		}
	}
	return nil
}

// damage returns what no measurement has written, and with which a comparison would pass whatever has grown.
func (r *Result) damage() string {
	c := r.Cost
	switch {
	case r.Failure != nil:
		return "it is a failure"
	case r.Flash < 0 || r.RAM < 0 || r.Stack < 0 || c.Median < 0 || c.Resolution < 0:
		return "a quantity is negative"
	case !slices.Contains([]string{"", inSeconds, inInstructions, inDeviceSeconds}, c.Unit):
		return fmt.Sprintf("the unit of its cost, %q, is unknown", c.Unit)
	case c.Unit == "" && c != Cost{}:
		return "its cost has no unit"
	case c.hasInterval() && !slices.IsSorted([]float64{0, c.Low, c.Median, c.High}):
		return "the interval of its cost is not around the median"
	}
	return ""
}

// Write writes the baseline to a file, atomically. Equal baselines give equal bytes.
func (b *Baseline) Write(path string) error {
	data, err := json.MarshalIndent(Baseline{baselineFormat, b.Results}, "", " ")
	if err != nil {
		return err
	}
	if err := regularfile.Write(path, append(data, '\n'), 0o644); err != nil {
		return failure.New(failure.Config, "choose a file that can be written", "%w", err)
	}
	return nil
}

// UpdateBaseline adds results to a file, as Baseline.Update does, or creates it. Processes that do so at once wait for
// each other. Errors: those of ReadBaseline and Baseline.Write, and of ctx; class config for a cost of so few samples
// that none could be compared with it.
func UpdateBaseline(ctx context.Context, path string, results []*Result) (err error) {
	for _, r := range results {
		if err := r.Cost.few(); err != nil && r.Failure == nil {
			return fmt.Errorf("%s: %w", r.Key(), err)
		}
	}

	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at // all names of a file have one lock
	}
	unlock, err := filelock.Wait(ctx, path+".lock")
	switch {
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "wait for another process that updates %s", path)
	case err != nil:
		return failure.New(failure.Config, "choose a file that can be written", "%w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()

	b, err := ReadBaseline(path)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = &Baseline{}, nil
	}
	if err != nil {
		return err
	}

	b.Update(results)
	return b.Write(path)
}

// Update adds results, in place of earlier ones of the same model on the same board. It leaves out what is not
// compared with a later result (Outputs, Rechecks, StackUsed, ArenaUsed), results with a Failure, and those with wrong
// outputs.
func (b *Baseline) Update(results []*Result) {
	b.Format = baselineFormat
	for _, r := range results {
		if r.Failure != nil || r.Err() != nil {
			continue
		}
		b.Results = slices.DeleteFunc(b.Results, func(old *Result) bool { return old.Key() == r.Key() })
		kept := *r
		kept.Outputs, kept.Rechecks, kept.StackUsed, kept.ArenaUsed = nil, nil, 0, 0
		b.Results = append(b.Results, &kept)
	}
	slices.SortFunc(b.Results, func(x, y *Result) int { return strings.Compare(x.Key(), y.Key()) })
}

// Find returns the result of the same model on the same board, as the same kind of firmware, or nil. A nil Baseline has
// none.
func (b *Baseline) Find(r *Result) *Result {
	if b == nil {
		return nil
	}
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

// defaultLimits are those of ParseLimits("").
const defaultLimits = "time=2%,flash=1%,ram=1%,stack=1%"

// ParseLimits parses limits in per cent, such as "time=2%,flash=1%,ram=1%,stack=1%", which are the defaults of those
// that the text omits. Errors have class config.
func ParseLimits(text string) (Limits, error) {
	var l Limits
	// first the defaults, which the text replaces
	for _, list := range []string{defaultLimits, text} {
		for word := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(word) == "" {
				continue
			}
			name, number, _ := strings.Cut(strings.TrimSpace(word), "=")
			to := map[string]*float64{"time": &l.Cost, "flash": &l.Flash, "ram": &l.RAM, "stack": &l.Stack}[name]
			percent, err := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64)
			// !(percent >= 0) is true for NaN, too
			if to == nil || err != nil || !(percent >= 0) || math.IsInf(percent, 0) {
				return Limits{}, failure.New(failure.Config, "write them as in "+defaultLimits, "%q is no limit in per cent of "+
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
	Old      float64 `json:"old"`      // 0: unknown
	New      float64 `json:"new"`      // 0: unknown
	Limit    float64 `json:"limit"`    // of the growth, as a share of Old
	Exceeds  bool    `json:"exceeds"`  // it has grown by more than the limit, or is no longer known
	// reasons why New may be larger than it is, if Old had none
	Unsure   []string  `json:"unsure,omitempty"`
	Rechecks []float64 `json:"rechecks,omitempty"` // of a cost, as in Result
	Causes   []Cause   `json:"causes,omitempty"`   // parts first, then functions and variables, the largest differences first
}

// A Comparison is how a result differs from an earlier one.
type Comparison struct {
	Changes []Change
	Notes   []string // what else differs of what determines the results
	// the reason why the costs cannot be compared, which a new baseline removes; "": they were, or Notes has the reason
	Incomparable string
	next         string // what to do about Incomparable
}

// Compare returns what differs from an earlier result of the same model on the same board, neither of them with a
// Failure. A cost differs if the 95 % intervals of the medians do not overlap, and exceeds its limit if the lower end
// of the new one does, seen from the upper end of the old one; both by more than the resolution of the device's timer.
// Costs of processes of two computers are not compared.
func (r *Result) Compare(old *Result, l Limits) (c Comparison) {
	c.addNotes(old, r)
	c.addCost(old, r, l.Cost)

	before := old.quantities(l)
	for i, q := range r.quantities(l) {
		earlier := before[i]
		change := Change{
			Quantity: q.name, Unit: "bytes", Old: float64(earlier.bytes), New: float64(q.bytes), Limit: q.limit,
			Exceeds: earlier.bytes > 0 && (q.bytes == 0 || float64(q.bytes) > float64(earlier.bytes)*(1+q.limit+rounded)),
		}

		if len(earlier.unsure) == 0 {
			change.Unsure = q.unsure
		}
		if earlier.bytes == q.bytes && len(change.Unsure) == 0 {
			continue
		}
		for j, shares := range q.shares {
			if earlier.bytes > 0 && q.bytes > 0 {
				change.Causes = append(change.Causes, causes(earlier.shares[j], shares)...)
			}
		}

		c.Changes = append(c.Changes, change)
	}
	return c
}

// A quantity is a number of bytes that is compared.
type quantity struct {
	name   string
	bytes  int64
	limit  float64
	unsure []string
	shares []map[string]int64 // of parts, then of symbols; of the stack that of each function
}

func (r *Result) quantities(l Limits) []quantity {
	flash, ram := map[string]int64{}, map[string]int64{}
	for _, p := range r.Parts {
		flash[p.Name], ram[p.Name] = flash[p.Name]+p.Flash, ram[p.Name]+p.RAM
	}
	return []quantity{
		{"flash", r.Flash, l.Flash, nil, []map[string]int64{flash, r.FlashOf}},
		{"ram", r.RAM, l.RAM, r.RAMUnsure, []map[string]int64{ram, r.RAMOf}},
		{"stack", r.Stack, l.Stack, r.StackUnsure, []map[string]int64{frames(r)}},
	}
}

// addNotes notes what differs of what determines the results.
func (c *Comparison) addNotes(old, current *Result) {
	if old.Toolchain != current.Toolchain {
		c.note("the compiler, its flags or libraries differ: %s, not %s", current.Toolchain, old.Toolchain)
	}
	if earlier, words := strings.Join(old.Options, " "), strings.Join(current.Options, " "); earlier != words {
		c.note("the options differ: %s, not %s", cmp.Or(words, "none"), cmp.Or(earlier, "none"))
	}

	if current.Cost.Unit == "" {
		return // of a build, which nothing has run
	}
	if old.InputsSHA256 != current.InputsSHA256 {
		c.note("the inputs differ, and the cost may depend on them")
	}
	if old.Computer != current.Computer {
		c.note("the costs are not compared: they are of two computers, %s and %s", cmp.Or(current.Computer, "one unknown"),
			cmp.Or(old.Computer, "one unknown"))
	}
}

func (c *Comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// addCost compares the costs.
func (c *Comparison) addCost(old, current *Result, limit float64) {
	a, b := old.Cost, current.Cost
	const writeAnew = "write the baseline once more"
	switch {
	case b.Unit == "", old.Computer != current.Computer:
	case a.Unit != b.Unit:
		c.Incomparable, c.next = fmt.Sprintf("its unit is %s, not %s", b.Unit, cmp.Or(a.Unit, "unknown")), writeAnew
	case a.few() != nil:
		c.Incomparable, c.next = fmt.Sprintf("of the earlier one, %v", a.few()), writeAnew
	case b.few() != nil:
		c.Incomparable, c.next = b.few().Error(), failure.Next(b.few())
	default:
		change, differs := compareCost(a, b, limit)
		// A cost that was measured again exceeds its limit by these measurements alone.
		if len(current.Rechecks) > 0 {
			change.Rechecks, change.Exceeds = current.Rechecks, !within(current.Rechecks, limit)
		}

		if differs || change.Exceeds {
			change.Causes = causes(costs(old), costs(current))
			c.Changes = append(c.Changes, change)
		}
	}
}

// leastSamples is the smallest number of which margin is not negative.
const leastSamples = 6

func (c Cost) hasInterval() bool { return c.Unit == inInstructions || margin(c.Samples) >= 0 }

// few returns an error of class config for a cost that cannot be compared because it is of too few samples.
func (c Cost) few() error {
	if c.Unit == "" || c.hasInterval() {
		return nil
	}
	return failure.New(failure.Config, nextstep.Option("Options.Samples", strconv.Itoa(leastSamples)),
		"too few samples for an interval of 95 %%: %d, and at least %d are needed", c.Samples, leastSamples)
}

// compareCost returns the change of a cost of one unit; ok is false if there is none.
func compareCost(old, current Cost, limit float64) (c Change, ok bool) {
	c = Change{Quantity: "cost", Unit: current.Unit, Old: old.Median, New: current.Median, Limit: limit}
	resolution := max(old.Resolution, current.Resolution)
	c.Exceeds = current.Low > old.High*(1+limit+rounded)+resolution
	return c, current.Low > old.High+resolution || current.High < old.Low-resolution
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
	// the names of both: a share may be new, or gone
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

// Err returns an error of class does-not-fit that names the first quantity of a result above its limit, or of class
// config if the costs cannot be compared. It is nil if there is none.
func (c Comparison) Err(r *Result) error {
	for _, x := range c.Changes {
		if x.Exceeds {
			return failure.New(failure.DoesNotFit,
				"reduce it, raise its limit, or write the baseline once more", "%s: %v", r.Key(), x)
		}
	}

	if c.Incomparable != "" {
		return failure.New(failure.Config, c.next, "%s: the cost cannot be compared with the earlier one: %s", r.Key(),
			c.Incomparable)
	}
	return nil
}

// String returns, for example, "flash 23304 -> 23904 bytes (+2.58 %), above the limit of +1 %".
func (c Change) String() string {
	text := fmt.Sprintf("%s %s -> %s %s", c.Quantity, c.text(c.Old), c.text(c.New), c.Unit)
	if c.Old > 0 && c.New > 0 {
		text += growth(c.Old, c.New)
	}

	switch {
	case c.Exceeds && c.New > 0:
		text += fmt.Sprintf(", above the limit of +%.3g %%", 100*c.Limit)
	case c.Exceeds:
		text += ", so that its limit cannot be checked"
	}
	if len(c.Rechecks) > 0 {
		text += fmt.Sprintf(", measured again: %+.2f %%", 100*rpc.StatsOf(c.Rechecks).Median)
	}
	for _, d := range c.Unsure {
		text += "; it may be more: " + d
	}
	return text
}

// text returns a value of the quantity without its unit.
func (c Change) text(v float64) string {
	switch {
	case v == 0:
		return "unknown"
	case c.Unit == inSeconds || c.Unit == inDeviceSeconds:
		return fmt.Sprintf("%.6g", v)
	}
	return fmt.Sprintf("%.0f", v)
}
