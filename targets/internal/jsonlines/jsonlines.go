// Package jsonlines holds a struct for each kind of JSON line that targets print. A table in docs/command-line.md is
// generated from their fields and comments: "go test ./targets/internal/jsonlines -update" writes it.
//
// A line gets "v" and, where they are empty, "step" and "status": the running target, and "done". Empty texts of a line
// itself are left out, those of an object in it are not. A line that is about a value of a library holds that value,
// whose tags name the fields.
package jsonlines

import (
	"encoding/json"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/targets/internal/registers"
)

// Line makes the text of a line, without its end. line is a struct of this package.
func Line(step string, line any) ([]byte, error) {
	text, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		if string(value) == `""` {
			delete(fields, name)
		}
	}
	for name, value := range map[string]any{"v": 1, "step": step, "status": "done"} {
		if fields[name] != nil {
			continue
		}
		if fields[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// States of a line other than "done".
const (
	StatusUpToDate = "up-to-date"
	StatusRunning  = "running"
	StatusDryRun   = "dry-run"
	StatusFailed   = "failed"
	StatusWrong    = "wrong"
	StatusDirty    = "dirty"
	StatusWritten  = "written"
)

// Done is a line without further fields.
type Done struct {
	Status string `json:"status"`
}

// Failed is the line of a failed step.
type Failed struct {
	Status string `json:"status"`
	Class  string `json:"class"` // the failure class, as in [Exit codes](#exit-codes)
	Code   int    `json:"code"`  // the exit code
	Error  string `json:"error"` // what went wrong
	Next   string `json:"next"`  // the next step for the user
	// of measure: the quantities that have grown by more than their limits: `cost`, `flash`, `ram`, `stack`
	Exceeds []string `json:"exceeds,omitzero"`
	// the device's fault
	Fault *Fault `json:"fault,omitempty"`
}

// A Fault is a device's.
type Fault struct {
	Cause    string        `json:"cause"`
	Frames   []fault.Frame `json:"frames"`       // innermost first
	Function string        `json:"function"`     // that the host called
	Operator string        `json:"operator"`     // empty if none ran or it is unknown
	PC       *uint64       `json:"pc,omitempty"` // left out if it is unknown
	Reason   string        `json:"reason"`
}

// DryRun is a line of any step with DRYRUN=1.
type DryRun struct {
	Status string `json:"status"`
	Would  string `json:"would"` // the action that would be done
	// of flash, erase and debug: commands that would run
	Commands []string `json:"commands,omitzero"`
	// of flash and erase: their input files, as in `segment0.bin: 4096 bytes for 0x00000000`
	Files []string `json:"files,omitzero"`
}

// Project begins the lines of generate, build, flash, run, validate, release, size and demo.
type Project struct {
	Status  string `json:"status"`
	Project string `json:"project"` // folder
	Board   string `json:"board"`
	Model   string `json:"model"` // its name; left out if `IMAGE` chooses the image
	// of the archive's uncompressed tar; left out like `model`
	ModelSHA256 string `json:"model_sha256"`
}

// Firmware begins the lines of flash, run, validate and release.
type Firmware struct {
	Project
	BuildID string `json:"build_id"` // of the image, as the firmware reports it
}

// Generate is the line of generate.
type Generate struct {
	Project
	Step   string   `json:"step"`
	Files  int      `json:"files,omitzero"`  // files written or removed
	Edited []string `json:"edited,omitzero"` // files that were changed by hand, and stayed
}

// Build is the line of build.
type Build struct {
	Project
	Step    string   `json:"step"`
	Image   string   `json:"image"`    // the ELF file
	SHA256  string   `json:"sha256"`   // its digest
	BuildID string   `json:"build_id"` // that the firmware reports
	Edited  []string `json:"edited"`   // edited files that were built
	image.Size
}

// Flash is the line of flash.
type Flash struct {
	Firmware
	device.FlashReport
}

// Unfinished is a line of flash and erase with status dirty or written.
type Unfinished struct {
	Status string `json:"status"`
	device.FlashReport
}

// Erase is the line of erase.
type Erase struct{ device.FlashReport }

// Device is a line of devices.
type Device struct {
	device.Attached
	Name string `json:"name"` // its name in `desk.json`
}

// Saved is a line of devices with SAVE=1.
type Saved struct {
	Name    string `json:"name"`
	Board   string `json:"board"`
	Probe   string `json:"probe"`
	Address string `json:"address"`
	Chip    string `json:"chip"` // the unique id
}

// Devices is the last line of devices and wear.
type Devices struct {
	Devices int `json:"devices"` // their number
}

// Wear is a line of wear.
type Wear struct{ device.DeviceWear }

// Monitor is a line of monitor.
type Monitor struct {
	Status string `json:"status"`
	Line   string `json:"line"` // one line of output
	Time   string `json:"time"` // when it came (RFC 3339)
}

// Debug is a line of debug with SERVE.
type Debug struct {
	Status  string `json:"status"`
	Address string `json:"address"` // of the gdb server
	Port    int    `json:"port"`
	Image   string `json:"image"` // the ELF file
}

// Serve is a line of serve, for each board.
type Serve struct {
	Status  string `json:"status"`
	Board   string `json:"board"`   // as in BOARD
	Address string `json:"address"` // of the RPC server
	Key     string `json:"key"`     // at the tracker, or of clients
}

// Emulated is the line of emulated:up, down, erase and swap.
type Emulated struct {
	Board string `json:"board"`
	device.EmulatedState
}

// CacheEntry is a line of cache:list and, of a damaged one, of cache:verify.
type CacheEntry struct {
	Key     string `json:"key"`
	Bytes   int64  `json:"bytes"`
	Used    string `json:"used"`            // time of last use
	Folder  bool   `json:"folder,omitzero"` // true for a build folder that is kept, else left out
	BuildID string `json:"build_id"`        // of an image
	Board   string `json:"board"`           // of an image
	Error   string `json:"error"`           // of cache:verify
}

// CacheSize is the last line of cache:list.
type CacheSize struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`
	Limit   int64 `json:"limit"` // of the bytes
}

// CacheSweep is the last line of cache:verify and cache:gc.
type CacheSweep struct{ cache.Sweep }

// Run is the line of run.
type Run struct {
	Firmware
	Input     string     `json:"input"`  // source of the input
	Output    string     `json:"output"` // the file written
	Load      string     `json:"load"`   // `ram` with LOAD=ram; else left out
	Outputs   []Output   `json:"outputs"`
	Operators []Operator `json:"operators,omitzero"` // with `VERBOSE=1`, of a graph
	Time      Time       `json:"time"`               // seconds per inference

	Arena fit.ArenaUse `json:"arena,omitzero"` // with an RPC server; not of an earlier firmware, or with LOAD=ram
}

// An Output is one of the model's.
type Output struct {
	ArgMax    *int    `json:"argmax,omitempty"` // if it is a class vector
	DType     string  `json:"dtype"`
	First     []any   `json:"first"`               // up to 10 elements; NaN and infinities as text
	ModelName string  `json:"model_name,omitzero"` // the model's own; absent of other tensors
	Name      string  `json:"name"`                // `output0`, …
	Shape     []int64 `json:"shape"`
}

// An Operator is of a graph.
type Operator struct {
	Function string  `json:"function"`
	Median   float64 `json:"median"` // in seconds
	Node     string  `json:"node"`
}

// A Time is of inferences.
type Time struct {
	// what the timer's rate was compared with: `host`, `instructions` of an emulator, or `unverified`
	Clock  string   `json:"clock"`
	High95 *float64 `json:"high95,omitempty"` // of the 95 % interval of the mean; absent of one sample
	Low95  *float64 `json:"low95,omitempty"`  // as `high95`
	Max    float64  `json:"max"`
	Mean   float64  `json:"mean"`
	Median float64  `json:"median"`
	Min    float64  `json:"min"`
	// reported by the device: `core_hz`, `ticks_hz`, `icache`, `dcache`, `prefetch`, `fpu`, `wait_states`, `cpuid`,
	// `chip_id`, `reset`, `emulated`, `lost_bytes`; unknown ones are absent
	Platform any `json:"platform,omitzero"`
	Samples  int `json:"samples"` // their number; each is the mean of as many runs as take a millisecond
}

// Demo is the line of demo.
type Demo struct {
	Project
	Accuracy float64 `json:"accuracy"` // per cent
	Images   int     `json:"images"`   // in the test set
	Right    int     `json:"right"`    // classified correctly
	Exact    int     `json:"exact"`    // with logits equal to the reference
	Time     Time    `json:"time"`     // as of run
}

// Validate is the line of validate.
type Validate struct {
	Firmware
	Input    string   `json:"input"`              // source of the set
	Output   string   `json:"output"`             // the file written
	Accuracy *float64 `json:"accuracy,omitempty"` // with labels: per cent
	Report   any      `json:"report"`             // as in [measure.md](measure.md#the-result)
}

// Callable is a line of call without FUNC.
type Callable struct {
	Function string `json:"function"`
	Form     string `json:"form"`           // its name and arguments, from the comment above its C
	From     string `json:"from"`           // where it is defined
	Least    int    `json:"least,omitzero"` // number of its tensors, of an operator
	Most     int    `json:"most,omitzero"`
}

// Called is the line of call with FUNC.
type Called struct {
	Function string   `json:"function"`
	Result   string   `json:"result"`           // left out if there is none
	Output   string   `json:"output"`           // the file written
	Tensors  []Output `json:"tensors,omitzero"` // after the call; as of run
}

// Measure is a line of measure.
type Measure struct {
	Status string `json:"status"`
	Result any    `json:"result"` // as in [measure.md](measure.md#the-result)
}

// Changed is a line of measure with BASELINE.
type Changed struct {
	Board  string `json:"board"`
	Model  string `json:"model"`
	Change any    `json:"change,omitzero"` // as in [measure.md](measure.md#a-baseline)
	Note   string `json:"note,omitzero"`   // in its place: what else differs of what determines the result
}

// MeasureDone is the last line of measure.
type MeasureDone struct {
	Measured int    `json:"measured"` // number of results, failures included
	Output   string `json:"output"`   // the files written
	CSV      string `json:"csv"`
	Baseline string `json:"baseline"` // the file compared, or written
}

// Release is the line of release.
type Release struct {
	Firmware
	Folder string   `json:"folder"`          // the release
	SHA256 string   `json:"sha256"`          // the digest of its `SHA256SUMS`
	Files  int      `json:"files"`           // of the release
	Models []string `json:"models,omitzero"` // with `APP=library`: the models' names in C
}

// Size is the line of size.
type Size struct {
	Project
	Sizes   []Part          `json:"sizes"`
	Regions []Region        `json:"regions,omitzero"` // with a memory map
	Arena   fit.ArenaUse    `json:"arena"`
	Stack   *stackdepth.Use `json:"stack,omitempty"` // with a memory map
}

// LibrarySize is the line of size with APP=library.
type LibrarySize struct {
	Board string `json:"board"`
	Sizes []Part `json:"sizes"`
}

// A Part is the memory of a part of an image or a library.
type Part struct {
	Part string `json:"part"`
	image.Size
	In map[string]int64 `json:"in,omitzero"` // bytes by region, on a board with a memory map
}

// A Region is a region of memory.
type Region struct {
	fit.RegionUse
	Free int64 `json:"free"`
}

// Clean is the line of clean.
type Clean struct {
	Status  string   `json:"status"`
	Project string   `json:"project"`
	Left    []string `json:"left,omitempty"` // files that are not the project's
}

// Board is a line of boards.
type Board struct {
	Board      string `json:"board"`
	Doc        string `json:"doc"`
	From       string `json:"from"`        // the folder of its file, or `boardsmith`
	AcceptedBy string `json:"accepted_by"` // if it was accepted: who did it
	AcceptedOn string `json:"accepted_on"` // the day
}

// Option is a line of board:show.
type Option struct {
	Board   string `json:"board"`
	Option  string `json:"option"`
	Default string `json:"default"`
	Help    string `json:"help"`
	Range   string `json:"range"`
}

// BoardShown is the last line of board:show.
type BoardShown struct {
	Board  string   `json:"board"`
	Doc    string   `json:"doc"`
	Files  []string `json:"files"`  // the files read
	Merged any      `json:"merged"` // the whole board
}

// BoardCheck is the line of board:check.
type BoardCheck struct {
	Board      string   `json:"board"`
	Files      []string `json:"files"` // the files read
	Link       string   `json:"link"`  // the kind of link
	Programmer string   `json:"programmer"`
	// the field that could not be checked because its tool is not installed
	Unchecked string `json:"unchecked"`
	// of the bundled sample's image, if the compiler is installed
	*image.Size
}

// BoardNew is the line of board:new.
type BoardNew struct {
	Board string   `json:"board"`
	Files []string `json:"files"` // its board file first
}

// ModelNew is the line of model:new.
type ModelNew struct {
	Model string   `json:"model"`
	File  string   `json:"file"` // the description
	Open  []string `json:"open"` // what must be filled in or confirmed
}

// BoardSVD is a line of board:svd. With VERBOSE each constant has one, else those that do not fit or that the SVD file
// does not confirm.
type BoardSVD struct {
	Board string `json:"board"`
	registers.Finding
}

// BoardSVDCounts is the last line of board:svd.
type BoardSVDCounts struct {
	Board      string `json:"board"`
	Device     string `json:"device"`
	Addresses  int    `json:"addresses"`
	Bits       int    `json:"bits"`
	Interrupts int    `json:"interrupts"`
	Left       int    `json:"left"` // constants that are not compared
	Misfits    int    `json:"misfits"`
	Doubts     int    `json:"doubts"`
}

// Check is a line of board:accept and template:check.
type Check struct {
	Board   string `json:"board"`            // of board:accept
	Check   string `json:"check"`            // its name
	Doc     string `json:"doc"`              // what it tests
	Failed  string `json:"failed,omitempty"` // of template:check: what is wrong
	Result  string `json:"found"`
	Skipped string `json:"skipped"` // why nothing was tested
}

// Checked is the last line of board:accept and template:check.
type Checked struct {
	Board    string `json:"board"`    // of board:accept
	Output   string `json:"output"`   // of board:accept: the page
	Template string `json:"template"` // of template:check
	Passed   int    `json:"passed"`   // how many passed
	Skipped  int    `json:"skipped"`  // how many were not made
}

// TemplateNew is the line of template:new.
type TemplateNew struct {
	Template string `json:"template"` // what was made
	Board    string `json:"board"`
	Folder   string `json:"folder"` // in which
}

// Exported is the line of template:export.
type Exported struct {
	Folder string `json:"folder"`
}

// Updated is a line of update.
type Updated struct {
	Place  string `json:"place"`  // URL@REVISION
	Old    string `json:"old"`    // the former commit in boardsmith.lock.json; empty without one
	Commit string `json:"commit"` // the present one
}

// Schemas is the line of schemas.
type Schemas struct {
	Folder string   `json:"folder"`
	Files  []string `json:"files"` // the names of the written files
}

// Models is the line of embed and, with APP=library, build.
type Models struct {
	Status string   `json:"status"`
	Folder string   `json:"folder"`
	Board  string   `json:"board"`  // of build
	Models []string `json:"models"` // their names in C
}

// Tool is a line of doctor and setup.
type Tool struct {
	Tool      string `json:"tool"`
	Installed bool   `json:"here"` // installed
	Version   string `json:"version"`
	Use       string `json:"use"`    // its purpose
	Needed    bool   `json:"needed"` // to build for `host`
	Error     string `json:"error"`  // the reason why it does not work
}

// Setup is the last line of setup.
type Setup struct {
	Installed []string `json:"installed"` // Debian and Python packages
}

// Tuned is a line of tune.
type Tuned struct {
	Status string `json:"status"`
	// of one candidate, when it has finished or was finished before: its archive's name, its configuration or its flags
	ID string `json:"id"`
	// of a candidate that `CONFIRM` measured again: the `id` of its first result
	Of     string   `json:"confirms"`
	Board  string   `json:"board"`              // the kind of board
	Place  string   `json:"place"`              // the place that measured it
	Median *float64 `json:"median_s,omitempty"` // seconds per call
	Min    *float64 `json:"min_s,omitempty"`
	Max    *float64 `json:"max_s,omitempty"`
	Bytes  *int     `json:"bytes,omitempty"` // bytes that were uploaded
	Cut    *bool    `json:"cut,omitempty"`   // only one call was timed
	Class  string   `json:"class"`           // of a failure, in place of times
	// of a failure: if it is not `candidate`, it is no result of the run
	Blame string `json:"blame"`
	Error string `json:"error"`
}

// TunedCandidates is the last line of tune with CANDIDATES.
type TunedCandidates struct {
	Candidates int    `json:"candidates"` // how many there are
	Failed     int    `json:"failed"`     // how many of them failed
	Folder     string `json:"folder"`     // the run's
	// with `CONFIRM`
	Correlations []Correlation `json:"correlations,omitzero"`
}

// A Correlation is of the times from RAM and flash.
type Correlation struct {
	Board string  `json:"board"` // its kind
	Pairs int     `json:"pairs"` // the number of candidates with times from RAM and flash
	Rho   float64 `json:"rho"`   // the rank correlation of these times
}

// TunedSpace is the last line of tune with SPACE.
type TunedSpace struct {
	Best   json.RawMessage `json:"best"`     // the fastest configuration
	Flags  []string        `json:"flags"`    // all its compiler flags
	Median float64         `json:"median_s"` // its seconds per call
	Folder string          `json:"folder"`   // of its C
}

// TunedModel is the last line of tune with MODEL.
type TunedModel struct {
	OperatorFlags string  `json:"operator_flags"` // the fastest choice of flags as a value of that option
	Median        float64 `json:"median_s"`       // seconds per inference with it
	Untuned       float64 `json:"untuned_s"`      // and without
	Flash         int64   `json:"flash"`          // bytes with that choice
	RAM           int64   `json:"ram"`
	Candidates    int     `json:"candidates"` // number of choices that were measured
	Folder        string  `json:"folder"`     // the run's

	Arena fit.ArenaUse `json:"arena"` // with that choice
}

// Reproduced is the line of reproduce.
type Reproduced struct {
	ID       string `json:"id"`   // the candidate
	Recorded any    `json:"then"` // its result in the run, as a line of `results.jsonl`
	Measured any    `json:"now"`  // the new one
}

// Report is the line of report.
type Report struct {
	Output     string `json:"output"` // the file written
	CSV        string `json:"csv"`    // as `output`
	Runs       int    `json:"runs"`
	Candidates int    `json:"candidates"` // number of all their results
}

// CheckFailed is a line of test and lint, targets of boardsmith's own repository.
type CheckFailed struct {
	Status string `json:"status"`
	Name   string `json:"name"` // of one failed check
	Class  string `json:"class"`
	Error  string `json:"error"`
}

// Checks is the last line of test and lint.
type Checks struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Bench is a line of bench, a target of boardsmith's own repository.
type Bench struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bound string  `json:"bound"` // as in `<=40`
	Met   bool    `json:"met"`
}
