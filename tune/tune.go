// Package tune measures candidates on several boards: it compiles them in parallel, loads them into the RAM of boards
// that keep one firmware, checks their outputs, and times them.
//
// It proposes no candidates: that loop is the caller's. It writes no flash for a candidate that fits into RAM.
package tune

import (
	"encoding/json"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Candidate is one implementation of a computation: a packed function and its arguments.
type Candidate struct {
	ID        string            // the caller's label on a kind of board; candidates are equal if all other fields are
	Kind      string            // of board, by its name; "": the only kind of the run
	Entry     string            // C name of the packed function
	Operators project.Operators // files and flags; its Entries may be empty
	Args      []Arg
	Record    json.RawMessage // what the caller adds to the result, such as a configuration; may be nil

	content string // digest of the candidate with its toolchain
}

// An Arg is a tensor that a candidate is called with. Equal arguments stay on the device from one candidate to the
// next.
type Arg struct {
	DType ndarray.DType
	Shape []int64
	Data  []byte // before the first call, row-major, little-endian; nil: an output, unless Seed is set
	Seed  uint64 // if Data is nil and this is not 0, the content before the first call is ndarray.Fill's of this seed
	Want  []byte // expected after a call; nil: not compared
	// Flash places Data in flash, with the firmware, as a constant in production. The first candidate that has such an
	// argument causes a firmware build and a flash write; others with equal ones reuse it.
	Flash bool
	// RelTol and AbsTol allow a float to differ from the expected value by AbsTol + RelTol × |expected|. Both zero: its
	// bytes must be equal.
	RelTol, AbsTol float64
}

// A Result is the time or the failure of a candidate, with the conditions of its measurement.
type Result struct {
	ID        string `json:"id"`
	Kind      string `json:"kind"`            // of board
	Board     string `json:"board,omitempty"` // name of the place in this run; "": not measured at one
	Image     string `json:"image,omitempty"` // build id of the firmware
	Tier      Tier   `json:"tier,omitempty"`
	Reason    string `json:"reason,omitempty"`    // for the tier
	Toolchain string `json:"toolchain,omitempty"` // as project.Project.Toolchain returns it, with a digest of the firmware
	// SameAs is the ID of a candidate with the same bytes that was measured in place of this one; it is among the run's
	// results.
	SameAs string `json:"same_as,omitempty"`
	// Confirms is the ID of the candidate that Run.Confirm measured again with this result; "" for all other results.
	Confirms string `json:"confirms,omitempty"`

	Time    *rpc.Stats `json:"time,omitempty"`    // seconds per call; nil: see Failure
	Samples []float64  `json:"samples,omitempty"` // seconds per call
	Cut     bool       `json:"cut,omitempty"`     // only one call was timed, as it was far slower than the best
	// Instruction is what each instruction takes on an emulated board whose timer counts them: Time divided by it is their
	// number. 0: Time is a time.
	Instruction time.Duration `json:"instruction_ns,omitempty"`
	// Interrupts counts the device's interrupts during each sample, except its tick; nil if there was none, or if the
	// device does not count them. Time excludes samples with interrupts, unless all have some: then Disturbed is set.
	Interrupts []int `json:"interrupts,omitempty"`
	Disturbed  bool  `json:"disturbed,omitempty"`
	// Unproven is set until the reference has been measured after this candidate. If the reference fails then, the
	// candidate is measured again.
	Unproven bool `json:"unproven,omitempty"`
	// Content is the digest of the candidate's kind, files, flags, arguments and record, and of Toolchain; that of a
	// result of Run.Confirm ends with "@flash".
	Content string   `json:"content,omitempty"`
	Failure *Failure `json:"failure,omitempty"`

	Base  uint64 `json:"base,omitempty"`  // address of the code on the device
	Bytes int    `json:"bytes,omitempty"` // uploaded

	Platform rpc.Platform    `json:"platform,omitzero"`
	Build    time.Duration   `json:"build_ns,omitempty"` // compiling and linking
	Wait     time.Duration   `json:"wait_ns,omitempty"`  // for a board
	Load     time.Duration   `json:"load_ns,omitempty"`  // into the board's memory
	Run      time.Duration   `json:"run_ns,omitempty"`   // calls, with the comparison of outputs
	Finished time.Time       `json:"finished"`
	Record   json.RawMessage `json:"record,omitempty"` // the candidate's
}

// A Tier is the way in which a candidate came onto the device.
type Tier string

// The tiers, cheapest first.
const (
	RAM     Tier = "ram"           // loaded beside the firmware, which stayed
	Sectors Tier = "flash-sectors" // in firmware of which only some sectors were written
	Image   Tier = "flash-image"   // in firmware that was written whole, or that an emulator or a process was started with
)

// A Blame names the cause of a failure.
type Blame string

// The causes of failures.
const (
	BlameCandidate Blame = "candidate"
	BlameBoard     Blame = "board"
	BlameHost      Blame = "host" // the computer that executes the run
)

// A Failure is the reason that a candidate has no time.
type Failure struct {
	Class   failure.Class `json:"class"`
	Blame   Blame         `json:"blame"`
	Message string        `json:"message"`
	// Retry is set if the board or the computer is to blame. Such a failure is returned but not stored: the next Measure
	// of the candidate measures it again.
	Retry bool `json:"retry,omitempty"`

	// The class if the candidate is to blame, "" if it is not: the compiler crashed, or failed without a word about code,
	// which can be a fault of the computer.
	suspected failure.Class
}
