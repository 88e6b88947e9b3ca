// Package tune measures candidates on several boards: it compiles them in parallel, loads them into the RAM of boards
// that keep one firmware, checks what they compute, and times them.
//
// It proposes no candidates: that loop is the caller's. It writes no flash for a candidate.
package tune

import (
	"encoding/json"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Candidate is one way to compute something: a packed function, and what it is called with.
type Candidate struct {
	ID        string            // the caller's label; candidates are equal if all else is
	Kind      string            // of board, by its name; "" is the run's only one
	Entry     string            // the packed function, by its C name
	Operators project.Operators // files and flags; its Entries may be empty
	Args      []Arg
	Record    json.RawMessage // AutoTVM's "input" and "config" as an object, for the log in its format; may be nil

	content string // its digest
}

// An Arg is a tensor that a candidate is called with. Candidates whose arguments are equal find them on the device
// already.
type Arg struct {
	DType ndarray.DType
	Shape []int64
	Data  []byte // before the first call, row-major, little-endian; nil: of an output, whose content does not matter
	Seed  uint64 // if Data is nil and this is not 0: the content before the first call is ndarray.Fill's of this seed
	Want  []byte // after it; nil: is not looked at
	// Flash has Data lie in flash, with the firmware, as a constant does in production. The firmware is built and written
	// again for the first candidate that has such an argument; others with equal ones find it there.
	Flash bool
	// RelTol and AbsTol allow a float to differ from what is wanted by AbsTol + RelTol × |wanted|. Both zero: it must be
	// equal.
	RelTol, AbsTol float64
}

// A Result is a Time or a Failure, and what it takes to trust it.
type Result struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`            // of board
	Board string `json:"board,omitempty"` // the place, by its name in this run; "" if it came to none
	Image string `json:"image,omitempty"` // build id of the firmware
	Tier  Tier   `json:"tier,omitempty"`
	Why   string `json:"why,omitempty"`  // the reason for the tier
	Made  string `json:"made,omitempty"` // what it was compiled with, as project.Project.MadeWith names it
	// the ID of the candidate with the same bytes that was measured in its place; in a run's results, one of them
	Same string `json:"same,omitempty"`
	Of   string `json:"of,omitempty"` // the ID of the candidate that Confirm measured again; "" for all other results

	Time    *rpc.Stats `json:"time,omitempty"`    // seconds per call; nil: see Failure
	Samples []float64  `json:"samples,omitempty"` // seconds per call
	Cut     bool       `json:"cut,omitempty"`     // it was far slower than the best: one call was timed
	// Interrupts are the device's during each sample, besides its tick; nil if there was none, or if the device does not
	// count them. Time is of the samples without one. Disturbed: each had one, and Time is of all.
	Interrupts []int `json:"interrupts,omitempty"`
	Disturbed  bool  `json:"disturbed,omitempty"`
	// the reference was not right yet since this time was measured: if it is not when it is measured the next time, this
	// candidate is measured again
	Unproven bool `json:"unproven,omitempty"`
	// digest of the candidate: its kind, files, flags, arguments and record, and Made; of a result of Confirm it ends
	// with "@flash"
	Content string   `json:"content,omitempty"`
	Failure *Failure `json:"failure,omitempty"`

	Base  uint64 `json:"base,omitempty"`  // its address on the device
	Bytes int    `json:"bytes,omitempty"` // that were uploaded

	Platform rpc.Platform    `json:"platform,omitzero"`
	Build    time.Duration   `json:"build_ns,omitempty"` // compiling and linking
	Wait     time.Duration   `json:"wait_ns,omitempty"`  // for a board
	Load     time.Duration   `json:"load_ns,omitempty"`  // into its memory
	Run      time.Duration   `json:"run_ns,omitempty"`   // calls, with the check of what they computed
	Finished time.Time       `json:"finished"`
	Record   json.RawMessage `json:"record,omitempty"` // the candidate's

	elf    []byte // the linked file, of one that was loaded into RAM
	shares string // the key of the result that it has, until that is in the folder; "": it is a result of its own
}

// A Tier says how a candidate came onto the device.
type Tier string

// The tiers, from the one that costs least.
const (
	RAM     Tier = "ram"           // loaded beside the firmware, which stayed
	Sectors Tier = "flash-sectors" // in firmware of which only some sectors were written
	Image   Tier = "flash-image"   // in firmware that was written whole, or that an emulator or a process was started with
)

// A Blame says whose fault a failure is.
type Blame string

// Whom there is to blame.
const (
	BlameCandidate Blame = "candidate"
	BlameBoard     Blame = "board"
	BlameHost      Blame = "host" // the computer on which the run is
)

// A Failure is why a candidate has no time.
type Failure struct {
	Class   failure.Class `json:"class"`
	Blame   Blame         `json:"blame"`
	Message string        `json:"message"`
	// Retry is set if the board or the computer is to blame. Such a failure is returned and not kept: the next Measure of
	// the candidate measures it again.
	Retry bool `json:"retry,omitempty"`

	crashed bool // the compiler crashed, as it may do by itself
}

// Options say how a run measures. The zero value measures three samples of at least a millisecond.
type Options struct {
	Builder   *project.Builder // compiles; nil: one of the run's own
	Template  string           // of the firmware; "": the board's own
	Libraries []string         // whose functions candidates may call, as in project.Spec
	// Memory has options of boards by the board's name; those of "" are for all boards without their own. Only ArenaKiB,
	// UploadKiB, StackBytes and Place may be set, and Place has only arena, packet and stack: candidates lie in the memory
	// for uploaded code. Where ArenaKiB and UploadKiB are 0, the arena is as large as the candidates' arguments and
	// workspace need, and the memory for a candidate is at most 64 KiB and a quarter of the RAM.
	Memory map[string]boards.Options

	Samples   int           // 0: 3
	MinSample time.Duration // a sample takes at least as long; 0: 1 ms
	GiveUp    float64       // a candidate this many times slower than the best so far is timed once; 0: never

	BuildTimeout time.Duration // of one candidate; 0: 60 s
	// of one call of a candidate, its whole measurement takes at most ten times as long; 0: 10 s
	CallTimeout time.Duration
	StepTimeout time.Duration // of all else that is asked of a board; 0: 30 s

	// is measured at the start, every Every candidates and after each recovery of a board; nil: none
	Reference     *Candidate
	Every         int     // 0: 100
	Drift         float64 // of the reference's time that is accepted, as a part of it; 0: 0.05
	MaxRecoveries int     // of a board, one after the other, until it is given up; 0: 3

	// Candidates that do not fit into RAM are put into firmware, as many together as wait, up to FlashBatch. 0: 8;
	// negative: none, they fail with class does-not-fit.
	FlashBatch int

	Retry bool // measures candidates again whose failure an earlier run has kept

	// Place returns what is used in place of a device that a word of OpenRun's boards names, such as one behind a link of
	// the program's own; nil: the devices themselves.
	Place func(word string, p Place) Place

	Told func(Event) // of all that happens, from any goroutine; nil: nobody is
}

// An Event is something that happened in a run.
type Event struct {
	Board  string  // the place; "" if it is about none
	What   string  // in a few words
	Result *Result // a candidate is finished; nil otherwise
	Err    error   // what went wrong; nil otherwise
}
