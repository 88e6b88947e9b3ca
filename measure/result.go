// This file holds what a measurement found.

package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Result is what one model costs on one board. Its JSON form is described in docs/measure.md.
type Result struct {
	Board string `json:"board"`
	Model string `json:"model"` // the archive's name without its ending, with its model's if it holds several
	App   string `json:"app"`   // rpc or standalone

	// in place of all fields below, the reason why the model was not measured
	Failure *Failure `json:"failure,omitempty"`

	ModelSHA256 string `json:"model_sha256,omitempty"` // of the archive's uncompressed tar
	BuildID     string `json:"build_id,omitempty"`

	// what else determines the result, so that results are comparable if it is equal
	Toolchain    string   `json:"toolchain,omitempty"`     // compiler, and a digest of flags and libraries
	Options      []string `json:"options,omitempty"`       // of the project, other than the board's own: NAME=VALUE
	InputsSHA256 string   `json:"inputs_sha256,omitempty"` // of all samples
	Computer     string   `json:"computer,omitempty"`      // this one, if the board is a process of it

	Cost      Cost       `json:"cost,omitzero"`       // of an inference; none in a report of a build
	Operators []Operator `json:"operators,omitempty"` // of a graph, with an RPC server

	// of a cost above its limit: how much it has grown, as a share, each time that it was measured again in turn with the
	// earlier firmware. It has grown unless two of them are within the limit
	Rechecks []float64 `json:"rechecks,omitempty"`

	// Flash is the bytes of regions of flash, of a process its code, constants and initial values. RAM is that of all
	// other regions, with the arena's part that the model takes, without stacks.
	Flash     int64       `json:"flash,omitempty"`
	RAM       int64       `json:"ram,omitempty"`
	RAMUnsure []string    `json:"ram_unsure,omitempty"` // reasons why the model may take more
	Parts     []fit.Share `json:"parts,omitempty"`      // their sums are Flash and RAM

	Stack       int64           `json:"stack,omitempty"`        // bytes, computed; 0: unknown
	StackUnsure []string        `json:"stack_unsure,omitempty"` // reasons why it may be more
	StackPath   []string        `json:"stack_path,omitempty"`   // the deepest calls
	StackSize   int64           `json:"stack_size,omitempty"`   // bytes there are; 0: unknown
	StackUsed   int64           `json:"stack_used,omitempty"`   // measured, by standalone firmware; 0: not measured
	Regions     []fit.RegionUse `json:"regions,omitempty"`      // of a board with a memory map

	// of firmware with an RPC server, in bytes of the arena's pages; 0: unknown
	Arena     int64 `json:"arena,omitempty"`      // that the model takes, computed
	ArenaUsed int64 `json:"arena_used,omitempty"` // measured
	ArenaSize int64 `json:"arena_size,omitempty"`

	Outputs *Outputs `json:"outputs,omitempty"` // nil of a build, and in a baseline

	FlashOf map[string]int64 `json:"flash_of,omitempty"` // bytes of functions and constants, by "part: name"
	RAMOf   map[string]int64 `json:"ram_of,omitempty"`   // bytes of variables

	Energy *Energy `json:"energy,omitempty"`

	instruction time.Duration // that each one takes on an emulated board; 0: on another or an unknown board
}

// Units of a cost.
const (
	inSeconds       = "s"
	inInstructions  = "instructions"
	inDeviceSeconds = "device-s"
)

// A Cost is a number of samples, in seconds or instructions.
type Cost struct {
	// s, by a clock that was compared with this computer's; instructions, of an emulated board; device-s, by the device's
	// clock, which was compared with no other
	Unit       string  `json:"unit"`
	Samples    int     `json:"samples"`
	Mean       float64 `json:"mean"`
	Median     float64 `json:"median"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Low        float64 `json:"low95"`      // of the 95 % interval of the median; 0: too few samples for one
	High       float64 `json:"high95"`     // as Low
	Resolution float64 `json:"resolution"` // of the device's timer, in the same unit; 0: unknown
}

// An Operator is a node of a graph.
type Operator struct {
	Node     string  `json:"node"`
	Function string  `json:"function"`
	Median   float64 `json:"median"` // of its cost, in the unit of Result.Cost
}

// A Failure is the reason why a model was not measured on a board.
type Failure struct {
	Class string `json:"class"` // as in package failure
	Error string `json:"error"`
	Next  string `json:"next,omitempty"`

	// Of a device that stopped. Calls is empty if they are unknown.
	Cause    string   `json:"cause,omitempty"`    // as in `bus fault (…)`
	Operator string   `json:"operator,omitempty"` // of the model, that ran; "": unknown
	Calls    []string `json:"calls,omitempty"`    // as in `f at model/lib.c:12`; the innermost first
}

// Err returns an error of class wrong-answer if outputs differ from the expected ones.
func (r *Result) Err() error {
	if r.Outputs == nil {
		return nil
	}
	return r.Outputs.Err()
}

// Doubts lists the reasons why quantities may be larger, each with its quantity.
func (r *Result) Doubts() (all []string) {
	for _, d := range r.RAMUnsure {
		all = append(all, "RAM may be more: "+d)
	}
	for _, d := range r.StackUnsure {
		all = append(all, "stack may be more: "+d)
	}
	return all
}

// Counts reports whether the cost is a number of instructions, not a time.
func (c Cost) Counts() bool { return c.Unit == inInstructions }

// costOf converts seconds to a unit of scale to a second. Instructions are whole, and vary only with the input.
func costOf(unit string, scale float64, seconds []float64, hz uint32) Cost {
	s := rpc.StatsOf(seconds)
	c := Cost{
		Unit: unit, Samples: s.N, Mean: s.Mean * scale, Median: s.Median * scale, Min: s.Min * scale, Max: s.Max * scale,
	}

	if n := margin(s.N); n >= 0 {
		sorted := slices.Sorted(slices.Values(seconds))
		c.Low, c.High = sorted[n]*scale, sorted[s.N-1-n]*scale
	}
	if hz > 0 {
		c.Resolution = scale / float64(hz)
	}

	if unit == inInstructions {
		// Nothing disturbs them: the interval is that of all samples.
		c.Low, c.High = c.Min, c.Max
		for _, v := range []*float64{&c.Mean, &c.Median, &c.Min, &c.Max, &c.Low, &c.High} {
			*v = math.Round(*v)
		}
		c.Resolution = math.Ceil(c.Resolution)
	}
	return c
}

// margin returns how many samples of n lie outside of the 95 % interval of their median, on each side; -1 if there is
// no such interval. The median of what is sampled lies below the k-th smallest of n samples with the probability that
// fewer than k of n tosses of a coin are heads.
func margin(n int) int {
	if n > 1000 { // by the normal distribution
		return int((float64(n) - 1.96*math.Sqrt(float64(n))) / 2)
	}

	k, outside, next := 0, 0.0, math.Pow(0.5, float64(n))
	for 2*(outside+next) <= 0.05 {
		outside += next
		k++
		next *= float64(n-k+1) / float64(k)
	}
	return k - 1
}

// modelName returns the name of the project's archive without its ending, with the model's if the archive holds
// several.
func modelName(p *project.Project, a *mlf.Archive) string {
	name := format.ArchiveName(p.ArchiveName())
	if len(a.Models) > 1 {
		name += "." + p.ModelName()
	}
	return name
}

// Key names what a result is of: the same model on the same board as the same kind of firmware.
func (r *Result) Key() string {
	return fmt.Sprintf("%s on %s as %s", r.Model, r.Board, cmp.Or(r.App, "firmware"))
}
