// This file holds what a measurement found.

package measure

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/validate"
)

// A Result is what one model costs on one board. Its JSON form is described in docs/measure.md.
type Result struct {
	Board string `json:"board"`
	Model string `json:"model"` // the archive's name without its ending, with its model's if it holds several
	App   string `json:"app"`   // rpc or standalone

	// in place of all fields below, the reason why the model was not measured
	Failure *Failure `json:"failure,omitempty"`

	ModelSHA256 string     `json:"model_sha256,omitempty"` // of the archive's uncompressed tar
	BuildID     string     `json:"build_id,omitempty"`
	Toolchain   string     `json:"toolchain,omitempty"` // costs can be compared if it is equal
	Cost        Cost       `json:"cost,omitzero"`       // of an inference
	Operators   []Operator `json:"operators,omitempty"` // of a graph, with an RPC server

	// Flash is the bytes of the region that holds the code, of a process its code, constants and initial values. RAM is
	// that of variables, and the arena's part that the model takes, without stacks.
	Flash int64  `json:"flash,omitempty"`
	RAM   int64  `json:"ram,omitempty"`
	Parts []Part `json:"parts,omitempty"` // their sums are Flash and RAM

	Stack     int64    `json:"stack,omitempty"`      // bytes, computed; 0: unknown
	StackPath []string `json:"stack_path,omitempty"` // the deepest calls
	Regions   []Region `json:"regions,omitempty"`    // of a board with a memory map

	Outputs *validate.Report `json:"outputs,omitempty"` // nil in a baseline

	FlashOf map[string]int64 `json:"flash_of,omitempty"` // bytes of functions and constants, by "part: name"
	RAMOf   map[string]int64 `json:"ram_of,omitempty"`   // bytes of variables

	Energy *Energy `json:"energy,omitempty"`
}

// Units of a cost.
const (
	Seconds       = "s"            // by a clock that was compared with this computer's
	Instructions  = "instructions" // of an emulated board
	DeviceSeconds = "device-s"     // by the device's clock, which was compared with no other
)

// A Cost is a number of samples, in seconds or instructions.
type Cost struct {
	Unit       string  `json:"unit"`
	Samples    int     `json:"samples"`
	Mean       float64 `json:"mean"`
	Median     float64 `json:"median"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Low        float64 `json:"low95"`      // of the 95 % interval of the mean
	High       float64 `json:"high95"`     // of the 95 % interval of the mean
	Resolution float64 `json:"resolution"` // of the device's timer, in the same unit; 0: unknown
}

// An Operator is a node of a graph.
type Operator struct {
	Node     string  `json:"node"`
	Function string  `json:"function"`
	Median   float64 `json:"median"` // of its cost, in the unit of Result.Cost
}

// A Part is the flash and RAM of a part of the firmware, in bytes.
type Part struct {
	Name  string `json:"part"`
	Flash int64  `json:"flash"`
	RAM   int64  `json:"ram"`
}

// A Region is a memory of the board, in bytes.
type Region struct {
	Name string `json:"region"`
	Size int64  `json:"size"`
	Used int64  `json:"used"`
}

// A Failure is the reason why a model was not measured on a board.
type Failure struct {
	Class string `json:"class"` // as in package failure
	Error string `json:"error"`
	Next  string `json:"next,omitempty"`
}

// Err returns an error of class wrong-answer if outputs differ from the expected ones.
func (r *Result) Err() error {
	if r.Outputs == nil {
		return nil
	}
	return r.Outputs.Err()
}

// FailureOf returns the form of an error in a Result. next is the next step, "" if there is none.
func FailureOf(err error, next string) *Failure {
	return &Failure{string(failure.Of(err)), err.Error(), next}
}

// costOf converts seconds to a unit of scale to a second. Instructions are whole.
func costOf(unit string, scale float64, seconds []float64, hz uint32) Cost {
	s := rpc.StatsOf(seconds)
	c := Cost{
		Unit: unit, Samples: s.N, Mean: s.Mean * scale, Median: s.Median * scale, Min: s.Min * scale, Max: s.Max * scale,
		Low: s.Low * scale, High: s.High * scale,
	}
	if hz > 0 {
		c.Resolution = scale / float64(hz)
	}
	if unit == Instructions {
		for _, v := range []*float64{&c.Mean, &c.Median, &c.Min, &c.Max, &c.Low, &c.High} {
			*v = math.Round(*v)
		}
		c.Resolution = math.Ceil(c.Resolution)
	}
	return c
}

// modelName returns the name of the project's archive without its ending, with the model's if the archive holds
// several.
func modelName(p *project.Project, a *mlf.Archive) string {
	name := filepath.Base(p.ArchiveName())
	for _, end := range []string{".gz", ".tgz", ".tar", ".json"} {
		name = strings.TrimSuffix(name, end)
	}
	if len(a.Models) > 1 {
		name += "." + p.ModelName()
	}
	return name
}

// Key names what a result is of: the same model on the same board as the same kind of firmware.
func (r *Result) Key() string {
	return fmt.Sprintf("%s on %s as %s", r.Model, r.Board, cmp.Or(r.App, "firmware"))
}
